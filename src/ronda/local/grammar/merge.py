"""Two shapes → what both admit: what `allOf` says, and whatever stands next to a reference or `anyOf`.

Where two shapes would go on for too long (references that lead back to
each other, alternatives times alternatives), the first of them is taken: answers are checked when they are complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ronda.local.grammar.digits import common, holds
from ronda.local.grammar.patterns import search
from ronda.local.grammar.shapes import (
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
    Values,
    array,
    decode,
    item,
    obj,
    string,
    text_of,
    tighter,
    union,
    values,
)

MAX_STEPS: Final = 5_000  # in one document
MAX_DEPTH: Final = 24


class Merger:
    """`expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape]) -> None:
        self._expand = expand
        self._steps = 0
        self._depth = 0
        self._open: set[tuple[str, str]] = set()  # pairs of references that are being merged

    def merge(self, one: Shape, other: Shape) -> Shape:
        if isinstance(one, Anything) or isinstance(other, Never):
            return other
        if isinstance(other, Anything) or isinstance(one, Never):
            return one
        self._steps += 1
        if self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            return one
        self._depth += 1
        try:
            return self._both(one, other)
        finally:
            self._depth -= 1

    def _both(self, one: Shape, other: Shape) -> Shape:
        match one, other:
            case (Ref(key), Ref(another)):
                return self._both_references(key, another)
            case (Ref(key), _):
                return self.merge(self._expand(key), other)
            case (_, Ref(key)):
                return self.merge(one, self._expand(key))
            case (Union(options), _):
                return union([self.merge(option, other) for option in options])
            case (_, Union(options)):
                return union([self.merge(one, option) for option in options])
            case (Values(texts), Values(others)):
                both = set(texts) & set(others)
                return values(text for text in texts if text in both)
            case (Values(texts), _):
                return values(text for text in texts if self._admits(other, decode(text)))
            case (_, Values(texts)):
                return values(text for text in texts if self._admits(one, decode(text)))
            case (String(), String()):
                patterns = tuple(dict.fromkeys((*one.patterns, *other.patterns)))
                return string(String(max(one.least, other.least), tighter(one.most, other.most), patterns))
            case (Number(), Number()):
                return common(one, other)
            case (Array(), Array()):
                return self._both_arrays(one, other)
            case (Object(), Object()):
                return self._both_objects(one, other)
            case _:
                return NEVER

    def _admits(self, shape: Shape, value: Any) -> bool:
        match shape, value:
            case (Anything(), _):
                return True
            case (Values(texts), _):
                return text_of(value) in texts
            case (Union(options), _):
                return any(self._admits(option, value) for option in options)
            case (Ref(key), _):
                return self._admits_reference(key, value)
            case (String(least, most, patterns), str()):
                fits = least <= len(value) and (most is None or len(value) <= most)
                return fits and all(search(pattern, value) for pattern in patterns)
            case (Number(), int() | float()) if not isinstance(value, bool):
                return holds(shape, value)
            case (Array(), list()):
                fits = shape.least <= len(value) and (shape.most is None or len(value) <= shape.most)
                return fits and all(self._admits(item(shape, n), one) for n, one in enumerate(value))
            case (Object(), dict()):
                named = {prop.name: prop for prop in shape.properties}
                shapes = {name: (named.get(name) or _unnamed_property(shape, name)).shape for name in value}
                has_all = all(prop.name in value for prop in shape.properties if prop.required)
                return has_all and all(self._admits(shapes[name], one) for name, one in value.items())
            case _:
                return False

    def _admits_reference(self, key: str, value: Any) -> bool:
        if self._depth > MAX_DEPTH:
            return True
        self._depth += 1
        try:
            return self._admits(self._expand(key), value)
        finally:
            self._depth -= 1

    def _both_references(self, key: str, other: str) -> Shape:
        """Two trees become one until they meet again; from there on it is the first."""
        if key == other or (key, other) in self._open:
            return Ref(key)
        self._open.add((key, other))
        try:
            return self.merge(self._expand(key), self._expand(other))
        finally:
            self._open.remove((key, other))

    def _both_arrays(self, one: Array, other: Array) -> Shape:
        size = max(len(one.first), len(other.first))
        first = [self.merge(item(one, n), item(other, n)) for n in range(size)]
        least, most = max(one.least, other.least), tighter(one.most, other.most)
        return array(Array(tuple(first), self.merge(one.rest, other.rest), least, most))

    def _both_objects(self, one: Object, other: Object) -> Shape:
        mine, others = ({prop.name: prop for prop in shape.properties} for shape in (one, other))
        properties: list[Property] = []
        for name in dict.fromkeys([*mine, *others]):
            pair = mine.get(name) or _unnamed_property(one, name), others.get(name) or _unnamed_property(other, name)
            properties.append(
                Property(name, self.merge(pair[0].shape, pair[1].shape), pair[0].required or pair[1].required)
            )
        patterns = dict(one.patterns)
        for pattern, value in other.patterns:
            patterns[pattern] = self.merge(patterns[pattern], value) if pattern in patterns else value
        rest = self.merge(one.rest, other.rest)
        return obj(Object(tuple(properties), tuple(patterns.items()), rest, tighter(one.most, other.most)))


def _unnamed_property(shape: Object, name: str) -> Property:
    """What an object says of a property that it does not name."""
    found = [value for pattern, value in shape.patterns if search(pattern, name)]
    return Property(name, found[0] if found else shape.rest)
