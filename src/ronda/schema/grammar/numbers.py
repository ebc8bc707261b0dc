"""Numbers as sets: what two have in common, what one has that the other has not, and whether there is any."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final, TypeGuard

from ronda.schema.grammar.shapes import Number, Shape, Values, decode, number

DIGITS: Final = 15  # as many as a double holds, whichever they are


def common(one: Number, other: Number) -> Number:
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


def others(one: Number, other: Values | Number) -> Iterator[Shape]:
    if isinstance(other, Values):
        values = [Fraction(str(value)) for text in other.texts if is_number(value := decode(text))]
        if not values:
            yield one
            return
        other = Number(low=min(values), high=max(values))
    if other.low is not None:
        yield number(common(one, Number(high=other.low, below=not other.above)))
    if other.high is not None:
        yield number(common(one, Number(low=other.high, above=not other.below)))


def admits(shape: Number, value: Fraction) -> bool:
    if shape.low is not None and (value < shape.low or (shape.above and value == shape.low)):
        return False
    if shape.high is not None and (value > shape.high or (shape.below and value == shape.high)):
        return False
    return not (shape.integer and value.denominator != 1) and not (shape.step and value % shape.step)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def decimals(step: Fraction) -> int:
    """How many digits after the point every multiple can be written with."""
    places = 0
    while step.denominator != 1 and places < 20:
        step *= 10
        places += 1
    return places


def has_some(shape: Number) -> bool:
    """Whether there is a multiple of its step, or a whole number, between its bounds."""
    assert shape.low is not None
    assert shape.high is not None
    step = shape.step or Fraction(1)
    if shape.integer:
        step = Fraction(step.numerator)
    lowest = math.ceil(shape.low / step) * step
    if shape.above and lowest == shape.low:
        lowest += step
    return lowest < shape.high or (lowest == shape.high and not shape.below)
