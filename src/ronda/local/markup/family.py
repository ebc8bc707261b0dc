"""The families of open-weight models, by how they write calls and thoughts. One row each; `recognition` tells which is whose.

Which markers are control tokens depends on the vocabulary and, with llama.cpp, on how the file was converted. `control` holds
what is usual; the code with the vocabulary knows better (see `grammar_for`).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ronda.local.markup.form import Form
from ronda.local.markup.wrapper import Named, Tags, Wrapper

FamilyName: TypeAlias = Literal[
    "hermes",  # <tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>: Qwen 2.5 and 3, Hermes, Granite 4, and ours
    "qwen_xml",  # <tool_call>\n<function=name>\n<parameter=key>\nvalue\n</parameter>…: Qwen3-Coder, Qwen3.5, Step 3.5
    "mimo",  # the same without the ends of lines: MiMo V2
    "seed",  # <seed:tool_call>\n<function=name>\n<parameter=key>value</parameter>…: Seed-OSS
    "functionary",  # <function=name>{…}</function>: Functionary 3.1
    "glm",  # <tool_call>name\n<arg_key>key</arg_key>\n<arg_value>value</arg_value>\n</tool_call>: GLM 4.5 and later
    "glm_flat",  # the same without the ends of lines: GLM 4.7
    "hy3",  # <tool_calls>\n<tool_call>name<tool_sep>\n<arg_key>key</arg_key>\n<arg_value>…: Hunyuan 3
    "hy3_open",  # the same, all tags with the suffix `:opensource`
    "hunyuan",  # <tool_calls>[{"name": …, "arguments": {…}}]</tool_calls>: Hunyuan A13B, Apriel, Jamba
    "minimax_m1",  # <tool_calls>\n{"name": …, "arguments": {…}}\n</tool_calls>: MiniMax M1
    "minimax",  # <minimax:tool_call>\n<invoke name="name">\n<parameter name="key">value</parameter>…: MiniMax M2
    "dsml",  # <｜DSML｜function_calls>\n<｜DSML｜invoke name="name">…: DeepSeek V3.2
    "dsml_v4",  # the same in <｜DSML｜tool_calls>: DeepSeek V4
    "dsml_v4_1",  # the same in <｜DSML｜ calls>, with a space in every tag: DeepSeek V4.1
    "deepseek",  # <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>: DeepSeek V3.1
    "deepseek_r1",  # <｜tool▁call▁begin｜>function<｜tool▁sep｜>name\n```json\n{…}\n```<｜tool▁call▁end｜>: DeepSeek V3 and R1
    "step3",  # <｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="name">…: Step 3
    "kimi",  # <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>: Kimi K2
    "kimi_3",  # <|open|>call tool="name" index="1"<|sep|><|open|>argument key="key" type="string"<|sep|>…: Kimi K3
    "solar",  # <|tool_call:begin|>id<|tool_call:name|>name<|tool_call:args|>{…}<|tool_call:end|>: Solar Open
    "harmony",  # <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>: gpt-oss
    "atem",  # to=name<|message|><atem:function_calls>\n<atem:invoke name="name">…: Muse Glimmer
    "gemma4",  # <|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>
    "function_gemma",  # <start_function_call>call:name{key:<escape>text<escape>,n:1}<end_function_call>: FunctionGemma
    "minicpm",  # <|tool_call_start|>\n```python\nname(key="text", n=1)\n```\n<|tool_call_end|>: MiniCPM 3 and 4
    "minicpm_5",  # <function name="name"><param name="key">value</param></function>: MiniCPM 5
    "lfm2",  # <|tool_call_start|>[name(key='text', n=1)]<|tool_call_end|>: LFM2, LFM2.5
    "lfm2_json",  # <|tool_call_start|>[{"name": …, "arguments": {…}}]<|tool_call_end|>: LFM2, by other templates
    "olmo",  # <function_calls>\nname(key="text", n=1)\n</function_calls>: Olmo 3
    "pythonic",  # [name(key="text", n=1)]: Llama 3.2 and 4, Gemma 3, by templates made for it
    "llama3",  # {"name": …, "parameters": {…}}, with or without <|python_tag|> before it
    "llama4",  # the same, with or without <|python_start|> before it
    "mistral",  # [TOOL_CALLS]name[ARGS]{…}
    "mistral_id",  # [TOOL_CALLS]name[CALL_ID]abcdefghi[ARGS]{…}: Mistral Small 3.2
    "mistral_list",  # [TOOL_CALLS][{"name": …, "arguments": {…}, "id": "abcdefghi"}]: Mistral Nemo
    "cohere",  # <|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": {…}}]<|END_ACTION|>: Command R7B and A
    "granite",  # <|tool_call|>[{"name": …, "arguments": {…}}]: Granite 3
    "phi4",  # <|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>: Phi-4-mini
    "internlm",  # <|action_start|><|plugin|>\n{"name": …, "parameters": {…}}<|action_end|>: InternLM 2 and 3
    "nemotron",  # <TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>: Nemotron Nano 2
    "learned",  # as a template of which we have no family writes them (`markup.learned`)
    "generic",  # {"name": …, "arguments": {…}}
]

THINK: Final = ("<think>", "</think>")
_PLAIN_TAG: Final = re.compile(r"</?[a-z_:]+>")


class Family(Struct, frozen=True):
    """`wrappers` are what a call may come in; the first is the one we write ourselves. A `bare` call needs none."""

    name: FamilyName
    wrappers: tuple[Wrapper, ...] = ()
    think: tuple[str, str] | None = None  # around a thought, where the template knows of thoughts
    # Markers that are control tokens: no text holds them, and none is made of text.
    control: frozenset[str] = frozenset()
    noise: tuple[str, ...] = ()  # markers that mean nothing inside an answer
    # Markers that a model writes behind its calls, where results belong: no end to the engine.
    stops: tuple[str, ...] = ()
    bare: Literal["json", "python"] | None = None
    form: Form | None = None  # how we write calls ourselves; None: as `forms` says

    @property
    def opens(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([wrapper.open for wrapper in self.wrappers]))

    @property
    def closes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([close for wrapper in self.wrappers for close in wrapper.closes]))

    @property
    def markers(self) -> tuple[str, ...]:
        """Everything an engine must show for the reader to see: what it would otherwise hide as special tokens."""
        marks = [mark for one in self.wrappers if isinstance(one.notation, Named) for mark in one.notation.marks]
        found = [*self.opens, *self.closes, *(self.think or ()), *marks, *self.noise, *sorted(self.control)]
        return tuple(dict.fromkeys(marker for marker in found if marker))

    def is_text(self, marker: str) -> bool:
        """Whether people may write about a marker: not if it is a token of its own, or looks like nothing but one."""
        return marker not in self.control and marker not in self.noise and _PLAIN_TAG.fullmatch(marker) is not None


FUNCTION_TAGS: Final = Tags("<function=", "</function>", "<parameter=", "</parameter>", pairs=True)
INVOKE_TAGS: Final = Tags("<invoke", "</invoke>", "<parameter", "</parameter>", pairs=True)
ATEM_TAGS: Final = Tags("<atem:invoke", "</atem:invoke>", "<atem:parameter", "</atem:parameter>", trims=False)
_DEEPSEEK: Final = Named(("<｜tool▁sep｜>", "```json", "```"), kinds=("<｜tool▁sep｜>",))


def key_tags(suffix: str = "") -> Tags:
    """GLM's and Hunyuan's: a tag for the key and one for the value. Some of Hunyuan's have a suffix."""
    return Tags(
        call="",
        end_call=f"</tool_call{suffix}>",
        argument=f"<arg_key{suffix}>",
        end_argument=f"</arg_value{suffix}>",
        end_key=f"</arg_key{suffix}>",
        value=f"<arg_value{suffix}>",
        separator=f"<tool_sep{suffix}>",
        pairs=True,
    )


# Formats that are read whatever a template shows: nothing else is written like them.
DEEPSEEK_CALL: Final = Wrapper("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", _DEEPSEEK)
HUNYUAN_CALLS: Final = Wrapper("<tool_calls>", "</tool_calls>")
ATEM_CALLS: Final = Wrapper("<atem:function_calls>", "</atem:function_calls>", ATEM_TAGS)
READ_ANYWHERE: Final = (DEEPSEEK_CALL, HUNYUAN_CALLS, ATEM_CALLS)
NOISE_ANYWHERE: Final = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")


HERMES: Final = Family("hermes", (Wrapper("<tool_call>", "</tool_call>"),))
QWEN_XML: Final = Family(
    "qwen_xml",
    (
        Wrapper("<tool_call>", "</tool_call>", FUNCTION_TAGS),
        Wrapper("<function=", "", FUNCTION_TAGS),  # half of the time they leave the first line out
    ),
)
MIMO: Final = Family("mimo", QWEN_XML.wrappers)
SEED: Final = Family(
    "seed",
    (Wrapper("<seed:tool_call>", "</seed:tool_call>", FUNCTION_TAGS), Wrapper("<function=", "", FUNCTION_TAGS)),
    noise=("<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>", "<seed:eos>"),
)
FUNCTIONARY: Final = Family(
    "functionary",
    (Wrapper("<function=", "</function>", Named((">",))), Wrapper("<|python_tag|>", "", "python")),
    control=frozenset({"<|python_tag|>"}),
    noise=("<|eom_id|>", "<|eot_id|>"),
)
GLM: Final = Family(
    "glm", (Wrapper("<tool_call>", "", key_tags()),), noise=("<|observation|>", "<|user|>", "<|role_end|>")
)
GLM_FLAT: Final = Family("glm_flat", GLM.wrappers, noise=GLM.noise)
OPEN_SUFFIX: Final = ":opensource"
_HY3_CALLS: Final = tuple([Wrapper(f"<tool_call{suffix}>", "", key_tags(suffix)) for suffix in ("", OPEN_SUFFIX)])
_HY3_NOISE: Final = tuple([f"<{slash}tool_calls{suffix}>" for suffix in ("", OPEN_SUFFIX) for slash in ("", "/")])
HY3: Final = Family("hy3", _HY3_CALLS, noise=_HY3_NOISE)
HY3_OPEN: Final = Family("hy3_open", _HY3_CALLS[::-1], noise=_HY3_NOISE)
HUNYUAN: Final = Family(
    "hunyuan",
    (HUNYUAN_CALLS,),
    noise=("<answer>", "</answer>", "[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"),
)
MINIMAX_M1: Final = Family("minimax_m1", (HUNYUAN_CALLS,))
MINIMAX: Final = Family("minimax", (Wrapper("<minimax:tool_call>", "</minimax:tool_call>", INVOKE_TAGS),))


def _dsml(name: str, mark: str = "｜DSML｜") -> Wrapper:
    tags = Tags(f"<{mark}invoke", f"</{mark}invoke>", f"<{mark}parameter", f"</{mark}parameter>", trims=False)
    return Wrapper(f"<{mark}{name}>", f"</{mark}{name}>", tags)


_DSML, _DSML_V4, _DSML_V4_1 = _dsml("function_calls"), _dsml("tool_calls"), _dsml("calls", "｜DSML｜ ")
DSML: Final = Family("dsml", (_DSML, _DSML_V4, _DSML_V4_1))
DSML_V4: Final = Family("dsml_v4", (_DSML_V4, _DSML, _DSML_V4_1))
DSML_V4_1: Final = Family("dsml_v4_1", (_DSML_V4_1, _DSML_V4, _DSML))
_DEEPSEEK_CONTROL: Final = frozenset({DEEPSEEK_CALL.open, DEEPSEEK_CALL.close, "<｜tool▁sep｜>", *NOISE_ANYWHERE})
DEEPSEEK: Final = Family("deepseek", (DEEPSEEK_CALL,), control=_DEEPSEEK_CONTROL, noise=NOISE_ANYWHERE)
DEEPSEEK_R1: Final = Family("deepseek_r1", (DEEPSEEK_CALL,), control=_DEEPSEEK_CONTROL, noise=NOISE_ANYWHERE)
_STEP_TAGS: Final = Tags(
    "<steptml:invoke", "</steptml:invoke>", "<steptml:parameter", "</steptml:parameter>", pairs=True
)
STEP3: Final = Family(
    "step3",
    (Wrapper("<steptml:invoke", "", _STEP_TAGS),),
    noise=(
        *("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", "<｜tool_call_begin｜>", "<｜tool_call_end｜>"),
        *("function<｜tool_sep｜>", "<｜tool_sep｜>"),
    ),
)
KIMI: Final = Family(
    "kimi",
    (Wrapper("<|tool_call_begin|>", "<|tool_call_end|>", Named(("<|tool_call_argument_begin|>",), numbered=True)),),
    control=frozenset({"<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>"}),
    noise=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
)
_KIMI_3_TAGS: Final = Tags(
    "<|open|>call",
    "<|close|>call<|sep|>",
    "<|open|>argument",
    "<|close|>argument<|sep|>",
    end_key="<|sep|>",
    trims=False,
)
KIMI_3: Final = Family(
    "kimi_3",
    (Wrapper("<|open|>call", "", _KIMI_3_TAGS),),
    think=("<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # its template puts them together
    control=frozenset({"<|open|>", "<|close|>", "<|sep|>"}),
    noise=(
        *[f"<|{side}|>{name}<|sep|>" for name in ("tools", "response", "message") for side in ("open", "close")],
        "<|end_of_msg|>",
    ),
)
SOLAR: Final = Family(
    "solar",
    (
        Wrapper(
            "<|tool_call:begin|>",
            "<|tool_call:end|>",
            # An id stands where others say the kind of a call.
            Named(("<|tool_call:name|>", "<|tool_call:args|>"), kinds=("<|tool_call:name|>",)),
        ),
    ),
    control=frozenset({"<|tool_call:begin|>", "<|tool_call:end|>", "<|tool_call:name|>", "<|tool_call:args|>"}),
    noise=("<|tool_calls|>", "<|calls|>", "<|begin|>assistant", "<|content|>", "<|end|>", "<|flush|>"),
)
# llama.cpp shows <|channel|>, <|message|>, <|start|> and <|constrain|> as text, whatever the file says.
HARMONY: Final = Family(
    "harmony",
    (Wrapper("<|channel|>", "<|call|>"),),
    control=frozenset({"<|end|>", "<|call|>", "<|return|>"}),
    noise=("<|message|>", "<|start|>", "<|constrain|>"),
)
ATEM: Final = Family("atem", (ATEM_CALLS,), noise=("<|message|>", "<|start|>", "<|eom|>", "<|eot|>", "<|end_of_text|>"))
GEMMA4: Final = Family(
    "gemma4",
    (Wrapper("<|tool_call>", "<tool_call|>", "gemma"),),
    noise=('<|"|>', "<|tool_response>", "<turn|>", "<|turn>", "<|channel>", "<channel|>"),
)
FUNCTION_GEMMA: Final = Family(
    "function_gemma",
    (Wrapper("<start_function_call>", "<end_function_call>", "function_gemma"),),
    noise=("<escape>", "<start_function_response>", "<end_of_turn>"),
    stops=("<start_function_response>",),
)
LFM2: Final = Family(
    "lfm2",
    (Wrapper("<|tool_call_start|>", "<|tool_call_end|>", "python"),),
    control=frozenset({"<|tool_call_start|>", "<|tool_call_end|>"}),
)
MINICPM: Final = Family(
    "minicpm",
    (Wrapper("<|tool_call_start|>\n```python", "<|tool_call_end|>", "python"), *LFM2.wrappers),
    control=LFM2.control,
)
MINICPM_5: Final = Family(
    "minicpm_5",
    (Wrapper("<function", "", Tags("<function", "</function>", "<param", "</param>", trims=False, cdata=True)),),
)
LFM2_JSON: Final = Family("lfm2_json", LFM2.wrappers, control=LFM2.control)
OLMO: Final = Family("olmo", (Wrapper("<function_calls>", "</function_calls>", "python"),))
PYTHONIC: Final = Family(
    "pythonic",
    (Wrapper("<|python_start|>", "<|python_end|>", "python"), Wrapper("<|python_tag|>", "", "python")),
    noise=("<|eom_id|>", "<|eot_id|>", "<|eom|>", "<|eot|>"),
    bare="python",
)
LLAMA3: Final = Family(
    "llama3",
    (Wrapper("<|python_tag|>", "", "python"),),
    control=frozenset({"<|python_tag|>"}),
    noise=("<|eom_id|>", "<|eot_id|>"),
    bare="json",
)
LLAMA4: Final = Family(
    "llama4",
    (Wrapper("<|python_start|>", "<|python_end|>", "python"),),
    noise=("<|eom|>", "<|eot|>"),
    bare="json",
)
MISTRAL: Final = Family(
    "mistral",
    (Wrapper("[TOOL_CALLS]", "", Named(("[ARGS]",))),),
    control=frozenset({"[TOOL_CALLS]", "[ARGS]"}),
    noise=("[ARGS]", "[CALL_ID]"),
)
MISTRAL_ID: Final = Family("mistral_id", MISTRAL.wrappers, control=MISTRAL.control, noise=MISTRAL.noise)
MISTRAL_LIST: Final = Family("mistral_list", MISTRAL.wrappers, control=frozenset({"[TOOL_CALLS]"}))
COHERE: Final = Family(
    "cohere",
    (Wrapper("<|START_ACTION|>", "<|END_ACTION|>"),),
    noise=(
        *("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        "<|END_OF_TURN_TOKEN|>",
    ),
)
GRANITE: Final = Family(
    "granite",
    (Wrapper("<|tool_call|>", "<|/tool_call|>"), Wrapper("<tool_call>", "<|/tool_call|>")),
    control=frozenset({"<|tool_call|>"}),
    noise=("<response>", "</response>", "</tool_call>"),
)
PHI4: Final = Family(
    "phi4",
    (Wrapper("<|tool_call|>", "<|/tool_call|>"), Wrapper("functools")),
    control=frozenset({"<|tool_call|>", "<|/tool_call|>"}),
)
INTERNLM: Final = Family(
    "internlm",
    (Wrapper("<|action_start|><|plugin|>", "<|action_end|>"), Wrapper("<|action_start|> <|plugin|>", "<|action_end|>")),
    noise=("<|im_end|>",),
)
NEMOTRON: Final = Family("nemotron", (Wrapper("<TOOLCALL>", "</TOOLCALL>"),))
# FireFunction and Phi-4-mini write `functools`, Granite 20B `<function_call>`, whatever they were told.
GENERIC: Final = Family(
    "generic",
    (Wrapper("<tool_call>", "</tool_call>"), Wrapper("functools"), Wrapper("<function_call>")),
    bare="json",
)
