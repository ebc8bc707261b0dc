"""A shape → the same or less, said with the few words every decoder knows.

Counts of properties, names that must match, items that must differ or be there: none of them can be enforced as such while a
value grows, but each can be had by promising more: a property that is always there, an array of one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

from msgspec.structs import replace

from ronda.schema.grammar.algebra import Algebra
from ronda.schema.grammar.numbers import DIGITS, decimals, has_some
from ronda.schema.grammar.shapes import (
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
    decode,
    each,
    item,
    number,
    values,
)
from ronda.schema.grammar.strings import shortest

# Beyond it numbers are not what they seem, in llguidance and elsewhere; 1e999 is no number.
_MAX_EXACT: Final = 2**53 - 1
_MADE_UP: Final = ("key_1", "key_2", "key_3", "key_4", "key_5", "key_6", "key_7", "key_8")


class Plainer:
    """Shapes of one document. `expand` gives the plain shape of a reference."""

    def __init__(self, read: Callable[[str], Shape], algebra: Algebra) -> None:
        self._read = read
        self._algebra = algebra
        self._done: dict[str, Shape] = {}

    def expand(self, key: str) -> Shape:
        if key not in self._done:
            self._done[key] = Ref(key)  # while it is made, nothing looks inside
            self._done[key] = self.plain(self._read(key))
        return self._done[key]

    def plain(self, shape: Shape) -> Shape:
        match shape:
            case Union():
                return each(shape, self.plain)
            case Values(texts):
                return values(text for text in texts if _is_exact(decode(text)))
            case String():
                return NEVER if shortest(shape) is None else shape
            case Number():
                return _number(shape)
            case Array():
                return self._array(shape)
            case Object():
                return self._object(shape)
            case _:
                return shape

    # ---- arrays ----------------------------------------------------------------------------------------------------------

    def _array(self, shape: Array) -> Shape:
        if shape.contains:
            if len(shape.contains) > 1:
                raise Unsupported("contains: several of them for one array cannot be enforced")
            head = self._algebra.intersect(item(shape, 0), shape.contains[0])
            shape = replace(shape, first=(head, *shape.first[1:]), least=max(shape.least, 1), contains=())
            if isinstance(head, Never):
                return NEVER
        if shape.unique:
            shape = self._all_different(shape)
        return each(replace(shape, unique=False), self.plain)

    def _all_different(self, shape: Array) -> Array:
        if shape.least <= 1:
            return replace(shape, most=1 if shape.most is None else min(shape.most, 1))
        # So many that differ are only known to exist among values that can be listed.
        taken: list[str] = []
        places: list[Shape] = []
        for index in range(shape.least):
            options = item(shape, index)
            options = self._read(options.key) if isinstance(options, Ref) else options
            if not isinstance(options, Values):
                raise Unsupported("uniqueItems: more than one item that differs from the others cannot be enforced")
            free = [text for text in options.texts if text not in taken]
            share = max(1, len(free) // (shape.least - index))
            taken += free[:share]
            places.append(Values(tuple(free[:share])) if free else NEVER)
        return replace(shape, first=tuple(places), most=shape.least)

    # ---- objects ---------------------------------------------------------------------------------------------------------

    def _object(self, shape: Object) -> Shape:
        for names in shape.names:
            shape = self._with_names(shape, names)
        properties = list(shape.properties)
        if len(shape.patterns) > 1:
            shape = self._with_one_pattern(shape)
        present = sum(not isinstance(prop.shape, Never) for prop in properties)
        required = sum(prop.required for prop in properties)
        if shape.most is not None and present > shape.most:
            room = shape.most - required
            for n, prop in enumerate(properties):
                if not prop.required and not isinstance(prop.shape, Never):
                    room -= 1
                    if room < 0:
                        properties[n] = Property(prop.name, NEVER)
        missing = shape.least - required
        for n, prop in enumerate(properties):
            if missing > 0 and not prop.required and not isinstance(prop.shape, Never):
                properties[n] = Property(prop.name, prop.shape, required=True)
                missing -= 1
        if missing > 0:
            properties += self._made_up(shape, missing)
        most = shape.most
        if most is not None and any(not prop.required for prop in properties) and not self._is_closed(shape):
            shape = replace(shape, rest=NEVER, patterns=())  # some of these or some of those: not to be counted
            most = None
        elif most is not None and self._is_closed(shape):
            most = None
        return each(Object(tuple(properties), shape.patterns, shape.rest, 0, most), self.plain)

    def _is_closed(self, shape: Object) -> bool:
        return isinstance(shape.rest, Never) and not shape.patterns

    def _with_names(self, shape: Object, names: Shape) -> Object:
        names = self._read(names.key) if isinstance(names, Ref) else names
        kept = [
            prop if self._algebra.admits(names, prop.name) else Property(prop.name, NEVER, prop.required)
            for prop in shape.properties
        ]
        match names:
            case Anything():
                return shape
            case Values(texts) if not shape.patterns:
                known = {prop.name for prop in kept}
                listed = [name for text in texts if isinstance(name := decode(text), str) and name not in known]
                more = [Property(name, shape.rest) for name in listed]
                return replace(shape, properties=(*kept, *more), rest=NEVER, names=())
            case String(least, most, patterns) if not shape.patterns and len(patterns) <= 1:
                pattern = patterns[0] if patterns else f"^[\\s\\S]{{{least},{'' if most is None else most}}}$"
                if patterns and (least or most is not None):
                    return replace(shape, properties=tuple(kept), rest=NEVER, names=())
                return replace(shape, properties=tuple(kept), patterns=((pattern, shape.rest),), rest=NEVER, names=())
            case _:
                return replace(shape, properties=tuple(kept), patterns=(), rest=NEVER, names=())

    def _with_one_pattern(self, shape: Object) -> Object:
        """A name may match several patterns: its value then satisfies all of them, whichever it matches."""
        pattern, value = shape.patterns[0]
        for _, more in shape.patterns[1:]:
            value = self._algebra.intersect(value, more)
        return replace(shape, patterns=() if isinstance(value, Never) else ((pattern, value),), rest=NEVER)

    def _made_up(self, shape: Object, missing: int) -> list[Property]:
        """Names for an object that needs more properties than it says: any will do, if they may be any."""
        taken = {prop.name for prop in shape.properties}
        free = [
            Property(name, self._algebra.value(shape, name), required=True)
            for name in (*_MADE_UP, *map(str, range(10)), *"abcdefghij")
            if name not in taken and all(self._algebra.admits(names, name) for names in shape.names)
        ]
        free = [prop for prop in free if not isinstance(prop.shape, Never)]
        if len(free) < missing:
            raise Unsupported("minProperties: more are asked for than have a name")
        return free[:missing]


def _number(shape: Number) -> Shape:
    low, high, above, below = shape.low, shape.high, shape.above, shape.below
    places = decimals(shape.step) if shape.step is not None else 0
    limit = 10 ** max(0, DIGITS - places) - 1 if places else _MAX_EXACT
    if low is None or low < -limit:
        low, above = Fraction(-limit), False
    if high is None or high > limit:
        high, below = Fraction(limit), False
    if low > limit or high < -limit:
        raise Unsupported("minimum: numbers this large cannot be enforced")
    if shape.integer:
        step = shape.step
        if step is not None and step.denominator != 1:
            step = Fraction(step.numerator)  # a multiple of 2.5 that is whole is one of 5
        low, above = Fraction(-((-low) // 1) + (above and low.denominator == 1)), False
        high, below = Fraction(high // 1 - (below and high.denominator == 1)), False
        shape = replace(shape, step=step)
    found = number(Number(shape.integer, low, high, above, below, shape.step))
    return NEVER if isinstance(found, Number) and found.step and not has_some(found) else found


def _is_exact(value: object) -> bool:
    match value:
        case bool():
            return True
        case int() | float():
            return abs(value) <= _MAX_EXACT
        case list():
            return all(map(_is_exact, value))
        case dict():
            return all(map(_is_exact, value.values()))
        case _:
            return True
