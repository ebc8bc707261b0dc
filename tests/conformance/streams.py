"""Recorded streams of any dialect, under every way to cut them: the same previews, the same turn; cut short, never half a turn.

Previews are compared one by one, and folded they must come to the finished turn. Streams are shared out over the cores. What a
dialect's module adds is its reader, and which ways it tries.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct
from tests.conformance.cuts import byte_by_byte, cut_at_random, fold
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.upstream.stream import ChoicesStream, JsonStream

Found: TypeAlias = list[tuple[str, str, str | None]]  # the kind of check, whose it is, and what is wrong
OpenReader: TypeAlias = Callable[[], JsonStream]

RANDOM_CUTS = 5
CRLF: Final[Mapping[str, bytes]] = MappingProxyType({"with CRLF": b"\r\n"})


class Outcome(Struct):
    """The result of reading a stream in some way: the previews and the end of each choice, or the error."""

    previews: list[list[Preview]]
    finished: list[ModelFinished] | None
    error: str | None


class Ways(Struct, frozen=True):
    """How a stream is tried: where it is cut `in_two`, where it is cut `short`, and what its lines may end with as well."""

    in_two: Sequence[int]
    short: Sequence[int]
    line_ends: Mapping[str, bytes] = CRLF
    usage_may_follow: bool = False  # a stream whose last words on usage are missing is whole anyway
    may_fail: bool = False  # some recordings end with an error


def check_ways(who: str, stream: bytes, open_reader: OpenReader, ways: Ways, dice: random.Random) -> Found:
    """Everything that holds for a stream of any dialect."""
    whole = read([stream], open_reader())
    bare = stream.rstrip(b"\r\n")
    tried: list[tuple[str, Iterable[list[bytes]]]] = [
        ("byte by byte", [byte_by_byte(stream)]),
        ("random cuts", [cut_at_random(stream, dice) for _ in range(RANDOM_CUTS)]),
        ("without the last line end", [[bare], cut_at_random(bare, dice)]),
    ]
    for kind, line_end in ways.line_ends.items():
        other = with_line_ends(stream, line_end)
        tried.append((kind, [[other], byte_by_byte(other), cut_at_random(other, dice)]))
    if ways.in_two:
        tried.append(("cut in two", ([stream[:at], stream[at:]] for at in ways.in_two)))
    found = [(kind, who, first_difference(whole, cuts, open_reader)) for kind, cuts in tried]
    found.append(("previews fold to the turn", who, fold_problem(whole, ways.may_fail)))
    found.append(("cut short", who, _cut_short_problem(stream, whole, open_reader, ways)))
    return found


def read(pieces: Iterable[bytes], reader: JsonStream) -> Outcome:
    previews: list[Preview] = []
    for piece in pieces:
        previews += reader.feed(piece)
    previews += reader.close()
    aside = reader.take_aside() if isinstance(reader, ChoicesStream) else []
    try:
        finished = reader.finish_all() if isinstance(reader, ChoicesStream) else [reader.finish()]
    except UpstreamError as error:
        return Outcome([previews, *aside], None, f"{type(error).__name__}: {error}")
    return Outcome([previews, *aside], finished, None)


def with_line_ends(stream: bytes, line_end: bytes) -> bytes:
    return stream.replace(b"\r\n", b"\n").replace(b"\n", line_end)


def dice_of(who: str) -> random.Random:
    """The same ones each time."""
    return random.Random(zlib.crc32(who.encode()))


def first_difference(whole: Outcome, ways: Iterable[list[bytes]], open_reader: OpenReader) -> str | None:
    for pieces in ways:
        other = read(pieces, open_reader())
        if other != whole:
            what = "the finished turn differs" if other.previews == whole.previews else "the previews differ"
            sizes = [len(piece) for piece in pieces[:3]]
            return f"{what} when read in {len(pieces)} pieces of {sizes}… bytes; {other.error or ''}"
    return None


def fold_problem(outcome: Outcome, may_fail: bool = False) -> str | None:
    if outcome.finished is None:
        return None if may_fail else outcome.error
    for previews, finished in zip(outcome.previews, outcome.finished, strict=True):
        folded, turn = fold(previews), finished.turn
        said = (turn.text, turn.reasoning, turn.refusal, [(call.id, call.name, call.arguments) for call in turn.calls])
        if folded != said:
            return f"folded {folded!r}, finished {said!r}"
    return None


def _cut_short_problem(stream: bytes, whole: Outcome, open_reader: OpenReader, ways: Ways) -> str | None:
    for at in ways.short:
        reader = open_reader()
        reader.feed(stream[:at])
        reader.close()
        try:
            got = reader.finish_all() if isinstance(reader, ChoicesStream) else [reader.finish()]
        except UpstreamBroken:
            continue
        except UpstreamError as error:
            if whole.error is None:
                return f"cut after {at} bytes: {type(error).__name__}: {error}"
            continue
        expected = whole.finished or []
        if ways.usage_may_follow:
            is_whole = [finished.turn for finished in got] == [finished.turn for finished in expected]
        else:
            is_whole = got == expected
        if not is_whole:
            return f"cut after {at} of {len(stream)} bytes the turn passed for complete: {got!r}"
    return None


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
