"""Every recorded stream of Chat Completions under every way to cut it (`streams`), with all its choices."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType

from tests.conformance import naive
from tests.conformance.cuts import in_two
from tests.conformance.recordings import Exchange, chat_exchanges
from tests.conformance.report import PartResult, absent
from tests.conformance.streams import (
    CRLF,
    Found,
    Ways,
    check_streams,
    check_ways,
    dice_of,
    first_difference,
    read,
    with_line_ends,
)

from ronda.wire.openai_chat.client_answer import Reader

SMALLEST = 40  # of these every byte is tried …
EVERY = 10  # … and of every tenth of the rest
LINE_ENDS = MappingProxyType({**CRLF, "with CR": b"\r"})


def run(data: Path) -> PartResult:
    streams = [exchange for exchange in chat_exchanges(data) if exchange.sse is not None and exchange.status < 400]
    if not streams:
        return absent("a recorded stream of a chat completion")
    return check_streams(streams, _check_stream, SMALLEST, EVERY)


def _check_stream(exchange: Exchange, thorough: bool) -> Found:
    stream, dice = exchange.raw, dice_of(exchange.id)
    open_reader = partial(Reader, naive.choices(exchange))
    places = range(len(stream))
    ways = Ways(
        places[1:] if thorough else (),
        places if thorough else sorted(dice.sample(places, min(200, len(stream)))),
        LINE_ENDS,
        usage_may_follow=True,
        may_fail=True,
    )
    found = check_ways(exchange.id, stream, open_reader, ways, dice)
    if thorough and len(stream) <= 5000:
        crlf = with_line_ends(stream, b"\r\n")
        problem = first_difference(read([stream], open_reader()), in_two(crlf), open_reader)
        found.append(("cut in two, with CRLF", exchange.id, problem))
    return found
