"""Every recorded stream of Gemini's under every way to cut it: the same previews, the same turn; cut short, never half a turn.

Streams are the recorded ones, as server-sent events and as the JSON array that the API sends without `alt=sse`.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from tests.conformance import gemini_recorded as recorded
from tests.conformance.cuts import fold
from tests.conformance.gemini_recorded import exchanges, model_in
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.gemini.client_answer import Naming, Reader

EVERY_BYTE = 2500  # of streams up to this size every byte is a place to cut; of others some
SOME = 100


class AnyReader(Protocol):
    def feed(self, data: bytes, /) -> list[Preview]: ...
    def close(self) -> list[Preview]: ...
    def finish(self) -> ModelFinished: ...


class Outcome(Struct):
    previews: list[Preview]
    finished: ModelFinished | None
    error: str | None


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if recorded.is_stream(exchange) and exchange.status < 400]
    if not found:
        return absent("a recorded stream of generateContent")
    tally = Tally()
    for exchange in found:
        with tally.guard(exchange.id):
            _check_exchange(tally, exchange)
    tally.note(f"{len(found)} streams")
    return tally.result()


def _check_exchange(tally: Tally, exchange: Exchange) -> None:
    naming = Naming(model_in(exchange), run="run")
    chunks = [json.dumps(chunk, ensure_ascii=False) for chunk in recorded.chunks(exchange)]
    array = ("[" + ",\r\n".join(chunks) + "\n]").encode()
    events = "".join(f"data: {chunk}\r\n\r\n" for chunk in chunks).encode()
    for kind, stream in (("as recorded", exchange.raw), ("array", array), ("events", events)):
        every = EVERY_BYTE if kind == "as recorded" else 0
        check(tally, kind, exchange.id, stream, lambda: Reader(naming), every)
    tally.check("array and events are the same", exchange.id, lambda: _are_same(array, events, naming))


def _are_same(array: bytes, events: bytes, naming: Naming) -> None:
    same(outcome([array], Reader(naming)), outcome([events], Reader(naming)), "outcome")


def check(
    tally: Tally, kind: str, who: str, stream: bytes, reader: Callable[[], AnyReader], every: int = EVERY_BYTE
) -> None:
    """All the ways to cut one stream, for whichever dialect."""
    whole = outcome([stream], reader())
    dice = random.Random(zlib.crc32(who.encode()))

    def cuts(ways: Iterable[list[bytes]]) -> None:
        for pieces in ways:
            same(outcome(pieces, reader()), whole, f"read in {len(pieces)} pieces of {[len(p) for p in pieces[:3]]}…")

    def folds() -> None:
        assert whole.finished is not None, whole.error
        turn = whole.finished.turn
        calls = [(call.id, call.name, call.arguments) for call in turn.calls]
        same(fold(whole.previews), (turn.text, turn.reasoning, turn.refusal, calls), "folded previews")

    def is_never_half() -> None:
        for at in places(stream, dice, every):
            short = outcome([stream[:at]], reader())
            if short.finished is not None and whole.finished is not None:
                same(short.finished.turn, whole.finished.turn, f"cut after {at} of {len(stream)} bytes")

    tally.check(f"{kind}: byte by byte", who, lambda: cuts([[stream[at : at + 1] for at in range(len(stream))]]))
    tally.check(f"{kind}: random cuts", who, lambda: cuts([_at_random(stream, dice) for _ in range(5)]))
    tally.check(
        f"{kind}: cut in two", who, lambda: cuts([stream[:at], stream[at:]] for at in places(stream, dice, every))
    )
    tally.check(f"{kind}: without the last line end", who, lambda: cuts([[stream.rstrip(b"\r\n")]]))
    tally.check(f"{kind}: previews fold to the turn", who, folds)
    tally.check(f"{kind}: cut short", who, is_never_half)


def outcome(pieces: Iterable[bytes], reader: AnyReader) -> Outcome:
    previews: list[Preview] = []
    for piece in pieces:
        previews += reader.feed(piece)
    previews += reader.close()
    try:
        return Outcome(previews, reader.finish(), None)
    except UpstreamBroken as error:
        return Outcome(previews, None, f"broken: {error}")
    except UpstreamError as error:
        return Outcome(previews, None, str(error))


def places(stream: bytes, dice: random.Random, every: int) -> list[int]:
    size = len(stream)
    return list(range(1, size)) if size <= every else sorted(dice.sample(range(1, size), min(SOME, size - 1)))


def _at_random(stream: bytes, dice: random.Random) -> list[bytes]:
    pieces, at = [], 0
    while at < len(stream):
        size = dice.randint(1, dice.choice((1, 2, 7, 40, 300, 2000, 9000)))
        pieces.append(stream[at : at + size])
        at += size
    return pieces
