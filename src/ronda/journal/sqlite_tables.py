"""The tables of a journal in SQLite.

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

A turn is found by the hash of itself and all before it, a value by the hash of its content.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.events import Event, Fact
from ronda.core.parts import AssistantTurn, ToolResult
from ronda.store.prune_clock import TABLE as PRUNE_CLOCK

MIGRATIONS: Final = (
    (
        """CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            started REAL NOT NULL,
            ended REAL,        -- NULL while unfinished
            writer INTEGER,    -- the Presence of its driver
            tip INTEGER,       -- the last turn of its input, where that is kept apart
            tools INTEGER,     -- its tool table, where that is kept apart
            owner TEXT,        -- NULL where it cannot be told: then the run is shown to no owner
            session TEXT,
            agent TEXT,
            state TEXT         -- a RunState; NULL while it is under way
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
        """CREATE TABLE preview (
            run INTEGER NOT NULL, fact INTEGER NOT NULL, number INTEGER NOT NULL, body BLOB NOT NULL,
            UNIQUE (run, fact, number)
        )""",
        PRUNE_CLOCK.format(text="TEXT NOT NULL", number="REAL NOT NULL"),
    ),
    # What it asks people, as a list of `OpenQuestion`; NULL in a run that has asked nothing, or not since there is this column.
    ("ALTER TABLE run ADD COLUMN questions BLOB",),
    # What lists show of it (`tally`); NULL in a run that was begun before there were these columns.
    (
        *[
            f"ALTER TABLE run ADD COLUMN {name} TEXT"
            for name in ("model", "words", "parent", "parent_call", "run_group")
        ],
        *[
            f"ALTER TABLE run ADD COLUMN {name} INTEGER"
            for name in ("rounds", "tool_calls", "tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning")
        ],
        "ALTER TABLE run ADD COLUMN cost REAL",
        "ALTER TABLE run ADD COLUMN end_reason TEXT",
        "ALTER TABLE run ADD COLUMN end_code TEXT",
        "ALTER TABLE run ADD COLUMN waits_within INTEGER",  # 1: nothing happens before an answer, although a tool of it runs
        "CREATE INDEX run_parent ON run(parent) WHERE parent <> ''",
    ),
    ("ALTER TABLE run ADD COLUMN kept INTEGER",),  # 1: its owner has marked it as one to keep
)


class LargeEvent(Struct, frozen=True, gc=False, tag="apart"):
    """Stands in a row for an event whose result or turn is a row of `value`."""

    event: Fact
    value: int


StoredEvent: TypeAlias = Event | LargeEvent

decode_row = msgspec.json.Decoder(list[StoredEvent]).decode
decode_result = msgspec.json.Decoder(ToolResult).decode
decode_answer = msgspec.json.Decoder(AssistantTurn).decode
