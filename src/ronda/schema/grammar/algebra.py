"""Two shapes → what both admit, or what one admits and the other does not. Never errs to the wrong side:

- `intersect(a, b)` of two shapes that admit less admits less than both, and so on for more (`loose`);
- `exclude(a, b)` is a part of `a` that is surely outside `b`, where `b` admits more. Often not the largest such part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final

from ronda.schema.grammar import numbers
from ronda.schema.grammar.shapes import (
    ANYTHING,
    EVERY_TYPE,
    NEVER,
    Anything,
    Array,
    Never,
    Number,
    Object,
    Property,
    Ref,
    Shape,
    String,
    Union,
    Unsupported,
    Values,
    array,
    decode,
    item,
    number,
    obj,
    string,
    text_of,
    tighter,
    union,
    values,
)
from ronda.schema.grammar.strings import search

MAX_STEPS: Final = 20_000
MAX_DEPTH: Final = 60


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
                return values(text for text in texts if self.admits(other, decode(text)))
            case (_, Values(texts)):
                return values(text for text in texts if self.admits(one, decode(text)))
            case (String(), String()):
                patterns = tuple(dict.fromkeys((*one.patterns, *other.patterns)))
                return string(String(max(one.least, other.least), tighter(one.most, other.most), patterns))
            case (Number(), Number()):
                return number(numbers.common(one, other))
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
            tighter(one.most, other.most),
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
            tighter(one.most, other.most),
            tuple(dict.fromkeys((*one.names, *other.names))),
        )
        return obj(both)

    def value(self, shape: Object, name: str) -> Shape:
        """What the value of a name must be."""
        if (own := _own(shape, name)) is not None:
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
                return values(text for text in texts if not self.admits(other, decode(text)))
            case (String(), Values() | String()):
                return union(self._other_strings(one, other))
            case (Number(), Values() | Number()):
                return union(numbers.others(one, other))
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
                return numbers.is_number(value) and numbers.admits(shape, Fraction(str(value)))
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


def _own(shape: Object, name: str) -> Shape | None:
    """What is said about the value of a name by itself: None where only the patterns and the rest say something."""
    return next((one.shape for one in shape.properties if one.name == name), None)


def _or(value: int | None, default: float) -> float:
    return default if value is None else value
