"""The tables of a catalog in PostgreSQL. Append a migration, never change one that is there.

They are those of `tables`. `rowid`, which SQLite has of itself, tells in which order rows came.
"""

from __future__ import annotations

from typing import Final

from ronda.store.tables import (
    AGENTS,
    APPROVALS,
    CONTAINERS,
    CONVERSATION_AGENTS,
    FILES,
    KEYS,
    MARKS,
    PRUNING,
    QUEUE,
    SCOPES,
    SENDS,
    SESSIONS,
    SKILLS,
    write_tables,
)

TEXT: Final = 'TEXT COLLATE "C" NOT NULL'  # ordered as SQLite and Python order it
WORDS: Final = {
    "text": TEXT,
    "number": "DOUBLE PRECISION NOT NULL",
    "any_number": "DOUBLE PRECISION",
    "big": "BIGINT NOT NULL",
    "bytes": "BYTEA NOT NULL",
    "key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "counted_key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "order": ", rowid BIGINT GENERATED ALWAYS AS IDENTITY",
    "by_key": "",
}
_SHARED: Final = (
    "CREATE INDEX session_lease_holder ON session_lease (holder)",
    "CREATE TABLE claim (hash {text} PRIMARY KEY, process BIGINT NOT NULL)",
)
CATALOG: Final = write_tables(
    WORDS,
    (
        (*AGENTS, *KEYS, *SESSIONS, *FILES, *SKILLS, *QUEUE, *_SHARED, *CONTAINERS, *APPROVALS, *MARKS, *PRUNING),
        SENDS,
        CONVERSATION_AGENTS,
        SCOPES,
    ),
)

# Who is there, and what one asks of another. A process that is alive says so again and again: at `until` it is treated as gone.
PROCESSES: Final = (
    (
        """CREATE TABLE process (
            id BIGINT PRIMARY KEY, since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL, name TEXT NOT NULL,
            lease INTERVAL NOT NULL DEFAULT '5 s'
        )""",
        """CREATE TABLE letter (
            id BIGINT PRIMARY KEY, process BIGINT NOT NULL, sent TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
            taken BOOLEAN NOT NULL DEFAULT FALSE, request BYTEA NOT NULL, answer BYTEA
        )""",
        "CREATE INDEX letter_process ON letter (process) WHERE NOT taken",
    ),
)
