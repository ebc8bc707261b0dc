"""What a JSON Schema admits, in the few forms a decoder can enforce.

A shape may admit less than the schema it was made of (it is what will be decoded) or more (it is what must be avoided, in
`not` and `oneOf`). Which one is up to whoever makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.schema.bounds import SchemaError

MAX_OPTIONS: Final = 64  # of one union: more are combinations nobody wrote


class Unsupported(SchemaError):
    """A schema that cannot be enforced while decoding. Says where and why."""


class Never(Struct, frozen=True):
    """Nothing at all."""


class Anything(Struct, frozen=True):
    pass


class Values(Struct, frozen=True):
    """These and no others, as JSON texts. Also what null and booleans are."""

    texts: tuple[str, ...]


class String(Struct, frozen=True):
    least: int = 0
    most: int | None = None
    patterns: tuple[str, ...] = ()
    room: int | None = None  # bytes it may take as JSON, quotes left out; set when it was fitted


class Number(Struct, frozen=True):
    integer: bool = False
    low: Fraction | None = None
    high: Fraction | None = None
    above: bool = False  # more than `low`, not just as much
    below: bool = False
    step: Fraction | None = None


class Array(Struct, frozen=True):
    first: tuple[Shape, ...] = ()
    rest: Shape = Anything()
    least: int = 0
    most: int | None = None
    unique: bool = False
    contains: tuple[Shape, ...] = ()


class Property(Struct, frozen=True):
    name: str
    shape: Shape
    required: bool = False


class Object(Struct, frozen=True):
    properties: tuple[Property, ...] = ()
    patterns: tuple[tuple[str, Shape], ...] = ()
    rest: Shape = Anything()
    least: int = 0
    most: int | None = None
    names: tuple[Shape, ...] = ()  # what every name must be


class Union(Struct, frozen=True):
    options: tuple[Shape, ...]


class Ref(Struct, frozen=True):
    key: str


Shape: TypeAlias = Never | Anything | Values | String | Number | Array | Object | Union | Ref

NEVER: Final = Never()
ANYTHING: Final = Anything()
NULL: Final = Values(("null",))
BOOLEAN: Final = Values(("true", "false"))
EVERY_TYPE: Final[dict[str, Shape]] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "number": Number(),
    "string": String(),
    "array": Array(),
    "object": Object(),
}

encode: Final = msgspec.json.encode
decode: Final = msgspec.json.decode


def text_of(value: Any) -> str:
    """JSON that is the same for equal values: 1.0 is 1, keys are sorted."""
    return encode(_canonical(value), order="sorted").decode()


def _canonical(value: Any) -> Any:
    match value:
        case float() if value.is_integer() and abs(value) < 2**63:
            return int(value)
        case dict():
            return {key: _canonical(item) for key, item in value.items()}
        case list():
            return [_canonical(item) for item in value]
        case _:
            return value


# ---- made so that nothing in them is impossible -------------------------------------------------------------------------


def union(options: Iterable[Shape]) -> Shape:
    found: dict[Shape, None] = {}
    for option in options:
        for one in option.options if isinstance(option, Union) else (option,):
            if isinstance(one, Anything):
                return ANYTHING
            if not isinstance(one, Never):
                found[one] = None
    values = [one for one in found if isinstance(one, Values)]
    if len(values) > 1:
        texts = tuple(dict.fromkeys(text for one in values for text in one.texts))
        found = dict.fromkeys([*(one for one in found if not isinstance(one, Values)), Values(texts)])
    if len(found) > MAX_OPTIONS:
        raise Unsupported(f"more than {MAX_OPTIONS} alternatives at one place")
    return NEVER if not found else next(iter(found)) if len(found) == 1 else Union(tuple(found))


def array(shape: Array) -> Shape:
    """The array, with a limit where some place can hold nothing."""
    for index in range(len(shape.first) + 1):
        if isinstance(item(shape, index), Never):
            shape = replace(shape, first=shape.first[:index], rest=NEVER, most=tighter(shape.most, index))
            break
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def obj(shape: Object) -> Shape:
    if any(prop.required and isinstance(prop.shape, Never) for prop in shape.properties):
        return NEVER
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def string(shape: String) -> Shape:
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def number(shape: Number) -> Shape:
    if shape.low is None or shape.high is None:
        return shape
    if shape.low > shape.high or (shape.low == shape.high and (shape.above or shape.below)):
        return NEVER
    return shape


def values(texts: Iterable[str]) -> Shape:
    found = tuple(texts)
    return Values(found) if found else NEVER


# ---- what is inside -----------------------------------------------------------------------------------------------------


def item(shape: Array, index: int) -> Shape:
    return shape.first[index] if index < len(shape.first) else shape.rest


def inside(shape: Shape) -> list[Shape]:
    """The shapes a shape is directly made of."""
    match shape:
        case Union(options):
            return list(options)
        case Array(first, rest):
            return [*first, rest]
        case Object(properties, patterns, rest):
            return [*(prop.shape for prop in properties), *(value for _, value in patterns), rest]
        case _:
            return []


def each(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """The shape with all that is inside changed."""
    match shape:
        case Union(options):
            return union([change(option) for option in options])
        case Array():
            return array(replace(shape, first=tuple(map(change, shape.first)), rest=change(shape.rest)))
        case Object():
            properties = tuple(Property(one.name, change(one.shape), one.required) for one in shape.properties)
            patterns = tuple((pattern, change(value)) for pattern, value in shape.patterns)
            return obj(replace(shape, properties=properties, patterns=patterns, rest=change(shape.rest)))
        case _:
            return shape


def tighter(one: int | None, other: int | None) -> int | None:
    """The tighter of two limits, where None is no limit."""
    return other if one is None else one if other is None else min(one, other)
