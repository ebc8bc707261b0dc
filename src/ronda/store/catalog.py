"""All that clients and operators made and may come back for: what a server asks of whoever keeps it."""

from __future__ import annotations

from typing import Protocol

from ronda.store.agents import Agents
from ronda.store.approvals import ApprovedTools
from ronda.store.claims import Claims
from ronda.store.containers import Containers
from ronda.store.conversations import Conversations
from ronda.store.files import Files
from ronda.store.keys import Keys
from ronda.store.queue import Queue
from ronda.store.sessions import Sessions
from ronda.store.skills import Skills


class Catalog(Protocol):
    @property
    def agents(self) -> Agents: ...

    @property
    def conversations(self) -> Conversations: ...

    @property
    def keys(self) -> Keys: ...

    @property
    def files(self) -> Files: ...

    @property
    def skills(self) -> Skills: ...

    @property
    def containers(self) -> Containers: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def approved_tools(self) -> ApprovedTools: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def queue(self) -> Queue: ...

    async def secret(self, name: str) -> bytes:
        """32 random bytes, made when they are first asked for: the same for everybody who shares the store, for good."""

    async def close(self) -> None: ...
