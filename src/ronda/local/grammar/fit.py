"""A plain shape and a number of tokens → a shape whose every instance fits in that many.

A token is at least one byte of what is written, so the bytes of the JSON text are a bound on the tokens; a decoder that is
forced to write a literal writes it in the tokenizer's own pieces, which `count` may tell. What is required comes first and
gets at least what it cannot do without; then everything gets enough to say something; then come the optional properties, in
their order, as long as there is enough for them too; what is left goes to those that can use it.

What is not described (`{"type": "array"}`, `{}`) may hold objects and lists: rather a few items with room for such than many
without. What is left out for want of room is told by its path (`left_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from ronda.local.grammar.cost import ENDLESS, Cost
from ronda.local.grammar.digits import fit_number
from ronda.local.grammar.patterns import analyse, longest
from ronda.local.grammar.shapes import (
    BOOLEAN,
    NEVER,
    NULL,
    NUMBER,
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
    each,
    present,
    union,
)
from ronda.local.grammar.sizes import ENOUGH_TEXT, KEY_SIZE, MAX_ITEMS, Sizes

MAX_DEPTH: Final = 40
_MAX_PARTS: Final = 3_000  # of one fitted shape: a grammar of more takes too long to compile
_KEY: Final = "^[A-Za-z0-9_.-]{1,24}$"  # of a property without a name
_FEW: Final = 4
_BESIDE_KEY: Final = 4  # what stands around a key
_MEMBER: Final = KEY_SIZE + _BESIDE_KEY + ENOUGH_TEXT  # a property without a name, with a text
_ONE_MEMBER, _TWO_MEMBERS = 2 + _MEMBER, 2 + 2 * _MEMBER
_MAX_OPEN: Final = 3  # levels of what is not described inside each other: each doubles the grammar
_SCALARS: Final = (NULL, BOOLEAN, NUMBER, String())


class Fitter:
    """Shapes of one document. `expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape], cost: Cost) -> None:
        self._expand = expand
        self._cost = cost
        self._sizes = Sizes(expand, cost)
        self._parts = 0
        self._open = 0  # levels of what is not described that are being fitted
        self._path: list[str] = []
        self.left_out: list[str] = []

    def need(self, shape: Shape) -> int:
        """Tokens without which there is no instance; ENDLESS if there is none at all."""
        self._sizes.learn(shape)
        return self._sizes.need(shape)

    def prune(self, shape: Shape) -> Shape:
        """The shape without the references that admit nothing."""
        if isinstance(shape, Ref):
            return NEVER if self._sizes.need(shape) >= ENDLESS else shape
        return each(shape, self.prune)

    def fit(self, shape: Shape, room: int) -> Shape:
        """The shape, made small enough. There must be room for what it needs."""
        self._parts = 0
        self.left_out = []
        return self._fit(shape, room, 0)

    def _fit(self, shape: Shape, room: int, depth: int) -> Shape:
        self._parts += 1
        if self._sizes.need(shape) > room or depth > MAX_DEPTH:
            return NEVER
        match shape:
            case Values(texts):
                return Values(tuple(text for text in texts if self._cost.value(text) <= room))
            case String():
                most = longest(shape)
                left = room - self._cost.quotes
                return shape if most is not None and most <= left else replace(shape, room=left)
            case Number():
                return fit_number(shape, room)
            case Array():
                return self._fit_array(shape, room, depth)
            case Object():
                return self._fit_object(shape, room, depth)
            case Union(options):
                return union([self._fit(option, room, depth + 1) for option in self._affordable(options)])
            case Ref(key):
                return self._fit(self._expand(key), room, depth + 1)
            case Anything():
                return self._fit_anything(room, depth)
            case Never():
                return NEVER

    def _affordable(self, options: tuple[Shape, ...]) -> Sequence[Shape]:
        """All of them, until the whole gets too large; then the one that needs least."""
        return options if self._parts < _MAX_PARTS else [min(options, key=self._sizes.need)]

    def _fit_anything(self, room: int, depth: int) -> Shape:
        options: list[Shape] = [self._fit(scalar, room, depth + 1) for scalar in _SCALARS]
        if room >= _ONE_MEMBER and self._open < _MAX_OPEN and self._parts < _MAX_PARTS:
            self._open += 1
            options += [self._fit(Array(), room, depth + 1), self._fit(Object(), room, depth + 1)]
            self._open -= 1
        return union(options)

    def _fit_array(self, shape: Array, room: int, depth: int) -> Shape:
        most = min(MAX_ITEMS, shape.most if shape.most is not None else MAX_ITEMS)
        most = shape.least if self._parts > _MAX_PARTS else max(most, shape.least)
        left = room - 2
        head = shape.first[:most]
        needed = self._sizes.need(shape) - 2  # by those that must come
        sizes: list[int] = []
        for n, one in enumerate(head):
            enough, need = self._sizes.enough(one) + 2, self._sizes.need(one) + 2
            if n >= shape.least and enough > left:
                break
            needed -= need if n < shape.least else 0
            sizes.append(max(need, min(enough, left - needed)))
            left -= sizes[-1]
        count = 0
        if len(sizes) == len(shape.first) and not isinstance(shape.rest, Never):
            count = self._how_many(shape.rest, max(0, shape.least - len(sizes)), most - len(sizes), left, 2)
            if not count and most > len(sizes):
                self._leave_out()
        if not count:
            sizes = _spread(sizes, [self._sizes.want(one) + 2 for one in head[: len(sizes)]], left)
        first = [self._fit(one, size - 2, depth + 1) for one, size in zip(head, sizes, strict=False)]
        rest = self._fit(shape.rest, left // count - 2, depth + 1) if count else NEVER
        return array(Array(tuple(first), rest, shape.least, len(sizes) + count))

    def _how_many(self, shape: Shape, least: int, most: int, left: int, beside: int) -> int:
        """How many values of one shape, with so much next to each: a few if they can say something, more if each can say more.

        Those that may hold others get room for two of them, or for one, if there can be more than one such value.
        """
        enough = self._sizes.enough(shape)
        for size in (_TWO_MEMBERS, _ONE_MEMBER, enough) if _is_open(shape) else (enough,):
            counts = range(max(1, least), most + 1)
            count = max([n for n in counts if left // n - beside >= size * (1 + n // _FEW)], default=0)
            if count > 1 or (count and size == enough):
                return count
        return least

    def _fit_object(self, shape: Object, room: int, depth: int) -> Shape:
        left = room - 2
        required = [prop for prop in shape.properties if prop.required]
        got = {prop.name: self._sizes.need(prop.shape) for prop in required}
        left -= sum(self._sizes.key(prop) + got[prop.name] for prop in required)
        # Enough for everything required; if there is not, each comes as near as the others.
        short = {prop.name: self._sizes.enough(prop.shape) - got[prop.name] for prop in required}
        scale = min(1.0, left / total) if (total := sum(short.values())) else 0.0
        for name, missing in short.items():
            got[name] += int(missing * scale)
            left -= int(missing * scale)
        for prop in present(shape):
            size = self._sizes.enough(prop.shape)
            if prop.required:
                continue
            if self._sizes.key(prop) + size <= left and self._parts < _MAX_PARTS:
                got[prop.name] = size
                left -= self._sizes.key(prop) + size
            else:
                self._leave_out(prop.name)
        members = [prop for prop in shape.properties if prop.name in got]
        wants = [self._sizes.want(prop.shape) for prop in members]
        sizes = _spread([got[prop.name] for prop in members], wants, left)
        properties: list[Property] = []
        for prop, size in zip(members, sizes, strict=True):
            self._path.append(prop.name)
            fitted = self._fit(prop.shape, size, depth + 1)
            self._path.pop()
            if prop.required or not isinstance(fitted, Never):
                properties.append(Property(prop.name, fitted, prop.required))
        if any(prop.required and isinstance(prop.shape, Never) for prop in properties):
            return NEVER
        fitted_object = Object(tuple(properties), (), NEVER)
        return self._with_others(shape, fitted_object, left, depth) if not members else fitted_object

    def _with_others(self, shape: Object, fitted: Object, left: int, depth: int) -> Object:
        """An object whose properties have no names: as many as there is enough for."""
        pattern, value = shape.patterns[0] if shape.patterns else (_KEY, shape.rest)
        key = KEY_SIZE
        if shape.patterns:
            names = analyse(pattern)
            if not names.plain or names.most is None:
                return fitted  # a name without an end
            key = names.most + 2
        is_argument = not self._path and not self._open  # only those have tags around them, where there are any
        key += _BESIDE_KEY + (self._cost.key if is_argument else 0)
        most = self._how_many(value, 0, 32 if shape.most is None else min(32, shape.most), left, key)
        if isinstance(value, Never) or self._parts > _MAX_PARTS:
            return fitted
        value = self._fit(value, left // most - key, depth + 1) if most else NEVER
        if isinstance(value, Never):
            self._leave_out()
            return fitted
        return replace(fitted, patterns=((pattern, value),), most=most)

    def _leave_out(self, *name: str) -> None:
        """What is not described is not spoken of: it has no name."""
        if not self._open:
            self.left_out.append(".".join([*self._path, *name]))


def _is_open(shape: Shape) -> bool:
    """Whether a shape may hold what is not described."""
    match shape:
        case Anything():
            return True
        case Array(first, rest):
            return not first and _is_open(rest)
        case Object():
            return not present(shape) and not shape.patterns and not isinstance(shape.rest, Never)
        case _:
            return False


def _spread(sizes: list[int], wants: list[int], left: int) -> list[int]:
    """Give what is left to those that can use it, the same to each."""
    sizes = list(sizes)
    while hungry := [n for n, want in enumerate(wants) if want > sizes[n]]:
        share = left // len(hungry)
        if not share:
            break
        for n in hungry:
            more = min(share, wants[n] - sizes[n])
            sizes[n] += more
            left -= more
    return sizes
