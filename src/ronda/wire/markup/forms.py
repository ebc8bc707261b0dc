"""How each family writes a call, as a grammar must spell it out: the form of a call, and what comes before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from ronda.schema.grammar import Cost, schema_of
from ronda.schema.grammar.shapes import Shape
from ronda.wire.markup.family import FamilyName
from ronda.wire.markup.lark import Lark, alternatives
from ronda.wire.markup.notation import gemma, keywords, tags


class Form(Struct, frozen=True):
    """`mark lead name arguments ends tail`, in this order; where a wrapper holds several calls, `again` is between them."""

    mark: str  # what begins a call, and cannot be taken for text
    name: str  # with the tool's name for {}
    ends: str = ""
    lead: str = ""
    tail: str = ""
    again: str | None = None  # None: each call has a wrapper of its own
    join: str = ""  # between wrappers
    native: Callable[[Lark, Shape], str] | None = None  # None: the arguments are JSON
    key: int = 0  # what a key costs more than in JSON
    quotes: int = 2  # what the quotes around a string cost

    def cost(self, name: str, cost: Cost) -> int:
        """Tokens of a call beside its arguments."""
        written = self.mark, self.lead + self.name.replace("{}", name), self.ends + self.tail
        return sum(cost.literal(piece) for piece in written if piece)

    def arguments(self, lark: Lark, shape: Shape) -> str:
        return lark.json(schema_of(shape)) if self.native is None else self.native(lark, shape)

    def call(self, lark: Lark, name: str, arguments: str) -> str:
        pieces = lark.text(self.name.replace("{}", name)), arguments, lark.text(self.ends) if self.ends else ""
        return lark.rule(" ".join(piece for piece in pieces if piece))

    def rest(self, lark: Lark, calls: Sequence[str], *, several: bool) -> str:
        """Everything after the mark, up to the end of the wrapper."""
        one = alternatives(calls)
        more = f"({lark.text(self.again)} {one})*" if several and self.again is not None else ""
        pieces = lark.text(self.lead) if self.lead else "", one, more, lark.text(self.tail) if self.tail else ""
        return " ".join(piece for piece in pieces if piece)


_OBJECT: Final = '{"name": "{}", "arguments": '

FORMS: Final[dict[FamilyName, Form]] = {
    "hermes": Form("<tool_call>", _OBJECT, "}", "\n", "\n</tool_call>", join="\n"),
    "qwen_xml": Form(
        "<tool_call>", "<function={}>\n", "</function>", "\n", "\n</tool_call>", join="\n", native=tags, key=28
    ),
    "harmony": Form("<|channel|>commentary to=functions.", "{} <|constrain|>json<|message|>", tail="<|call|>"),
    "gemma4": Form("<|tool_call>", "{}", "", "call:", "<tool_call|>", native=gemma, quotes=10),
    "lfm2": Form("<|tool_call_start|>", "{}(", ")", "[", "]<|tool_call_end|>", ", ", native=keywords),
    "llama3": Form('{"name": "', '{}", "parameters": ', "}", join="\n"),
    "mistral": Form("[TOOL_CALLS]", "{}[ARGS]"),
    "mistral_list": Form("[TOOL_CALLS]", _OBJECT, "}", "[", "]", ", "),
    "granite": Form("<|tool_call|>", _OBJECT, "}", "[", "]", ", "),
    "generic": Form('{"name": "', '{}", "arguments": ', "}", join="\n"),
}
