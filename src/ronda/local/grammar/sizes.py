"""A plain shape → how many tokens it needs, how many are enough to say something, and how many it could use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ronda.local.grammar.cost import ENDLESS, Cost
from ronda.local.grammar.digits import sizes_of
from ronda.local.grammar.patterns import byte_size, longest, shortest
from ronda.local.grammar.shapes import (
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
    present,
    references,
)

MAX_ITEMS: Final = 256
ENOUGH_TEXT: Final = 60  # bytes in which something can be said
_ENOUGH_NUMBER: Final = 12
KEY_SIZE: Final = 26  # of a property without a name
_MOST_REQUIRED: Final = 10_000


class Sizes:
    """Of the shapes of one document. `expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape], cost: Cost) -> None:
        self._expand = expand
        self._cost = cost
        # By the key of a reference. `need` is known of all before anything else is asked.
        self._needs: dict[str, int] = {}
        self._wants: dict[str, int] = {}
        self._enoughs: dict[str, int] = {}
        # Kept with the shape, so that no other gets its id.
        self._cache: dict[tuple[str, int], tuple[Shape, int]] = {}

    def _cached(self, kind: str, shape: Shape, make: Callable[[Shape], int]) -> int:
        known = self._cache.get((kind, id(shape)))
        if known is None:
            known = self._cache[kind, id(shape)] = (shape, make(shape))
        return known[1]

    # ---- how little is enough ------------------------------------------------------------------------------------------

    def learn(self, shape: Shape) -> None:
        """Of all references, one after the other and those that others are made of first: a chain of them may be long."""
        order = self._order(shape)
        users: dict[str, list[str]] = {key: [] for key in order}
        for key in order:
            for used in references(self._expand(key)):
                users[used].append(key)
        self._needs = dict.fromkeys(
            order, ENDLESS
        )  # one that needs itself starts out endless, and comes down with others
        todo = dict.fromkeys(order)
        while todo:
            key = next(iter(todo))
            del todo[key]
            found = self._needed(self._expand(key))
            if found < self._needs[key]:
                self._needs[key] = found
                todo |= dict.fromkeys(users[key])
        for key in order:
            self._wants[key] = self.want(self._expand(key))
            self._enoughs[key] = self.enough(self._expand(key))

    def _order(self, shape: Shape) -> list[str]:
        """The keys of all references, each after those it leads to, where they do not lead back."""
        order: dict[str, None] = {}
        seen: set[str] = set()
        todo = [(key, False) for key in references(shape)]
        while todo:
            key, is_done = todo.pop()
            if is_done:
                order[key] = None
            elif key not in seen:
                seen.add(key)
                todo.append((key, True))
                todo += [(used, False) for used in references(self._expand(key))]
        return list(order)

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
                return min(ENDLESS, 2 + _sum(shape, shape.least, self._needed))
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
        if size > _MOST_REQUIRED:
            return ENDLESS
        # Without a pattern there is always a text of one byte a character.
        return size * (byte_size(shape) if shape.patterns else 1)

    # ---- how much is of use --------------------------------------------------------------------------------------------

    def want(self, shape: Shape) -> int:
        """Tokens with which nothing has to be left out."""
        return self._cached("want", shape, self._tokens_of_use)

    def _tokens_of_use(self, shape: Shape) -> int:
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
                return min(ENDLESS, 2 + _sum(shape, min(shape.most, MAX_ITEMS), self.want))
            case Object():
                if not isinstance(shape.rest, Never) or shape.patterns:
                    return ENDLESS
                return min(ENDLESS, 2 + sum(self.key(prop) + self.want(prop.shape) for prop in present(shape)))
            case Union(options):
                return max(self.want(option) for option in options)
            case Ref(key):
                return self._wants.get(key, ENDLESS)

    def enough(self, shape: Shape) -> int:
        """Tokens in which it can say something: between what it needs and what it wants."""
        return self._cached("enough", shape, self._enough)

    def _enough(self, shape: Shape) -> int:
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
                enough = 2 + _sum(shape, size, self.enough)
            case Object():
                required = [prop for prop in shape.properties if prop.required]
                enough = 2 + sum(self.key(prop) + self.enough(prop.shape) for prop in required)
                if not present(shape) and not isinstance(shape.rest, Never):
                    enough += KEY_SIZE + ENOUGH_TEXT
            case Union(options):
                enough = min(self.enough(option) for option in options)
            case Ref(key):  # one that comes back to itself says nothing the second time
                enough = self._enoughs.get(key, 0)
            case Never():
                enough = 0
        return max(self.need(shape), min(enough, self.want(shape)))


def _sum(shape: Array, count: int, size: Callable[[Shape], int]) -> int:
    """Of so many items, with what is between them."""
    first = shape.first[:count]
    rest = count - len(first)
    return sum([size(one) + 2 for one in first]) + (rest * (size(shape.rest) + 2) if rest else 0)
