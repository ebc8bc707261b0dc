"""A catalog that forgets with its process: for tests, for `--data-dir :memory:`, for the library."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from msgspec import Raw
from msgspec.structs import replace

from ronda.store import Taken
from ronda.store.agents import AgentRow, AliasRow, number_in
from ronda.store.claims import MemoryClaims
from ronda.store.conversations import ConversationRow, RunRow, went_on
from ronda.store.keys import KeyRow
from ronda.store.memory_containers import MemoryContainers
from ronda.store.memory_files import MemoryFiles
from ronda.store.memory_queue import MemoryQueue
from ronda.store.memory_sessions import MemorySessions
from ronda.store.memory_skills import MemorySkills


class _Agent:
    def __init__(self, id: str, body: bytes, now: float) -> None:
        self.id = id
        self.bodies = [body]
        self.current = 0
        self.deployment_chat = False
        self.created = self.updated = now
        self.aliases: dict[str, AliasRow] = {}

    def row(self, version: int | str | None) -> AgentRow | None:
        number = self._number(version)
        if number is None or not 0 <= number < len(self.bodies):
            return None
        versions = tuple(range(len(self.bodies)))
        body = Raw(self.bodies[number])
        return AgentRow(self.id, number, self.current, versions, self.deployment_chat, self.created, self.updated, body)

    def _number(self, version: int | str | None) -> int | None:
        if version is None:
            return self.current
        if isinstance(version, int):
            return version
        if (number := number_in(version)) is not None:
            return number
        alias = self.aliases.get(version)
        return None if alias is None else alias.version


class MemoryAgents:
    def __init__(self) -> None:
        self._agents: dict[tuple[str, str], _Agent] = {}

    async def create(self, owner: str, id: str, body: bytes, now: float) -> None:
        if (owner, id) in self._agents:
            raise Taken(f"there is an agent '{id}' already")
        self._agents[owner, id] = _Agent(id, body, now)

    async def find(self, owner: str, id: str, version: int | str | None = None) -> AgentRow | None:
        agent = self._agents.get((owner, id))
        return None if agent is None else agent.row(version)

    async def of(self, owner: str) -> list[AgentRow]:
        mine = [agent for (whose, _), agent in self._agents.items() if whose == owner]
        rows = [agent.row(None) for agent in sorted(mine, key=lambda agent: agent.created)]
        return [row for row in rows if row is not None]

    async def update(self, owner: str, id: str, body: bytes, deployment_chat: bool, now: float) -> bool:
        agent = self._agents.get((owner, id))
        if agent is None:
            return False
        agent.bodies.append(body)
        agent.current = len(agent.bodies) - 1
        agent.deployment_chat = deployment_chat
        agent.updated = now
        return True

    async def switch(self, owner: str, id: str, version: int, now: float) -> bool:
        agent = self._agents.get((owner, id))
        if agent is None or agent.row(version) is None:
            return False
        agent.current, agent.updated = version, now
        return True

    async def delete(self, owner: str, id: str) -> bool:
        return self._agents.pop((owner, id), None) is not None

    async def aliases(self, owner: str, id: str) -> list[AliasRow]:
        agent = self._agents.get((owner, id))
        return [] if agent is None else sorted(agent.aliases.values(), key=lambda row: (row.created, row.alias))

    async def set_alias(self, owner: str, id: str, alias: str, version: int, now: float) -> AliasRow | None:
        agent = self._agents.get((owner, id))
        if agent is None or agent.row(version) is None:
            return None
        before = agent.aliases.get(alias)
        agent.aliases[alias] = row = AliasRow(alias, version, now if before is None else before.created, now)
        return row

    async def delete_alias(self, owner: str, id: str, alias: str) -> bool:
        agent = self._agents.get((owner, id))
        return agent is not None and agent.aliases.pop(alias, None) is not None


class MemoryConversations:
    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ConversationRow] = {}
        self._runs: dict[tuple[str, str], list[RunRow]] = {}

    async def create(self, owner: str, id: str, body: bytes, now: float, runs: Sequence[RunRow] = ()) -> None:
        if (owner, id) in self._rows:
            raise Taken(f"there is a conversation '{id}' already")
        self._rows[owner, id] = ConversationRow(id, now, now, Raw(body))
        self._runs[owner, id] = list(runs)

    async def find(self, owner: str, id: str) -> ConversationRow | None:
        return self._rows.get((owner, id))

    async def of(self, owner: str) -> list[ConversationRow]:
        mine = [row for (whose, _), row in self._rows.items() if whose == owner]
        return sorted(mine, key=lambda row: row.created)

    async def runs(self, owner: str, id: str) -> list[RunRow]:
        return list(self._runs.get((owner, id), ()))

    async def add_run(self, owner: str, id: str, position: int, run: str, now: float) -> None:
        runs = self._runs.get((owner, id))
        if runs is None or len(runs) != position:
            raise went_on(id)
        runs.append(RunRow(run))
        self._rows[owner, id] = replace(self._rows[owner, id], updated=now)

    async def delete(self, owner: str, id: str) -> bool:
        self._runs.pop((owner, id), None)
        return self._rows.pop((owner, id), None) is not None


class MemoryKeys:
    def __init__(self) -> None:
        self._rows: dict[str, KeyRow] = {}

    async def add(self, key: KeyRow) -> None:
        self._rows[key.id] = key

    async def all(self) -> list[KeyRow]:
        return list(self._rows.values())

    async def revoke(self, id: str, now: float) -> bool:
        row = self._rows.get(id)
        if row is None:
            return False
        if row.revoked is None:
            self._rows[id] = replace(row, revoked=now)
        return True


class MemoryCatalog:
    def __init__(self) -> None:
        self.agents = MemoryAgents()
        self.conversations = MemoryConversations()
        self.keys = MemoryKeys()
        self.files = MemoryFiles()
        self.skills = MemorySkills()
        self.containers = MemoryContainers()
        self.sessions = MemorySessions()
        self.claims = MemoryClaims()
        self.queue = MemoryQueue()
        self._secrets: dict[str, bytes] = {}

    async def secret(self, name: str) -> bytes:
        return self._secrets.setdefault(name, secrets.token_bytes(32))

    async def close(self) -> None:
        pass
