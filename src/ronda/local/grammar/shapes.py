"""What a JSON Schema admits, in the few forms a decoder can enforce."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.schema.bounds import SchemaError

MAX_OPTIONS: Final = 64  # of one union: more are combinations that no author wrote


class Unsupported(SchemaError):
    """A schema that cannot be enforced while decoding. Says where, once that is known, and why."""

    def __init__(self, why: str, place: str | None = None) -> None:
        super().__init__(why if place is None else f"{place or '/'}: {why}")
        self.place = place


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
    """Always bounded: see `digits`."""

    integer: bool
    low: Fraction
    high: Fraction
    above: bool = False  # more than `low`, not just as much
    below: bool = False
    step: Fraction | None = None


class Array(Struct, frozen=True):
    first: tuple[Shape, ...] = ()
    rest: Shape = Anything()
    least: int = 0
    most: int | None = None


class Property(Struct, frozen=True):
    name: str
    shape: Shape
    required: bool = False


class Object(Struct, frozen=True):
    """`patterns` are for properties without a name here, and `rest` for those that match none; at most `most` of them."""

    properties: tuple[Property, ...] = ()
    patterns: tuple[tuple[str, Shape], ...] = ()
    rest: Shape = Anything()
    most: int | None = None


class Union(Struct, frozen=True):
    options: tuple[Shape, ...]


class Ref(Struct, frozen=True):
    key: str


Shape: TypeAlias = Never | Anything | Values | String | Number | Array | Object | Union | Ref

# Beyond it numbers are not what they seem, in llguidance and elsewhere; 1e999 is no number.
MAX_EXACT: Final = Fraction(2**53 - 1)

NEVER: Final = Never()
ANYTHING: Final = Anything()
NULL: Final = Values(("null",))
BOOLEAN: Final = Values(("true", "false"))
NUMBER: Final = Number(False, -MAX_EXACT, MAX_EXACT)
EVERY_TYPE: Final[dict[str, Shape]] = {
    "null": NULL,
    "boolean": BOOLEAN,
    "number": NUMBER,
    "string": String(),
    "array": Array(),
    "object": Object(),
}

encode: Final = msgspec.json.encode
decode: Final = msgspec.json.decode


def text_of(value: Any) -> str:
    """JSON that is the same for equal values: keys are sorted."""
    return encode(int(value) if type(value) is float and value.is_integer() else value, order="sorted").decode()


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
    return NEVER if any(prop.required and isinstance(prop.shape, Never) for prop in shape.properties) else shape


def string(shape: String) -> Shape:
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def values(texts: Iterable[str]) -> Shape:
    found = tuple(texts)
    return Values(found) if found else NEVER


# ---- what is inside -----------------------------------------------------------------------------------------------------


def item(shape: Array, index: int) -> Shape:
    return shape.first[index] if index < len(shape.first) else shape.rest


def present(shape: Object) -> list[Property]:
    return [prop for prop in shape.properties if not isinstance(prop.shape, Never)]


def inside(shape: Shape) -> list[Shape]:
    """The shapes a shape is directly made of."""
    match shape:
        case Union(options):
            return list(options)
        case Array(first, rest):
            return [*first, rest]
        case Object(properties, patterns, rest):
            return [*[prop.shape for prop in properties], *[value for _, value in patterns], rest]
        case _:
            return []


def references(shape: Shape) -> list[str]:
    """The keys of all references in a shape."""
    found, todo = [], [shape]
    while todo:
        one = todo.pop()
        if isinstance(one, Ref):
            found.append(one.key)
        todo += inside(one)
    return found


def each(shape: Shape, change: Callable[[Shape], Shape]) -> Shape:
    """The shape with all that is inside changed."""
    match shape:
        case Union(options):
            return union([change(option) for option in options])
        case Array():
            return array(replace(shape, first=tuple(map(change, shape.first)), rest=change(shape.rest)))
        case Object():
            properties = tuple([Property(one.name, change(one.shape), one.required) for one in shape.properties])
            patterns = tuple([(pattern, change(value)) for pattern, value in shape.patterns])
            return obj(replace(shape, properties=properties, patterns=patterns, rest=change(shape.rest)))
        case _:
            return shape


def tighter(one: int | None, other: int | None) -> int | None:
    """The tighter of two limits, where None is no limit."""
    return other if one is None else one if other is None else min(one, other)
