"""A chat template's text → the family it belongs to.

The template is the Jinja source a model brings along (`tokenizer.chat_template` in a GGUF file). It is searched for the
markers that define a format, never rendered: what a model was trained to write is what its template shows it.

Markers contain each other, and templates speak of more than one. So each family is known by all of its signs together, those
with the most telling signs come first, and a family with common signs says what it is not. A template in which none is found
is `generic`: it is better not known than taken for another, and the engine may work it out (`local.foreign`).
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.local.markup.family import (
    ATEM,
    COHERE,
    DEEPSEEK,
    DEEPSEEK_R1,
    DSML,
    DSML_V4,
    DSML_V4_1,
    FUNCTION_GEMMA,
    FUNCTIONARY,
    GEMMA4,
    GENERIC,
    GLM,
    GLM_FLAT,
    GRANITE,
    HARMONY,
    HERMES,
    HUNYUAN,
    HY3,
    HY3_OPEN,
    INTERNLM,
    KIMI,
    KIMI_3,
    LFM2,
    LFM2_JSON,
    LLAMA3,
    LLAMA4,
    MIMO,
    MINICPM,
    MINICPM_5,
    MINIMAX,
    MINIMAX_M1,
    MISTRAL,
    MISTRAL_ID,
    MISTRAL_LIST,
    NEMOTRON,
    OLMO,
    OPEN_SUFFIX,
    PHI4,
    PYTHONIC,
    QWEN_XML,
    SEED,
    SOLAR,
    STEP3,
    THINK,
    Family,
)


class _Sign(Struct, frozen=True):
    family: Family
    needs: tuple[str, ...]
    unless: tuple[str, ...] = ()

    def is_in(self, template: str) -> bool:
        return all(sign in template for sign in self.needs) and not any(sign in template for sign in self.unless)


# Signs of forms that are not read here, which stand next to `<tool_call>` in templates that show one of them.
_OTHER_TAGS: Final = (
    "<invoke",
    "<arg_key",
    "<function=",
    "<parameter=",
    "<tool_sep",
    "]<]minimax[>[",
    "<args>",
    "<use_mcp_tool>",
)

_SIGNS: Final = (
    _Sign(ATEM, ("<atem:function_calls>",)),
    _Sign(HARMONY, ("<|channel|>", "<|message|>", "functions.", "commentary"), unless=("llm-jp-harmony",)),
    _Sign(FUNCTION_GEMMA, ("<start_function_call>", "<escape>")),
    _Sign(GEMMA4, ("<|tool_call>", "<tool_call|>")),
    _Sign(DSML_V4_1, ("｜DSML｜", " calls>", " invoke")),
    _Sign(DSML, ("｜DSML｜", "function_calls>")),
    _Sign(DSML_V4, ("｜DSML｜",)),
    _Sign(DEEPSEEK_R1, ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "```json")),
    _Sign(DEEPSEEK, ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>")),
    _Sign(STEP3, ("<steptml:invoke", "<steptml:parameter")),
    _Sign(INTERNLM, ("<|action_start|>", "<|plugin|>")),
    _Sign(KIMI, ("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>")),
    _Sign(KIMI, ("tool_declare<|im_middle|>",), unless=("<|open|>",)),  # the first one's, which shows no calls
    _Sign(KIMI_3, ("<|open|>", "<|close|>", "<|sep|>")),
    _Sign(SOLAR, ("<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>")),
    _Sign(MINIMAX, ("<minimax:tool_call>", "<invoke name=")),
    _Sign(SEED, ("<seed:tool_call>", "<function=", "<parameter=")),
    _Sign(COHERE, ("<|START_ACTION|>", "tool_name")),
    _Sign(HY3_OPEN, ("<tool_sep", "<arg_key", OPEN_SUFFIX)),
    _Sign(HY3, ("<tool_sep", "<arg_key")),
    _Sign(GLM_FLAT, ("<tool_call>", "</arg_key><arg_value>")),
    _Sign(GLM, ("<tool_call>", "<arg_key>", "<arg_value>")),
    _Sign(MINICPM, ("<|tool_call_start|>", "```python")),
    _Sign(MINICPM_5, ('<function name="', '<param name="', "</param></function>")),
    _Sign(LFM2_JSON, ("<|tool_call_start|>", '{"name": "')),
    _Sign(LFM2, ("<|tool_call_start|>",)),
    _Sign(LFM2, ("<|tool_list_start|>",)),
    _Sign(LFM2, ("List of tools: ", "<|im_start|>")),  # LFM2.5-Instruct's, which shows no calls
    _Sign(MISTRAL_ID, ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")),
    _Sign(MISTRAL, ("[TOOL_CALLS]", "[ARGS]")),
    _Sign(MISTRAL_LIST, ("[TOOL_CALLS]",)),
    _Sign(MIMO, ("<tool_call><function=", "<parameter=")),
    _Sign(QWEN_XML, ("<tool_call>", "<function=", "<parameter=")),
    _Sign(FUNCTIONARY, ("<function=", "</function>"), unless=("<parameter", "<tool_call>")),
    _Sign(NEMOTRON, ("<TOOLCALL>", "</TOOLCALL>", "arguments")),
    _Sign(MINIMAX_M1, ('<tool_calls>\\n{"name": ', "</tool_calls>"), unless=_OTHER_TAGS),
    _Sign(HUNYUAN, ("<tool_calls>", "</tool_calls>", "arguments"), unless=("```json", *_OTHER_TAGS)),
    _Sign(HERMES, ("<tool_call>", "name", "arguments"), unless=("<tool_calls>", *_OTHER_TAGS)),
    _Sign(GRANITE, ("<|tool_call|>", "<|start_of_role|>")),
    _Sign(PHI4, ("<|tool|>", "<|/tool|>")),
    _Sign(OLMO, ("<function_calls>", "</function_calls>"), unless=_OTHER_TAGS),
    _Sign(PYTHONIC, ("[func_name1(",)),
    _Sign(LLAMA4, ("<|header_start|>", '"parameters": ')),
    _Sign(LLAMA3, ("<|python_tag|>",), unless=("<function=", "<function ")),
    _Sign(LLAMA3, ("<|start_header_id|>", '"parameters": '), unless=("<function=", "<function ")),
)
_THOUGHTS: Final = (
    ("<|channel>", ("<|channel>thought\n", "<channel|>")),
    ("<|START_THINKING|>", ("<|START_THINKING|>", "<|END_THINKING|>")),
    ("<|thought_start|>", ("<|thought_start|>", "<|thought_end|>")),
    ("<|think|>", ("<|think|>", "<|end|>")),
    # Apriel's prompt ends with words that begin its thoughts.
    ("[BEGIN FINAL RESPONSE]", ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]")),
    ("<seed:think>", ("<seed:think>", "</seed:think>")),
    ("[THINK]", ("[THINK]", "[/THINK]")),
    ("<think>", THINK),
)
_TOOLS: Final = re.compile(r"\b(?:available_|custom_)?tools\b|\btool_calls\b")


def family_of(template: str) -> Family:
    """The family of a template; `generic` when none of them is shown in it."""
    shown = template.replace('\\"', '"').replace("\\'", "'")
    family = next((sign.family for sign in _SIGNS if sign.is_in(shown)), GENERIC)
    if family.name in ("harmony", "atem"):  # their thoughts have a channel
        return family
    think = next((think for sign, think in _THOUGHTS if sign in template), None)
    return family if think is None else replace(family, think=think)


def mentions_tools(template: str) -> bool:
    """Whether the template has anything to say of tools or calls."""
    return _TOOLS.search(template) is not None


def supports_tools(template: str) -> bool:
    """Whether the template tells a model about tools or calls, in a form that can be read here."""
    return family_of(template).name != "generic" and mentions_tools(template)


def ends_in_thought(family: Family, text: str, *, begun: bool) -> bool:
    """Whether what was said so far ends inside a thought. `begun`: it began in one."""
    if family.think is None:
        return False
    opening, closing = family.think
    opened = text.rfind(opening.rstrip())
    return (begun or opened >= 0) and text.rfind(closing) <= opened


def opens_thinking(family: Family, prompt: str) -> bool:
    """Whether a rendered prompt ends inside a thought, so that the answer begins there."""
    if family.think is None:
        return False
    return prompt.rstrip().endswith(family.think[0].rstrip())
