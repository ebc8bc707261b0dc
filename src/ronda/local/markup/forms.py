"""The form of a call in each family that we know, and what comes before and after it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ronda.local.markup.family import OPEN_SUFFIX, Family, FamilyName
from ronda.local.markup.form import Form
from ronda.local.markup.notation import TagForm, function_gemma, gemma, keywords, literals, tags

_OBJECT: Final = '{"name": "{}", "arguments": '


def _key_tags(suffix: str, line: str) -> TagForm:
    return TagForm(
        f"<arg_key{suffix}>{{}}</arg_key{suffix}>{line}<arg_value{suffix}>", f"</arg_value{suffix}>{line}", words="json"
    )


def _glm(line: str) -> Form:
    return Form("<tool_call>", f"{{}}{line}", tail="</tool_call>", join="\n", native=_key_tags("", line).write, key=40)


def _hy3(suffix: str) -> Form:
    return Form(
        f"<tool_calls{suffix}>",
        f"<tool_call{suffix}>{{}}<tool_sep{suffix}>\n",
        f"</tool_call{suffix}>",
        "\n",
        f"\n</tool_calls{suffix}>",
        "\n",
        native=_key_tags(suffix, "\n").write,
        key=44 + 4 * len(suffix),
    )


def _dsml(wrapper: str, mark: str = "｜DSML｜") -> Form:
    native = TagForm(f'<{mark}parameter name="{{}}" string="{{text}}">', f"</{mark}parameter>\n", words="json").write
    name, ends = f'<{mark}invoke name="{{}}">\n', f"</{mark}invoke>"
    return Form(f"<{mark}{wrapper}>", name, ends, "\n", f"\n</{mark}{wrapper}>", "\n", native=native, key=90)


def _deepseek(name: str, ends: str) -> Form:
    begin, end = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"
    return Form("<｜tool▁calls▁begin｜>", begin + name, ends + end, tail="<｜tool▁calls▁end｜>", again="")


FORMS: Final[dict[FamilyName, Form]] = {
    "hermes": Form("<tool_call>", _OBJECT, "}", "\n", "\n</tool_call>", join="\n"),
    "qwen_xml": Form(
        "<tool_call>", "<function={}>\n", "</function>", "\n", "\n</tool_call>", join="\n", native=tags, key=28
    ),
    "mimo": Form(
        "<tool_call>",
        "<function={}>",
        "</function>",
        tail="</tool_call>",
        join="\n",
        native=TagForm("<parameter={}>", "</parameter>", words="words").write,
        key=24,
    ),
    "seed": Form(
        "<seed:tool_call>",
        "<function={}>\n",
        "</function>",
        "\n",
        "\n</seed:tool_call>",
        join="\n",
        native=TagForm("<parameter={}>", "</parameter>\n", words="python").write,
        key=26,
    ),
    "functionary": Form("<function=", "{}>", tail="</function>"),
    "glm": _glm("\n"),
    "glm_flat": _glm(""),
    "hy3": _hy3(""),
    "hy3_open": _hy3(OPEN_SUFFIX),
    "hunyuan": Form("<tool_calls>", _OBJECT, "}", "[", "]</tool_calls>", ", "),
    "minimax_m1": Form("<tool_calls>", _OBJECT, "}", "\n", "\n</tool_calls>", "\n"),
    "minimax": Form(
        "<minimax:tool_call>",
        '<invoke name="{}">\n',
        "</invoke>",
        "\n",
        "\n</minimax:tool_call>",
        "\n",
        native=TagForm('<parameter name="{}">', "</parameter>\n", words="json").write,
        key=34,
    ),
    "dsml": _dsml("function_calls"),
    "dsml_v4": _dsml("tool_calls"),
    "dsml_v4_1": _dsml("calls", "｜DSML｜ "),
    "deepseek": _deepseek("{}<｜tool▁sep｜>", ""),
    "deepseek_r1": _deepseek("function<｜tool▁sep｜>{}\n```json\n", "\n```"),
    "step3": Form(
        "<｜tool_calls_begin｜>",
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{}">\n',
        "</steptml:invoke><｜tool_call_end｜>",
        "\n",
        "\n<｜tool_calls_end｜>",
        "\n",
        native=TagForm('<steptml:parameter name="{}">', "</steptml:parameter>\n", words="json").write,
        key=50,
    ),
    "kimi": Form(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>functions.{}:{#}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        tail="<|tool_calls_section_end|>",
        again="",
    ),
    "kimi_3": Form(
        "<|open|>tools<|sep|>",
        '<|open|>call tool="{}" index="{#}"<|sep|>',
        "<|close|>call<|sep|>",
        tail="<|close|>tools<|sep|>",
        again="",
        native=TagForm(
            '<|open|>argument key="{}" type="{kind}"<|sep|>', "<|close|>argument<|sep|>", words="json"
        ).write,
        key=70,
    ),
    "solar": Form(
        "<|tool_calls|>",
        "<|tool_call:begin|>{key}<|tool_call:name|>{}<|tool_call:args|>",
        "<|tool_call:end|>",
        again="",
    ),
    "harmony": Form("<|channel|>commentary to=functions.", "{} <|constrain|>json<|message|>", tail="<|call|>"),
    "atem": Form(
        " to=",
        '{}<|message|><atem:function_calls>\n<atem:invoke name="{}">\n',
        "</atem:invoke>",
        tail="\n</atem:function_calls>",
        native=TagForm('<atem:parameter name="{}">', "</atem:parameter>\n", words="json").write,
        key=44,
    ),
    "gemma4": Form("<|tool_call>", "{}", "", "call:", "<tool_call|>", native=gemma, quotes=10),
    "function_gemma": Form(
        "<start_function_call>", "{}", "", "call:", "<end_function_call>", native=function_gemma, quotes=16
    ),
    "minicpm": Form(
        "<|tool_call_start|>", "{}(", ")", "\n```python\n", "\n```\n<|tool_call_end|>", "\n", native=keywords
    ),
    "minicpm_5": Form(
        "<function name=",
        '"{}">',
        tail="</function>",
        join="\n",
        native=TagForm('<param name="{}">', "</param>", words="python").write,
        key=24,
    ),
    "lfm2": Form("<|tool_call_start|>", "{}(", ")", "[", "]<|tool_call_end|>", ", ", native=literals),
    "lfm2_json": Form("<|tool_call_start|>", _OBJECT, "}", "[", "]<|tool_call_end|>", ", "),
    "olmo": Form("<function_calls>", "{}(", ")", "\n", "\n</function_calls>", "\n", native=keywords),
    "pythonic": Form("[", "{}(", ")", tail="]", again=", ", native=literals),
    "llama3": Form('{"name": "', '{}", "parameters": ', "}", join="\n"),
    "llama4": Form('{"name": "', '{}", "parameters": ', "}", join="\n"),
    "mistral": Form("[TOOL_CALLS]", "{}[ARGS]"),
    "mistral_id": Form("[TOOL_CALLS]", "{}[CALL_ID]{id}[ARGS]"),
    "mistral_list": Form("[TOOL_CALLS]", _OBJECT, ', "id": "{id}"}', "[", "]", ", "),
    "cohere": Form(
        "<|START_ACTION|>",
        '{"tool_call_id": "{#}", "tool_name": "{}", "parameters": ',
        "}",
        "[\n    ",
        "\n]<|END_ACTION|>",
        ",\n    ",
    ),
    "granite": Form("<|tool_call|>", _OBJECT, "}", "[", "]", ", "),
    "phi4": Form("<|tool_call|>", _OBJECT, "}", "[", "]<|/tool_call|>", ", "),
    "internlm": Form(
        "<|action_start|><|plugin|>", '{"name": "{}", "parameters": ', "}", "\n", "<|action_end|>", join="\n"
    ),
    "nemotron": Form("<TOOLCALL>", _OBJECT, "}", "[", "]</TOOLCALL>", ", "),
    "generic": Form('{"name": "', '{}", "arguments": ', "}", join="\n"),
}


class Channels(Struct, frozen=True):
    """A family whose texts are in messages of their own: what begins each, what is between, and what ends the last."""

    turn: str
    thought: str
    comments: tuple[str, ...]
    final: str
    end: str
    reserved: str  # a regular expression: what no text holds


CHANNELS: Final[dict[FamilyName, Channels]] = {
    "harmony": Channels(
        "<|end|><|start|>assistant",
        "<|channel|>analysis<|message|>",
        ("<|channel|>commentary<|message|>",),
        "<|channel|>final<|message|>",
        "<|return|>",
        r"<\|(channel|message|start|constrain)\|>",
    ),
    "atem": Channels(
        "<|eom|><|start|>assistant",
        " to=self<|message|>",
        (),
        " to=user<|message|>",
        "<|eot|>",
        r"<\|(message|start|eom|eot)\|>",
    ),
}


def form_of(family: Family) -> Form:
    """How calls of the family are written: as its template does, where that was learned."""
    return FORMS[family.name] if family.form is None else family.form


def call_marks(family: Family) -> tuple[str, ...]:
    """What a call of the family may begin with, what we write ourselves included."""
    return tuple(dict.fromkeys((form_of(family).mark, *family.opens)))


def decodes_in_one_step(family: Family) -> bool:
    """Whether the beginning of a call cannot be told from something else, or texts are in messages of their own."""
    return family.bare is not None or family.name in CHANNELS
