"""All that clients and operators made and may come back for, in tables. Subclasses say where those are: in a file, in memory,
in PostgreSQL."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Sequence

from ronda.store.agents import Agents
from ronda.store.approvals import ApprovedTools
from ronda.store.audit import Audit
from ronda.store.claims import Claims
from ronda.store.containers import Containers
from ronda.store.conversations import Conversations
from ronda.store.files import Files
from ronda.store.keys import Keys
from ronda.store.marks import Marks
from ronda.store.queue import Queue
from ronda.store.sessions import Sessions
from ronda.store.skills import Skills
from ronda.store.sql import Sql, Tables
from ronda.store.sql_queue import SqlQueue


class Catalog(Tables):
    claims: Claims

    def __init__(self) -> None:
        self.agents = Agents(self)
        self.conversations = Conversations(self)
        self.keys = Keys(self)
        self.audit = Audit(self)
        self.files = Files(self)
        self.skills = Skills(self)
        self.containers = Containers(self)
        self.sessions = Sessions(self)
        self.approved_tools = ApprovedTools(self)
        self.marks = Marks(self)
        self.queue: Queue = SqlQueue(self)

    @abstractmethod
    def add_tables(self, name: str, migrations: Sequence[Sequence[str]]) -> None:
        """Tables besides those of the stores above, under `name`: statements as in `tables`. The last steps
        are done with the first thing that is kept, or at once."""

    @abstractmethod
    async def close(self) -> None: ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes, made when they are first asked for: the same for all processes that share the store, for good."""

        def find_or_make(db: Sql) -> bytes:
            db.execute(
                "INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, secrets.token_bytes(32))
            )
            value: bytes = db.execute("SELECT value FROM secret WHERE name = ?", (name,)).fetchone()[0]
            return value

        return await self.write(find_or_make, "secret")
