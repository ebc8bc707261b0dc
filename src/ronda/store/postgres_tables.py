"""The tables of a catalog in PostgreSQL. Append a migration, never change one that is there.

They are those of `sqlite_catalog`. `rowid`, which SQLite has of itself, tells in which order rows came.
"""

from __future__ import annotations

from typing import Final

TEXT: Final = 'TEXT COLLATE "C" NOT NULL'  # ordered as SQLite and Python order it
_NUMBER: Final = "DOUBLE PRECISION NOT NULL"
_ROWID: Final = "rowid BIGINT GENERATED ALWAYS AS IDENTITY"

CATALOG: Final = (
    (
        f"""CREATE TABLE agent (
            id {TEXT} PRIMARY KEY, owner {TEXT}, version INTEGER NOT NULL, deployment_chat INTEGER NOT NULL,
            created {_NUMBER}, updated {_NUMBER}, {_ROWID}
        )""",
        "CREATE INDEX agent_owner ON agent (owner, created)",
        f"""CREATE TABLE agent_version (
            agent {TEXT} REFERENCES agent ON DELETE CASCADE, version INTEGER NOT NULL, created {_NUMBER},
            body BYTEA NOT NULL, PRIMARY KEY (agent, version)
        )""",
        f"""CREATE TABLE agent_alias (
            agent {TEXT} REFERENCES agent ON DELETE CASCADE, alias {TEXT}, version INTEGER NOT NULL,
            created {_NUMBER}, updated {_NUMBER}, PRIMARY KEY (agent, alias)
        )""",
        f"""CREATE TABLE conversation (
            id {TEXT} PRIMARY KEY, owner {TEXT}, created {_NUMBER}, updated {_NUMBER}, body BYTEA NOT NULL, {_ROWID}
        )""",
        "CREATE INDEX conversation_owner ON conversation (owner, created)",
        f"""CREATE TABLE conversation_run (
            conversation {TEXT} REFERENCES conversation ON DELETE CASCADE, position INTEGER NOT NULL,
            run {TEXT}, upto INTEGER, PRIMARY KEY (conversation, position)
        )""",
        f"""CREATE TABLE key (
            id {TEXT} PRIMARY KEY, owner {TEXT}, hash BYTEA NOT NULL UNIQUE, created {_NUMBER},
            revoked DOUBLE PRECISION, {_ROWID}
        )""",
        f"CREATE TABLE secret (name {TEXT} PRIMARY KEY, value BYTEA NOT NULL)",
        f"""CREATE TABLE session (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, owner {TEXT}, name {TEXT}, created {_NUMBER},
            updated {_NUMBER}, head INTEGER NOT NULL, ends INTEGER NOT NULL, size BIGINT NOT NULL, labels BYTEA NOT NULL,
            UNIQUE (owner, name)
        )""",
        "CREATE INDEX session_use ON session (owner, updated, name)",
        "CREATE INDEX session_age ON session (updated)",
        f"""CREATE TABLE session_node (
            session BIGINT NOT NULL REFERENCES session ON DELETE CASCADE, number BIGINT NOT NULL, parent BIGINT NOT NULL,
            upto INTEGER NOT NULL, count INTEGER NOT NULL, asked INTEGER NOT NULL, run {TEXT}, created {_NUMBER},
            turns BYTEA NOT NULL, PRIMARY KEY (session, number)
        )""",
        "CREATE UNIQUE INDEX session_run ON session_node (session, run) WHERE run <> ''",
        f"""CREATE TABLE session_lease (
            owner {TEXT}, name {TEXT}, holder {TEXT}, run {TEXT}, until {_NUMBER},
            interrupted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (owner, name)
        )""",
        "CREATE INDEX session_lease_holder ON session_lease (holder)",
        f"""CREATE TABLE file (
            id {TEXT} PRIMARY KEY, owner {TEXT}, session {TEXT}, hash {TEXT}, size BIGINT NOT NULL,
            created {_NUMBER}, expires DOUBLE PRECISION, body BYTEA NOT NULL, {_ROWID}
        )""",
        "CREATE INDEX file_owner ON file (owner, session, created)",
        "CREATE INDEX file_hash ON file (hash)",
        "CREATE INDEX file_expires ON file (expires) WHERE expires IS NOT NULL",
        f"""CREATE TABLE skill (
            id {TEXT} PRIMARY KEY, owner {TEXT}, created {_NUMBER}, revision INTEGER NOT NULL, body BYTEA NOT NULL, {_ROWID}
        )""",
        "CREATE INDEX skill_owner ON skill (owner, created)",
        f"""CREATE TABLE queued_run (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, run {TEXT} UNIQUE, owner {TEXT}, session {TEXT},
            at {_NUMBER}, worker {TEXT} DEFAULT '', until {_NUMBER} DEFAULT 0,
            claims INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX queued_run_driven ON queued_run (owner, session, until) WHERE worker <> ''",
        f"CREATE TABLE claim (hash {TEXT} PRIMARY KEY, process BIGINT NOT NULL)",
    ),
    (
        f"""CREATE TABLE container (
            owner {TEXT}, session {TEXT}, created {_NUMBER}, body BYTEA NOT NULL, PRIMARY KEY (owner, session)
        )""",
    ),
    (
        f"""CREATE TABLE approved_tool (
            owner {TEXT}, session {TEXT}, tool {TEXT}, used {_NUMBER}, PRIMARY KEY (owner, session, tool)
        )""",
        "CREATE INDEX approved_tool_used ON approved_tool (used)",
    ),
)

# Who is there, and what one asks of another. A process that is alive says so again and again: `until` is when it counts as gone.
PROCESSES: Final = (
    (
        """CREATE TABLE process (
            id BIGINT PRIMARY KEY, since TIMESTAMPTZ NOT NULL, until TIMESTAMPTZ NOT NULL, name TEXT NOT NULL
        )""",
        """CREATE TABLE letter (
            id BIGINT PRIMARY KEY, process BIGINT NOT NULL, sent TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
            taken BOOLEAN NOT NULL DEFAULT FALSE, request BYTEA NOT NULL, answer BYTEA
        )""",
        "CREATE INDEX letter_process ON letter (process) WHERE NOT taken",
    ),
    ("ALTER TABLE process ADD COLUMN lease INTERVAL NOT NULL DEFAULT '5 s'",),
)
