"""What a few runs said becomes one statement for each table of PostgreSQL: see `postgres_tables`.

A row of `event` goes in only where this process still drives its run: taking a run over locks its row, so that a process
which was frozen or cut off meanwhile is told, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple
from psycopg import errors

from ronda.core.events import Event, RunFinished, RunStarted
from ronda.journal import state_at
from ronda.journal.buffers import Portion
from ronda.journal.chains import Chain
from ronda.journal.codecs import KNOWN_HASHES, decode_turn, encode
from ronda.journal.postgres_reader import decode_row
from ronda.journal.previews import encode_previews
from ronda.journal.start_parts import StartSplitter
from ronda.journal.tally import NO_FIGURES, Beginning, Figures
from ronda.store import StoreError
from ronda.store.owners import owner_mark
from ronda.store.postgres import PostgresSql
from ronda.store.postgres_presence import Notice


class MissingPart(Exception):
    """A turn or a value that was counted on is not there any more."""


class Batch(Struct):
    """What a few runs have said, as rows."""

    starts: list[tuple[Any, ...]] = []
    turns: dict[bytes, tuple[bytes | None, bytes]] = {}
    values: dict[bytes, bytes] = {}
    events: list[tuple[str, int, bytes]] = []
    ends: list[tuple[Any, ...]] = []
    counts: list[tuple[Any, ...]] = []
    go_on: list[str] = []
    pauses: list[str] = []
    releases: list[str] = []
    over: list[str] = []  # whose previews are of rounds that are over
    previews: list[tuple[str, int, int, bytes]] = []
    calls: dict[tuple[str, str], str] = {}
    questions: list[tuple[str, bytes, int]] = []
    owners: dict[str, str] = {}  # of the runs, as others are told about them


class BatchWriter:
    """Portions become a batch, and a batch rows. In one thread."""

    def __init__(self, place: str, process: int) -> None:
        self._place = place
        self._process = process
        self._known: set[bytes] = set()  # hashes of turns and values that are in the database
        self._starts: StartSplitter[bytes] = StartSplitter()

    def prepare(self, portions: Sequence[Portion], now: float) -> Batch:
        """What cannot be written has an error in its portion, and is left out."""
        batch = Batch([], {}, {}, [], [], [], [], [], [], [], [], {}, [], {})
        for portion in portions:
            buffer = portion.buffer
            batch.owners[buffer.name] = owner_mark(buffer.owner)
            try:
                buffer.name.encode()
                if portion.events:
                    self._add_events(batch, portion, now)
                for owner, call_id in portion.expected:
                    (owner + call_id).encode()
                    batch.calls[owner, call_id] = buffer.name
                if portion.questions is not None:
                    batch.questions.append((buffer.name, encode(portion.questions), int(portion.waits_within)))
                if portion.figures is not None and portion.only_counts():
                    batch.counts.append((buffer.name, *astuple(portion.figures)))
            except (UnicodeError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                portion.error = StoreError(
                    self._place,
                    f"events {buffer.next} and on of run {buffer.name!r} cannot be written as JSON: {error}",
                )
                continue
            if portion.are_over:
                batch.over.append(buffer.name)
            batch.previews += [(buffer.name, *row) for row in encode_previews(portion.previews)]
            if portion.is_waiting:
                batch.pauses.append(buffer.name)
            if portion.is_let_go:
                batch.releases.append(buffer.name)
        return batch

    def _add_events(self, batch: Batch, portion: Portion, now: float) -> None:
        buffer, events, last = portion.buffer, portion.events, portion.events[-1]
        end = state_at(last) if type(last) is RunFinished else None
        start = None
        figures = portion.figures or NO_FIGURES
        if not buffer.key:
            start, row = self._start(batch, buffer.name, events[0], now, end, figures)
            events = [start, *events[1:]]
        body = encode(events)
        decode_row(body)  # what cannot be read back is not kept: NaN becomes null, and a Raw may hold anything
        if start is not None:
            batch.starts.append(row)
        elif end is not None:
            batch.ends.append((buffer.name, end, now, *astuple(figures)))
        elif buffer.was_waiting:
            batch.go_on.append(buffer.name)
        batch.events.append((buffer.name, buffer.next, body))

    def _start(
        self, batch: Batch, name: str, start: Event, now: float, end: str | None, figures: Figures
    ) -> tuple[RunStarted, tuple[Any, ...]]:
        assert type(start) is RunStarted
        beginning = Beginning.of(start)
        "".join(astuple(beginning)).encode()
        "".join((start.owner, start.session, start.agent)).encode()
        start, tip, tools, file = self._starts.split(start, _PartBatch(batch, self._known))
        ended = None if end is None else now
        row = (name, now, ended, end, tip, tools, file, start.owner, start.session, start.agent)
        return start, (*row, *astuple(beginning), *astuple(figures))

    def write(self, db: PostgresSql, batch: Batch) -> set[str]:
        """The names of those whose events were written; the others are driven by another process."""
        execute, me = db.execute, self._process
        written = None
        try:
            with db.connection.pipeline():
                if batch.values:
                    columns = [list(batch.values), list(batch.values.values())]
                    execute(
                        """INSERT INTO value (hash, body)
                            SELECT * FROM unnest(?::bytea[], ?::bytea[]) ON CONFLICT DO NOTHING""",
                        columns,
                    )
                if batch.turns:
                    befores, bodies = _columns(batch.turns.values())
                    columns = [list(batch.turns), befores, bodies]
                    execute(
                        """INSERT INTO turn (hash, before, body)
                            SELECT * FROM unnest(?::bytea[], ?::bytea[], ?::bytea[]) ON CONFLICT DO NOTHING""",
                        columns,
                    )
                if batch.starts:
                    execute(_START, [me, *_columns(batch.starts)])
                if batch.events:
                    names, numbers, bodies = _columns(batch.events)
                    written = execute(_EVENTS, [names, me, names, numbers, bodies])
                if batch.ends:
                    execute(_ENDS, [*_columns(batch.ends), me])
                if batch.counts:
                    execute(_COUNTS, [*_columns(batch.counts), me])
                if batch.go_on:
                    execute(_GO_ON, [batch.go_on, me])
                if batch.over:
                    execute(_OVER, [batch.over, me])
                if batch.previews:
                    execute(_PREVIEWS, [*_columns(batch.previews), me])
                if batch.calls:
                    owners, ids = _columns(batch.calls)
                    execute(_CALLS, [owners, ids, list(batch.calls.values()), me])
                if batch.questions:
                    execute(_QUESTIONS, [*_columns(batch.questions), me])
                if batch.pauses:
                    execute(_PAUSES, [batch.pauses, me])
                if batch.releases:
                    execute(_RELEASES, [batch.releases, me])
        except errors.ForeignKeyViolation as error:
            raise MissingPart from error
        return set() if written is None else {name for (name,) in written.fetchall()}

    def remember(self, batch: Batch) -> None:
        if len(self._known) > KNOWN_HASHES:
            self._known.clear()
        self._known.update(batch.values)
        self._known.update(batch.turns)

    def forget(self) -> None:
        """Rows that this has counted on may not be there."""
        self._known.clear()


class _PartBatch(Struct, frozen=True):
    """Adds to a batch those parts of starts that are not known to be in the database. They are found by their hashes."""

    batch: Batch
    known: set[bytes]

    def put_value(self, digest: bytes, write: Callable[[], bytes]) -> bytes:
        if digest not in self.known and digest not in self.batch.values:
            self.batch.values[digest] = write()
        return digest

    def put_turns(self, chain: Chain) -> bytes:
        hashes, turns = chain.hashes, chain.turns
        at = len(turns)
        while at > 0 and hashes[at - 1] not in self.known:  # where a turn is known, so are all before it
            at -= 1
        for number in range(at, len(turns)):
            body = encode(turns[number])
            decode_turn(body)
            self.batch.turns[hashes[number]] = (hashes[number - 1] if number else None, body)
        return hashes[-1]


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


_FIGURES: Final = (
    "rounds, tool_calls, tokens_in, tokens_out, tokens_cached, tokens_reasoning, cost, end_reason, end_code"
)
_FIGURE_ARRAYS: Final = """?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::float8[], ?::text[],
    ?::text[]"""
_SET_FIGURES: Final = ", ".join([f"{name} = new.{name}" for name in _FIGURES.split(", ")])
_START: Final = f"""INSERT INTO run (writer, name, started, ended, state, tip, tools, file, owner, session, agent,
        model, words, parent, parent_call, run_group, {_FIGURES})
    SELECT ?::bigint, * FROM unnest(?::text[], ?::float8[], ?::float8[], ?::text[], ?::bytea[], ?::bytea[], ?::bytea[],
        ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], {_FIGURE_ARRAYS})
        ON CONFLICT (name) DO NOTHING"""
_EVENTS: Final = """WITH mine AS MATERIALIZED (
        SELECT name FROM run WHERE name = ANY(?::text[]) AND writer = ? ORDER BY name FOR KEY SHARE
    ) INSERT INTO event (run, number, body) SELECT new.* FROM unnest(?::text[], ?::int[], ?::bytea[]) AS new (run, number, body)
    JOIN mine ON mine.name = new.run ON CONFLICT DO NOTHING RETURNING run"""
_ENDS: Final = f"""UPDATE run SET ended = new.ended, state = new.state, {_SET_FIGURES}
    FROM unnest(?::text[], ?::text[], ?::float8[], {_FIGURE_ARRAYS}) AS new (run, state, ended, {_FIGURES})
    WHERE name = new.run AND writer = ?"""
_COUNTS: Final = f"""UPDATE run SET {_SET_FIGURES} FROM unnest(?::text[], {_FIGURE_ARRAYS}) AS new (run, {_FIGURES})
    WHERE name = new.run AND writer = ?"""
_GO_ON: Final = "UPDATE run SET state = NULL WHERE name = ANY(?::text[]) AND state = 'waiting' AND writer = ?"
_OVER: Final = "DELETE FROM preview USING run WHERE run = ANY(?::text[]) AND run.name = run AND writer = ?"
_PREVIEWS: Final = """INSERT INTO preview
    SELECT new.* FROM unnest(?::text[], ?::int[], ?::int[], ?::bytea[]) AS new (run, fact, number, body)
    JOIN run ON name = new.run AND writer = ? ON CONFLICT (run, fact, number) DO UPDATE SET body = excluded.body"""
_CALLS: Final = """INSERT INTO call (owner, id, run)
    SELECT new.* FROM unnest(?::text[], ?::text[], ?::text[]) AS new (owner, id, run)
    JOIN run ON name = new.run AND writer = ? ON CONFLICT (owner, id) DO UPDATE SET run = excluded.run"""
_QUESTIONS: Final = """UPDATE run SET questions = new.questions, waits_within = new.waits
    FROM unnest(?::text[], ?::bytea[], ?::int[]) AS new (run, questions, waits) WHERE name = new.run AND writer = ?"""
_PAUSES: Final = "UPDATE run SET state = 'waiting' WHERE name = ANY(?::text[]) AND ended IS NULL AND writer = ?"
_RELEASES: Final = "UPDATE run SET writer = NULL WHERE name = ANY(?::text[]) AND writer = ?"


def notices(batch: Batch, written: set[str]) -> list[Notice]:
    """What others are told about a batch: which runs have grown, and how far."""
    facts = {run: number for run, number, _ in batch.events if run in written}
    previews = {run: number for run, _, number, _ in batch.previews}
    names = {**facts, **previews, **dict.fromkeys(batch.pauses)}
    runs = [[run, facts.get(run), previews.get(run), batch.owners[run]] for run in names]
    return [{"runs": runs[index : index + _TOLD_AT_ONCE]} for index in range(0, len(runs), _TOLD_AT_ONCE)]


_TOLD_AT_ONCE: Final = 80  # a name has 28 letters, an owner's mark 12, and a notice 7,000 bytes
