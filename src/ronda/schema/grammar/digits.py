"""A number → the same with more or fewer digits: how many characters it takes, and the best for so many."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Final

from ronda.schema.grammar.cost import ENDLESS
from ronda.schema.grammar.numbers import DIGITS, decimals, has_some
from ronda.schema.grammar.shapes import NEVER, Number, Shape

_DECIMALS: Final = 6


@functools.lru_cache(maxsize=1024)
def sizes_of(shape: Number) -> tuple[int, int]:
    """The characters of the shortest number there is, and of the longest one we care for."""
    sizes = [size for size, _ in _candidates(shape)]
    return (min(sizes), max(sizes)) if sizes else (ENDLESS, 0)


def fit_number(shape: Number, room: int) -> Shape:
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
    return [(_number_size(one), one) for one in dict.fromkeys(found) if has_some(one)]


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
