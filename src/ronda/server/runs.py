"""Runs under way in this process: who drives them, who follows them, and how their events get into the journal."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from ronda.core.events import Event, RunStarted
from ronda.core.parts import AssistantTurn, ToolResult, ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.run import Run, rebuild
from ronda.drive import Provider, drive
from ronda.journal import Journal
from ronda.server.toolbox import Offer

Sink = Callable[[int, Sequence[Event]], None]


class LiveRun:
    """One run that is being driven here. `sink` sees every batch; `done` tells when it is over."""

    __slots__ = ("_finished", "_journal", "_sink", "run", "task")

    def __init__(self, run: Run, journal: Journal, sink: Sink, finished: Callable[[LiveRun], None]) -> None:
        self.run = run
        self._journal = journal
        self._sink = sink
        self._finished = finished
        self.task: asyncio.Task[None]

    def emit(self, batch: list[Event]) -> None:
        self._journal.append(self.run.id, batch)
        if self.run.ended is not None and self.run.ended.reason == "tool_calls" and self.run.runs_tools:
            # Half of this turn is ours: the caller's next request must find it.
            self._journal.expect(self.run.start.owner, [call.id for call in self.run.open_calls], self.run.id)
        self._sink(self.run.start.sibling, batch)

    def over(self, task: asyncio.Task[None]) -> None:
        self._journal.release(self.run.id)
        self._finished(self)

    def cancel(self) -> None:
        self.task.cancel()


class Runs:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._live: dict[str, LiveRun] = {}
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def start(
        self,
        plan: Plan,
        turns: tuple[Turn, ...],
        *,
        provider: Provider,
        offer: Offer,
        sink: Sink,
        finished: Callable[[LiveRun], None],
        owner: str = "",
        session: str = "",
        parent: tuple[str, int] | None = None,
        sibling: int = 0,
    ) -> LiveRun:
        """Journal the input, then drive. The sink is called from the first event after that on, never from in here."""
        started = RunStarted(new_id("run"), plan, turns, time.time(), parent, session, owner, sibling)
        run = Run(started)
        live = LiveRun(run, self.journal, sink, finished)
        self.journal.append(run.id, [started])
        self._live[run.id] = live
        live.task = asyncio.create_task(
            drive(
                run,
                provider=provider,
                tools=offer.handlers,
                emit=live.emit,
                barrier=partial(self.journal.barrier, run.id),
                exclusive=self._exclusive_in(session or run.id),
            )
        )
        live.task.add_done_callback(lambda task: self._over(live, task))
        return live

    def _over(self, live: LiveRun, task: asyncio.Task[None]) -> None:
        self._live.pop(live.run.id, None)
        live.over(task)

    def _exclusive_in(self, session: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
        def lock(key: str) -> asyncio.Lock:
            found = self._locks.get((session, key))
            if found is None:
                found = self._locks[session, key] = asyncio.Lock()
            return found

        return lock

    async def rejoin(self, turns: tuple[Turn, ...], owner: str) -> tuple[tuple[Turn, ...], tuple[str, int] | None]:
        """Put our half of mixed turns back where the caller's half stands, and what we did before it.

        A caller sends back its own calls and their results. The run that handed them out knows the whole turn: the rounds
        the caller never saw, the sibling calls, their results.
        """
        joined: list[Turn] = []
        parent: tuple[str, int] | None = None
        for at, turn in enumerate(turns):
            ids = _ids(turn)
            before = joined[-1] if joined else None
            if type(turn) is AssistantTurn and ids:
                if (found := await self._waiting(owner, ids)) is not None:
                    run, parent = found
                    joined += run.generated
                    continue
            elif type(turn) is ToolTurn:
                found = await self._waiting(owner, ids)
                asked_here = type(before) is AssistantTurn and bool({call.id for call in before.calls} & ids)
                if found is not None and not asked_here:  # the caller sent the results alone
                    run, parent = found
                    joined += run.turns if at == 0 else run.generated
                if found is not None:
                    turn = _merged(joined[-1], turn, found[0].results)
            joined.append(turn)
        return tuple(joined), parent

    async def _waiting(self, owner: str, ids: set[str]) -> tuple[Run, tuple[str, int]] | None:
        for id in ids:
            if (name := await self.journal.waiting(owner, id)) is not None:
                events = await self.journal.read(name)
                if events:
                    run = rebuild(events)
                    if ids <= {call.id for call in run.open_calls}:
                        return run, (name, len(events))
        return None

    async def close(self) -> None:
        """Cancel what is under way, wait until it has said so, keep everything."""
        tasks = [live.task for live in self._live.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.journal.close()


def new_id(kind: str) -> str:
    return f"{kind}_{os.urandom(12).hex()}"


def _ids(turn: Turn) -> set[str]:
    if type(turn) is AssistantTurn:
        return {call.id for call in turn.calls}
    return {result.call_id for result in turn.results} if type(turn) is ToolTurn else set()


def _merged(asked: Turn, theirs: ToolTurn, ours: tuple[ToolResult, ...]) -> ToolTurn:
    if type(asked) is not AssistantTurn:
        return theirs
    by_id = {result.call_id: result for result in (*ours, *theirs.results)}
    return ToolTurn(tuple([by_id[call.id] for call in asked.calls if call.id in by_id]))
