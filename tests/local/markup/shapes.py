"""Chat templates and calls in the shapes of public models, of our own making: as short as they can be and still be one.

A shape is a template that can be rendered, how such a model writes calls, and how it thinks. What it writes is made from the same
calls for all shapes, so that everything that is hard for one (quotes, ends of lines, markup in a text) is tried with all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

Arguments = dict[str, Any]
Call = tuple[str, Arguments]
Spell = Callable[[Sequence[Call]], str]

TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "How the weather is.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "share": {"type": ["number", "null"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "more": {"type": "object"},
                },
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": "now",
            "description": "What time it is.",
            "parameters": {"type": "object", "properties": {}},
        },
    },
]

_TOOLS: Final = "{% for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{% endfor %}"
_ARGUMENTS: Final = "call.function.arguments"


def quoted(text: str) -> str:
    """A text as Jinja writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def chat(calls: str, *, tools: str = _TOOLS, opened: str = "") -> str:
    """A template: `calls` writes those of a message, `tools` the list of tools, `opened` begins every answer."""
    return (
        "{%- if tools %}{{ '<|im_start|>system\\n# Tools\\n' }}" + tools + "{{ '<|im_end|>\\n' }}{% endif %}"
        "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}{{ message.content or '' }}"
        "{%- if message.tool_calls %}" + calls + "{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
        "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n" + opened + "' }}{% endif %}"
    )


def each(call: str, *, before: str = "", between: str = "", after: str = "") -> str:
    """Jinja for all calls of a message, one after the other. The rest are texts."""
    inner = "{%- for call in message.tool_calls %}" + call
    inner += "{%- if not loop.last %}{{ " + quoted(between) + " }}{% endif %}{% endfor %}"
    return "{{ " + quoted(before) + " }}" + inner + "{{ " + quoted(after) + " }}"


def named(before: str, middle: str, after: str, arguments: str = f"{_ARGUMENTS} | tojson") -> str:
    """Jinja for one call: its name, and its arguments as JSON."""
    first, second, third = map(quoted, (before, middle, after))
    return f"{{{{ {first} + call.function.name + {second} }}}}{{{{ {arguments} }}}}{{{{ {third} }}}}"


def tagged(
    before: str, key: str, middle: str, value: str, after: str, *, words: str = "tojson", items: str = "items"
) -> str:
    """Jinja for one call: its name, and a row of arguments; {} in `before` is the name, and `key` stands before each key."""
    begin, end = map(quoted, before.split("{}"))
    one = f"value if value is string else value | {words}"
    if words == "mixed":  # objects and lists as JSON, the rest as Python writes it
        one = (
            "value if value is string else value | tojson if value is mapping or value is sequence else value | string"
        )
    rows = f"{{%- for key, value in {_ARGUMENTS} | {items} %}}{{{{ {quoted(key)} + key + {quoted(middle)} }}}}"
    rows += f"{{{{ {one} }}}}{{{{ {quoted(value)} }}}}{{% endfor %}}"
    return f"{{{{ {begin} + call.function.name + {end} }}}}{rows}{{{{ {quoted(after)} }}}}"


def objects(
    open: str,
    close: str,
    *,
    name: str = "name",
    arguments: str = "arguments",
    listed: bool = True,
    between: str = ", ",
    lead: str = "",
    more: str = "",
) -> tuple[str, Spell]:
    """Calls as JSON: the Jinja that writes them, and the same in Python. `lead` stands before the name, `more` at the end."""
    first, last = ("[", "]") if listed else ("", "")
    jinja = each(
        named(f'{{{lead}"{name}": "', f'", "{arguments}": ', f"{more}}}"),
        before=open + first,
        between=between,
        after=last + close,
    )

    def spell(calls: Sequence[Call]) -> str:
        texts = [f'{{{lead}"{name}": "{one}", "{arguments}": {json.dumps(given)}{more}}}' for one, given in calls]
        return open + first + between.join(texts) + last + close

    return jinja, spell


def rows(
    before: str,
    key: str,
    middle: str,
    value: str,
    after: str,
    *,
    open: str = "",
    close: str = "",
    between: str = "",
    words: str = "tojson",
) -> tuple[str, Spell]:
    """Calls in tags."""
    jinja = each(tagged(before, key, middle, value, after, words=words), before=open, between=between, after=close)

    def spell(calls: Sequence[Call]) -> str:
        return open + between.join([one(name, arguments) for name, arguments in calls]) + close

    def one(name: str, arguments: Arguments) -> str:
        written = [f"{key}{each_key}{middle}{text(given)}{value}" for each_key, given in arguments.items()]
        return before.replace("{}", name) + "".join(written) + after

    def text(given: Any) -> str:
        if isinstance(given, str):
            return given
        is_plain = words == "string" or (words == "mixed" and not isinstance(given, (dict, list)))
        return str(given) if is_plain else json.dumps(given)

    return jinja, spell


def dsml(wrapper: str, mark: str = "｜DSML｜") -> tuple[str, Spell]:
    """DeepSeek's markup, which says of each value whether it is a text."""
    row = (
        f"{{%- for key, value in {_ARGUMENTS} | items %}}{{{{ '<{mark}parameter name=\"' + key + '\" string=\"' }}}}"
        f"{{{{ 'true' if value is string else 'false' }}}}{{{{ '\">' }}}}"
        f"{{{{ value if value is string else value | tojson }}}}{{{{ '</{mark}parameter>\\n' }}}}{{% endfor %}}"
    )
    call = f"{{{{ '<{mark}invoke name=\"' + call.function.name + '\">\\n' }}}}{row}{{{{ '</{mark}invoke>\\n' }}}}"
    opened, close = f"\n\n<{mark}{wrapper}>\n", f"</{mark}{wrapper}>"

    def spell(calls: Sequence[Call]) -> str:
        return opened + "".join([one(name, arguments) for name, arguments in calls]) + close

    def one(name: str, arguments: Arguments) -> str:
        written = [
            f'<{mark}parameter name="{key}" string="{str(isinstance(value, str)).lower()}">'
            f"{value if isinstance(value, str) else json.dumps(value)}</{mark}parameter>\n"
            for key, value in arguments.items()
        ]
        return f'<{mark}invoke name="{name}">\n{"".join(written)}</{mark}invoke>\n'

    return each(call, before=opened, after=close), spell


_LITERAL: Final = '"\'" + value + "\'" if value is string else value | tojson if value is mapping else value | string'


def _argument(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else repr(value)


def python(
    open: str, close: str, *, between: str = ", ", value: Callable[[Any], str] = _argument, one: str = _LITERAL
) -> tuple[str, Spell]:
    """Calls in Python. The template puts single quotes around texts and leaves the rest to Jinja, as LFM2.5's does."""
    call = (
        "{{ call.function.name + '(' }}"
        f"{{%- for key, value in {_ARGUMENTS} | items %}}{{{{ key + '=' }}}}{{{{ {one} }}}}"
        "{%- if not loop.last %}{{ ', ' }}{% endif %}{% endfor %}{{ ')' }}"
    )

    def spell(calls: Sequence[Call]) -> str:
        texts = [f"{name}({', '.join([f'{key}={value(one)}' for key, one in given.items()])})" for name, given in calls]
        return open + between.join(texts) + close

    return each(call, before=open, between=between, after=close), spell


def gemma(calls: Sequence[Call]) -> str:
    return "".join([f"<|tool_call>call:{name}{_gemma(arguments)}<tool_call|>" for name, arguments in calls])


def function_gemma(calls: Sequence[Call]) -> str:
    texts = [f"call:{name}{_gemma(arguments, '<escape>')}" for name, arguments in calls]
    return "".join([f"<start_function_call>{text}<end_function_call>" for text in texts])


def _gemma(value: Any, quote: str = '<|"|>') -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            return "{" + ",".join([f"{key}:{_gemma(value[key], quote)}" for key in sorted(value)]) + "}"
        case list():
            return "[" + ",".join([_gemma(one, quote) for one in value]) + "]"
        case _:
            return json.dumps(value)


_GEMMA: Final = """{%- macro write(value) -%}
{%- if value is string -%}{{ '<|"|>' + value + '<|"|>' }}
{%- elif value is mapping -%}{{ '{' }}{%- for key, one in value | dictsort -%}{{ key + ':' }}{{ write(one) }}
{%- if not loop.last -%}{{ ',' }}{%- endif -%}{%- endfor -%}{{ '}' }}
{%- elif value is sequence -%}{{ '[' }}{%- for one in value -%}{{ write(one) }}
{%- if not loop.last -%}{{ ',' }}{%- endif -%}{%- endfor -%}{{ ']' }}
{%- else -%}{{ value | tojson }}{%- endif -%}{%- endmacro -%}"""


def minicpm(calls: Sequence[Call]) -> str:
    """What a tag cannot hold stands in CDATA."""

    def text(value: Any) -> str:
        return f"<![CDATA[{value}]]>" if isinstance(value, str) and any(one in value for one in "<&\n") else str(value)

    return "\n".join(
        [
            f'<function name="{name}">'
            + "".join([f'<param name="{key}">{text(value)}</param>' for key, value in arguments.items()])
            + "</function>"
            for name, arguments in calls
        ]
    )


_MINICPM: Final = each(
    "{{ '<function name=\"' + call.function.name + '\">' }}{%- for key, value in call.function.arguments | items %}"
    "{{ '<param name=\"' + key + '\">' }}{%- if value is string and ('<' in value or '&' in value or '\\n' in value) %}"
    "{{ '<![CDATA[' + value + ']]>' }}{% else %}{{ value }}{% endif %}{{ '</param>' }}{% endfor %}{{ '</function>' }}",
    between="\n",
)


def kimi_3(calls: Sequence[Call]) -> str:
    """Attributes say the name, the key and the type of a value."""
    texts = []
    for number, (name, arguments) in enumerate(calls, 1):
        texts.append(f'<|open|>call tool="{name}" index="{number}"<|sep|>')
        for key, value in arguments.items():
            written = value if isinstance(value, str) else json.dumps(value)
            texts.append(f'<|open|>argument key="{key}" type="{_type(value)}"<|sep|>{written}<|close|>argument<|sep|>')
        texts.append("<|close|>call<|sep|>")
    return f"<|open|>tools<|sep|>{''.join(texts)}<|close|>tools<|sep|>"


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


_KIMI_3: Final = (
    "{%- macro kind(value) -%}{%- if value is boolean -%}boolean{%- elif value is none -%}null"
    "{%- elif value is number -%}number{%- elif value is string -%}string{%- elif value is mapping -%}object"
    "{%- else -%}array{%- endif -%}{%- endmacro -%}"
)
_KIMI_3_CALLS: Final = each(
    "{{ '<|open|>call tool=\"' + call.function.name + '\" index=\"' }}{{ loop.index }}{{ '\"<|sep|>' }}"
    "{%- for key, value in call.function.arguments | items %}"
    "{{ '<|open|>argument key=\"' + key + '\" type=\"' }}{{ kind(value) }}{{ '\"<|sep|>' }}"
    "{{ value if value is string else value | tojson }}{{ '<|close|>argument<|sep|>' }}{% endfor %}"
    "{{ '<|close|>call<|sep|>' }}",
    before="<|open|>tools<|sep|>",
    after="<|close|>tools<|sep|>",
)


def solar(calls: Sequence[Call]) -> str:
    texts = [
        f"<|tool_call:begin|>k3j9x8q2a{n}<|tool_call:name|>{name}<|tool_call:args|>{json.dumps(arguments)}<|tool_call:end|>"
        for n, (name, arguments) in enumerate(calls)
    ]
    return f"<|tool_calls|>{''.join(texts)}"


_SOLAR: Final = each(
    "{{ '<|tool_call:begin|>' }}{{ call.id }}{{ '<|tool_call:name|>' + call.function.name + '<|tool_call:args|>' }}"
    "{{ call.function.arguments | tojson }}{{ '<|tool_call:end|>' }}",
    before="<|tool_calls|>",
)


def after_name(
    open: str, middle: str, close: str, *, around: tuple[str, str] = ("", ""), between: str = ""
) -> tuple[str, Spell]:
    """Calls as a name and JSON."""
    jinja = each(named(open, middle, close), before=around[0], between=between, after=around[1])

    def spell(calls: Sequence[Call]) -> str:
        texts = [f"{open}{name}{middle}{json.dumps(arguments)}{close}" for name, arguments in calls]
        return around[0] + between.join(texts) + around[1]

    return jinja, spell


def kimi(calls: Sequence[Call]) -> str:
    texts = [
        f"<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>{json.dumps(arguments)}<|tool_call_end|>"
        for n, (name, arguments) in enumerate(calls)
    ]
    return f"<|tool_calls_section_begin|>{''.join(texts)}<|tool_calls_section_end|>"


_KIMI: Final = each(
    "{{ '<|tool_call_begin|>functions.' + call.function.name + ':' }}{{ loop.index0 }}"
    "{{ '<|tool_call_argument_begin|>' }}{{ call.function.arguments | tojson }}{{ '<|tool_call_end|>' }}",
    before="<|tool_calls_section_begin|>",
    after="<|tool_calls_section_end|>",
)


def harmony(calls: Sequence[Call]) -> str:
    texts = [
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"
        for name, arguments in calls
    ]
    return "<|start|>assistant".join(texts)


def atem(calls: Sequence[Call]) -> str:
    _, spell = rows(
        '<atem:invoke name="{}">\n',
        '<atem:parameter name="',
        '">',
        "</atem:parameter>\n",
        "</atem:invoke>\n",
        open="<atem:function_calls>\n",
        close="</atem:function_calls>",
    )
    return "<|eom|><|start|>assistant".join([f" to={call[0]}<|message|>{spell([call])}" for call in calls])


class Shape(Struct, frozen=True):
    """`family` is what we know it by; without one it is the engine's to read. `think` are the marks around a thought.

    `text` is what stands around a text of the answer. `single`: such a model makes one call at a time.
    """

    model: str
    family: str
    template: str
    spell: Spell
    think: tuple[str, str] = ("<think>", "</think>")
    text: tuple[str, str] = ("", "")
    single: bool = False
    # Texts that cannot be told from markup in this notation, which escapes nothing.
    cannot_hold: tuple[str, ...] = ()


def _shape(model: str, family: str, made: tuple[str, Spell], **more: Any) -> Shape:
    options = {name: more.pop(name) for name in ("tools", "opened") if name in more}
    jinja, spell = made
    return Shape(model, family, more.pop("begin", "") + chat(jinja, **options), spell, **more)


_TAG_TEXT: Final = ("\n",)  # a text may not begin or end with the end of a line
_PYTHON_TEXT: Final = ("'", "\\", "\n")

OWN: Final = [
    _shape(
        "Qwen 3",
        "hermes",
        objects("\n<tool_call>\n", "\n</tool_call>", listed=False, between="\n</tool_call>\n<tool_call>\n"),
    ),
    _shape(
        "Qwen3-Coder",
        "qwen_xml",
        rows(
            "\n<tool_call>\n<function={}>\n",
            "<parameter=",
            ">\n",
            "\n</parameter>\n",
            "</function>\n</tool_call>",
            words="mixed",
        ),
        cannot_hold=_TAG_TEXT,
    ),
    _shape(
        "Step 3.5",
        "qwen_xml",
        rows(
            "<tool_call>\n<function={}>\n",
            "<parameter=",
            ">\n",
            "\n</parameter>\n",
            "</function>\n</tool_call>",
            words="mixed",
        ),
        opened="<think>\\n",
        cannot_hold=_TAG_TEXT,
    ),
    _shape(
        "Seed-OSS",
        "seed",
        rows(
            "\n<seed:tool_call>\n<function={}>\n",
            "<parameter=",
            ">",
            "</parameter>\n",
            "</function>\n</seed:tool_call>",
            words="string",
        ),
        begin="{% set think = '<seed:think>' + '</seed:think>' %}",
        think=("<seed:think>", "</seed:think>"),
    ),
    _shape(
        "Functionary 3.1", "functionary", after_name("<function=", ">", "</function>"), tools="<|python_tag|>" + _TOOLS
    ),
    _shape(
        "GLM 4.6",
        "glm",
        rows("\n<tool_call>{}\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"),
    ),
    _shape(
        "GLM 4.7",
        "glm_flat",
        rows("<tool_call>{}", "<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>"),
    ),
    _shape(
        "Hunyuan 3",
        "hy3",
        rows(
            "<tool_call>{}<tool_sep>\n",
            "<arg_key>",
            "</arg_key>\n<arg_value>",
            "</arg_value>\n",
            "</tool_call>\n",
            open="<tool_calls>\n",
            close="</tool_calls>",
        ),
    ),
    _shape(
        "Hunyuan 3, open",
        "hy3_open",
        rows(
            "<tool_call:opensource>{}<tool_sep:opensource>\n",
            "<arg_key:opensource>",
            "</arg_key:opensource>\n<arg_value:opensource>",
            "</arg_value:opensource>\n",
            "</tool_call:opensource>\n",
            open="<tool_calls:opensource>\n",
            close="</tool_calls:opensource>",
        ),
    ),
    _shape("Hunyuan A13B", "hunyuan", objects("<tool_calls>", "</tool_calls>"), text=("<answer>\n", "\n</answer>")),
    _shape(
        "MiniMax M1",
        "minimax_m1",
        objects("<tool_calls>\n", "\n</tool_calls>", listed=False, between="\n"),
        tools='{{ \'<tool_calls>\\n{"name": <tool-name>, "arguments": <args-json-object>}\\n...\\n</tool_calls>\' }}'
        + _TOOLS,
    ),
    _shape(
        "Apriel 1.5",
        "hunyuan",
        objects("\n<tool_calls>", "</tool_calls>"),
        tools="Return all calls within <tool_call></tool_call> tags:" + _TOOLS,
        begin="{# [BEGIN FINAL RESPONSE] #}",
        opened="Here are my reasoning steps:\\n",
        think=("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    ),
    _shape(
        "MiniMax M2",
        "minimax",
        rows(
            '<invoke name="{}">\n',
            '<parameter name="',
            '">',
            "</parameter>\n",
            "</invoke>\n",
            open="\n<minimax:tool_call>\n",
            close="</minimax:tool_call>",
        ),
        opened="<think>\\n",
    ),
    _shape("DeepSeek V3.2", "dsml", dsml("function_calls")),
    _shape("DeepSeek V4", "dsml_v4", dsml("tool_calls")),
    _shape("DeepSeek V4.1", "dsml_v4_1", dsml("calls", "｜DSML｜ ")),
    _shape(
        "MiMo V2",
        "mimo",
        rows("<tool_call><function={}>", "<parameter=", ">", "</parameter>", "</function></tool_call>", words="mixed"),
    ),
    _shape(
        "DeepSeek V3.1",
        "deepseek",
        after_name(
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            around=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ),
        tools="",
    ),
    _shape(
        "DeepSeek R1",
        "deepseek_r1",
        after_name(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            "\n```json\n",
            "\n```<｜tool▁call▁end｜>",
            around=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
            between="\n",
        ),
        tools="",
        opened="<think>\\n",
    ),
    _shape(
        "Step 3",
        "step3",
        rows(
            '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{}">\n',
            '<steptml:parameter name="',
            '">',
            "</steptml:parameter>\n",
            "</steptml:invoke><｜tool_call_end｜>\n",
            open="<｜tool_calls_begin｜>\n",
            close="<｜tool_calls_end｜>",
        ),
    ),
    _shape(
        "InternLM 3",
        "internlm",
        objects("<|action_start|><|plugin|>\n", "<|action_end|>", arguments="parameters", listed=False),
        single=True,
    ),
    _shape(
        "MiniCPM 5",
        "minicpm_5",
        (_MINICPM, minicpm),
        tools='<function name="x"><param name="y">z</param></function>' + _TOOLS,
        opened="<think>\\n",
    ),
    _shape("Kimi K2", "kimi", (_KIMI, kimi)),
    Shape(
        "Kimi K2, first template",
        "kimi",
        "{% if tools %}{{ '<|im_system|>tool_declare<|im_middle|>' }}{{ tools | tojson }}{{ '<|im_end|>' }}{% endif %}"
        "{%- for message in messages %}{{ '<|im_user|>' + message.role + '<|im_middle|>' }}{{ message.content }}"
        "{{ '<|im_end|>' }}{% endfor %}{%- if add_generation_prompt %}{{ '<|im_assistant|>assistant<|im_middle|>' }}{% endif %}",
        kimi,
    ),
    Shape(
        "Kimi K3",
        "kimi_3",
        _KIMI_3 + chat(_KIMI_3_CALLS, opened="<|open|>think<|sep|>"),
        kimi_3,
        think=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        text=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    ),
    Shape(
        "Solar Open",
        "solar",
        chat(_SOLAR, opened="<|think|>"),
        solar,
        think=("<|think|>", "<|end|><|begin|>assistant"),
        text=("<|content|>", "<|end|><|begin|>assistant"),
    ),
    Shape(
        "gpt-oss",
        "harmony",
        "{%- if tools %}{{ '<|start|>developer<|message|># Tools\\nnamespace functions {' }}{{ tools | tojson }}{{ '}<|end|>' }}"
        "{% endif %}{%- for message in messages %}{%- if message.tool_calls %}{%- for call in message.tool_calls %}"
        "{{ '<|start|>assistant<|channel|>commentary to=functions.' + call.function.name + ' <|constrain|>json<|message|>' }}"
        "{{ call.function.arguments | tojson }}{{ '<|call|>' }}{% endfor %}{% else %}"
        "{{ '<|start|>' + message.role + '<|message|>' }}{{ message.content }}{{ '<|end|>' }}{% endif %}{% endfor %}"
        "{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
        harmony,
        think=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        text=("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
        single=True,
        cannot_hold=("<|",),
    ),
    Shape(
        "Muse Glimmer",
        "atem",
        "{%- if tools %}{{ '<|start|>system<|message|><atem:function_calls>' }}{{ tools | tojson }}{{ '<|eom|>' }}{% endif %}"
        "{%- for message in messages %}{{ '<|start|>' + message.role }}{%- if message.tool_calls %}"
        + each(
            "{{ ' to=' + call.function.name + '<|message|><atem:function_calls>\\n' }}"
            "{{ '<atem:invoke name=\"' + call.function.name + '\">\\n' }}"
            "{%- for key, value in call.function.arguments | items %}{{ '<atem:parameter name=\"' + key + '\">' }}"
            "{{ value if value is string else value | tojson }}{{ '</atem:parameter>\\n' }}{% endfor %}"
            "{{ '</atem:invoke>\\n</atem:function_calls>' }}",
            between="<|eom|><|start|>assistant",
        )
        + "{% else %}{{ '<|message|>' + message.content }}{% endif %}{{ '<|eom|>' }}{% endfor %}"
        "{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}",
        atem,
        think=(" to=self<|message|>", "<|eom|><|start|>assistant"),
        text=(" to=user<|message|>", "<|eom|><|start|>assistant"),
        cannot_hold=("<|",),
    ),
    Shape(
        "Gemma 4",
        "gemma4",
        _GEMMA
        + chat(
            each(
                "{{ '<|tool_call>call:' + call.function.name }}{{ write(call.function.arguments) }}{{ '<tool_call|>' }}"
            )
        )
        + "{% set thought = '<|channel>thought' %}",
        gemma,
        think=("<|channel>thought\n", "<channel|>"),
        cannot_hold=("<|",),
    ),
    Shape(
        "FunctionGemma",
        "function_gemma",
        _GEMMA.replace('<|"|>', "<escape>")
        + chat(
            each(
                "{{ '<start_function_call>call:' + call.function.name }}{{ write(call.function.arguments) }}"
                "{{ '<end_function_call>' }}"
            )
        ),
        function_gemma,
    ),
    _shape(
        "MiniCPM 3",
        "minicpm",
        python(
            "<|tool_call_start|>\n```python\n",
            "\n```\n<|tool_call_end|>",
            between="\n",
            value=json.dumps,
            one="value | tojson",
        ),
        begin="{# <|thought_start|> #}",
        think=("<|thought_start|>\n", "\n<|thought_end|>\n"),
        cannot_hold=_PYTHON_TEXT,
    ),
    _shape(
        "LFM2.5",
        "lfm2",
        python("<|tool_call_start|>[", "]<|tool_call_end|>"),
        tools="List of tools: {{ tools | tojson }}",
        cannot_hold=_PYTHON_TEXT,
    ),
    Shape(
        "LFM2.5-Instruct",
        "lfm2",
        "{%- if tools %}{{ '<|im_start|>system\\nList of tools: [' }}{{ tools | tojson }}{{ ']<|im_end|>\\n' }}{% endif %}"
        "{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' }}{{ message.content }}{{ '<|im_end|>\\n' }}"
        "{% endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        python("<|tool_call_start|>[", "]<|tool_call_end|>")[1],
        cannot_hold=_PYTHON_TEXT,
    ),
    _shape("LFM2, JSON", "lfm2_json", objects("<|tool_call_start|>", "<|tool_call_end|>")),
    _shape(
        "Olmo 3",
        "olmo",
        python("<function_calls>\n", "\n</function_calls>", between="\n", value=json.dumps, one="value | tojson"),
        cannot_hold=_PYTHON_TEXT,
    ),
    _shape(
        "Llama 4, pythonic",
        "pythonic",
        python("[", "]"),
        tools="Write calls as [func_name1(a=1), func_name2(b=2)]" + _TOOLS,
        cannot_hold=_PYTHON_TEXT,
    ),
    _shape(
        "Llama 3.1",
        "llama3",
        objects("", "", arguments="parameters", listed=False, between="\n"),
        tools="<|start_header_id|>" + _TOOLS,
    ),
    _shape(
        "Llama 4",
        "llama4",
        objects("", "", arguments="parameters", listed=False, between="\n"),
        tools="<|header_start|>" + _TOOLS,
    ),
    _shape(
        "Mistral Small 3",
        "mistral",
        after_name("[TOOL_CALLS]", "[ARGS]", ""),
        think=("[THINK]", "[/THINK]"),
        begin="{# [THINK] #}",
    ),
    _shape("Mistral Small 3.2", "mistral_id", after_name("[TOOL_CALLS]", "[CALL_ID]000000000[ARGS]", "")),
    _shape("Mistral Nemo", "mistral_list", objects("[TOOL_CALLS]", "", more=', "id": "000000000"')),
    _shape(
        "Command R7B",
        "cohere",
        objects(
            "<|START_ACTION|>[\n    ",
            "\n]<|END_ACTION|>",
            name="tool_name",
            arguments="parameters",
            listed=False,
            between=",\n    ",
            lead='"tool_call_id": "0", ',
        ),
        begin="{# <|START_THINKING|> #}",
        think=("<|START_THINKING|>", "<|END_THINKING|>"),
        text=("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    _shape("Granite 3", "granite", objects("<|tool_call|>", ""), tools="<|start_of_role|>" + _TOOLS),
    _shape(
        "Phi-4-mini",
        "phi4",
        objects("<|tool_call|>", "<|/tool_call|>"),
        tools="<|tool|>{{ tools | tojson }}<|/tool|>",
    ),
    _shape("Nemotron Nano 2", "nemotron", objects("<TOOLCALL>", "</TOOLCALL>"), opened="<think>\\n"),
]
