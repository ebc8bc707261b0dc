"""A chat template's text → the family it belongs to: how such a model writes its calls and its thoughts.

The template is the Jinja source a model brings along (`tokenizer.chat_template` in a GGUF file). It is searched for the
markers that define a format, never rendered: what a model was trained to write is what its template shows it.

What is in a template is a fact; which of its markers are control tokens depends on the vocabulary and, with llama.cpp, on
how the file was converted. `control` holds what is usual; whoever has the vocabulary knows better (see `grammar_for`).
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

FamilyName: TypeAlias = Literal[
    "hermes",  # <tool_call>\n{"name": …, "arguments": {…}}\n</tool_call>: Qwen 2.5 and 3, Hermes, Granite 4, and ours
    "qwen_xml",  # <tool_call>\n<function=name>\n<parameter=key>\nvalue\n</parameter>…: Qwen3-Coder, Qwen3.5
    "harmony",  # <|channel|>commentary to=functions.name <|constrain|>json<|message|>{…}<|call|>: gpt-oss
    "gemma4",  # <|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>
    "lfm2",  # <|tool_call_start|>[name(key="text", n=1)]<|tool_call_end|>: LFM2, LFM2.5
    "llama3",  # {"name": …, "parameters": {…}}, with or without <|python_tag|> before it
    "mistral",  # [TOOL_CALLS]name[ARGS]{…}
    "mistral_list",  # [TOOL_CALLS][{"name": …, "arguments": {…}}]
    "granite",  # <|tool_call|>[{"name": …, "arguments": {…}}]: Granite 3, Phi-4-mini
    "generic",  # {"name": …, "arguments": {…}}
]


class Family(Struct, frozen=True):
    name: FamilyName
    opens: tuple[str, ...] = ()  # what a call may begin with; the first is the one we write ourselves
    close: str = ""
    think: tuple[str, str] | None = None  # around a thought, where the template knows of thoughts
    # Markers that are control tokens: no text holds them, and none is made of text.
    control: frozenset[str] = frozenset()
    noise: tuple[str, ...] = ()  # markers that mean nothing inside an answer

    @property
    def markers(self) -> tuple[str, ...]:
        """Everything an engine must show for the reader to see: what it would otherwise hide as special tokens."""
        found = [*self.opens, self.close, *(self.think or ()), *self.noise, *sorted(self.control)]
        return tuple(dict.fromkeys(marker for marker in found if marker))


THINK: Final = ("<think>", "</think>")
BARE: Final = ("llama3", "generic")  # families whose calls may have no marker

HERMES: Final = Family("hermes", ("<tool_call>",), "</tool_call>")
QWEN_XML: Final = Family("qwen_xml", ("<tool_call>",), "</tool_call>")
# llama.cpp shows <|channel|>, <|message|>, <|start|> and <|constrain|> as text, whatever the file says.
HARMONY: Final = Family(
    "harmony",
    ("<|channel|>",),
    "<|call|>",
    control=frozenset({"<|end|>", "<|call|>", "<|return|>"}),
    noise=("<|message|>", "<|start|>", "<|constrain|>"),
)
GEMMA4: Final = Family(
    "gemma4", ("<|tool_call>",), "<tool_call|>", noise=('<|"|>', "<|tool_response>", "<turn|>", "<|turn>")
)
LFM2: Final = Family(
    "lfm2",
    ("<|tool_call_start|>",),
    "<|tool_call_end|>",
    control=frozenset({"<|tool_call_start|>", "<|tool_call_end|>"}),
)
LLAMA3: Final = Family(
    "llama3", ("<|python_tag|>",), control=frozenset({"<|python_tag|>"}), noise=("<|eom_id|>", "<|eot_id|>")
)
MISTRAL: Final = Family(
    "mistral", ("[TOOL_CALLS]",), control=frozenset({"[TOOL_CALLS]", "[ARGS]"}), noise=("[ARGS]", "[CALL_ID]")
)
MISTRAL_LIST: Final = Family("mistral_list", ("[TOOL_CALLS]",), control=frozenset({"[TOOL_CALLS]"}))
GRANITE: Final = Family(
    "granite",
    ("<|tool_call|>", "<tool_call>"),
    "<|/tool_call|>",
    control=frozenset({"<|tool_call|>"}),
    noise=("<response>", "</response>", "</tool_call>"),
)
GENERIC: Final = Family("generic", ("<tool_call>",), "</tool_call>")

# The more telling marker first: several templates mention more than one.
_SIGNS: Final = (
    (("<|channel|>", "<|message|>"), HARMONY),
    (("<|tool_call>", "<tool_call|>"), GEMMA4),
    (("<|tool_call_start|>",), LFM2),
    (("<|tool_list_start|>",), LFM2),
    (("[TOOL_CALLS]", "[ARGS]"), MISTRAL),
    (("[TOOL_CALLS]",), MISTRAL_LIST),
    (("<function=", "<parameter="), QWEN_XML),
    (("<tool_call>", "<arg_key>"), GENERIC),  # GLM: a form of its own, which nobody here reads
    (("<tool_call>",), HERMES),
    (("<|tool_call|>",), GRANITE),
    (("<|python_tag|>",), LLAMA3),
    (("<|start_header_id|>", '"parameters": '), LLAMA3),
)
_THOUGHTS: Final = (
    ("<|channel>", ("<|channel>thought\n", "<channel|>")),
    ("[THINK]", ("[THINK]", "[/THINK]")),
    ("<think>", THINK),
)
_TOOLS: Final = re.compile(r"\b(?:available_|custom_)?tools\b")


def family_of(template: str) -> Family:
    """The family of a template; `generic` when none of them is shown in it."""
    family = next((family for signs, family in _SIGNS if all(sign in template for sign in signs)), GENERIC)
    if family.name == "harmony":
        return family
    think = next((think for sign, think in _THOUGHTS if sign in template), None)
    return family if think is None else replace(family, think=think)


def supports_tools(template: str) -> bool:
    """Whether the template tells a model about tools, in a form that can be read here. If not, bring your own."""
    return family_of(template).name != "generic" and _TOOLS.search(template) is not None


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
