"""Shapes → JSON Schema, with nothing in it but what is enforced."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

from ronda.local.grammar.patterns import byte_size
from ronda.local.grammar.shapes import (
    Anything,
    Array,
    Never,
    Number,
    Object,
    Ref,
    Shape,
    String,
    Union,
    Values,
    decode,
)

SEPARATORS: Final = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_PLENTY: Final = 6 * 1024  # bytes of room in which a text is bounded by its length only

# How a text is held within a number of bytes: by how many characters there are, and how many of them are not plain. In JSON
# a plain one is one byte, and any other is up to six (a line's end as \u000a). So it is either any text of a sixth as many
# characters, or half as many of which a tenth are not plain. The control characters besides tab and the ends of lines are
# left out. More such ways would be fairer to some texts, and soon more than llguidance's lexer can hold.
_PLAIN: Final = r"[ !#-\[\]-~]"
_OTHER: Final = r"[^\x00-\x08\x0b\x0c\x0e-\x1f !#-\[\]-\x7f]"
_ANY: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def schema_of(shape: Shape) -> dict[str, Any]:
    """A fitted shape, which has no references, as a schema."""
    return Writer().write(shape)


class Writer:
    """One schema being written. `names` are those its references have in it."""

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
    written["exclusiveMinimum" if shape.above else "minimum"] = _plain_number(shape.low)
    written["exclusiveMaximum" if shape.below else "maximum"] = _plain_number(shape.high)
    if shape.step is not None:
        written["multipleOf"] = _plain_number(shape.step)
    return written


def _plain_number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
