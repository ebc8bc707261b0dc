"""Every recorded stream of Gemini's under every way to cut it (`streams`).

Streams are the recorded ones, as server-sent events and as the JSON array that the API sends without `alt=sse`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.conformance import gemini_recorded as recorded
from tests.conformance.gemini_recorded import exchanges, model_in
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally, absent, same
from tests.conformance.streams import OpenReader, Ways, check_ways, count, dice_of, read

from ronda.wire.gemini.client_answer import Naming, Reader

EVERY_BYTE = 2500  # of streams up to this size every byte is a place to cut; of others some
SOME = 100


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
    same(read([array], Reader(naming)), read([events], Reader(naming)), "outcome")


def check(tally: Tally, kind: str, who: str, stream: bytes, open_reader: OpenReader, every: int = EVERY_BYTE) -> None:
    """A stream of a dialect in which any place may be one to cut."""
    dice = dice_of(who)
    in_two, short = [_places(stream, dice, every) for _ in range(2)]
    ways = Ways(in_two, short, line_ends={}, usage_may_follow=True)
    found = check_ways(who, stream, open_reader, ways, dice)
    count(tally, [[(f"{kind}: {what}", owner, problem) for what, owner, problem in found]])


def _places(stream: bytes, dice: random.Random, every: int) -> list[int]:
    size = len(stream)
    return list(range(1, size)) if size <= every else sorted(dice.sample(range(1, size), min(SOME, size - 1)))
