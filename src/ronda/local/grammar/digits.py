"""A number → the same with more or fewer digits: how many characters it takes, and the best for so many."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Final

from ronda.local.grammar.cost import ENDLESS
from ronda.local.grammar.shapes import MAX_EXACT, NEVER, Number, Shape, Unsupported

_DIGITS: Final = 15  # as many as a double holds, whichever they are
_DECIMALS: Final = 6


def number(
    integer: bool, low: Fraction | None, high: Fraction | None, above: bool, below: bool, step: Fraction | None
) -> Shape:
    """A number within bounds, with those that every number has where none are given."""
    if integer and step is not None:
        step = Fraction(step.numerator)  # a multiple of 2.5 that is whole is one of 5
    places = decimals(step) if step is not None else 0
    limit = Fraction(10 ** max(0, _DIGITS - places) - 1) if places else MAX_EXACT
    if low is None or low < -limit:
        low, above = -limit, False
    if high is None or high > limit:
        high, below = limit, False
    if low > limit or high < -limit:
        raise Unsupported("numbers this large cannot be enforced")
    if integer:
        low, above = Fraction(-((-low) // 1) + (above and low.denominator == 1)), False
        high, below = Fraction(high // 1 - (below and high.denominator == 1)), False
    found = Number(integer, low, high, above, below, step)
    is_empty = low > high or (low == high and (above or below)) or (step is not None and not has_some(found))
    return NEVER if is_empty else found


def common(one: Number, other: Number) -> Shape:
    """What two have in common."""
    low, above = max((one.low, one.above), (other.low, other.above))
    high, above_high = min((one.high, not one.below), (other.high, not other.below))
    step = one.step or other.step
    if one.step and other.step:
        whole = math.lcm(one.step.numerator, other.step.numerator)
        step = Fraction(whole, math.gcd(one.step.denominator, other.step.denominator))
    return number(one.integer or other.integer, low, high, above, not above_high, step)


def holds(shape: Number, value: float) -> bool:
    exact = Fraction(str(value))
    if (
        not shape.low <= exact <= shape.high
        or (shape.above and exact == shape.low)
        or (shape.below and exact == shape.high)
    ):
        return False
    return not (shape.integer and exact.denominator != 1) and not (shape.step and exact % shape.step)


def decimals(step: Fraction) -> int:
    """How many digits after the point every multiple can be written with."""
    places = 0
    while step.denominator != 1 and places < 20:
        step *= 10
        places += 1
    return places


def has_some(shape: Number) -> bool:
    """Whether there is a multiple of its step, or a whole number, between its bounds."""
    step = shape.step or Fraction(1)
    lowest = math.ceil(shape.low / step) * step
    if shape.above and lowest == shape.low:
        lowest += step
    return lowest < shape.high or (lowest == shape.high and not shape.below)


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
        for digits in range(1, _DIGITS + 1)
        for after in places
        for signed in (False, True)
        if digits + after <= _DIGITS  # as many as a double holds
    ]
    return [(_number_size(one), one) for one in dict.fromkeys(found) if has_some(one)]


def _with_digits(shape: Number, digits: int, places: int, signed: bool) -> Number:
    high = Fraction(10**digits - 1)
    low = -high if signed else Fraction(0)
    return Number(
        shape.integer or places == 0,
        max(shape.low, low),
        min(shape.high, high),
        shape.above and shape.low >= low,
        shape.below and shape.high <= high,
        shape.step if shape.step is not None else Fraction(1, 10**places) if places else None,
    )


def _number_size(shape: Number) -> int:
    whole = max(len(str(int(abs(shape.low)))), len(str(int(abs(shape.high)))))
    places = 0 if shape.integer else decimals(shape.step) if shape.step is not None else _DECIMALS
    return (1 if shape.low < 0 else 0) + whole + (places + 1 if places else 0)
