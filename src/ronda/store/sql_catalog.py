"""All stores of a catalog, in tables. Subclasses say where those are: in a file, in memory, in PostgreSQL."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from ronda.store.queue import Queue
from ronda.store.sql import Sql
from ronda.store.sql_agents import SqlAgents
from ronda.store.sql_approvals import SqlApprovedTools
from ronda.store.sql_containers import SqlContainers
from ronda.store.sql_conversations import SqlConversations
from ronda.store.sql_files import SqlFiles
from ronda.store.sql_keys import SqlKeys
from ronda.store.sql_queue import SqlQueue
from ronda.store.sql_sessions import SqlSessions
from ronda.store.sql_skills import SqlSkills

_T = TypeVar("_T")


class SqlCatalog(ABC):
    """The `Tables` of its stores; see there for what is promised."""

    def __init__(self) -> None:
        self.agents = SqlAgents(self)
        self.conversations = SqlConversations(self)
        self.keys = SqlKeys(self)
        self.files = SqlFiles(self)
        self.skills = SqlSkills(self)
        self.containers = SqlContainers(self)
        self.sessions = SqlSessions(self)
        self.approved_tools = SqlApprovedTools(self)
        self.queue: Queue = SqlQueue(self)

    @property
    @abstractmethod
    def is_there(self) -> bool: ...

    @abstractmethod
    async def read(self, job: Callable[[Sql], _T]) -> _T: ...

    @abstractmethod
    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T: ...

    async def secret(self, name: str) -> bytes:
        def find_or_make(db: Sql) -> bytes:
            db.execute("INSERT INTO secret VALUES (?, ?) ON CONFLICT DO NOTHING", (name, secrets.token_bytes(32)))
            value: bytes = db.execute("SELECT value FROM secret WHERE name = ?", (name,)).fetchone()[0]
            return value

        return await self.write(find_or_make, "secret")
