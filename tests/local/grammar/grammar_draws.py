"""Values that a decoder could write under a fitted shape, drawn at random."""

import importlib
import json
import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from ronda.local.grammar.patterns import byte_size, search
from ronda.local.grammar.shapes import Array, Never, Number, Object, Shape, String, Union, Values

PLAIN: Final = "abcXYZ 019_-/{}:"
OTHER: Final = '\n\t"\\é漢😀'


class Undrawn(Exception):
    """No text was found that all patterns match: perhaps there is none, which only a decoder finds out."""


def draw(shape: Shape, chance: random.Random) -> Any:
    """Something a fitted shape admits, as large as it may be more often than not."""
    match shape:
        case Values(texts):
            return json.loads(chance.choice(texts))
        case String():
            return draw_text(shape, chance)
        case Number(low=Fraction() as low, high=Fraction() as high):
            step = shape.step or Fraction(1 if shape.integer else "0.001")
            first, last = math.ceil(low / step), math.floor(high / step)
            first += shape.above and first * step == low
            last -= shape.below and last * step == high
            value = chance.choice([first, last, chance.randint(first, last)]) * step
            return float(value) if value.denominator > 1 else int(value)
        case Array(first=head, rest=rest, least=least, most=int() as most):
            size = chance.choice([least, most, chance.randint(least, most)])
            return [draw(head[n] if n < len(head) else rest, chance) for n in range(size)]
        case Object():
            return draw_object(shape, chance)
        case Union(options):
            return draw(chance.choice(options), chance)
        case _:
            raise AssertionError(shape)


def draw_object(shape: Object, chance: random.Random) -> dict[str, Any]:
    present = [one for one in shape.properties if not isinstance(one.shape, Never)]
    value = {one.name: draw(one.shape, chance) for one in present if one.required or chance.random() < 0.7}
    for pattern, inner in shape.patterns:
        for _ in range(chance.randint(0, shape.most or 0)):
            value[draw_match(pattern, chance)] = draw(inner, chance)
    return value


def draw_text(shape: String, chance: random.Random) -> str:
    """By the two ways a text is bounded: any characters but few, or more of them and nearly all plain."""
    if shape.patterns:
        limit = min(shape.most or 10**6, shape.room // byte_size(shape) if shape.room is not None else 10**6)
        for _ in range(2000 if len(shape.patterns) == 1 else 200):
            pattern = chance.choice(shape.patterns)
            drawn = draw_match(pattern, chance)
            if not pattern.endswith("$"):  # anything may follow
                drawn += "".join(chance.choices(PLAIN, k=max(0, shape.least - len(drawn))))
            if shape.least <= len(drawn) <= limit and all(search(one, drawn) for one in shape.patterns):
                return drawn
        raise Undrawn(shape.patterns)
    room = shape.room if shape.room is not None else 6 * (shape.most or 0)
    few, many = (min(size, shape.most or size) for size in (room // 6, room // 2))
    if few >= shape.least and chance.random() < 0.5:
        return "".join(chance.choices(PLAIN + OTHER, k=chance.choice([few, chance.randint(shape.least, few)])))
    size = max(shape.least, many)
    text = chance.choices(PLAIN, k=size)
    for at in chance.sample(range(size), room // 10 if many >= shape.least and size >= room // 10 else 0):
        text[at] = chance.choice(OTHER)
    return "".join(text)


def draw_match(pattern: str, chance: random.Random) -> str:
    """A text that an expression without anything fancy matches."""
    parser = importlib.import_module("re._parser")
    return "".join(_draw_nodes(parser.parse(pattern), chance))


def _draw_nodes(nodes: Any, chance: random.Random) -> Iterator[str]:
    for kind, value in nodes:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield _draw_member(value, chance)
            case "SUBPATTERN":
                yield from _draw_nodes(value[-1], chance)
            case "BRANCH":
                yield from _draw_nodes(chance.choice(value[1]), chance)
            case "MAX_REPEAT":
                least, most, inner = value
                times = chance.choice([int(least), chance.randint(int(least), min(int(most), int(least) + 20))])
                for _ in range(times):
                    yield from _draw_nodes(inner, chance)
            case "AT":
                pass
            case other:
                raise AssertionError(other)


def _draw_member(members: Any, chance: random.Random) -> str:
    kind, value = chance.choice(members)
    if str(kind) == "CATEGORY":
        return chance.choice("0123456789")
    return chr(chance.randint(*value) if str(kind) == "RANGE" else value)


def written(value: Any) -> int:
    """The bytes of a value, with the ends of its lines written the longest way."""
    text = json.dumps(value, ensure_ascii=False)
    return len(text.encode()) + 4 * len(re.findall(r"(?<!\\\\)(?:\\\\\\\\)*\\\\[nrt]", text))
