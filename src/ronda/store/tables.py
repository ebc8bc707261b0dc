"""The tables of a catalog, once for SQLite and PostgreSQL: `{text}` and its like stand for each one's own word.

Append a group, never change one that is there: databases have been made with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ronda.store.prune_clock import TABLE as PRUNE_CLOCK

SQLITE: Final = {
    "text": "TEXT NOT NULL",
    "number": "REAL NOT NULL",
    "any_number": "REAL",
    "big": "INTEGER NOT NULL",
    "bytes": "BLOB NOT NULL",
    "key": "INTEGER PRIMARY KEY",
    "counted_key": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "order": "",  # SQLite has it of itself
    "by_key": " WITHOUT ROWID",
}


def write_tables(words: Mapping[str, str], groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple([tuple([statement.format(**words) for statement in group]) for group in groups])


AGENTS: Final = (
    """CREATE TABLE agent (
        id {text} PRIMARY KEY, owner {text}, version INTEGER NOT NULL, deployment_chat INTEGER NOT NULL,
        created {number}, updated {number}{order}
    )""",
    "CREATE INDEX agent_owner ON agent (owner, created)",
    """CREATE TABLE agent_version (
        agent {text} REFERENCES agent ON DELETE CASCADE, version INTEGER NOT NULL, created {number},
        body {bytes}, PRIMARY KEY (agent, version)
    ){by_key}""",
    """CREATE TABLE agent_alias (
        agent {text} REFERENCES agent ON DELETE CASCADE, alias {text}, version INTEGER NOT NULL,
        created {number}, updated {number}, PRIMARY KEY (agent, alias)
    ){by_key}""",
    """CREATE TABLE conversation (
        id {text} PRIMARY KEY, owner {text}, created {number}, updated {number}, body {bytes}{order}
    )""",
    "CREATE INDEX conversation_owner ON conversation (owner, created)",
    """CREATE TABLE conversation_run (
        conversation {text} REFERENCES conversation ON DELETE CASCADE, position INTEGER NOT NULL,
        run {text}, upto INTEGER, PRIMARY KEY (conversation, position)
    ){by_key}""",
)
KEYS: Final = (
    """CREATE TABLE key (
        id {text} PRIMARY KEY, owner {text}, hash {bytes} UNIQUE, created {number}, revoked {any_number}{order}
    )""",
    "CREATE TABLE secret (name {text} PRIMARY KEY, value {bytes}){by_key}",
)
SESSIONS: Final = (
    """CREATE TABLE session (
        id {key}, owner {text}, name {text}, created {number}, updated {number}, head INTEGER NOT NULL,
        ends INTEGER NOT NULL, size {big}, labels {bytes}, UNIQUE (owner, name)
    )""",
    "CREATE INDEX session_use ON session (owner, updated, name)",
    "CREATE INDEX session_age ON session (updated)",
    """CREATE TABLE session_node (
        session {big} REFERENCES session ON DELETE CASCADE, number {big}, parent {big}, upto INTEGER NOT NULL,
        count INTEGER NOT NULL, asked INTEGER NOT NULL, run {text}, created {number}, turns {bytes},
        PRIMARY KEY (session, number)
    )""",
    "CREATE UNIQUE INDEX session_run ON session_node (session, run) WHERE run <> ''",
    """CREATE TABLE session_lease (
        owner {text}, name {text}, holder {text}, run {text}, until {number},
        interrupted INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (owner, name)
    ){by_key}""",
)
FILES: Final = (
    """CREATE TABLE file (
        id {text} PRIMARY KEY, owner {text}, session {text}, hash {text}, size {big},
        created {number}, expires {any_number}, body {bytes}{order}
    )""",
    "CREATE INDEX file_owner ON file (owner, session, created)",
    "CREATE INDEX file_hash ON file (hash)",
    "CREATE INDEX file_expires ON file (expires) WHERE expires IS NOT NULL",
)
SKILLS: Final = (
    """CREATE TABLE skill (
        id {text} PRIMARY KEY, owner {text}, created {number}, revision INTEGER NOT NULL, body {bytes}{order}
    )""",
    "CREATE INDEX skill_owner ON skill (owner, created)",
)
QUEUE: Final = (
    """CREATE TABLE queued_run (
        id {counted_key}, run {text} UNIQUE, owner {text}, session {text},
        at {number}, worker {text} DEFAULT '', until {number} DEFAULT 0,
        claims INTEGER NOT NULL DEFAULT 0, cancelled INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX queued_run_driven ON queued_run (owner, session, until) WHERE worker <> ''",
)
CONTAINERS: Final = (
    """CREATE TABLE container (
        owner {text}, session {text}, created {number}, body {bytes}, PRIMARY KEY (owner, session)
    ){by_key}""",
)
APPROVALS: Final = (
    """CREATE TABLE approved_tool (
        owner {text}, session {text}, tool {text}, used {number}, PRIMARY KEY (owner, session, tool)
    ){by_key}""",
    "CREATE INDEX approved_tool_used ON approved_tool (used)",
)
SENDS: Final = (
    """CREATE TABLE approved_send (
        owner {text}, session {text}, send {text}, used {number}, PRIMARY KEY (owner, session, send)
    ){by_key}""",
    "CREATE INDEX approved_send_used ON approved_send (used)",
)
CONVERSATION_AGENTS: Final = (
    """CREATE TABLE conversation_agent (
        conversation {text} REFERENCES conversation ON DELETE CASCADE, run {text}, agent {text}, PRIMARY KEY (conversation)
    ){by_key}""",
)
PRUNING: Final = (PRUNE_CLOCK,)
MARKS: Final = (
    """CREATE TABLE mark (
        owner {text}, source {text}, mark {text}, used {number}, PRIMARY KEY (owner, source, mark)
    ){by_key}""",
    "CREATE INDEX mark_used ON mark (used)",
)
# What a key may do and until when, browsers that are signed in with one, and who did what in the name of all owners.
SCOPES: Final = (
    "ALTER TABLE key ADD COLUMN scopes {text} DEFAULT ''",
    "ALTER TABLE key ADD COLUMN expires {any_number}",
    "ALTER TABLE key ADD COLUMN used {any_number}",
    """CREATE TABLE audit (
        id {counted_key}, at {number}, owner {text}, actor {text}, act {text}, subject {text}, client {text}, details {text}
    )""",
    """CREATE TABLE sign_in (
        id {text} PRIMARY KEY, hash {bytes} UNIQUE, previous {bytes}, key {text}, created {number}, rotated {number},
        expires {number}
    )""",
    "CREATE INDEX sign_in_previous ON sign_in (previous)",
    "CREATE INDEX sign_in_key ON sign_in (key, created)",
)
