"""Ways to cut a stream into reads, and what a client knows that saw only its previews. In any dialect."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ronda.core.events import CallDelta, Preview, ReasoningDelta, RefusalDelta, TextDelta


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


def in_two(stream: bytes) -> Iterator[list[bytes]]:
    return ([stream[:at], stream[at:]] for at in range(1, len(stream)))


def cut_at_random(stream: bytes, dice: random.Random) -> list[bytes]:
    """Some reads tiny, some holding many frames."""
    pieces, at = [], 0
    while at < len(stream):
        size = dice.randint(1, dice.choice((1, 2, 7, 40, 300, 2000, 9000)))
        pieces.append(stream[at : at + size])
        at += size
    return pieces


def fold(previews: list[Preview]) -> tuple[str, str, str, list[tuple[str, str, str]]]:
    """Text, reasoning, refusal, and (id, name, arguments) of the calls."""
    text, reasoning, refusal = "", "", ""
    calls: dict[int, tuple[str, str, str]] = {}
    for preview in previews:
        match preview:
            case TextDelta(text=more):
                text += more
            case ReasoningDelta(text=more):
                reasoning += more
            case RefusalDelta(text=more):
                refusal += more
            case CallDelta(index=index, id=id, name=name, arguments=arguments):
                calls[index] = (id, name, calls.get(index, ("", "", ""))[2] + arguments)
    return text, reasoning, refusal, [call for _, call in sorted(calls.items()) if call[1]]
