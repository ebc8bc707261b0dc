"""Every recorded stream of the Responses API under every way to cut it (`streams`). What a server shows by deltas alone, it must
show as well when it sends none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.conformance import responses_recorded as recorded
from tests.conformance.naive import chunks
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, absent
from tests.conformance.streams import Found, Outcome, Ways, check_streams, check_ways, dice_of, fold_problem, read

from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader

SMALLEST = 4  # of these every byte is tried …
EVERY = 40  # … and of every fortieth of the rest


def run(data: Path) -> PartResult:
    streams = [one for one in recorded.exchanges(data) if one.sse is not None and one.status < 400]
    if not streams:
        return absent("a recorded stream of the Responses API")
    return check_streams(streams, _check_stream, SMALLEST, EVERY)


def _check_stream(exchange: Exchange, thorough: bool) -> Found:
    stream, dice = exchange.raw, dice_of(exchange.id)
    places = range(len(stream))
    some = sorted(dice.sample(places, min(len(stream), 1_000_000 // len(stream) + 3)))
    ways = Ways(places[1:] if thorough else (), places if thorough else some)
    found = check_ways(exchange.id, stream, Reader, ways, dice)
    whole = read([stream], Reader())
    found.append(("the same as the plain answer", exchange.id, _plain_problem(exchange, whole)))
    for kind, keep in _POORER.items():
        poorer = _frames([one for one in chunks(exchange.sse or "") if keep(one["type"])])
        found.append((kind, exchange.id, _poorer_problem(whole, read([poorer], Reader()))))
    return found


_ENDS = ("response.completed", "response.incomplete")

# Streams as other servers have them.
_POORER: dict[str, Callable[[str], bool]] = {
    "without deltas": lambda kind: not kind.endswith(".delta"),
    "with nothing but the end": lambda kind: kind in _ENDS,
}


def _frames(events: list[object]) -> bytes:
    return b"".join([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events])


def _plain_problem(exchange: Exchange, whole: Outcome) -> str | None:
    last = next(one["response"] for one in chunks(exchange.sse or "") if one["type"] in _ENDS)
    plain = read_plain(json.dumps(last).encode())
    if whole.finished is None:
        return whole.error
    [finished] = whole.finished
    ours, theirs = finished.turn, plain.turn
    if (ours.parts, ours.stop, finished.usage) != (theirs.parts, theirs.stop, plain.usage):
        return f"streamed {ours!r}, plain {theirs!r}"
    assert ours.native is not None
    assert theirs.native is not None
    same = json.loads(bytes(ours.native.payload)) == json.loads(bytes(theirs.native.payload))
    return None if same else "the items differ"


def _poorer_problem(whole: Outcome, other: Outcome) -> str | None:
    if whole.finished is None or other.finished is None:
        return f"{whole.error} {other.error}"
    [ours], [theirs] = whole.finished, other.finished
    if (theirs.turn.parts, theirs.usage) != (ours.turn.parts, ours.usage):
        return "the turns differ"
    return fold_problem(other)
