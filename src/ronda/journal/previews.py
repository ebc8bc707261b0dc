"""What was shown of a run: kept for the process that resumes the run if this one ends, and for its followers there.

Only of runs that outlive their process. Previews are kept one by one, never merged, so that they have the same positions again.
Those of a run that has many are dropped by whole rounds that are over, whose facts say all they said; the others when the
journal is pruned, some time after their run has ended. Nothing here commits or waits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from ronda.core.events import Asked, Event, ModelStarted, Preview, RunFinished, RunStarted
from ronda.core.sizes import EVENT_BYTES, events_size

KEEP_PREVIEWS: Final = 3600.0  # seconds after a run's end
KEEP_PREVIEWS_BYTES: Final = 64 << 20  # of all runs that are over
KEPT_BYTES: Final = 16 << 20  # of one run: what a model says in one round after that is shown, but not kept

# By the number of the fact that they came after.
PreviewsAfter: TypeAlias = dict[int, list[Preview]]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Preview]).decode


class PreviewBatch(NamedTuple):
    """Previews that came after a fact, and how many of that fact came before them."""

    fact: int
    number: int
    previews: list[Preview]


def outlives(facts: Sequence[Event]) -> bool:
    """Whether a run with these behind it goes on without its client: it was to, or it has asked people."""
    start = facts[0]
    return (type(start) is RunStarted and start.outlives) or any(type(fact) is Asked for fact in facts)


def begins_round(facts: Sequence[Event]) -> bool:
    """Whether what was shown before them is of a round that is over."""
    return any(type(fact) is ModelStarted or type(fact) is RunFinished for fact in facts)


class PendingPreviews:
    """What of a run's previews waits to be written. `are_over`: those that are kept already are to be dropped."""

    __slots__ = ("_bytes", "_fact", "_number", "are_over", "pending")

    def __init__(self, facts: int) -> None:
        self.pending: list[PreviewBatch] = []
        self.are_over = False
        self._fact = facts - 1  # the number of the newest
        self._number = 0  # of previews after it
        self._bytes = 0  # of the rounds that are kept

    def add_facts(self, facts: Sequence[Event]) -> None:
        self._fact += len(facts)
        self._number = 0
        if self._bytes > KEPT_BYTES // 2 and begins_round(facts):
            self.pending = []
            self.are_over = True
            self._bytes = 0

    def add(self, batch: Sequence[Event]) -> int:
        """How large they are; 0 if they are not to be kept."""
        size = EVENT_BYTES * len(batch) + events_size(batch, KEPT_BYTES)
        self._bytes += size
        if self._bytes > KEPT_BYTES:
            return 0
        self.pending.append(PreviewBatch(self._fact, self._number, cast("list[Preview]", [*batch])))
        self._number += len(batch)
        return size

    def put_back(self, portion: list[PreviewBatch], *, are_over: bool) -> None:
        """What could not be written yet."""
        if not self.are_over:  # else they are of a round that is over
            self.pending = portion + self.pending
            self.are_over = are_over


def write_previews(execute: Callable[..., object], key: int, portion: list[PreviewBatch], *, are_over: bool) -> int:
    """How many bytes were written. What is no JSON is left out: a run must not fail for what it need not keep."""
    size = 0
    if are_over:
        execute("DELETE FROM preview WHERE run = ?", (key,))
    for fact, number, body in encode_previews(portion):
        execute(
            "INSERT OR REPLACE INTO preview (run, fact, number, body) VALUES (?, ?, ?, ?)", (key, fact, number, body)
        )
        size += len(body)
    return size


def encode_previews(portion: list[PreviewBatch]) -> Iterator[tuple[int, int, bytes]]:
    for fact, number, previews in portion:
        try:
            yield fact, number, _encode(previews)
        except (TypeError, ValueError, msgspec.MsgspecError):
            continue


def read_previews(db: sqlite3.Connection, run: str) -> PreviewsAfter:
    """As far as none is missing."""
    try:
        rows = db.execute(
            "SELECT fact, number, body FROM preview JOIN run ON run.id = preview.run WHERE run.name = ? ORDER BY fact, number",
            (run,),
        ).fetchall()
    except UnicodeError:  # no text, so it cannot have been kept
        return {}
    return join_previews(rows)


def join_previews(rows: Iterable[tuple[int, int, bytes]]) -> PreviewsAfter:
    """Rows of a fact, a number and a body, in order."""
    found: PreviewsAfter = {}
    for fact, number, body in rows:
        before = found.setdefault(fact, [])
        if number == len(before):
            try:
                before += _decode(body)
            except (msgspec.DecodeError, UnicodeError):  # those behind it have no place any more
                continue
    return {fact: previews for fact, previews in found.items() if previews}
