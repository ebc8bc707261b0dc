"""Something that is read well, and a source of chance → something close to it that may not be."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

DEEP: Final = 3_000  # levels: more than any reader follows
ODD: Final[tuple[Any, ...]] = (
    "x", "", "\0", "\ud800", "𝒳" * 50, "a" * 5_000, 0, 7, -1, 1.5, 1e300, 2**70, -(2**63), True, False, None, [], {},
    [None], ["x"], [[{}]], {"type": "x"}, {"": ""}, {"$ref": "#"}, "data:,", "data:image/png;base64,", "http://[", "null",
)  # fmt: skip
BYTES: Final = (
    b"\xff",
    b"\x00",
    b'"',
    b"{",
    b"}",
    b"[",
    b"\\",
    b"\\u",
    b"\r\n",
    b"\n\n",
    b"data: ",
    b"event: x\n",
    b"\xf0",
)


def mutated_json(value: Any, chance: random.Random) -> bytes:
    """A body of JSON, with one thing changed in it, or a few; sometimes its bytes are, too. Most of what is changed lies deep:
    what is wrong at the top is refused at once."""
    changed = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 1, 2, 4))):
        changed = _with_change(changed, chance)
    try:
        body = json.dumps(changed, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    except RecursionError:
        body = b"[" * DEEP
    return mutated_bytes(body, chance) if chance.random() < 0.05 else body


def _with_change(value: Any, chance: random.Random) -> Any:
    """At a place that is found by going down, step by step."""
    if not value or not isinstance(value, dict | list) or chance.random() < 0.03:
        return copy.deepcopy(chance.choice(ODD))
    if isinstance(value, list):
        return _with_changed_list(value, chance)
    name = chance.choice(list(value))
    match chance.randrange(12):
        case 0:
            del value[name]
        case 1:
            value[chance.choice(("x", "type", "id", "role", "content", "input", "stream", name.upper()))] = value[name]
        case 2:
            value[name] = [value[name]]
        case 3:
            value[name] = {name: value[name]}
        case _:
            value[name] = _with_change(value[name], chance)
    return value


def _with_changed_list(value: list[Any], chance: random.Random) -> list[Any]:
    index = chance.randrange(len(value))
    match chance.randrange(12):
        case 0:
            del value[index]
        case 1:
            value.insert(index, copy.deepcopy(chance.choice(value)))
        case 2:
            chance.shuffle(value)
        case 3:
            value.append(copy.deepcopy(chance.choice(ODD)))
        case _:
            value[index] = _with_change(value[index], chance)
    return value


def mutated_bytes(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(found) + 1)
        match chance.randrange(6):
            case 0:
                found[place:place] = chance.choice(BYTES)
            case 1:
                del found[place : place + chance.randint(1, 40)]
            case 2 if place < len(found):
                found[place] = chance.randrange(256)
            case 3:
                found = found[:place]
            case 4:
                end = place + chance.randint(1, 200)
                found[place:place] = found[place:end]
            case _:
                other = chance.randrange(len(found) + 1)
                found = found[:place] + found[other:]
    return bytes(found)


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    """As a socket may give it."""
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(0, 6)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
