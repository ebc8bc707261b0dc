"""Every recorded stream under every way to cut it: the same previews, the same turn; and cut short, never half a turn.

Previews are compared one by one, and folded they must come to the finished turn. Streams are shared out over the cores.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from tests.conformance import naive
from tests.conformance.cuts import byte_by_byte, cut_at_random, fold, in_two
from tests.conformance.recordings import Exchange, chat_exchanges
from tests.conformance.report import PartResult, absent
from tests.conformance.streams import Found, check_streams

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import AssistantTurn
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_chat.client_answer import Reader

SMALLEST = 40  # of these every byte is tried …
EVERY = 10  # … and of every tenth of the rest
RANDOM_CUTS = 5


class Outcome(Struct):
    """What came of reading a stream in some way: previews per choice, and the turns or the error."""

    previews: list[list[Preview]]
    finished: list[ModelFinished] | None
    error: str | None


def run(data: Path) -> PartResult:
    streams = [exchange for exchange in chat_exchanges(data) if exchange.sse is not None and exchange.status < 400]
    if not streams:
        return absent("a recorded stream of a chat completion")
    return check_streams(streams, _check_stream, SMALLEST, EVERY)


def _check_stream(exchange: Exchange, thorough: bool) -> Found:
    found: list[tuple[str, str, str | None]] = []
    stream = exchange.raw
    try:
        choices = naive.choices(exchange)
        whole = _read([stream], choices)
    except Exception as error:
        return [("read whole", exchange.id, f"{type(error).__name__}: {error}")]
    dice = random.Random(zlib.crc32(exchange.id.encode()))
    lines = stream.replace(b"\r\n", b"\n")
    ways: list[tuple[str, Iterable[list[bytes]]]] = [
        ("byte by byte", [byte_by_byte(stream)]),
        ("random cuts", [cut_at_random(stream, dice) for _ in range(RANDOM_CUTS)]),
        ("with CRLF", [[crlf := lines.replace(b"\n", b"\r\n")], byte_by_byte(crlf), cut_at_random(crlf, dice)]),
        ("with CR", [[cr := lines.replace(b"\n", b"\r")], cut_at_random(cr, dice)]),
        ("without the last line end", [[bare := stream.rstrip(b"\r\n")], cut_at_random(bare, dice)]),
    ]
    if thorough:
        ways.append(("cut in two at every byte", in_two(stream)))
        if len(stream) <= 5000:
            ways.append(("cut in two at every byte, with CRLF", in_two(crlf)))
    for kind, ways_to_cut in ways:
        found.append((kind, exchange.id, _first_difference(whole, ways_to_cut, choices)))
    found.append(("previews fold to the turn", exchange.id, _fold_problem(whole)))
    if thorough:
        found.append(
            ("cut short at every byte", exchange.id, _cut_short_problem(stream, whole, choices, range(len(stream))))
        )
    else:
        some = sorted(dice.sample(range(len(stream)), min(200, len(stream))))
        found.append(("cut short at some bytes", exchange.id, _cut_short_problem(stream, whole, choices, some)))
    return found


def _read(pieces: Iterable[bytes], choices: int) -> Outcome:
    reader = Reader(choices=choices)
    outcome = Outcome([[] for _ in range(choices)], None, None)
    for piece in pieces:
        outcome.previews[0] += reader.feed(piece)
    outcome.previews[0] += reader.close()
    for previews, aside in zip(outcome.previews[1:], reader.take_aside(), strict=True):
        previews += aside
    try:
        outcome.finished = reader.finish_all()
    except UpstreamError as error:
        outcome.error = f"{type(error).__name__}: {error}"
    return outcome


def _first_difference(whole: Outcome, ways: Iterable[list[bytes]], choices: int) -> str | None:
    for pieces in ways:
        other = _read(pieces, choices)
        if other == whole:
            continue
        sizes = [len(piece) for piece in pieces[:3]]
        what = "the finished turn" if other.previews == whole.previews else "the previews"
        return f"{what} differ when read in {len(pieces)} pieces of {sizes}… bytes; {other.error or ''}"
    return None


def _fold_problem(outcome: Outcome) -> str | None:
    if outcome.finished is None:
        return None if outcome.error is not None else "neither a turn nor an error"
    for previews, finished in zip(outcome.previews, outcome.finished, strict=True):
        folded, turn = fold(previews), finished.turn
        said = (turn.text, turn.reasoning, turn.refusal, [(call.id, call.name, call.arguments) for call in turn.calls])
        if folded != said:
            return f"folded {folded!r}, finished {said!r}"
    return None


def _cut_short_problem(stream: bytes, whole: Outcome, choices: int, places: Iterable[int]) -> str | None:
    turns = _turns(whole)
    for at in places:
        reader = Reader(choices=choices)
        try:
            reader.feed(stream[:at])
            reader.close()
            got = [finished.turn for finished in reader.finish_all()]
        except UpstreamBroken:
            continue
        except UpstreamError as error:
            if whole.error is None:
                return f"cut after {at} bytes: {type(error).__name__}: {error}"
            continue
        if got != turns:
            return f"cut after {at} of {len(stream)} bytes the turn passed for complete: {got!r}"
    return None


def _turns(outcome: Outcome) -> list[AssistantTurn]:
    return [finished.turn for finished in outcome.finished or []]
