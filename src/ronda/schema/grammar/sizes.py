"""A plain shape → how many tokens it needs, how many are enough to say something, and how many it could use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ronda.schema.grammar.cost import ENDLESS, Cost
from ronda.schema.grammar.digits import sizes_of
from ronda.schema.grammar.shapes import (
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
    encode,
    inside,
    item,
)
from ronda.schema.grammar.strings import byte_size, longest, shortest

MAX_ITEMS: Final = 256
ENOUGH_TEXT: Final = 60  # bytes in which something can be said
_ENOUGH_NUMBER: Final = 12
KEY_SIZE: Final = 26  # of a property nobody named
_MOST_REQUIRED: Final = 10_000


class Sizes:
    """Of the shapes of one document. `expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape], cost: Cost) -> None:
        self._expand = expand
        self._cost = cost
        self._needs: dict[str, int] = {}
        self._wants: dict[str, int] = {}
        # Kept with the shape, so that no other gets its id.
        self._cache: dict[tuple[str, int], tuple[Shape, int]] = {}

    def _cached(self, kind: str, shape: Shape, make: Callable[[Shape], int]) -> int:
        known = self._cache.get((kind, id(shape)))
        if known is None:
            known = self._cache[kind, id(shape)] = (shape, make(shape))
        return known[1]

    # ---- how little is enough ------------------------------------------------------------------------------------------

    def learn(self, shape: Shape) -> None:
        """What each reference needs. Those that need themselves start out endless, and come down as the others do."""
        todo = list(references(shape))
        while todo:
            if (key := todo.pop()) not in self._needs:
                self._needs[key] = ENDLESS
                todo += references(self._expand(key))
        changed = True
        while changed:
            found = {key: self._needed(self._expand(key)) for key in self._needs}
            changed = found != self._needs
            self._needs = found

    def need(self, shape: Shape) -> int:
        """Tokens without which there is no instance; ENDLESS if there is none at all. Of what was learned."""
        return self._cached("need", shape, self._needed)

    def _needed(self, shape: Shape) -> int:
        match shape:
            case Never():
                return ENDLESS
            case Anything():
                return 1
            case Values(texts):
                return min(map(self._cost.value, texts))
            case String():
                return self._cost.quotes + self._least_room(shape)
            case Number():
                return sizes_of(shape)[0]
            case Array():
                if shape.least > _MOST_REQUIRED:
                    return ENDLESS
                size = sum(self._needed(item(shape, n)) + 2 for n in range(shape.least))
                return min(ENDLESS, 2 + size)
            case Object():
                required = [prop for prop in shape.properties if prop.required]
                return min(ENDLESS, 2 + sum(self.key(prop) + self._needed(prop.shape) for prop in required))
            case Union(options):
                return min(self._needed(option) for option in options)
            case Ref(key):
                return self._needs[key]

    def key(self, prop: Property) -> int:
        return self._cost.literal(f", {encode(prop.name).decode()}: ") + self._cost.key

    @staticmethod
    def _least_room(shape: String) -> int:
        size = shortest(shape)
        if size is None:
            return ENDLESS
        # Without a pattern there is always a text of one byte a character.
        return size * (byte_size(shape) if shape.patterns else 1)

    # ---- how much is of use --------------------------------------------------------------------------------------------

    def want(self, shape: Shape) -> int:
        """Tokens with which nothing has to be left out."""
        return self._cached("want", shape, self._wanted)

    def _wanted(self, shape: Shape) -> int:
        match shape:
            case Never():
                return 0
            case Anything():
                return ENDLESS
            case Values(texts):
                return max(map(self._cost.value, texts))
            case String():
                most = longest(shape)
                return ENDLESS if most is None else most + self._cost.quotes
            case Number():
                return sizes_of(shape)[1]
            case Array():
                if shape.most is None:
                    return ENDLESS
                return min(ENDLESS, 2 + sum(self.want(item(shape, n)) + 2 for n in range(min(shape.most, MAX_ITEMS))))
            case Object():
                if not isinstance(shape.rest, Never) or shape.patterns:
                    return ENDLESS
                return min(ENDLESS, 2 + sum(self.key(prop) + self.want(prop.shape) for prop in present(shape)))
            case Union(options):
                return max(self.want(option) for option in options)
            case Ref(key):
                if key not in self._wants:
                    self._wants[key] = ENDLESS
                    self._wants[key] = self.want(self._expand(key))
                return self._wants[key]

    def enough(self, shape: Shape) -> int:
        """Tokens in which it can say something: between what it needs and what it wants."""
        return self._cached("enough", shape, self._said)

    def _said(self, shape: Shape) -> int:
        match shape:
            case String():
                enough = self._cost.quotes + max(ENOUGH_TEXT, 2 * self._least_room(shape))
            case Anything():
                enough = ENOUGH_TEXT
            case Number():
                enough = _ENOUGH_NUMBER
            case Values(texts):
                enough = max(map(self._cost.value, texts))
            case Array():
                size = max(shape.least, min(2, shape.most if shape.most is not None else 2))
                enough = 2 + sum(self.enough(item(shape, n)) + 2 for n in range(size))
            case Object():
                required = [prop for prop in shape.properties if prop.required]
                enough = 2 + sum(self.key(prop) + self.enough(prop.shape) for prop in required)
                if not present(shape) and not isinstance(shape.rest, Never):
                    enough += KEY_SIZE + ENOUGH_TEXT
            case Union(options):
                enough = min(self.enough(option) for option in options)
            case Ref(key):
                # One that comes back to itself says nothing the second time.
                self._cache["enough", id(shape)] = (shape, self.need(shape))
                enough = self.enough(self._expand(key))
            case Never():
                enough = 0
        return max(self.need(shape), min(enough, self.want(shape)))


def references(shape: Shape) -> list[str]:
    """The keys of all references in a shape."""
    if isinstance(shape, Ref):
        return [shape.key]
    return [key for one in inside(shape) for key in references(one)]


def present(shape: Object) -> list[Property]:
    return [prop for prop in shape.properties if not isinstance(prop.shape, Never)]
