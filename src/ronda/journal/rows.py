"""How runs lie in SQLite: events become rows, and rows events.

    run     one row per run: whose it is, who drives it, when it began, how it stands, and where the large parts of its
            start are. It is found by its name, and listed backwards by its id: an index for each owner would cost every
            run more than it would save the few lists
    event   what one run said between two commits: a JSON list, and the number of its first event. In the order of arrival,
            not by run: so the rows of many runs in one commit lie side by side, and few pages are written
    turn    transcripts kept apart: a turn and the one before it. A chat that sends everything again shares what it sent
            before, so that a journal grows with what was said and not with its square
    value   large values kept apart: tool tables, results, turns
    call    the call ids handed out to callers
    preview what was shown of the round under way of runs that outlive their process: see `previews`

A turn is found by the hash of itself and all before it, a value by the hash of its content. Nothing here commits, waits or
knows the time.
"""

from __future__ import annotations

import sqlite3
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ronda.core.events import (
    AgentFile,
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
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.known_turns import KnownTurns
from ronda.core.parts import AssistantTurn, ToolResult, Turn
from ronda.core.plan import ToolSpec
from ronda.drive.offload import LIGHT_BYTES, LIGHT_TURNS
from ronda.journal import JournalConflict, RunPage, RunQuery, RunSummary, state_at
from ronda.journal.chains import Chain, Chains
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
from ronda.store import StoreError

MIGRATIONS: Final = (
    (
        """CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            started REAL NOT NULL,
            ended REAL,        -- NULL while unfinished
            writer INTEGER,    -- the Presence of whoever drives it
            tip INTEGER,       -- the last turn of its input, where that is kept apart
            tools INTEGER      -- its tool table, where that is kept apart
        )""",
        "CREATE INDEX run_tip ON run(tip) WHERE tip IS NOT NULL",
        "CREATE INDEX run_tools ON run(tools) WHERE tools IS NOT NULL",
        "CREATE TABLE event (run INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE (run, number))",
        "CREATE TABLE turn (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, before INTEGER, body BLOB, value INTEGER)",
        "CREATE INDEX turn_before ON turn(before) WHERE before IS NOT NULL",
        "CREATE INDEX turn_value ON turn(value) WHERE value IS NOT NULL",
        "CREATE TABLE value (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, body BLOB NOT NULL)",
        "CREATE TABLE run_value (run INTEGER, value INTEGER, PRIMARY KEY (run, value)) WITHOUT ROWID",
        "CREATE INDEX value_run ON run_value(value)",
        "CREATE TABLE call (owner TEXT, id TEXT, run INTEGER NOT NULL, PRIMARY KEY (owner, id)) WITHOUT ROWID",
        "CREATE INDEX call_run ON call(run)",
    ),
    (
        "ALTER TABLE run ADD COLUMN owner TEXT",  # NULL where it cannot be told: then nobody is shown the run
        "ALTER TABLE run ADD COLUMN session TEXT",
        "ALTER TABLE run ADD COLUMN agent TEXT",
        "ALTER TABLE run ADD COLUMN state TEXT",  # a RunState; NULL while it is under way
        # What the events of earlier runs say. Their JSON may be torn, or too deep for SQLite.
        """UPDATE run SET (owner, session, agent) = (
            SELECT coalesce(json_extract(said, '$[0].owner'), ''), coalesce(json_extract(said, '$[0].session'), ''),
                coalesce(json_extract(said, '$[0].about.agent_id'), '')
            FROM (SELECT CAST(body AS TEXT) AS said FROM event WHERE event.run = run.id AND number = 0)
            WHERE json_valid(said))""",
        """UPDATE run SET state = coalesce((
            SELECT CASE json_extract(said, '$[#-1].reason')
                WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'cancelled' ELSE 'finished' END
            FROM (SELECT CAST(body AS TEXT) AS said FROM event WHERE event.run = run.id ORDER BY number DESC LIMIT 1)
            WHERE json_valid(said)), 'finished')
        WHERE ended IS NOT NULL""",
    ),
    (
        """CREATE TABLE preview (
            run INTEGER NOT NULL, fact INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL,
            UNIQUE (run, fact, number)
        )""",
    ),
)

LARGE_VALUE = 64 << 10  # bytes of JSON that are kept apart

KNOWN_TOOLS = 64

# What SQLite says of values that are too large or no values; of a file that is full, locked or damaged it says other things.
_OF_THE_EVENTS: Final = (sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class Apart(Struct, frozen=True, gc=False, tag="apart"):
    """Stands in a row for an event whose result or turn is a row of `value`."""

    event: Fact
    value: int


Kept: TypeAlias = Event | Apart

_decode_row = msgspec.json.Decoder(list[Kept]).decode
_decode_result = msgspec.json.Decoder(ToolResult).decode
_decode_answer = msgspec.json.Decoder(AssistantTurn).decode


# ---- writing ----------------------------------------------------------------------------------------------------------


class RowWriter:
    """Writes inside somebody's transactions: `begin` after each BEGIN, `forget` after each ROLLBACK."""

    def __init__(self, db: sqlite3.Connection, path: str, writer: int) -> None:
        self._execute = db.cursor().execute
        self._path = path
        self._writer = writer
        self._known: dict[bytes, int] = {}  # hash of a turn or value that is in the database → its id
        self._tools: dict[tuple[int, ...], tuple[tuple[ToolSpec, ...], bytes, bytes]] = {}
        self._chains = Chains()
        self._version = 0
        self._version_is_current = False

    def begin(self) -> None:
        self._version_is_current = False

    def forget(self) -> None:
        """Rows that this has counted on may not be there."""
        self._known.clear()

    def write(
        self, run: str, key: int, number: int, events: list[Event], now: float, is_large: bool = False
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
                key, events = self._write_start(run, events, now, end)
            elif end is not None:
                self._execute("UPDATE run SET ended = ?, state = ? WHERE id = ?", (now, state_at(end), key))
            body = b"" if is_large else encode(events)
            if is_large or len(body) > LARGE_VALUE:
                body = encode([self._slim(event, key) for event in events])
            _decode_row(body)  # what cannot be read back is not kept: NaN becomes null, and a Raw may hold anything
            self._execute("INSERT INTO event VALUES (?, ?, ?)", (key, number, body))
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
            self._execute("INSERT OR REPLACE INTO call VALUES (?, ?, ?)", (owner, call_id, key))
        except UnicodeError as error:
            raise StoreError(self._path, f"call id {call_id!r} cannot be written: {error}") from error

    def take(self, found: Found) -> None:
        """From now on this writer drives the run. A torn row gives its number back."""
        if found.torn is not None:
            self._execute("DELETE FROM event WHERE run = ? AND number = ?", (found.key, found.torn))
            self._execute("UPDATE run SET ended = NULL, state = NULL WHERE id = ?", (found.key,))
        self._execute("UPDATE run SET writer = ? WHERE id = ?", (self._writer, found.key))

    def goes_on(self, key: int) -> None:
        """It does not wait any more."""
        self._execute("UPDATE run SET state = NULL WHERE id = ? AND state = 'waiting'", (key,))

    def pause(self, key: int) -> None:
        """It waits, if it is still ours."""
        self._execute(
            "UPDATE run SET state = 'waiting' WHERE id = ? AND ended IS NULL AND writer = ?", (key, self._writer)
        )

    def let_go(self, key: int) -> None:
        self._execute("UPDATE run SET writer = NULL WHERE id = ? AND writer = ?", (key, self._writer))

    def _write_start(
        self, run: str, events: list[Event], now: float, end: RunFinished | None
    ) -> tuple[int, list[Event]]:
        start = events[0]
        assert type(start) is RunStarted
        tip = tools = None
        if start.plan.tools and (tools := self._put_tools(start.plan.tools)) is not None:
            start = replace(start, plan=replace(start.plan, tools=()))
        bodies = None if type(start.turns) is KnownTurns else [encode(turn) for turn in start.turns]
        if bodies is None or sum(map(len, bodies)) > LARGE_TRANSCRIPT:
            chain = self._chains.of(start.turns, bodies)
            if chain.size > LARGE_TRANSCRIPT:
                tip = self._put_turns(chain)
                start = replace(start, turns=())
        file = start.file
        if file is not None:
            content = self._put_file(file)
            start = replace(start, file=AgentFile(file.path, file.hash))
        ended, state = (now, state_at(end)) if end is not None else (None, None)
        inserted = self._execute(
            "INSERT INTO run (name, started, ended, writer, tip, tools, owner, session, agent, state) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run, now, ended, self._writer, tip, tools, start.owner, start.session, start.agent, state),
        )
        key = inserted.lastrowid
        assert key is not None
        if file is not None:
            self._execute("INSERT OR IGNORE INTO run_value VALUES (?, ?)", (key, content))
        return key, [start, *events[1:]]

    def _put_file(self, file: AgentFile) -> int:
        """What is known is not encoded again: many runs have the same one."""
        hash = hash_value(file.hash.encode())
        self._check_known()
        known = self._known.get(hash)
        return self._put(hash, encode((file.files, file.links))) if known is None else known

    def _put_tools(self, tools: tuple[ToolSpec, ...]) -> int | None:
        """The id of this tool table, or None if it is small. A server has few, made of the same objects for many runs."""
        objects = tuple(map(id, tools))
        seen = self._tools.get(objects)
        if seen is None:
            body = encode(tools)
            decode_tools(body)
            if len(self._tools) >= KNOWN_TOOLS:
                self._tools.clear()
            # Holding on to `tools` keeps the ids of its objects from being used again.
            seen = self._tools[objects] = (tools, body, hash_value(body))
        _, body, hash = seen
        return self._put(hash, body) if len(body) > LARGE_TOOLS else None

    def _put_turns(self, chain: Chain) -> int:
        hashes, turns = chain.hashes, chain.turns
        # Where a turn is known, so are all before it.
        self._check_known()
        at = len(turns)
        before = None
        while at > 0 and (before := self._known.get(hashes[at - 1])) is None:
            at -= 1
        for hash, turn in zip(hashes[at:], turns[at:], strict=True):
            before = self._put_turn(hash, before, encode(turn))
        assert before is not None
        return before

    def _put_turn(self, hash: bytes, before: int | None, body: bytes) -> int:
        decode_turn(body)
        value = self._put(hash_value(body), body) if len(body) > LARGE_VALUE else None
        row = (hash, before, None if value else body, value)
        done = self._execute("INSERT OR IGNORE INTO turn (hash, before, body, value) VALUES (?, ?, ?, ?)", row)
        return self._remember(hash, "turn", done)

    def _put(self, hash: bytes, body: bytes) -> int:
        self._check_known()
        known = self._known.get(hash)
        if known is not None:
            return known
        done = self._execute("INSERT OR IGNORE INTO value (hash, body) VALUES (?, ?)", (hash, body))
        return self._remember(hash, "value", done)

    def _remember(self, hash: bytes, table: str, inserted: sqlite3.Cursor) -> int:
        if inserted.rowcount:
            id = inserted.lastrowid
        else:
            (id,) = self._execute(f"SELECT id FROM {table} WHERE hash = ?", (hash,)).fetchone()
        assert id is not None
        if len(self._known) >= KNOWN_HASHES:
            for old in list(self._known)[: KNOWN_HASHES // 2]:
                del self._known[old]
        self._known[hash] = id
        return id

    def _check_known(self) -> None:
        """What others have deleted is not known any more: they, and nobody here, change the version."""
        if not self._version_is_current:
            (version,) = self._execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._known.clear()
                self._version = version
            self._version_is_current = True

    def _slim(self, event: Event, key: int) -> Kept:
        slim: Fact
        match event:
            case ModelStarted() | ToolStarted() | RunStarted() | RunFinished():
                return event
            case ToolFinished(result=result):
                body = encode(result)
                _decode_result(body)
                slim = replace(event, result=ToolResult(result.call_id, ""))
            case ModelFinished(turn=turn) | ModelInterrupted(turn=turn):
                body = encode(turn)
                _decode_answer(body)
                slim = replace(event, turn=AssistantTurn(()))
            case ModelRetried() | ModelFailed() | Checked() | Asked() | Answered() | Steered() | Compacted() | Warned():
                return event
            case TextDelta() | ReasoningDelta() | RefusalDelta() | CallDelta() | LogprobsDelta() | NativeDelta():
                return event
            case ToolProgressed() | Recovered():
                return event
            case _:
                assert_never(event)
        if len(body) <= LARGE_VALUE:
            return event
        value = self._put(hash_value(body), body)
        self._execute("INSERT OR IGNORE INTO run_value VALUES (?, ?)", (key, value))
        return Apart(slim, value)


# ---- reading ----------------------------------------------------------------------------------------------------------


class Found(Struct, frozen=True):
    """A run as it lies in so many rows of the database. `torn` is the number of a last one that cannot be read."""

    key: int
    writer: int | None
    is_waiting: bool
    events: list[Event]
    rows: int
    torn: int | None = None


def find(db: sqlite3.Connection, path: str, run: str, known: Found | None = None) -> Found | None:
    """All that is kept of a run. Raises StoreError where something is missing in the middle of it. What was read of it before
    (`known`) is not read again if it has not grown.

    Call it in a transaction, since somebody may be pruning.
    """
    try:
        row = db.execute("SELECT id, writer, state, tip, tools FROM run WHERE name = ?", (run,)).fetchone()
    except UnicodeError:  # no text, so nobody can have kept it
        return None
    if row is None:
        return None
    key, writer, state, tip, tools = row
    is_waiting = state == "waiting"
    if known is not None and (known.key, known.torn) == (key, None):
        (count,) = db.execute("SELECT count(*) FROM event WHERE run = ?", (key,)).fetchone()
        if count == known.rows:
            return replace(known, writer=writer, is_waiting=is_waiting)
    rows = db.execute("SELECT number, body FROM event WHERE run = ? ORDER BY number", (key,)).fetchall()
    events: list[Event] = []
    for number, body in rows:
        try:
            if number != len(events):
                raise LookupError("it is not there")
            events += [_whole(db, kept) if isinstance(kept, Apart) else kept for kept in _decode_row(body)]
            if number == 0:
                events[0] = _whole_start(db, events[0], tip, tools)
        except msgspec.ValidationError as error:
            # Good JSON, but no event known here: to drop it would lose what a newer Ronda wrote.
            raise _damaged(path, run, len(events), f"{error}; was it written by a newer Ronda?") from error
        except (msgspec.DecodeError, UnicodeError, LookupError) as error:
            if number == rows[-1][0] and not isinstance(error, LookupError):
                return Found(key, writer, is_waiting, events, len(rows), torn=number)
            raise _damaged(path, run, len(events), str(error)) from error
    return Found(key, writer, is_waiting, events, len(rows))


def is_long(db: sqlite3.Connection, run: str) -> bool:
    """Whether it takes long to read, going by the sizes of its rows: SQLite knows them without reading the rows."""
    try:
        (size,) = db.execute(_SIZE, {"run": run, "turns": LIGHT_TURNS, "turn": LIGHT_BYTES // LIGHT_TURNS}).fetchone()
    except UnicodeError:  # no text, so nobody can have kept it
        return False
    return size is not None and size > LIGHT_BYTES


# No more turns are counted than are light, and each for so many bytes at the least.
_SIZE: Final = """WITH RECURSIVE
    this(id, tip) AS (SELECT id, tip FROM run WHERE name = :run),
    chain(before, body, value) AS (
        SELECT before, body, value FROM turn WHERE id = (SELECT tip FROM this)
        UNION ALL
        SELECT turn.before, turn.body, turn.value FROM chain JOIN turn ON turn.id = chain.before
        LIMIT :turns + 1
    )
    SELECT sum(size) FROM (
        SELECT length(body) AS size FROM event WHERE run = (SELECT id FROM this)
        UNION ALL
        SELECT length(body) FROM value WHERE id IN (SELECT value FROM run_value WHERE run = (SELECT id FROM this))
        UNION ALL
        SELECT max(:turn, length(coalesce(chain.body, kept.body))) FROM chain LEFT JOIN value AS kept ON kept.id = chain.value
    )"""


def list_runs(db: sqlite3.Connection, query: RunQuery) -> RunPage:
    """One page of an owner's runs, backwards by id."""
    rows = db.execute(
        """SELECT id, name, session, agent, coalesce(state, 'running'), started, ended FROM run
        WHERE id < :before AND owner = :owner AND (:state IS NULL OR coalesce(state, 'running') = :state)
            AND (:session IS NULL OR session = :session) AND (:agent IS NULL OR agent = :agent)
            AND (:among IS NULL OR name IN (SELECT value FROM json_each(:among)))
            AND name NOT IN (SELECT value FROM json_each(:without))
        ORDER BY id DESC LIMIT :limit""",
        asdict(query)
        | {
            "before": 2**63 - 1 if query.before is None else query.before,
            "limit": query.limit + 1,
            "among": None if query.among is None else msgspec.json.encode(query.among).decode(),
            "without": msgspec.json.encode(query.without).decode(),
        },
    ).fetchall()
    limit = query.limit
    runs = [RunSummary(*row[1:]) for row in rows[:limit]]
    return RunPage(runs, rows[limit - 1][0] if len(rows) > limit else None)


def _damaged(path: str, run: str, number: int, why: str) -> StoreError:
    return StoreError(path, f"event {number} of run {run!r} cannot be read: {why}")


def _whole(db: sqlite3.Connection, apart: Apart) -> Event:
    body = _value(db, apart.value)
    event = apart.event
    if type(event) is ToolFinished:
        return replace(event, result=_decode_result(body))
    if type(event) is ModelFinished or type(event) is ModelInterrupted:
        return replace(event, turn=_decode_answer(body))
    return event


def _whole_start(db: sqlite3.Connection, start: Event, tip: int | None, tools: int | None) -> Event:
    if type(start) is not RunStarted:
        raise LookupError("it is no RunStarted")
    if tools is not None:
        start = replace(start, plan=replace(start.plan, tools=decode_tools(_value(db, tools))))
    if tip is not None:
        start = replace(start, turns=_transcript(db, tip))
    if start.file is not None:
        row = db.execute("SELECT body FROM value WHERE hash = ?", (hash_value(start.file.hash.encode()),)).fetchone()
        if row is None:
            raise LookupError("the file of its agent is not there")
        files, links = decode_file(bytes(row[0]))
        start = replace(start, file=replace(start.file, files=files, links=links))
    return start


def _transcript(db: sqlite3.Connection, tip: int) -> tuple[Turn, ...]:
    chain = db.execute(
        """WITH RECURSIVE chain(step, before, body, value) AS (
               SELECT 0, before, body, value FROM turn WHERE id = ?
               UNION ALL
               SELECT step + 1, turn.before, turn.body, turn.value FROM chain JOIN turn ON turn.id = chain.before
           )
           SELECT before, body, value FROM chain ORDER BY step DESC""",
        (tip,),
    ).fetchall()
    if not chain or chain[0][0] is not None:
        raise LookupError("the beginning of its transcript is not there")
    return tuple([decode_turn(body if value is None else _value(db, value)) for _, body, value in chain])


def _value(db: sqlite3.Connection, id: int) -> bytes:
    row = db.execute("SELECT body FROM value WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise LookupError("a large value of it is not there")
    return bytes(row[0])
