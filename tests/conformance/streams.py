"""Recorded streams, shared out over the cores: which of them are cut at every byte, and what was found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeAlias

from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally

Found: TypeAlias = list[tuple[str, str, str | None]]  # the kind of check, whose it is, and what is wrong

LARGEST = 16 * 1024  # no larger one is cut at every byte: the work grows with the square of the size


def check_streams(
    streams: list[Exchange], check: Callable[[Exchange, bool], Found], smallest: int, every: int
) -> PartResult:
    """Of the `smallest` every byte is tried, and of one in `every` of the rest, ordered by size."""
    streams = sorted(streams, key=lambda exchange: (len(exchange.raw), exchange.id))
    distinct = list({stream.raw: stream for stream in streams}.values())
    thorough = distinct[:smallest] + [stream for stream in distinct[smallest::every] if len(stream.raw) <= LARGEST]
    chosen = {stream.id for stream in thorough}
    # The largest first, so that no core is left with one at the end.
    jobs = sorted(streams, key=lambda stream: (stream.id in chosen) * len(stream.raw) ** 2 + len(stream.raw))[::-1]
    tally = Tally()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count(tally, pool.map(partial(guarded, check), jobs, [stream.id in chosen for stream in jobs]))
    tally.note(f"{len(streams)} streams, {len(chosen)} of them cut at every byte")
    return tally.result()


def guarded(check: Callable[..., Found], exchange: Exchange, *how: bool) -> Found:
    """In whichever process: what goes wrong with one stream is one failed check."""
    try:
        return check(exchange, *how)
    except Exception as error:
        return [("odd recording", exchange.id, f"{type(error).__name__}: {error}")]


def count(tally: Tally, checked: Iterable[Found]) -> None:
    for found in checked:
        for kind, who, problem in found:
            if problem is None:
                tally.passed(kind)
            else:
                tally.failed(kind, who, problem)
