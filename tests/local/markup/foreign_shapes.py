"""Templates of which we have no family: of our own making, in the shapes of public ones. The engine reads them, or we learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from tests.local.markup.shapes import Call, Shape, Spell, after_name, chat, dsml, each, objects, rows


def _numbered(calls: Sequence[Call]) -> str:
    texts = [
        f"<|call|>functions.{name}:{n}<|arguments|>{json.dumps(given)}<|/call|>"
        for n, (name, given) in enumerate(calls)
    ]
    return f"<|calls|>{''.join(texts)}<|/calls|>"


def _keyed(calls: Sequence[Call]) -> str:
    texts = [f'{{"{name}": {json.dumps(given)}}}' for name, given in calls]
    return f"<|tools_prefix|>[{', '.join(texts)}]<|tools_suffix|>"


_NUMBERED: Final = each(
    "{{ '<|call|>functions.' + call.function.name + ':' }}{{ loop.index0 }}"
    "{{ '<|arguments|>' }}{{ call.function.arguments | tojson }}{{ '<|/call|>' }}",
    before="<|calls|>",
    after="<|/calls|>",
)
_KEYED: Final = each(
    "{{ '{\"' + call.function.name + '\": ' }}{{ call.function.arguments | tojson }}{{ '}' }}",
    before="<|tools_prefix|>[",
    between=", ",
    after="]<|tools_suffix|>",
)

_IN_TAGS: Final = rows(
    '<invoke name="{}">\n',
    '<parameter name="',
    '">',
    "</parameter>\n",
    "</invoke>\n",
    open="<vendor:calls>\n",
    close="</vendor:calls>",
)


_IN_ATTRIBUTES: Final = rows('<function name="{}">', '<param name="', '">', "</param>", "</function>")


def _foreign(model: str, made: tuple[str, Spell]) -> Shape:
    return Shape(model, "generic", chat(made[0]), made[1])


FOREIGN: Final = [
    _foreign(
        "like LongCat, objects in a tag",
        objects(
            "<longcat_tool_call>\n",
            "\n</longcat_tool_call>\n",
            listed=False,
            between="\n</longcat_tool_call>\n<longcat_tool_call>\n",
        ),
    ),
    _foreign(
        "like DeepSeek, a name and fenced JSON",
        after_name(
            "<|one_call|>function<|sep|>", "\n```json\n", "\n```<|one_end|>", around=("<|all_calls|>", "<|all_end|>")
        ),
    ),
    _foreign(
        "like Hunyuan",
        after_name("<tool_call>", "\n```json\n", "\n```</tool_call>", around=("<tool_calls>", "</tool_calls>")),
    ),
    _foreign("like Apertus, keyed by name", (_KEYED, _keyed)),
    _foreign("like another Granite", objects("<function_call> ", "", listed=False, between="\n<function_call> ")),
]

# A call is a message of its own, of which the engine knows by the words of the template.
_ROLES: Final = (
    "{%- if tools %}{{ 'function descriptions<|role_sep|>\n' }}{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "{{ '<|message_sep|>\n\n' }}{% endif %}"
    "{%- for message in messages %}{{ ('function result' if message.role == 'tool' else message.role) + '<|role_sep|>\n' }}"
    "{{ (message.content or '') + '<|message_sep|>\n\n' }}{%- if message.tool_calls %}"
    "{%- set call = message.tool_calls[0].function %}"
    '{{ \'function call<|role_sep|>\n{"name": "\' + call.name + \'", "arguments": \' }}{{ call.arguments | tojson }}'
    "{{ '}<|message_sep|>\n\n' }}{% endif %}{% endfor %}"
    "{%- if add_generation_prompt %}{{ 'assistant<|role_sep|>\n' }}{% endif %}"
)


def _in_a_role(calls: Sequence[Call]) -> str:
    texts = [f'{{"name": "{name}", "arguments": {json.dumps(given)}}}' for name, given in calls]
    return "".join([f"<|message_sep|>\n\nfunction call<|role_sep|>\n{text}" for text in texts])


# The engine has a reader of its own for these; they are played in `make conformance` only.
KNOWN_TO_THE_ENGINE: Final = [Shape("like GigaChat 3", "generic", _ROLES, _in_a_role, single=True)]

# How they are written is learned: the engine cannot tell, or reads only the first of several calls.
LEARNED: Final = [
    _foreign("like MiniMax, parameters in tags", _IN_TAGS),
    _foreign(
        "like MiniMax, names in other attributes",
        rows(
            "<invoke tool='{}'>", "<param key='", "' >", "</param>", "</invoke>", open="<|calls|>", close="<|/calls|>"
        ),
    ),
    _foreign("like Kimi, numbered", (_NUMBERED, _numbered)),
    _foreign("like GLM, keys and values", rows("<call>{}\n", "<key>", "</key>\n<value>", "</value>\n", "</call>\n")),
    _foreign("like GigaChat 3.5", dsml("tool_calls", "｜GCML｜")),
    _foreign("like MiniCPM", _IN_ATTRIBUTES),
    Shape("like MiniCPM, thinking", "generic", chat(_IN_ATTRIBUTES[0], opened="<think>\\n"), _IN_ATTRIBUTES[1]),
]

# Words, and neither tags nor JSON: nothing tells where a value ends.
UNREAD: Final = [_foreign("like nothing else", rows("CALL {} ", "WITH ", " SET TO ", " ", "END "))]
