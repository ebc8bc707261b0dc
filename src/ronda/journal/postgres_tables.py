"""The tables of a journal in PostgreSQL.

    run      one row per run: whose it is, who drives it, how it stands. `id` tells in which order they came
    event    what one run said between two commits: a JSON list, and the number of its first event
    turn     transcripts kept apart, by the hash of a turn and all before it: a chat that sends everything again shares what it
             sent before
    value    tool tables and agents' files, by the hash of their content
    call     the call ids handed out to callers
    preview  what was shown of the round under way of runs that outlive their process

That a turn or a value is there for as long as it is needed is PostgreSQL's to watch (REFERENCES).
"""

from __future__ import annotations

from typing import Final

from ronda.store.postgres_tables import TEXT

JOURNAL: Final = (
    (
        "CREATE TABLE value (hash BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
        "CREATE TABLE turn (hash BYTEA PRIMARY KEY, before BYTEA REFERENCES turn, body BYTEA NOT NULL)",
        "CREATE INDEX turn_before ON turn (before) WHERE before IS NOT NULL",
        f"""CREATE TABLE run (
            id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE, name {TEXT} PRIMARY KEY, started DOUBLE PRECISION NOT NULL,
            ended DOUBLE PRECISION,  -- NULL while unfinished
            state TEXT,              -- a RunState; NULL while it is under way
            writer BIGINT,           -- the process that drives it
            tip BYTEA REFERENCES turn, tools BYTEA REFERENCES value, file BYTEA REFERENCES value,
            owner {TEXT}, session {TEXT}, agent {TEXT}
        )""",
        "CREATE INDEX run_open ON run (writer) WHERE ended IS NULL",
        "CREATE INDEX run_started ON run (started)",
        "CREATE INDEX run_tip ON run (tip) WHERE tip IS NOT NULL",
        "CREATE INDEX run_tools ON run (tools) WHERE tools IS NOT NULL",
        "CREATE INDEX run_file ON run (file) WHERE file IS NOT NULL",
        f"CREATE TABLE event (run {TEXT}, number INTEGER NOT NULL, body BYTEA NOT NULL, PRIMARY KEY (run, number))",
        f"""CREATE TABLE preview (
            run {TEXT}, fact INTEGER NOT NULL, number INTEGER NOT NULL, body BYTEA NOT NULL,
            PRIMARY KEY (run, fact, number)
        )""",
        f"CREATE TABLE call (owner {TEXT}, id {TEXT}, run {TEXT}, PRIMARY KEY (owner, id))",
        "CREATE INDEX call_run ON call (run)",
        f"CREATE TABLE run_prune_clock (what {TEXT} PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
    ),
    # What it asks people, as a list of `OpenQuestion`; NULL in a run that has asked nothing, or not since there is this column.
    ("ALTER TABLE run ADD COLUMN questions BYTEA",),
    # What lists show of it (`tally`); NULL in a run that was begun before there were these columns.
    (
        """ALTER TABLE run ADD COLUMN model TEXT, ADD COLUMN words TEXT, ADD COLUMN parent TEXT COLLATE "C",
            ADD COLUMN parent_call TEXT, ADD COLUMN run_group TEXT, ADD COLUMN rounds BIGINT, ADD COLUMN tool_calls BIGINT,
            ADD COLUMN tokens_in BIGINT, ADD COLUMN tokens_out BIGINT, ADD COLUMN tokens_cached BIGINT,
            ADD COLUMN tokens_reasoning BIGINT, ADD COLUMN cost DOUBLE PRECISION, ADD COLUMN end_reason TEXT,
            ADD COLUMN end_code TEXT, ADD COLUMN waits_within INTEGER""",
        "CREATE INDEX run_parent ON run (parent) WHERE parent <> ''",
    ),
    ("ALTER TABLE run ADD COLUMN kept INTEGER",),  # 1: its owner has marked it as one to keep
)
