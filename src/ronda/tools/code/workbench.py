"""A sandbox for each session, and in it a Python that stays: what the Python and shell tools of one server share.

Calls of one session never overlap: their tools are exclusive. A session that was unused for an hour loses its processes; its
folder stays, and belongs to its maker.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Protocol

from ronda.core.supplies import NO_LIMITS, CodeLimits
from ronda.core.taint import EGRESS, PRIVATE
from ronda.drive import ToolContext
from ronda.files.file_store import FileStore
from ronda.sandbox.box import Sandbox, open_sandbox
from ronda.sandbox.folders import remove_tree
from ronda.sandbox.layers import Layers
from ronda.sandbox.policy import Loopback, NoNetwork, Policy
from ronda.tools.code.limits import limit_policy
from ronda.tools.code.outputs import Collector
from ronda.tools.code.pool import Pool
from ronda.tools.code.session import Session

IDLE_SECONDS = 3600.0
_MOST_SESSIONS = 64  # that have processes at a time, but for those that are at work: 15 MB of memory each

FindFolder = Callable[[ToolContext], Path]


class Spares(Protocol):
    """Where folders come from for sessions that are still to come."""

    def spare_folder(self) -> Path: ...

    def adopt(self, spare: str, owner: str, session: str) -> Path | None: ...


class Workbench:
    """The sessions of one server, by owner and session."""

    def __init__(
        self,
        policy: Policy,
        find_folder: FindFolder,
        *,
        outside: Mapping[str, str],
        python: str = "python3",
        layers: Layers | None = None,
        files: FileStore | None = None,  # keeps what code makes
        find_marker: FindFolder | None = None,  # where it is noted that a session has had a Python
        shared: Path | None = None,  # the folder of all sessions, if they have one: then they share a sandbox
        spares: Spares | None = None,
        pool: int = 0,  # Pythons that are started before there is a session for them
        most_sessions: int = _MOST_SESSIONS,
        side_folder: str | None = None,  # the name of a folder next to each session's own that its code may read
    ) -> None:
        self._policy = policy
        # What it gives is private; and where there is a network, it can send that out.
        reaches_others = not isinstance(policy.network, NoNetwork | Loopback)
        self.labels: tuple[str, ...] = ("code", PRIVATE, EGRESS) if reaches_others else ("code", PRIVATE)
        self._find_folder = find_folder
        self._outside = outside
        self._python = python
        self._layers = layers
        self._files = files
        self._find_marker = find_marker
        self._shared = shared
        self._shared_sandbox: asyncio.Task[Sandbox] | None = None
        self._spares = spares
        self._pool = Pool(pool, self._open_spare)
        self._most_sessions = most_sessions
        self._side_folder = side_folder
        self._sessions: dict[tuple[str, str], asyncio.Task[Session]] = {}
        self._limits: dict[tuple[str, str], CodeLimits] = {}  # of sessions that have less than the operator allows

    @property
    def is_shared(self) -> bool:
        """Whether all sessions work in one folder."""
        return self._shared is not None

    @contextlib.asynccontextmanager
    async def use(self, context: ToolContext) -> AsyncIterator[Session]:
        """The session of this call, opened if it is not; BadConfig where code cannot be isolated."""
        session = await self._session(context)
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            session.used = time.monotonic()
            await self._make_room()

    async def _session(self, context: ToolContext) -> Session:
        key = (context.owner, context.session)
        task = self._sessions.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._sessions[key] = asyncio.ensure_future(self._open(context))
        elif self._shared is None:
            self._find_folder(context)  # which marks it as used
        return await asyncio.shield(task)

    def collector(self, session: Session, tool: str, context: ToolContext) -> Collector:
        return Collector(session.sandbox.workspace, tool, context, self._files)

    async def limit(self, context: ToolContext, limits: CodeLimits) -> None:
        """Code of this session gets no more from now on; a Python that has more, or less, ends. What works in a folder of all
        sessions has one sandbox, which is as the operator wants it."""
        key = (context.owner, context.session)
        if limits == NO_LIMITS or self._shared is not None or self._limits.get(key) == limits:
            return
        await self.close_session(*key)
        self._limits[key] = limits

    async def _open(self, context: ToolContext) -> Session:
        limits = self._limits.get((context.owner, context.session), NO_LIMITS)
        if limits == NO_LIMITS and (ready := self._adopted(context)) is not None:
            return ready
        marker = None if self._find_marker is None else self._find_marker(context)
        if self._shared is not None:
            return Session(await self._open_shared(self._shared), marker, owns_sandbox=False)
        return Session(await self._sandbox(self._find_folder(context), limits), marker)

    async def _sandbox(self, folder: Path, limits: CodeLimits = NO_LIMITS) -> Sandbox:
        return await open_sandbox(
            limit_policy(self._policy, limits),
            folder,
            outside=self._outside,
            python=self._python,
            layers=self._layers,
            side_folder=self._side_folder if self._shared is None else None,
        )

    async def _open_shared(self, folder: Path) -> Sandbox:
        task = self._shared_sandbox
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._shared_sandbox = asyncio.ensure_future(self._sandbox(folder))
        return await asyncio.shield(task)

    # Pythons that wait for a session.

    async def fill_pool(self) -> None:
        await self._pool.fill()

    async def _open_spare(self) -> Session:
        if self._shared is not None:
            session = Session(await self._open_shared(self._shared), owns_sandbox=False)
        else:
            assert self._spares is not None, "a pool needs folders"
            session = Session(await self._sandbox(await asyncio.to_thread(self._spares.spare_folder)))
        await session.warm_up()
        return session

    def _adopted(self, context: ToolContext) -> Session | None:
        """A session of the pool, for one that is new: what has a folder goes on there, under the uid that it has."""
        if (session := self._pool.take()) is None:
            return None

        def rename(folder: str) -> str | None:
            if self._shared is not None:
                return folder
            assert self._spares is not None, "a pool needs folders"
            moved = self._spares.adopt(folder, context.owner, context.session)
            return None if moved is None else str(moved)

        if not session.move(rename):
            self._pool.give_back(session)
            return None
        if self._find_marker is not None:
            session.mark(self._find_marker(context))
        return session

    # Ends.

    async def close_session(self, owner: str, session: str) -> None:
        """Ends the processes of one session, if it has some."""
        task = self._sessions.pop((owner, session), None)
        self._limits.pop((owner, session), None)
        if task is not None:
            [opened] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(opened, Session):
                await opened.close()

    async def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Ends the processes of sessions that were unused for so long."""
        over = time.monotonic() - seconds
        await asyncio.gather(*[self.close_session(*key) for used, key in self._idle() if used <= over])

    async def _make_room(self) -> None:
        """Where there are too many, ends the processes of those that were unused for longest, of the owner who has the most:
        one owner's many sessions take none from owners that have few."""
        idle = self._idle()
        counts = Counter([owner for owner, _ in self._sessions])
        closing: list[tuple[str, str]] = []
        while idle and len(self._sessions) - len(closing) > self._most_sessions:
            largest = max([counts[owner] for _, (owner, _) in idle])
            found = next(one for one in idle if counts[one[1][0]] == largest)
            idle.remove(found)
            closing.append(found[1])
            counts[found[1][0]] -= 1
        await asyncio.gather(*[self.close_session(*key) for key in closing])

    def _idle(self) -> list[tuple[float, tuple[str, str]]]:
        """When each was used last, and its key: those that are not at work, the longest unused first."""
        return sorted([(session.used, key) for session, key in self._opened() if not session.users])

    def _opened(self) -> list[tuple[Session, tuple[str, str]]]:
        opened = [(task, key) for key, task in self._sessions.items() if task.done()]
        return [(task.result(), key) for task, key in opened if not task.cancelled() and not task.exception()]

    def count_sessions(self) -> dict[str, int]:
        """How many sandboxes there are: of sessions that are at work, or are not, and those that wait for a session."""
        busy = [bool(session.users) for session, _ in self._opened()]
        return {"busy": sum(busy), "idle": len(busy) - sum(busy), "spare": self._pool.ready}

    async def close(self) -> None:
        sessions, self._sessions = self._sessions, {}
        shared, self._shared_sandbox = self._shared_sandbox, None
        opened = await asyncio.gather(*sessions.values(), return_exceptions=True)
        ready = await self._pool.empty()
        everything = [*ready, *[session for session in opened if isinstance(session, Session)]]
        await asyncio.gather(*[session.close() for session in everything])
        if self._shared is None:
            for session in ready:
                await asyncio.to_thread(remove_tree, Path(session.sandbox.workspace).parent)
        if shared is not None:
            [sandbox] = await asyncio.gather(shared, return_exceptions=True)
            if isinstance(sandbox, Sandbox):
                await sandbox.close()
