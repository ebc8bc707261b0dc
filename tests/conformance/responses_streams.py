"""Every recorded stream of the Responses API under every way to cut it: the same previews, the same turn; and cut short,
never half a turn. What a server shows by deltas alone, it must show as well when it sends none.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct
from tests.conformance import responses_recorded as recorded
from tests.conformance.cuts import byte_by_byte, cut_at_random, fold, in_two
from tests.conformance.naive import chunks
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, absent
from tests.conformance.streams import Found, check_streams

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader

SMALLEST = 4  # of these every byte is tried …
EVERY = 40  # … and of every fortieth of the rest
RANDOM_CUTS = 5


class Outcome(Struct):
    previews: list[Preview]
    finished: ModelFinished | None
    error: str | None


def run(data: Path) -> PartResult:
    streams = [one for one in recorded.exchanges(data) if one.sse is not None and one.status < 400]
    if not streams:
        return absent("a recorded stream of the Responses API")
    return check_streams(streams, _check_stream, SMALLEST, EVERY)


def _check_stream(exchange: Exchange, thorough: bool) -> Found:
    stream = exchange.raw
    whole = _read([stream])
    dice = random.Random(zlib.crc32(exchange.id.encode()))
    crlf = stream.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    bare = stream.rstrip(b"\r\n")
    ways: list[tuple[str, Iterable[list[bytes]]]] = [
        ("byte by byte", [byte_by_byte(stream)]),
        ("random cuts", [cut_at_random(stream, dice) for _ in range(RANDOM_CUTS)]),
        ("with CRLF", [[crlf], cut_at_random(crlf, dice)]),
        ("without the last line end", [[bare], cut_at_random(bare, dice)]),
    ]
    if thorough:
        ways.append(("cut in two at every byte", in_two(stream)))
    found = [(kind, exchange.id, _first_difference(whole, cuts)) for kind, cuts in ways]
    found.append(("previews fold to the turn", exchange.id, _fold_problem(whole)))
    found.append(("the same as the plain answer", exchange.id, _plain_problem(exchange, whole)))
    for kind, keep in _POORER.items():
        poorer = _frames([one for one in chunks(exchange.sse or "") if keep(one["type"])])
        found.append((kind, exchange.id, _poorer_problem(whole, _read([poorer]))))
    places = min(len(stream), 1_000_000 // len(stream) + 3)
    some = range(len(stream)) if thorough else sorted(dice.sample(range(len(stream)), places))
    found.append(("cut short", exchange.id, _cut_short_problem(stream, whole, some)))
    return found


_ENDS = ("response.completed", "response.incomplete")

# Streams as other servers have them.
_POORER: dict[str, Callable[[str], bool]] = {
    "without deltas": lambda kind: not kind.endswith(".delta"),
    "with nothing but the end": lambda kind: kind in _ENDS,
}


def _frames(events: list[object]) -> bytes:
    return b"".join([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])


def _read(pieces: Iterable[bytes]) -> Outcome:
    reader = Reader()
    previews = [preview for piece in pieces for preview in reader.feed(piece)] + reader.close()
    try:
        return Outcome(previews, reader.finish(), None)
    except UpstreamError as error:
        return Outcome(previews, None, f"{type(error).__name__}: {error}")


def _first_difference(whole: Outcome, ways: Iterable[list[bytes]]) -> str | None:
    for pieces in ways:
        other = _read(pieces)
        if other != whole:
            what = "the finished turn differs" if other.previews == whole.previews else "the previews differ"
            return f"{what} when read in {len(pieces)} pieces; {other.error or ''}"
    return None


def _fold_problem(outcome: Outcome) -> str | None:
    if outcome.finished is None:
        return outcome.error
    folded, turn = fold(outcome.previews), outcome.finished.turn
    said = (turn.text, turn.reasoning, turn.refusal, [(call.id, call.name, call.arguments) for call in turn.calls])
    return None if folded == said else f"folded {folded!r}, finished {said!r}"


def _plain_problem(exchange: Exchange, whole: Outcome) -> str | None:
    last = next(one["response"] for one in chunks(exchange.sse or "") if one["type"] in _ENDS)
    plain = read_plain(json.dumps(last).encode())
    if whole.finished is None:
        return whole.error
    ours, theirs = whole.finished.turn, plain.turn
    if (ours.parts, ours.stop, whole.finished.usage) != (theirs.parts, theirs.stop, plain.usage):
        return f"streamed {ours!r}, plain {theirs!r}"
    assert ours.native is not None
    assert theirs.native is not None
    same = json.loads(bytes(ours.native.payload)) == json.loads(bytes(theirs.native.payload))
    return None if same else "the items differ"


def _poorer_problem(whole: Outcome, other: Outcome) -> str | None:
    if whole.finished is None or other.finished is None:
        return f"{whole.error} {other.error}"
    if (other.finished.turn.parts, other.finished.usage) != (whole.finished.turn.parts, whole.finished.usage):
        return "the turns differ"
    return _fold_problem(other)


def _cut_short_problem(stream: bytes, whole: Outcome, places: Iterable[int]) -> str | None:
    for at in places:
        reader = Reader()
        reader.feed(stream[:at])
        reader.close()
        try:
            got = reader.finish()
        except UpstreamBroken:
            continue
        if got != whole.finished:
            return f"cut after {at} of {len(stream)} bytes the turn passed for complete: {got!r}"
    return None
