"""Events of a run become rows of SQLite: see `sqlite_tables`. Nothing here commits, waits or knows the time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from math import inf
from typing import Final, assert_never

from msgspec.structs import astuple, replace

from ronda.core.events import (
    Answered,
    Asked,
    CallDelta,
    Checked,
    Compacted,
    Event,
    Fact,
    LogprobsDelta,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    NativeDelta,
    ReasoningDelta,
    Recovered,
    RefusalDelta,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.parts import AssistantTurn, ToolResult
from ronda.journal import JournalConflict, OpenQuestion, state_at
from ronda.journal.chains import Chain
from ronda.journal.codecs import KNOWN_HASHES, decode_turn, encode, hash_value
from ronda.journal.sqlite_reader import FoundRun
from ronda.journal.sqlite_tables import LargeEvent, StoredEvent, decode_answer, decode_result, decode_row
from ronda.journal.start_parts import StartSplitter
from ronda.journal.tally import NO_FIGURES, Beginning, Figures
from ronda.store import StoreError

LARGE_VALUE: Final = 64 << 10  # bytes of JSON that are a row of their own

# Python's sqlite3 takes str, int, float and bytearray as they are. For anything else, None and bytes among them, it looks for
# an adapter first, which costs more than binding it. So what no number and no state is bound for, SQLite makes NULL.
_NO_NUMBER: Final = inf
_NO_STATE: Final = ""
_NULLS: Final = {"ended": "nullif(?, 9e999)", "state": "nullif(?, '')", "cost": "nullif(?, 9e999)"}
_FIGURES: Final = (
    *("rounds", "tool_calls", "tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning", "cost", "end_reason"),
    "end_code",
)
_COLUMNS: Final = (
    *("name", "started", "ended", "writer", "owner", "session", "agent", "state"),
    *("model", "words", "parent", "parent_call", "run_group"),
    *_FIGURES,
)


def _insert(columns: Iterable[str]) -> str:
    values = ", ".join([_NULLS.get(column, "?") for column in columns])
    return f"INSERT INTO run ({', '.join(columns)}) VALUES ({values})"


def _update(columns: Iterable[str]) -> str:
    values = ", ".join([f"{column} = {_NULLS.get(column, '?')}" for column in columns])
    return f"UPDATE run SET {values} WHERE id = ?"


_NEW_RUN: Final = _insert(_COLUMNS)
_NEW_LARGE_RUN: Final = _insert((*_COLUMNS, "tip", "tools"))
_END: Final = _update(("ended", "state", *_FIGURES))
_COUNT: Final = _update(_FIGURES)

# What SQLite says of values that are too large or no values; of a file that is full, locked or damaged it says other things.
_OF_THE_EVENTS: Final = (sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class RowWriter:
    """Writes inside its caller's transactions: `begin` after each BEGIN, `forget` after each ROLLBACK."""

    def __init__(self, db: sqlite3.Connection, path: str, writer: int) -> None:
        self._execute = db.cursor().execute
        self._path = path
        self._writer = writer
        self._known: dict[bytes, int] = {}  # hash of a turn or value that is in the database → its id
        self._starts: StartSplitter[int] = StartSplitter()
        self._version = 0
        self._version_is_current = False

    def begin(self) -> None:
        self._version_is_current = False

    def forget(self) -> None:
        """Rows that this has counted on may not be there."""
        self._known.clear()

    def write(
        self,
        run: str,
        key: int,
        number: int,
        events: list[Event],
        now: float,
        is_large: bool = False,
        figures: Figures = NO_FIGURES,
    ) -> tuple[int, int]:
        """A run's next events. Returns the run's key, which is 0 before the first of them, and how many bytes were written.

        What is large is encoded once: each event by itself, not all of them first.

        Raises JournalConflict if their number is taken, and StoreError if these events cannot be written; what it did up to
        then is the caller's to roll back.
        """
        last = events[-1]
        end = last if type(last) is RunFinished else None
        try:
            if key == 0:
                key, events = self._write_start(run, events, now, end, figures)
            elif end is not None:
                self._execute(_END, (now, state_at(end), *_values(figures), key))
            body = b"" if is_large else encode(events)
            if is_large or len(body) > LARGE_VALUE:
                body = encode([self._slim(event, key) for event in events])
            decode_row(body)  # what cannot be read back is not kept: NaN becomes null, and a Raw may hold anything
            self._execute("INSERT INTO event (run, number, body) VALUES (?, ?, ?)", (key, number, bytearray(body)))
        except sqlite3.IntegrityError as error:
            raise JournalConflict(f"event {number} of run {run!r} was written by another driver") from error
        except Exception as error:  # whatever it is, it must not keep other runs from being written
            if isinstance(error, sqlite3.Error) and not isinstance(error, _OF_THE_EVENTS):
                raise  # not these events' fault
            raise StoreError(
                self._path, f"events {number} and on of run {run!r} cannot be written as JSON: {error}"
            ) from error
        return key, len(body)

    def expect(self, key: int, owner: str, call_id: str) -> None:
        try:
            self._execute("INSERT OR REPLACE INTO call (owner, id, run) VALUES (?, ?, ?)", (owner, call_id, key))
        except UnicodeError as error:
            raise StoreError(self._path, f"call id {call_id!r} cannot be written: {error}") from error

    def note_questions(self, key: int, questions: tuple[OpenQuestion, ...], waits: bool) -> None:
        values = (encode(questions), int(waits), key)
        self._execute("UPDATE run SET questions = ?, waits_within = ? WHERE id = ?", values)

    def count(self, key: int, figures: Figures) -> None:
        self._execute(_COUNT, (*_values(figures), key))

    def take(self, found: FoundRun) -> None:
        """From now on this writer drives the run. A torn row gives its number back."""
        if found.torn is not None:
            self._execute("DELETE FROM event WHERE run = ? AND number = ?", (found.key, found.torn))
            self._execute("UPDATE run SET ended = NULL, state = NULL, questions = NULL WHERE id = ?", (found.key,))
        self._execute("UPDATE run SET writer = ? WHERE id = ?", (self._writer, found.key))

    def unpause(self, key: int) -> None:
        """It does not wait any more."""
        self._execute("UPDATE run SET state = NULL WHERE id = ? AND state = 'waiting'", (key,))

    def pause(self, key: int) -> None:
        """It waits, if it is still ours."""
        self._execute(
            "UPDATE run SET state = 'waiting' WHERE id = ? AND ended IS NULL AND writer = ?", (key, self._writer)
        )

    def release(self, key: int) -> None:
        self._execute("UPDATE run SET writer = NULL WHERE id = ? AND writer = ?", (key, self._writer))

    def _write_start(
        self, run: str, events: list[Event], now: float, end: RunFinished | None, figures: Figures
    ) -> tuple[int, list[Event]]:
        start = events[0]
        assert type(start) is RunStarted
        beginning = Beginning.of(start)
        start, tip, tools, file = self._starts.split(start, self)
        ended, state = (_NO_NUMBER, _NO_STATE) if end is None else (now, state_at(end))
        row = (
            *(run, now, ended, self._writer, start.owner, start.session, start.agent, state),
            *astuple(beginning),
            *_values(figures),
        )
        if tip is None and tools is None:  # as of most
            inserted = self._execute(_NEW_RUN, row)
        else:
            inserted = self._execute(_NEW_LARGE_RUN, (*row, tip, tools))
        key = inserted.lastrowid
        assert key is not None
        if file is not None:
            self._execute("INSERT OR IGNORE INTO run_value (run, value) VALUES (?, ?)", (key, file))
        return key, [start, *events[1:]]

    def put_turns(self, chain: Chain) -> int:
        hashes, turns = chain.hashes, chain.turns
        # Where a turn is known, so are all before it.
        self._check_known()
        at = len(turns)
        before = None
        while at > 0 and (before := self._known.get(hashes[at - 1])) is None:
            at -= 1
        for digest, turn in zip(hashes[at:], turns[at:], strict=True):
            before = self._put_turn(digest, before, encode(turn))
        assert before is not None
        return before

    def _put_turn(self, digest: bytes, before: int | None, body: bytes) -> int:
        decode_turn(body)
        value = self.put_value(hash_value(body), lambda: body) if len(body) > LARGE_VALUE else None
        row = (digest, before, None if value else body, value)
        done = self._execute("INSERT OR IGNORE INTO turn (hash, before, body, value) VALUES (?, ?, ?, ?)", row)
        return self._remember(digest, "turn", done)

    def put_value(self, digest: bytes, write: Callable[[], bytes]) -> int:
        self._check_known()
        known = self._known.get(digest)
        if known is not None:
            return known
        done = self._execute("INSERT OR IGNORE INTO value (hash, body) VALUES (?, ?)", (digest, write()))
        return self._remember(digest, "value", done)

    def _remember(self, digest: bytes, table: str, inserted: sqlite3.Cursor) -> int:
        if inserted.rowcount:
            row_id = inserted.lastrowid
        else:
            (row_id,) = self._execute(f"SELECT id FROM {table} WHERE hash = ?", (digest,)).fetchone()
        assert row_id is not None
        if len(self._known) >= KNOWN_HASHES:
            for old in list(self._known)[: KNOWN_HASHES // 2]:
                del self._known[old]
        self._known[digest] = row_id
        return row_id

    def _check_known(self) -> None:
        """What others have deleted is not known any more: they, and no process here, change the version."""
        if not self._version_is_current:
            (version,) = self._execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._known.clear()
                self._version = version
            self._version_is_current = True

    def _slim(self, event: Event, key: int) -> StoredEvent:
        slim: Fact
        match event:
            case ModelStarted() | ToolStarted() | RunStarted() | RunFinished():
                return event
            case ToolFinished(result=result):
                body = encode(result)
                decode_result(body)
                slim = replace(event, result=ToolResult(result.call_id, ""))
            case ModelFinished(turn=turn) | ModelInterrupted(turn=turn):
                body = encode(turn)
                decode_answer(body)
                slim = replace(event, turn=AssistantTurn(()))
            case ModelRetried() | ModelFailed() | Checked() | Asked() | Answered() | Steered() | Compacted() | Warned():
                return event
            case TextDelta() | ReasoningDelta() | RefusalDelta() | CallDelta() | LogprobsDelta() | NativeDelta():
                return event
            case ToolProgressed() | Released() | Recovered():
                return event
            case _:
                assert_never(event)
        if len(body) <= LARGE_VALUE:
            return event
        value = self.put_value(hash_value(body), lambda: body)
        self._execute("INSERT OR IGNORE INTO run_value (run, value) VALUES (?, ?)", (key, value))
        return LargeEvent(slim, value)


def _values(figures: Figures) -> tuple[int | float | str, ...]:
    """Those of `_FIGURES`."""
    return (
        figures.rounds,
        figures.tool_calls,
        figures.input,
        figures.output,
        figures.cached,
        figures.reasoning,
        _NO_NUMBER if figures.cost is None else figures.cost,
        figures.end,
        figures.code,
    )
