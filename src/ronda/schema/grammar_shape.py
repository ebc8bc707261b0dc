"""What a JSON Schema admits, in the few forms a decoder can enforce: shapes, and how they are combined.

A shape may admit less than the schema it was made of (it is what will be decoded) or more (it is what must be avoided, in
`not` and `oneOf`). Which one is up to whoever makes it; here, `intersect` and `exclude` never err to the wrong side:

- `intersect(a, b)` of two shapes that admit less admits less than both, and so on for more (`loose`);
- `exclude(a, b)` is a part of `a` that is surely outside `b`, where `b` admits more. Often not the largest such part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.schema.bounds import SchemaError

MAX_OPTIONS: Final = 64  # of one union: more are combinations nobody wrote
MAX_STEPS: Final = 20_000
MAX_DEPTH: Final = 60


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


def search(pattern: str, text: str) -> bool:
    """Whether a pattern of JSON Schema finds something in a text, as near as Python comes to it."""
    try:
        return re.search(re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern), text, re.ASCII) is not None
    except re.error:
        raise Unsupported(f"the pattern {pattern!r} cannot be enforced") from None


def shape_of(shape: Object, name: str) -> Shape | None:
    """What is said about the value of a name by itself: None where only the patterns and the rest say something."""
    return next((one.shape for one in shape.properties if one.name == name), None)


class Algebra:
    """Combines shapes. `expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape]) -> None:
        self._expand = expand
        self._steps = 0
        self._depth = 0

    def _enter(self) -> None:
        self._steps += 1
        self._depth += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            raise Unsupported("too many combinations")

    # ---- both ----------------------------------------------------------------------------------------------------------

    def intersect(self, one: Shape, other: Shape, *, loose: bool = False) -> Shape:
        if isinstance(one, Anything) or one == other:
            return other
        if isinstance(other, Anything):
            return one
        if isinstance(one, Never) or isinstance(other, Never):
            return NEVER
        self._enter()
        try:
            return self._both(one, other, loose)
        finally:
            self._depth -= 1

    def _both(self, one: Shape, other: Shape, loose: bool) -> Shape:
        match one, other:
            case (Ref(key), _):
                return self.intersect(self._expand(key), other, loose=loose)
            case (_, Ref(key)):
                return self.intersect(one, self._expand(key), loose=loose)
            case (Union(options), _):
                return union([self.intersect(option, other, loose=loose) for option in options])
            case (_, Union(options)):
                return union([self.intersect(one, option, loose=loose) for option in options])
            case (Values(texts), _):
                return _values(text for text in texts if self.admits(other, decode(text)))
            case (_, Values(texts)):
                return _values(text for text in texts if self.admits(one, decode(text)))
            case (String(), String()):
                patterns = tuple(dict.fromkeys((*one.patterns, *other.patterns)))
                return _string(String(max(one.least, other.least), _least(one.most, other.most), patterns))
            case (Number(), Number()):
                return _number(_both_numbers(one, other))
            case (Array(), Array()):
                return self._both_arrays(one, other, loose)
            case (Object(), Object()):
                return self._both_objects(one, other, loose)
            case _:
                return NEVER

    def _both_arrays(self, one: Array, other: Array, loose: bool) -> Shape:
        size = max(len(one.first), len(other.first))
        first = [self.intersect(item(one, n), item(other, n), loose=loose) for n in range(size)]
        rest = self.intersect(one.rest, other.rest, loose=loose)
        both = Array(
            tuple(first),
            rest,
            max(one.least, other.least),
            _least(one.most, other.most),
            one.unique or other.unique,
            tuple(dict.fromkeys((*one.contains, *other.contains))),
        )
        return array(both)

    def _both_objects(self, one: Object, other: Object, loose: bool) -> Shape:
        names = dict.fromkeys(prop.name for prop in (*one.properties, *other.properties))
        required = {prop.name for prop in (*one.properties, *other.properties) if prop.required}
        properties = [
            Property(
                name, self.intersect(self.value(one, name), self.value(other, name), loose=loose), name in required
            )
            for name in names
        ]
        rest = self.intersect(one.rest, other.rest, loose=loose)
        patterns: dict[str, Shape] = {}
        if loose and (one.patterns or other.patterns):
            rest = ANYTHING  # a name may match none, one or both: too much to follow
        else:
            for mine, others in ((one, other), (other, one)):
                for pattern, shape in mine.patterns:
                    for _, more in others.patterns:
                        shape = self.intersect(shape, more)
                    patterns[pattern] = self.intersect(shape, others.rest)
        both = Object(
            tuple(properties),
            tuple(patterns.items()),
            rest,
            max(one.least, other.least),
            _least(one.most, other.most),
            tuple(dict.fromkeys((*one.names, *other.names))),
        )
        return obj(both)

    def value(self, shape: Object, name: str) -> Shape:
        """What the value of a name must be."""
        if (own := shape_of(shape, name)) is not None:
            return own
        matching = [value for pattern, value in shape.patterns if search(pattern, name)]
        found: Shape = ANYTHING if matching else shape.rest
        for value in matching:
            found = self.intersect(found, value)
        return found

    # ---- one without the other -----------------------------------------------------------------------------------------

    def exclude(self, one: Shape, other: Shape) -> Shape:
        if isinstance(other, Never) or isinstance(one, Never):
            return one
        if isinstance(other, Anything) or one == other:
            return NEVER
        self._enter()
        try:
            return self._without(one, other)
        finally:
            self._depth -= 1

    def _without(self, one: Shape, other: Shape) -> Shape:
        match one, other:
            case (_, Ref(key)):
                return self.exclude(one, self._expand(key))
            case (Ref(key), _):
                less = self.exclude(expanded := self._expand(key), other)
                return one if less == expanded else less
            case (_, Union(options)):
                for option in options:
                    one = self.exclude(one, option)
                return one
            case (Union(options), _):
                return union([self.exclude(option, other) for option in options])
            case (Anything(), _):
                return union([self.exclude(option, other) for option in EVERY_TYPE.values()])
            case (Values(texts), _):
                return _values(text for text in texts if not self.admits(other, decode(text)))
            case (String(), Values() | String()):
                return union(self._other_strings(one, other))
            case (Number(), Values() | Number()):
                return union(_other_numbers(one, other))
            case (Array(), Array()):
                return union(self._other_arrays(one, other))
            case (Object(), Object()):
                return union(self._other_objects(one, other))
            case (Array() | Object(), Values(texts)):
                kind = list if isinstance(one, Array) else dict
                return NEVER if any(isinstance(decode(text), kind) for text in texts) else one
            case _:
                return one

    def _other_strings(self, one: String, other: Values | String) -> Iterator[Shape]:
        """By their length: what no pattern says about a text, its length may."""
        if isinstance(other, Values):
            sizes = [len(value) for text in other.texts if isinstance(value := decode(text), str)]
            if not sizes:
                yield one
                return
            other = String(min(sizes), max(sizes))
        if other.least:
            yield self.intersect(one, String(0, other.least - 1))
        if other.most is not None:
            yield self.intersect(one, String(other.most + 1))

    def _other_arrays(self, one: Array, other: Array) -> Iterator[Shape]:
        if other.least:
            yield self.intersect(one, Array(most=other.least - 1))
        if other.most is not None:
            yield self.intersect(one, Array(least=other.most + 1))
        head = self.exclude(item(one, 0), item(other, 0))
        if not isinstance(head, Never):
            yield self.intersect(one, Array((head,), least=1))

    def _other_objects(self, one: Object, other: Object) -> Iterator[Shape]:
        mine = {prop.name: prop for prop in one.properties}
        needed = {prop.name for prop in other.properties if prop.required}
        closed = isinstance(other.rest, Never) and not other.patterns
        for name in dict.fromkeys([*mine, *(prop.name for prop in other.properties)]):
            value = self.value(one, name)
            has = name in mine and mine[name].required
            if not has and name in needed:
                if isinstance(value, Never):
                    yield one  # it never has what the other needs
                    return
                yield self.intersect(one, Object((Property(name, NEVER),)))
            less = self.exclude(value, self.value(other, name))
            if has and less == value:
                yield one
                return
            if not isinstance(less, Never) and (has or name in mine or closed):
                yield self.intersect(one, Object((Property(name, less, required=True),)))

    # ---- one value -----------------------------------------------------------------------------------------------------

    def admits(self, shape: Shape, value: Any) -> bool:
        match shape:
            case Never():
                return False
            case Anything():
                return True
            case Values(texts):
                return text_of(value) in texts
            case Ref(key):
                self._enter()
                try:
                    return self.admits(self._expand(key), value)
                finally:
                    self._depth -= 1
            case Union(options):
                return any(self.admits(option, value) for option in options)
            case String():
                fits = isinstance(value, str) and shape.least <= len(value) <= _or(shape.most, math.inf)
                return fits and all(search(pattern, value) for pattern in shape.patterns)
            case Number():
                return _is_number(value) and _admits_number(shape, Fraction(str(value)))
            case Array():
                return isinstance(value, list) and self._admits_array(shape, value)
            case Object():
                return isinstance(value, dict) and self._admits_object(shape, value)

    def _admits_array(self, shape: Array, value: list[Any]) -> bool:
        return (
            shape.least <= len(value) <= _or(shape.most, math.inf)
            and all(self.admits(item(shape, n), one) for n, one in enumerate(value))
            and (not shape.unique or len({text_of(one) for one in value}) == len(value))
            and all(any(self.admits(wanted, one) for one in value) for wanted in shape.contains)
        )

    def _admits_object(self, shape: Object, value: dict[str, Any]) -> bool:
        return (
            shape.least <= len(value) <= _or(shape.most, math.inf)
            and all(prop.name in value for prop in shape.properties if prop.required)
            and all(self.admits(self.value(shape, name), one) for name, one in value.items())
            and all(self.admits(wanted, name) for name in value for wanted in shape.names)
        )


# ---- tidying up ---------------------------------------------------------------------------------------------------------


def item(shape: Array, index: int) -> Shape:
    return shape.first[index] if index < len(shape.first) else shape.rest


def array(shape: Array) -> Shape:
    """The array, with a limit where some place can hold nothing."""
    for index in range(len(shape.first) + 1):
        if isinstance(item(shape, index), Never):
            shape = replace(shape, first=shape.first[:index], rest=NEVER, most=_least(shape.most, index))
            break
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def obj(shape: Object) -> Shape:
    if any(prop.required and isinstance(prop.shape, Never) for prop in shape.properties):
        return NEVER
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def _string(shape: String) -> Shape:
    return NEVER if shape.most is not None and shape.least > shape.most else shape


def _values(texts: Iterable[str]) -> Shape:
    found = tuple(texts)
    return Values(found) if found else NEVER


def _number(shape: Number) -> Shape:
    if shape.low is None or shape.high is None:
        return shape
    if shape.low > shape.high or (shape.low == shape.high and (shape.above or shape.below)):
        return NEVER
    return shape


def _both_numbers(one: Number, other: Number) -> Number:
    low, above = max(_low(one), _low(other))
    high, below = max(_high(one), _high(other))
    step = one.step or other.step
    if one.step and other.step:
        step = Fraction(
            math.lcm(one.step.numerator, other.step.numerator), math.gcd(one.step.denominator, other.step.denominator)
        )
    return Number(
        one.integer or other.integer,
        None if low == -math.inf else Fraction(low),
        None if high == -math.inf else -Fraction(high),
        bool(above),
        bool(below),
        step,
    )


def _low(shape: Number) -> tuple[Fraction | float, bool]:
    return (-math.inf if shape.low is None else shape.low), shape.above


def _high(shape: Number) -> tuple[Fraction | float, bool]:
    return (-math.inf if shape.high is None else -shape.high), shape.below


def _other_numbers(one: Number, other: Values | Number) -> Iterator[Shape]:
    if isinstance(other, Values):
        values = [Fraction(str(value)) for text in other.texts if _is_number(value := decode(text))]
        if not values:
            yield one
            return
        other = Number(low=min(values), high=max(values))
    if other.low is not None:
        yield _number(_both_numbers(one, Number(high=other.low, below=not other.above)))
    if other.high is not None:
        yield _number(_both_numbers(one, Number(low=other.high, above=not other.below)))


def _admits_number(shape: Number, value: Fraction) -> bool:
    if shape.low is not None and (value < shape.low or (shape.above and value == shape.low)):
        return False
    if shape.high is not None and (value > shape.high or (shape.below and value == shape.high)):
        return False
    return not (shape.integer and value.denominator != 1) and not (shape.step and value % shape.step)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _or(value: int | None, default: float) -> float:
    return default if value is None else value
