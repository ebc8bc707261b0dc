"""How runs lie in PostgreSQL: events become rows, and rows events.

    run      one row per run: whose it is, who drives it, how it stands. `id` tells in which order they came
    event    what one run said between two commits: a JSON list, and the number of its first event
    turn     transcripts kept apart, by the hash of a turn and all before it: a chat that sends everything again shares what it
             sent before
    value    tool tables and agents' files, by the hash of their content
    call     the call ids handed out to callers
    preview  what was shown of the round under way of runs that outlive their process

All that many runs say at once is one statement for each table. A row of `event` goes in only where this process still drives its
run: whoever takes a run over locks its row, so that a process which was frozen or cut off meanwhile is told, and writes nothing.
That a turn or a value is there for as long as somebody needs it is PostgreSQL's to watch (REFERENCES).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace
from psycopg import errors

from ronda.core.events import AgentFile, Event, RunFinished, RunStarted
from ronda.core.known_turns import KnownTurns
from ronda.core.parts import Turn
from ronda.core.plan import ToolSpec
from ronda.journal import JournalConflict, RunPage, RunQuery, RunSummary, state_at
from ronda.journal.chains import Chains
from ronda.journal.codecs import (
    KNOWN_HASHES,
    LARGE_TOOLS,
    LARGE_TRANSCRIPT,
    decode_file,
    decode_tools,
    decode_turn,
    encode,
    hash_value,
)
from ronda.journal.held import Portion
from ronda.journal.previews import PreviewsAfter, encode_previews, join_previews
from ronda.store import StoreError
from ronda.store.postgres import PostgresSql
from ronda.store.postgres_presence import ALIVE, Notice
from ronda.store.sql import Sql

_TEXT: Final = 'TEXT COLLATE "C" NOT NULL'

JOURNAL: Final = (
    (
        "CREATE TABLE value (hash BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
        "CREATE TABLE turn (hash BYTEA PRIMARY KEY, before BYTEA REFERENCES turn, body BYTEA NOT NULL)",
        "CREATE INDEX turn_before ON turn (before) WHERE before IS NOT NULL",
        f"""CREATE TABLE run (
            id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE, name {_TEXT} PRIMARY KEY, started DOUBLE PRECISION NOT NULL,
            ended DOUBLE PRECISION,  -- NULL while unfinished
            state TEXT,              -- a RunState; NULL while it is under way
            writer BIGINT,           -- the process that drives it
            tip BYTEA REFERENCES turn, tools BYTEA REFERENCES value, file BYTEA REFERENCES value,
            owner {_TEXT}, session {_TEXT}, agent {_TEXT}
        )""",
        "CREATE INDEX run_open ON run (writer) WHERE ended IS NULL",
        "CREATE INDEX run_started ON run (started)",
        "CREATE INDEX run_tip ON run (tip) WHERE tip IS NOT NULL",
        "CREATE INDEX run_tools ON run (tools) WHERE tools IS NOT NULL",
        "CREATE INDEX run_file ON run (file) WHERE file IS NOT NULL",
        f"CREATE TABLE event (run {_TEXT}, number INTEGER NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (run, number))",
        f"""CREATE TABLE preview (
            run {_TEXT}, fact INTEGER NOT NULL, number INTEGER NOT NULL, body BYTEA NOT NULL,
            PRIMARY KEY (run, fact, number)
        )""",
        f"CREATE TABLE call (owner {_TEXT}, id {_TEXT}, run {_TEXT}, PRIMARY KEY (owner, id))",
        "CREATE INDEX call_run ON call (run)",
    ),
)

_AT_ONCE: Final = 200  # runs that one transaction forgets

_decode_row = msgspec.json.Decoder(list[Event]).decode


# ---- writing ----------------------------------------------------------------------------------------------------------


class Unshared(Exception):
    """A turn or a value that was counted on is not there any more."""


class Batch(Struct):
    """What a few runs have said, as rows."""

    starts: list[tuple[Any, ...]] = []
    turns: dict[bytes, tuple[bytes | None, bytes]] = {}
    values: dict[bytes, bytes] = {}
    events: list[tuple[str, int, bytes]] = []
    ends: list[tuple[str, str, float]] = []
    go_on: list[str] = []
    pauses: list[str] = []
    releases: list[str] = []
    over: list[str] = []  # whose previews are of rounds that are over
    previews: list[tuple[str, int, int, bytes]] = []
    calls: dict[tuple[str, str], str] = {}


class BatchWriter:
    """Portions become a batch, and a batch rows. In one thread."""

    def __init__(self, place: str, process: int) -> None:
        self._place = place
        self._process = process
        self._known: set[bytes] = set()  # hashes of turns and values that are in the database
        self._chains = Chains()

    def prepare(self, portions: Sequence[Portion], now: float) -> Batch:
        """What cannot be written has an error in its portion, and is left out."""
        batch = Batch([], {}, {}, [], [], [], [], [], [], [], {})
        for portion in portions:
            held = portion.held
            try:
                held.name.encode()
                if portion.events:
                    self._add_events(batch, portion, now)
                for owner, call_id in portion.expected:
                    (owner + call_id).encode()
                    batch.calls[owner, call_id] = held.name
            except (UnicodeError, TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                portion.error = StoreError(
                    self._place, f"events {held.next} and on of run {held.name!r} cannot be written as JSON: {error}"
                )
                continue
            if portion.are_over:
                batch.over.append(held.name)
            batch.previews += [(held.name, *row) for row in encode_previews(portion.previews)]
            if portion.is_waiting:
                batch.pauses.append(held.name)
            if portion.is_let_go:
                batch.releases.append(held.name)
        return batch

    def _add_events(self, batch: Batch, portion: Portion, now: float) -> None:
        held, events, last = portion.held, portion.events, portion.events[-1]
        end = state_at(last) if type(last) is RunFinished else None
        start = None
        if not held.key:
            start, row = self._start(batch, held.name, events[0], now, end)
            events = [start, *events[1:]]
        body = encode(events)
        _decode_row(body)  # what cannot be read back is not kept: NaN becomes null, and a Raw may hold anything
        if start is not None:
            batch.starts.append(row)
        elif end is not None:
            batch.ends.append((held.name, end, now))
        elif held.was_waiting:
            batch.go_on.append(held.name)
        batch.events.append((held.name, held.next, body))

    def _start(
        self, batch: Batch, name: str, start: Event, now: float, end: str | None
    ) -> tuple[RunStarted, tuple[Any, ...]]:
        assert type(start) is RunStarted
        "".join((start.owner, start.session, start.agent)).encode()
        tip = tools = file = None
        if start.plan.tools:
            body = encode(start.plan.tools)
            if len(body) > LARGE_TOOLS:
                tools = self._put(batch, hash_value(body), body)
                start = replace(start, plan=replace(start.plan, tools=()))
        if start.turns:
            bodies = None if type(start.turns) is KnownTurns else [encode(turn) for turn in start.turns]
            if bodies is None or sum(map(len, bodies)) > LARGE_TRANSCRIPT:
                chain = self._chains.of(start.turns, bodies)
                if chain.size > LARGE_TRANSCRIPT:
                    tip = self._put_turns(batch, chain.hashes, chain.turns)
                    start = replace(start, turns=())
        if start.file is not None:
            content = start.file
            file = self._put(batch, hash_value(content.hash.encode()), encode((content.files, content.links)))
            start = replace(start, file=AgentFile(content.path, content.hash))
        ended = None if end is None else now
        return start, (name, now, ended, end, tip, tools, file, start.owner, start.session, start.agent)

    def _put(self, batch: Batch, hash: bytes, body: bytes) -> bytes:
        if hash not in self._known:
            batch.values[hash] = body
        return hash

    def _put_turns(self, batch: Batch, hashes: Sequence[bytes], turns: Sequence[Turn]) -> bytes:
        at = len(turns)
        while at > 0 and hashes[at - 1] not in self._known:  # where a turn is known, so are all before it
            at -= 1
        for number in range(at, len(turns)):
            body = encode(turns[number])
            decode_turn(body)
            batch.turns[hashes[number]] = (hashes[number - 1] if number else None, body)
        return hashes[-1]

    def write(self, db: PostgresSql, batch: Batch) -> set[str]:
        """The names of those whose events were written; the others are driven by somebody else."""
        execute, me = db.execute, self._process
        written = None
        try:
            with db.connection.pipeline():
                if batch.values:
                    columns = [list(batch.values), list(batch.values.values())]
                    execute(
                        "INSERT INTO value SELECT * FROM unnest(?::bytea[], ?::bytea[]) ON CONFLICT DO NOTHING", columns
                    )
                if batch.turns:
                    befores, bodies = _columns(batch.turns.values())
                    columns = [list(batch.turns), befores, bodies]
                    execute(
                        "INSERT INTO turn SELECT * FROM unnest(?::bytea[], ?::bytea[], ?::bytea[]) ON CONFLICT DO NOTHING",
                        columns,
                    )
                if batch.starts:
                    execute(_START, [me, *_columns(batch.starts)])
                if batch.events:
                    names, numbers, bodies = _columns(batch.events)
                    written = execute(_EVENTS, [names, me, names, numbers, bodies])
                if batch.ends:
                    execute(_ENDS, [*_columns(batch.ends), me])
                if batch.go_on:
                    execute(_GO_ON, [batch.go_on, me])
                if batch.over:
                    execute(_OVER, [batch.over, me])
                if batch.previews:
                    execute(_PREVIEWS, [*_columns(batch.previews), me])
                if batch.calls:
                    owners, ids = _columns(batch.calls)
                    execute(_CALLS, [owners, ids, list(batch.calls.values()), me])
                if batch.pauses:
                    execute(_PAUSES, [batch.pauses, me])
                if batch.releases:
                    execute(_RELEASES, [batch.releases, me])
        except errors.ForeignKeyViolation as error:
            raise Unshared from error
        return set() if written is None else {name for (name,) in written.fetchall()}

    def committed(self, batch: Batch) -> None:
        if len(self._known) > KNOWN_HASHES:
            self._known.clear()
        self._known.update(batch.values)
        self._known.update(batch.turns)

    def forget(self) -> None:
        """Rows that this has counted on may not be there."""
        self._known.clear()


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


_START: Final = """INSERT INTO run (writer, name, started, ended, state, tip, tools, file, owner, session, agent)
    SELECT ?::bigint, * FROM unnest(?::text[], ?::float8[], ?::float8[], ?::text[], ?::bytea[], ?::bytea[], ?::bytea[],
        ?::text[], ?::text[], ?::text[]) ON CONFLICT (name) DO NOTHING"""
_EVENTS: Final = """WITH mine AS MATERIALIZED (
        SELECT name FROM run WHERE name = ANY(?::text[]) AND writer = ? ORDER BY name FOR KEY SHARE
    ) INSERT INTO event SELECT new.* FROM unnest(?::text[], ?::int[], ?::bytea[]) AS new (run, number, body)
    JOIN mine ON mine.name = new.run ON CONFLICT DO NOTHING RETURNING run"""
_ENDS: Final = """UPDATE run SET ended = new.ended, state = new.state
    FROM unnest(?::text[], ?::text[], ?::float8[]) AS new (run, state, ended) WHERE name = new.run AND writer = ?"""
_GO_ON: Final = "UPDATE run SET state = NULL WHERE name = ANY(?::text[]) AND state = 'waiting' AND writer = ?"
_OVER: Final = "DELETE FROM preview USING run WHERE run = ANY(?::text[]) AND run.name = run AND writer = ?"
_PREVIEWS: Final = """INSERT INTO preview
    SELECT new.* FROM unnest(?::text[], ?::int[], ?::int[], ?::bytea[]) AS new (run, fact, number, body)
    JOIN run ON name = new.run AND writer = ? ON CONFLICT (run, fact, number) DO UPDATE SET body = excluded.body"""
_CALLS: Final = """INSERT INTO call SELECT new.* FROM unnest(?::text[], ?::text[], ?::text[]) AS new (owner, id, run)
    JOIN run ON name = new.run AND writer = ? ON CONFLICT (owner, id) DO UPDATE SET run = excluded.run"""
_PAUSES: Final = "UPDATE run SET state = 'waiting' WHERE name = ANY(?::text[]) AND ended IS NULL AND writer = ?"
_RELEASES: Final = "UPDATE run SET writer = NULL WHERE name = ANY(?::text[]) AND writer = ?"


def notices(batch: Batch, written: set[str]) -> list[Notice]:
    """What others are told of a batch: which runs have grown, and how far."""
    facts = {run: number for run, number, _ in batch.events if run in written}
    previews = {run: number for run, _, number, _ in batch.previews}
    runs = [[run, facts.get(run), previews.get(run)] for run in {**facts, **previews}]
    return [{"runs": runs[at : at + _TOLD_AT_ONCE]} for at in range(0, len(runs), _TOLD_AT_ONCE)]


_TOLD_AT_ONCE: Final = 100  # a name has 28 letters, and a notice 7,000 bytes


# ---- reading ----------------------------------------------------------------------------------------------------------


class Found(Struct, frozen=True):
    """A run as it lies in the database. `driver` is the process that drives it, if one does."""

    events: list[Event]
    is_waiting: bool
    driver: int | None


def find(db: Sql, place: str, run: str, me: int, *, lock: bool = False) -> Found | None:
    """All that is kept of a run. `lock`: nobody writes to it before this transaction ends."""
    question = f"SELECT state, writer, {_DRIVEN}, tip, tools, file FROM run WHERE name = :name"
    try:
        row = db.execute(f"{question} FOR UPDATE" if lock else question, {"name": run, "me": me}).fetchone()
    except UnicodeError:  # no text, so nobody can have kept it
        return None
    if row is None:
        return None
    state, writer, is_driven, tip, tools, file = row
    events: list[Event] = []
    for number, body in db.execute("SELECT number, body FROM event WHERE run = ? ORDER BY number", (run,)):
        try:
            if number != len(events):
                raise LookupError("it is not there")
            events += _decode_row(body)
        except msgspec.ValidationError as error:
            raise _damaged(place, run, len(events), f"{error}; was it written by a newer Ronda?") from error
        except (msgspec.DecodeError, LookupError) as error:
            raise _damaged(place, run, len(events), str(error)) from error
    if events:
        try:
            events[0] = _whole_start(db, events[0], tip, tools, file)
        except LookupError as error:
            raise _damaged(place, run, 0, str(error)) from error
    return Found(events, state == "waiting", writer if is_driven else None)


_DRIVEN: Final = f"(writer IS NOT NULL AND ended IS NULL AND (writer = :me OR {ALIVE.format(id='writer')}))"


def find_driver(db: Sql, run: str, me: int) -> int | None:
    row = db.execute(f"SELECT writer FROM run WHERE name = :name AND {_DRIVEN}", {"name": run, "me": me}).fetchone()
    return None if row is None else row[0]


def _damaged(place: str, run: str, number: int, why: str) -> StoreError:
    return StoreError(place, f"event {number} of run {run!r} cannot be read: {why}")


def _whole_start(db: Sql, start: Event, tip: bytes | None, tools: bytes | None, file: bytes | None) -> Event:
    if type(start) is not RunStarted:
        raise LookupError("it is no RunStarted")
    if tools is not None:
        specs: tuple[ToolSpec, ...] = decode_tools(_value(db, tools))
        start = replace(start, plan=replace(start.plan, tools=specs))
    if tip is not None:
        rows = db.execute(
            """WITH RECURSIVE chain (step, before, body) AS (
                SELECT 0, before, body FROM turn WHERE hash = ?
                UNION ALL SELECT step + 1, turn.before, turn.body FROM chain JOIN turn ON turn.hash = chain.before
            ) SELECT body FROM chain ORDER BY step DESC""",
            (tip,),
        ).fetchall()
        start = replace(start, turns=tuple([decode_turn(body) for (body,) in rows]))
    if file is not None and start.file is not None:
        files, links = decode_file(_value(db, file))
        start = replace(start, file=replace(start.file, files=files, links=links))
    return start


def _value(db: Sql, hash: bytes) -> bytes:
    row = db.execute("SELECT body FROM value WHERE hash = ?", (hash,)).fetchone()
    if row is None:
        raise LookupError("a large value of it is not there")
    return bytes(row[0])


def read_previews(db: Sql, run: str, after: int) -> PreviewsAfter:
    question = "SELECT fact, number, body FROM preview WHERE run = ? AND fact >= ? ORDER BY fact, number"
    return join_previews(db.execute(question, (run, after)))


def list_runs(db: Sql, query: RunQuery) -> RunPage:
    """One page of an owner's runs, backwards by id."""
    rows = db.execute(
        """SELECT id, name, session, agent, coalesce(state, 'running'), started, ended FROM run
        WHERE id < :before AND owner = :owner AND (:state::text IS NULL OR coalesce(state, 'running') = :state)
            AND (:session::text IS NULL OR session = :session) AND (:agent::text IS NULL OR agent = :agent)
            AND (:among::text[] IS NULL OR name = ANY(:among::text[])) AND name <> ALL(:without::text[])
        ORDER BY id DESC LIMIT :limit""",
        asdict(query)
        | {
            "before": 2**63 - 1 if query.before is None else query.before,
            "limit": query.limit + 1,
            "among": None if query.among is None else list(query.among),
            "without": list(query.without),
        },
    ).fetchall()
    limit = query.limit
    runs = [RunSummary(*row[1:]) for row in rows[:limit]]
    return RunPage(runs, rows[limit - 1][0] if len(rows) > limit else None)


# ---- whose runs they are ----------------------------------------------------------------------------------------------


def take(db: Sql, place: str, run: str, me: int) -> Found | None:
    """From now on this process drives the run."""
    found = find(db, place, run, me, lock=True)
    if found is None or not found.events:
        return None
    if found.driver not in (None, me):
        raise JournalConflict(f"run {run!r} is being driven by another process that uses {place}")
    db.execute("UPDATE run SET writer = ? WHERE name = ?", (me, run))
    return found


def open_runs(db: Sql, me: int) -> list[tuple[str, bool]]:
    """The names of runs without an end that nobody drives, the oldest first, and whether each waits for people."""
    question = (
        f"SELECT name, state IS NOT DISTINCT FROM 'waiting' FROM run WHERE ended IS NULL AND NOT {_DRIVEN} ORDER BY id"
    )
    return [(name, is_waiting) for name, is_waiting in db.execute(question, {"me": me})]


# ---- forgetting -------------------------------------------------------------------------------------------------------


def forget(db: Sql, names: Sequence[str]) -> int:
    """These runs, and the turns and values that nobody else uses."""
    gone = db.execute(
        "DELETE FROM run WHERE name = ANY(?::text[]) RETURNING tip, tools, file", (list(names),)
    ).fetchall()
    for table in ("event", "preview", "call"):
        db.execute(f"DELETE FROM {table} WHERE run = ANY(?::text[])", (list(names),))
    tips = [tip for tip, _, _ in gone if tip is not None]
    while tips:  # from the ends of their transcripts back to the first turn that another transcript shares
        rows = db.execute(
            """DELETE FROM turn WHERE hash = ANY(?::bytea[]) AND NOT EXISTS (SELECT 1 FROM run WHERE tip = hash)
            AND NOT EXISTS (SELECT 1 FROM turn AS next WHERE next.before = turn.hash) RETURNING before""",
            (tips,),
        )
        tips = [before for (before,) in rows if before is not None]
    values = [hash for _, *both in gone for hash in both if hash is not None]
    if values:
        db.execute(
            """DELETE FROM value WHERE hash = ANY(?::bytea[]) AND NOT EXISTS (SELECT 1 FROM run WHERE tools = hash)
            AND NOT EXISTS (SELECT 1 FROM run WHERE file = hash)""",
            (values,),
        )
    return len(gone)


def forget_old(db: Sql, then: float, me: int) -> int:
    """A few of the runs that ended before; of those that have no end, and that nobody drives, those that began before. One that
    waits for people stays."""
    rows = db.execute(
        f"""SELECT name FROM run WHERE started < :then AND (ended IS NULL OR ended < :then)
        AND state IS DISTINCT FROM 'waiting' AND NOT {_DRIVEN} ORDER BY started LIMIT {_AT_ONCE} FOR UPDATE SKIP LOCKED""",
        {"then": then, "me": me},
    ).fetchall()
    return forget(db, [name for (name,) in rows]) if rows else 0


def forget_previews(db: Sql, then: float, max_bytes: int) -> None:
    """What was shown, piece by piece, of runs that ended before; and of the oldest others, if there is too much."""
    db.execute(
        """DELETE FROM preview USING (
            SELECT name, ended, sum(size) OVER (ORDER BY ended DESC) AS so_far FROM (
                SELECT name, ended, sum(octet_length(body)) AS size FROM preview JOIN run ON name = run
                WHERE ended IS NOT NULL GROUP BY name, ended
            ) AS each
        ) AS old WHERE preview.run = old.name AND (ended < ? OR so_far > ?)""",
        (then, max_bytes),
    )
