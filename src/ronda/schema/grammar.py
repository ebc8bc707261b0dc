"""A JSON Schema → what a decoder enforces: a schema that llguidance follows to the letter, within a number of tokens.

`enforceable` rewrites a schema: what comes out says only what the decoder understands, and whatever is decoded under it is
valid under the original. `fit` also bounds it: strings, arrays, numbers, extra properties and recursion get limits, so that
every instance fits in the tokens there are, whatever the model does. `unsupported` says why a schema can be neither.

Separators are fixed (", " and ": ", as models were shown): blanks between tokens would be a way to fill the budget with
nothing. Knows no engine: the text of a grammar is `wire.markup`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.schema.bounds import SchemaError, escape, measure
from ronda.schema.grammar_fit import ENDLESS, Cost, Fitter
from ronda.schema.grammar_plain import Plainer, byte_size
from ronda.schema.grammar_read import SchemaReader
from ronda.schema.grammar_shape import (
    Anything,
    Array,
    Never,
    Number,
    Object,
    Ref,
    Shape,
    String,
    Union,
    Unsupported,
    Values,
    decode,
)

__all__ = [
    "SEPARATORS",
    "Bounded",
    "Cost",
    "Fitted",
    "TooSmall",
    "Unsupported",
    "enforceable",
    "fit",
    "schema_of",
    "unsupported",
]

SEPARATORS: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_PLENTY: Final = 6 * 1024  # bytes of room in which a text is bounded by its length alone

# How a text is held within a number of bytes: by how many characters there are, and how many of them are not plain. In JSON
# a plain one is one byte, and any other is up to six (a line's end as \u000a). So it is either any text of a sixth as many
# characters, or half as many of which a tenth are not plain. The control characters beside tab and the ends of lines are
# left out. More such ways would be fairer to some texts, and soon more than llguidance's lexer can hold.
_PLAIN: Final = r"[ !#-\[\]-~]"
_OTHER: Final = r"[^\x00-\x08\x0b\x0c\x0e-\x1f !#-\[\]-\x7f]"
_ANY: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"

_JSON: Final = Cost()


class TooSmall(BadRequest):
    """No instance fits in the tokens there are. `needed` are enough."""

    def __init__(self, message: str, needed: int) -> None:
        super().__init__(message, param="max_tokens")
        self.needed = needed


class Fitted(Struct, frozen=True):
    """A schema whose instances take at most `tokens` tokens, as JSON with our separators."""

    schema: dict[str, Any]
    tokens: int
    shape: Shape


class Bounded:
    """A schema that was read: what it needs, and what it becomes within so many tokens."""

    def __init__(self, schema: Any, cost: Cost = _JSON) -> None:
        if not isinstance(schema, (dict, bool)):
            raise SchemaError("a JSON Schema is an object or a boolean")
        measure(schema)
        reader = SchemaReader(schema)
        self._plainer = Plainer(reader.expand, reader.algebra)
        try:
            self.shape = self._plainer.plain(reader.read())
            self._fitter = Fitter(self._plainer.expand, cost)
            self.needed = self._fitter.need(self.shape)
        except Unsupported as error:
            raise _placed(error, schema) from None
        if self.needed >= ENDLESS:
            raise Unsupported("/: no value is known to fit this schema")

    def schema(self) -> dict[str, Any]:
        """The schema as the decoder understands it, without limits."""
        writer = _Writer()
        written = writer.write(self._fitter.prune(self.shape))
        done: dict[str, Any] = {}
        while todo := [key for key in writer.names if key not in done]:
            for key in todo:
                done[key] = writer.write(self._fitter.prune(self._plainer.expand(key)))
        if done:
            written = {**written, "$defs": {writer.names[key]: sub for key, sub in done.items()}}
        return written

    def fit(self, tokens: int) -> Fitted:
        if tokens < self.needed:
            raise TooSmall(f"needs at least {self.needed} tokens, and there are {tokens}", self.needed)
        shape = self._fitter.fit(self.shape, tokens)
        if isinstance(shape, Never):  # pragma: no cover: what is needed fits, by construction
            raise TooSmall(f"needs more than {tokens} tokens", tokens + 1)
        return Fitted(schema_of(shape), tokens, shape)


def schema_of(shape: Shape) -> dict[str, Any]:
    """A fitted shape, which has no references, as a schema."""
    return _Writer().write(shape)


def enforceable(schema: Any) -> dict[str, Any]:
    """The schema as the decoder understands it. Raises Unsupported, naming the place."""
    return Bounded(schema).schema()


def fit(schema: Any, budget_tokens: int, count: Callable[[str], int] | None = None) -> Fitted:
    """The schema with limits such that every instance fits. Raises TooSmall, with the number of tokens that are needed.

    `count` tells how many tokens a literal text takes; without it, one a byte.
    """
    return Bounded(schema, Cost(count)).fit(budget_tokens)


def unsupported(schema: Any) -> str | None:
    """Why a schema cannot be enforced while decoding, with the place; None if it can."""
    try:
        Bounded(schema)
    except SchemaError as error:
        return str(error)
    return None


def _placed(error: Unsupported, schema: Any) -> Unsupported:
    """Give the place of the keyword an error is about, where the error came after everything was put together."""
    text = str(error)
    if text.startswith("/"):
        return error
    keyword = text.partition(":")[0]
    place = _find(schema, keyword, "")
    return Unsupported(f"/: {text}" if place is None else f"{place}/{text}")


def _find(node: Any, keyword: str, place: str) -> str | None:
    if isinstance(node, dict) and keyword in node:
        return place
    members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    found = (_find(child, keyword, f"{place}/{escape(str(name))}") for name, child in members)
    return next((one for one in found if one is not None), None)


class _Writer:
    """Shapes → JSON Schema, with nothing in it but what is enforced."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def write(self, shape: Shape) -> dict[str, Any]:
        match shape:
            case Anything():
                return {}
            case Never():
                return {"not": {}}
            case Values(texts):
                values = [decode(text) for text in texts]
                return {"const": values[0]} if len(values) == 1 else {"enum": values}
            case String():
                return _write_string(shape)
            case Number():
                return _write_number(shape)
            case Array():
                return self._write_array(shape)
            case Object():
                return self._write_object(shape)
            case Union(options):
                return {"anyOf": [self.write(option) for option in options]}
            case Ref(key):
                name = self.names.setdefault(key, f"d{len(self.names)}")
                return {"$ref": f"#/$defs/{name}"}

    def _sub(self, shape: Shape) -> dict[str, Any] | bool:
        return False if isinstance(shape, Never) else True if isinstance(shape, Anything) else self.write(shape)

    def _write_array(self, shape: Array) -> dict[str, Any]:
        written: dict[str, Any] = {"type": "array"}
        if shape.first:
            written["prefixItems"] = [self._sub(one) for one in shape.first]
        if not isinstance(shape.rest, (Anything, Never)):
            written["items"] = self.write(shape.rest)
        if shape.least:
            written["minItems"] = shape.least
        if shape.most is not None:
            written["maxItems"] = shape.most
        return written

    def _write_object(self, shape: Object) -> dict[str, Any]:
        written: dict[str, Any] = {
            "type": "object",
            "properties": {prop.name: self._sub(prop.shape) for prop in shape.properties},
            "required": [prop.name for prop in shape.properties if prop.required],
        }
        if shape.patterns:
            written["patternProperties"] = {pattern: self._sub(value) for pattern, value in shape.patterns}
        if not isinstance(shape.rest, Anything):
            written["additionalProperties"] = self._sub(shape.rest)
        if shape.most is not None:
            written["maxProperties"] = shape.most
        return written


def _write_string(shape: String) -> dict[str, Any]:
    most = shape.most
    if shape.room is None:
        return _text(shape, most)
    limit = most if most is not None else shape.room
    if shape.patterns:
        return _text(shape, min(limit, shape.room // byte_size(shape)))
    if shape.room >= _PLENTY:
        return _text(shape, min(limit, shape.room // 6))
    mixed = f"^{_PLAIN}*(?:{_OTHER}{_PLAIN}*){{0,{shape.room // 10}}}$"
    ways = ((shape.room // 6, _ANY), (shape.room // 2, mixed), (shape.room, f"^{_PLAIN}*$"))
    options: list[dict[str, Any]] = []
    for size, pattern in ways:
        length = min(limit, size)
        if length >= shape.least and (size < shape.room or not options):
            options.append({**_text(shape, length), "pattern": pattern})
        if length == most:
            break  # longer texts of fewer kinds are of no use
    return options[0] if len(options) == 1 else {"anyOf": options}


def _text(shape: String, most: int | None) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "string"}
    if shape.least:
        written["minLength"] = shape.least
    if most is not None:
        written["maxLength"] = most
    if shape.patterns:
        written["pattern"] = shape.patterns[0]
    for pattern in shape.patterns[1:]:
        written = {"type": "string", "pattern": pattern, "allOf": [written]}
    return written


def _write_number(shape: Number) -> dict[str, Any]:
    written: dict[str, Any] = {"type": "integer" if shape.integer else "number"}
    if shape.low is not None:
        written["exclusiveMinimum" if shape.above else "minimum"] = _plain_number(shape.low)
    if shape.high is not None:
        written["exclusiveMaximum" if shape.below else "maximum"] = _plain_number(shape.high)
    if shape.step is not None:
        written["multipleOf"] = _plain_number(shape.step)
    return written


def _plain_number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
