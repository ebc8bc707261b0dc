"""A plain shape and a number of tokens → a shape whose every instance fits in that many.

A token is at least one byte of what is written, so the bytes of the JSON text are a bound on the tokens; a decoder that is
forced to write a literal writes it in the tokenizer's own pieces, which `count` may tell. What is required comes first and
gets at least what it cannot do without; then everything gets enough to say something; then come the optional properties, in
their order, as long as there is enough for them too; what is left goes to those who can use it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.schema.grammar_plain import DIGITS, byte_size, decimals, shortest
from ronda.schema.grammar_regex import analyse
from ronda.schema.grammar_shape import (
    BOOLEAN,
    NEVER,
    NULL,
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
    encode,
    item,
    obj,
    union,
)

ENDLESS: Final = 10**9
_MAX_DEPTH: Final = 40
_MAX_PARTS: Final = 3_000  # of one fitted shape: a grammar of more takes too long to compile
_DECIMALS: Final = 6
_ENOUGH_TEXT: Final = 60  # bytes in which something can be said
_ENOUGH_NUMBER: Final = 12
_KEY: Final = "^[A-Za-z0-9_.-]{1,24}$"  # of a property nobody named
_KEY_SIZE: Final = 26
_MAX_ITEMS: Final = 256
_FEW: Final = 4
_MOST_REQUIRED: Final = 10_000
_INSIDE_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[,:]')
_CONTROL: Final = re.compile(r"\\[nrtbf]")
_SCALARS: Final = (NULL, BOOLEAN, Number(), String())


class Cost(Struct, frozen=True):
    """What writing costs beyond JSON. `count` tells how many tokens a literal text takes; without it, one a byte."""

    count: Callable[[str], int] | None = None
    key: int = 0  # more than `, "key": `, in tokens
    quotes: int = 2  # around a string

    def literal(self, text: str) -> int:
        """Tokens of a text the decoder has no choice about. Two more where it begins and ends in the middle of a piece."""
        size = len(text.encode())
        return size if self.count is None else min(size, self.count(text) + 2)

    def value(self, text: str) -> int:
        """The most a value takes: with our separators, and with its control characters written the long way."""
        tokens = _INSIDE_JSON.findall(text)
        blanks = sum(token[0] in ",:" for token in tokens)
        more = (self.quotes - 2) * (len(tokens) - blanks)
        return len(text.encode()) + blanks + more + 4 * len(_CONTROL.findall(text.replace("\\\\", "  ")))


class Fitter:
    """Shapes of one document. `expand` gives what a reference stands for."""

    def __init__(self, expand: Callable[[str], Shape], cost: Cost) -> None:
        self._expand = expand
        self._cost = cost
        self._needs: dict[str, int] = {}
        self._wants: dict[str, int] = {}
        # Kept with the shape, so that no other gets its id.
        self._cache: dict[tuple[str, int], tuple[Shape, int]] = {}
        self._parts = 0

    def _cached(self, kind: str, shape: Shape, make: Callable[[Shape], int]) -> int:
        known = self._cache.get((kind, id(shape)))
        if known is None:
            known = self._cache[kind, id(shape)] = (shape, make(shape))
        return known[1]

    # ---- how little is enough ------------------------------------------------------------------------------------------

    def need(self, shape: Shape) -> int:
        """Tokens without which there is no instance; ENDLESS if there is none at all."""
        self._learn(shape)
        return self._need(shape)

    def _learn(self, shape: Shape) -> None:
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

    def _need(self, shape: Shape) -> int:
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
                return _number_sizes(shape)[0]
            case Array():
                if shape.least > _MOST_REQUIRED:
                    return ENDLESS
                size = sum(self._needed(item(shape, n)) + 2 for n in range(shape.least))
                return min(ENDLESS, 2 + size)
            case Object():
                required = [prop for prop in shape.properties if prop.required]
                return min(ENDLESS, 2 + sum(self._key(prop) + self._needed(prop.shape) for prop in required))
            case Union(options):
                return min(self._needed(option) for option in options)
            case Ref(key):
                return self._needs[key]

    def _key(self, prop: Property) -> int:
        return self._cost.literal(f", {encode(prop.name).decode()}: ") + self._cost.key

    @staticmethod
    def _least_room(shape: String) -> int:
        size = shortest(shape)
        if size is None:
            return ENDLESS
        # Without a pattern there is always a text of one byte a character.
        return size * (byte_size(shape) if shape.patterns else 1)

    # ---- how much is of use --------------------------------------------------------------------------------------------

    def _want(self, shape: Shape) -> int:
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
                longest = _longest(shape)
                return ENDLESS if longest is None else longest + self._cost.quotes
            case Number():
                return _number_sizes(shape)[1]
            case Array():
                if shape.most is None:
                    return ENDLESS
                return min(ENDLESS, 2 + sum(self._want(item(shape, n)) + 2 for n in range(min(shape.most, _MAX_ITEMS))))
            case Object():
                if not isinstance(shape.rest, Never) or shape.patterns:
                    return ENDLESS
                return min(ENDLESS, 2 + sum(self._key(prop) + self._want(prop.shape) for prop in _present(shape)))
            case Union(options):
                return max(self._want(option) for option in options)
            case Ref(key):
                if key not in self._wants:
                    self._wants[key] = ENDLESS
                    self._wants[key] = self._want(self._expand(key))
                return self._wants[key]

    def _enough(self, shape: Shape) -> int:
        """Tokens in which it can say something: between what it needs and what it wants."""
        return self._cached("enough", shape, self._said)

    def _said(self, shape: Shape) -> int:
        match shape:
            case String():
                enough = self._cost.quotes + max(_ENOUGH_TEXT, 2 * self._least_room(shape))
            case Anything():
                enough = _ENOUGH_TEXT
            case Number():
                enough = _ENOUGH_NUMBER
            case Values(texts):
                enough = max(map(self._cost.value, texts))
            case Array():
                size = max(shape.least, min(2, shape.most if shape.most is not None else 2))
                enough = 2 + sum(self._enough(item(shape, n)) + 2 for n in range(size))
            case Object():
                required = [prop for prop in shape.properties if prop.required]
                enough = 2 + sum(self._key(prop) + self._enough(prop.shape) for prop in required)
                if not _present(shape) and not isinstance(shape.rest, Never):
                    enough += _KEY_SIZE + _ENOUGH_TEXT
            case Union(options):
                enough = min(self._enough(option) for option in options)
            case Ref(key):
                # One that comes back to itself says nothing the second time.
                self._cache["enough", id(shape)] = (shape, self._need(shape))
                enough = self._enough(self._expand(key))
            case Never():
                enough = 0
        return max(self._need(shape), min(enough, self._want(shape)))

    def prune(self, shape: Shape) -> Shape:
        """The shape without the references that admit nothing."""
        match shape:
            case Ref(key) if self._needs[key] >= ENDLESS:
                return NEVER
            case Union(options):
                return union([self.prune(option) for option in options])
            case Array():
                return array(replace(shape, first=tuple(map(self.prune, shape.first)), rest=self.prune(shape.rest)))
            case Object():
                properties = tuple(Property(one.name, self.prune(one.shape), one.required) for one in shape.properties)
                patterns = tuple((pattern, self.prune(value)) for pattern, value in shape.patterns)
                return obj(replace(shape, properties=properties, patterns=patterns, rest=self.prune(shape.rest)))
            case _:
                return shape

    # ---- fitting -------------------------------------------------------------------------------------------------------

    def fit(self, shape: Shape, room: int) -> Shape:
        """The shape, made small enough. There must be room for what it needs."""
        self._learn(shape)
        self._parts = 0
        return self._fit(shape, room, 0)

    def _fit(self, shape: Shape, room: int, depth: int) -> Shape:
        self._parts += 1
        if self._need(shape) > room or depth > _MAX_DEPTH:
            return NEVER
        match shape:
            case Values(texts):
                return Values(tuple(text for text in texts if self._cost.value(text) <= room))
            case String():
                longest = _longest(shape)
                left = room - self._cost.quotes
                return shape if longest is not None and longest <= left else replace(shape, room=left)
            case Number():
                return _fit_number(shape, room)
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
        return options if self._parts < _MAX_PARTS else [min(options, key=self._need)]

    def _fit_anything(self, room: int, depth: int) -> Shape:
        options: list[Shape] = [self._fit(scalar, room, depth + 1) for scalar in _SCALARS]
        if room > 2 * _ENOUGH_TEXT and self._parts < _MAX_PARTS:
            options += [self._fit(Array(), room // 2, depth + 1), self._fit(Object(), room // 2, depth + 1)]
        return union(options)

    def _fit_array(self, shape: Array, room: int, depth: int) -> Shape:
        most = min(_MAX_ITEMS, shape.most if shape.most is not None else _MAX_ITEMS)
        most = shape.least if self._parts > _MAX_PARTS else max(most, shape.least)
        left = room - 2
        head = shape.first[:most]
        needs = [self._need(item(shape, n)) + 2 for n in range(shape.least)]
        sizes: list[int] = []
        for n, one in enumerate(head):
            enough = self._enough(one) + 2
            if n >= shape.least and enough > left:
                break
            sizes.append(max(self._need(one) + 2, min(enough, left - sum(needs[n + 1 :]))))
            left -= sizes[-1]
        count = 0
        if len(sizes) == len(shape.first) and not isinstance(shape.rest, Never):
            count = self._how_many(shape.rest, max(0, shape.least - len(sizes)), most - len(sizes), left)
        if not count:
            sizes = self._spread(sizes, [self._want(one) + 2 for one in head[: len(sizes)]], left)
        first = [self._fit(one, size - 2, depth + 1) for one, size in zip(head, sizes, strict=False)]
        rest = self._fit(shape.rest, left // count - 2, depth + 1) if count else NEVER
        return array(Array(tuple(first), rest, shape.least, len(sizes) + count))

    def _how_many(self, shape: Shape, least: int, most: int, left: int) -> int:
        """How many items of one shape: a few if they can say something, more only if each can say more."""
        enough = self._enough(shape)
        fitting = [n for n in range(max(1, least), most + 1) if left // n - 2 >= enough * (1 + n // _FEW)]
        return max(fitting, default=least)

    def _fit_object(self, shape: Object, room: int, depth: int) -> Shape:
        left = room - 2
        required = [prop for prop in shape.properties if prop.required]
        got = {prop.name: self._need(prop.shape) for prop in required}
        left -= sum(self._key(prop) + got[prop.name] for prop in required)
        # Enough for everything required; if there is not, each comes as near as the others.
        short = {prop.name: self._enough(prop.shape) - got[prop.name] for prop in required}
        scale = min(1.0, left / total) if (total := sum(short.values())) else 0.0
        for name, missing in short.items():
            got[name] += int(missing * scale)
            left -= int(missing * scale)
        for prop in _present(shape):
            size = self._enough(prop.shape)
            if not prop.required and self._key(prop) + size <= left and self._parts < _MAX_PARTS:
                got[prop.name] = size
                left -= self._key(prop) + size
        kept = [prop for prop in shape.properties if prop.name in got]
        wants = [self._want(prop.shape) for prop in kept]
        sizes = self._spread([got[prop.name] for prop in kept], wants, left)
        properties: list[Property] = []
        for prop, size in zip(kept, sizes, strict=True):
            fitted = self._fit(prop.shape, size, depth + 1)
            if prop.required or not isinstance(fitted, Never):
                properties.append(Property(prop.name, fitted, prop.required))
        if any(prop.required and isinstance(prop.shape, Never) for prop in properties):
            return NEVER
        fitted_object = Object(tuple(properties), (), NEVER)
        return self._with_others(shape, fitted_object, left, depth) if not kept else fitted_object

    def _with_others(self, shape: Object, fitted: Object, left: int, depth: int) -> Object:
        """An object whose properties have no names: as many as there is enough for."""
        pattern, value = shape.patterns[0] if shape.patterns else (_KEY, shape.rest)
        key = _KEY_SIZE + self._cost.key
        if shape.patterns:
            regex = analyse(pattern)
            if not regex.plain or regex.longest is None:
                return fitted  # a name without an end
            key = regex.longest + 2 + self._cost.key
        one = key + 4 + self._enough(value)
        most = min(left // one, 32, shape.most if shape.most is not None else 32)
        if isinstance(value, Never) or most < 1 or self._parts > _MAX_PARTS:
            return fitted
        value = self._fit(value, left // most - key - 4, depth + 1)
        return fitted if isinstance(value, Never) else replace(fitted, patterns=((pattern, value),), most=most)

    @staticmethod
    def _spread(sizes: list[int], wants: list[int], left: int) -> list[int]:
        """Give what is left to those who can use it, the same to each."""
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


def references(shape: Shape) -> list[str]:
    """The keys of all references in a shape."""
    match shape:
        case Ref(key):
            return [key]
        case Union(options):
            return [key for option in options for key in references(option)]
        case Array(first, rest):
            return [key for one in (*first, rest) for key in references(one)]
        case Object(properties, patterns, rest):
            inner = [prop.shape for prop in properties] + [value for _, value in patterns] + [rest]
            return [key for one in inner for key in references(one)]
        case _:
            return []


def _present(shape: Object) -> list[Property]:
    return [prop for prop in shape.properties if not isinstance(prop.shape, Never)]


def _longest(shape: String) -> int | None:
    """The bytes of the longest text there may be; None if there is no limit."""
    limits = [shape.most, *(analyse(pattern).longest for pattern in shape.patterns)]
    sizes = [limit for limit in limits if limit is not None]
    return min(sizes) * byte_size(shape) if sizes else None


# ---- numbers ------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _number_sizes(shape: Number) -> tuple[int, int]:
    """The characters of the shortest number there is, and of the longest one we care for."""
    sizes = [size for size, _ in _candidates(shape)]
    return (min(sizes), max(sizes)) if sizes else (ENDLESS, 0)


def _fit_number(shape: Number, room: int) -> Shape:
    fitting = [one for size, one in _candidates(shape) if size <= room]
    return max(fitting, key=_use) if fitting else NEVER


def _use(shape: Number) -> float:
    """Which digits are worth most: some before the point, a sign, two after the point, and then the others."""
    assert shape.low is not None
    assert shape.high is not None
    digits = len(str(int(max(abs(shape.low), abs(shape.high)))))
    places = 0 if shape.step is None or shape.integer else decimals(shape.step)
    return min(digits, 4) * 2 + (3 if shape.low < 0 else 0) + min(places, 2) * 1.5 + (digits + places) / 10


@functools.lru_cache(maxsize=1024)
def _candidates(shape: Number) -> list[tuple[int, Number]]:
    """The same number with more or fewer digits before and after the point, with or without a sign; and their sizes."""
    own = decimals(shape.step) if shape.step is not None else None
    places = [0] if shape.integer else [own] if own is not None else [0, 1, 2, 3, _DECIMALS]
    found = [
        _with_digits(shape, digits, after, signed)
        for digits in range(1, DIGITS + 1)
        for after in places
        for signed in (False, True)
        if digits + after <= DIGITS  # as many as a double holds
    ]
    return [(_number_size(one), one) for one in dict.fromkeys(found) if _has_some(one)]


def _with_digits(shape: Number, digits: int, places: int, signed: bool) -> Number:
    high = Fraction(10**digits - 1)
    low = -high if signed else Fraction(0)
    return Number(
        shape.integer or places == 0,
        low if shape.low is None or shape.low < low else shape.low,
        high if shape.high is None or shape.high > high else shape.high,
        shape.above and shape.low is not None and shape.low >= low,
        shape.below and shape.high is not None and shape.high <= high,
        shape.step if shape.step is not None else Fraction(1, 10**places) if places else None,
    )


def _number_size(shape: Number) -> int:
    assert shape.low is not None
    assert shape.high is not None
    whole = max(len(str(int(abs(shape.low)))), len(str(int(abs(shape.high)))))
    places = 0 if shape.integer else decimals(shape.step) if shape.step is not None else _DECIMALS
    return (1 if shape.low < 0 else 0) + whole + (places + 1 if places else 0)


def _has_some(shape: Number) -> bool:
    assert shape.low is not None
    assert shape.high is not None
    step = shape.step or Fraction(1)
    if shape.integer:
        step = Fraction(step.numerator)
    lowest = math.ceil(shape.low / step) * step
    if shape.above and lowest == shape.low:
        lowest += step
    return lowest < shape.high or (lowest == shape.high and not shape.below)
