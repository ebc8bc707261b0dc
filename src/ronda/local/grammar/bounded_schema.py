"""A JSON Schema → what it becomes within a number of tokens, and what it needs. Read, fitted, written."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.local.grammar.cost import ENDLESS, Cost
from ronda.local.grammar.fit import MAX_DEPTH, Fitter
from ronda.local.grammar.reader import SchemaReader
from ronda.local.grammar.shapes import Never, Shape, Unsupported
from ronda.local.grammar.write import Writer, schema_of
from ronda.schema.bounds import SchemaError, measure

_JSON: Final = Cost()

# What is fitted is written out, references too: a few hundred bytes of references to references would fill the memory.
MOST_TOKENS: Final = 65_536


class TooSmall(BadRequest):
    """No instance fits in the tokens there are. `needed` are enough."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message, param="max_tokens")
        self.needed = needed


class FittedSchema(Struct, frozen=True):
    """A schema whose instances take at most `tokens` tokens, as JSON with our separators.

    `left_out` are the paths of properties that had to go, or can only be empty, for want of tokens.
    """

    schema: dict[str, Any]
    tokens: int
    shape: Shape
    left_out: tuple[str, ...] = ()


class BoundedSchema:
    """A schema that was read: what it needs, and what it becomes within so many tokens."""

    def __init__(self, schema: Any, cost: Cost = _JSON) -> None:
        if not isinstance(schema, (dict, bool)):
            raise SchemaError("a JSON Schema is an object or a boolean")
        measure(schema)
        self._reader = SchemaReader(schema)
        self.shape = self._reader.read()
        self._fitter = Fitter(self._reader.expand, cost)
        self.needed = self._fitter.need(self.shape)
        if self.needed >= ENDLESS:
            raise Unsupported("no value is known to fit this schema", "")

    def schema(self) -> dict[str, Any]:
        """The schema as the decoder understands it, without limits."""
        writer = Writer()
        written = writer.write(self._fitter.prune(self.shape))
        done: dict[str, Any] = {}
        while todo := [key for key in writer.names if key not in done]:
            for key in todo:
                done[key] = writer.write(self._fitter.prune(self._reader.expand(key)))
        if done:
            written = {**written, "$defs": {writer.names[key]: sub for key, sub in done.items()}}
        return written

    def fit(self, tokens: int) -> FittedSchema:
        if self.needed > MOST_TOKENS:
            raise Unsupported(
                f"the smallest value takes {self.needed} tokens; at most {MOST_TOKENS} can be enforced", ""
            )
        tokens = min(tokens, MOST_TOKENS)
        if tokens < self.needed:
            raise TooSmall(f"needs at least {self.needed} tokens, and there are {tokens}", self.needed)
        shape = self._fitter.fit(self.shape, tokens)
        if isinstance(shape, Never):
            raise Unsupported(f"nested more than {MAX_DEPTH} levels deep, references included", "")
        return FittedSchema(schema_of(shape), tokens, shape, tuple(dict.fromkeys(self._fitter.left_out)))
