"""How a family writes a call, as a grammar must spell it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from ronda.local.grammar import Cost, schema_of
from ronda.local.grammar.shapes import Shape
from ronda.local.markup.lark import Lark, alternatives

# A number, and ids as Mistral and as Solar writes them.
_ANY: Final = {"{#}": "/[0-9]{1,2}/", "{id}": "/[a-zA-Z0-9]{9}/", "{key}": "/[a-z0-9]{10}/"}


class Form(Struct, frozen=True):
    """`mark lead name arguments ends tail`, in this order; where a wrapper holds several calls, `again` is between them.

    In `name` and `ends` stand {} for the tool's name, {#} for a number, {id} and {key} for ids that the model makes up.
    """

    mark: str  # what begins a call, and cannot be taken for text
    name: str
    ends: str = ""
    lead: str = ""
    tail: str = ""
    again: str | None = None  # None: each call has a wrapper of its own
    join: str = ""  # between wrappers
    native: Callable[[Lark, Shape], str] | None = None  # None: the arguments are JSON
    key: int = 0  # what a key costs more than in JSON
    quotes: int = 2  # what the quotes around a string cost

    def cost(self, name: str, cost: Cost) -> int:
        """Tokens of a call besides its arguments."""
        written = self.mark, self.lead + self.name.replace("{}", name), self.ends + self.tail
        return sum(cost.literal(piece) for piece in written if piece) + 9 * sum(
            any_ in "".join(written) for any_ in _ANY
        )

    def arguments(self, lark: Lark, shape: Shape) -> str:
        return lark.json(schema_of(shape)) if self.native is None else self.native(lark, shape)

    def call(self, lark: Lark, name: str, arguments: str) -> str:
        pieces = lark.fill(self.name.replace("{}", name), _ANY), arguments, lark.fill(self.ends, _ANY)
        return lark.rule(" ".join(piece for piece in pieces if piece))

    def rest(self, lark: Lark, calls: Sequence[str], *, several: bool) -> str:
        """Everything after the mark, up to the end of the wrapper."""
        one = alternatives(calls)
        between = "" if not self.again else f"{lark.text(self.again)} "
        more = f"({between}{one})*" if several and self.again is not None else ""
        pieces = lark.text(self.lead) if self.lead else "", one, more, lark.text(self.tail) if self.tail else ""
        return " ".join(piece for piece in pieces if piece)

    def example(self, name: str, arguments: str) -> str:
        """A call as text, where the arguments are JSON."""
        filled = f"{self.name}{arguments}{self.ends}".replace("{}", name)
        for place, made_up in (("{#}", "0"), ("{id}", "a1b2c3d4e"), ("{key}", "a1b2c3d4e5")):
            filled = filled.replace(place, made_up)
        return f"{self.mark}{self.lead}{filled}{self.tail}"
