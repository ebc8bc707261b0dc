"""A journal, a catalog, a queue and claims that fail once: at the await of a number, before what was asked for is done or after.

    for faults in every_fault(is_done=False): …     the first await of all fails, then the second, until no more are reached

What a journal could not keep is lost, as with the real ones: also what comes later, until the run is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from tests.interaction.doors import Remembering

from ronda.core.events import Event, Preview
from ronda.journal import RunPage, RunQuery, RunQuestions, UnfinishedRun
from ronda.journal.memory import MemoryJournal
from ronda.store import StoreError
from ronda.store.claims import MemoryClaims
from ronda.store.memory import MemoryCatalog
from ronda.store.sql import Sql

_T = TypeVar("_T")
MOST = 500  # awaits that a few requests may come to


class Faults:
    """`hit` is what has failed. `is_on` ends with what is tried: then everything works, for a test that looks at the outcome."""

    def __init__(self, number: int, *, is_done: bool) -> None:
        self._number = number
        self._count = 0
        self.is_done = is_done
        self.is_on = True
        self.hit = ""

    async def around(self, name: str, work: Callable[[], Awaitable[_T]]) -> _T:
        fails = self.is_on and self._count == self._number
        self._count += self.is_on
        await asyncio.sleep(0)  # as a store that is reached through a thread
        if fails and not self.is_done:
            raise self._failure(name)
        result = await work()
        if fails:
            raise self._failure(name)
        return result

    def _failure(self, name: str) -> StoreError:
        self.hit = name
        return StoreError("somewhere", f"{name} failed")

    def __repr__(self) -> str:
        return f"{self.hit} failed at await {self._number}, {'after' if self.is_done else 'before'} it was done"


def every_fault(*, is_done: bool) -> Iterator[Faults]:
    for number in range(MOST):
        faults = Faults(number, is_done=is_done)
        yield faults
        if not faults.hit:
            assert number > 0
            return
    raise AssertionError(f"there is no end to it: {MOST} awaits were reached")


class FaultyJournal(Remembering):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults
        self._kept: dict[str, int] = {}  # how many events of each run
        self._broken: dict[str, StoreError] = {}  # runs of which nothing more can be kept until they are released
        self._news = asyncio.Event()

    # ---- what fails --------------------------------------------------------------------------------------------------

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        if run not in self._broken:
            super().append(run, events, size)
        self._news.set()

    async def barrier(self, run: str) -> None:
        self._raise_broken(run)
        try:
            await self._faults.around("journal.barrier", lambda: MemoryJournal.barrier(self, run))
        except StoreError as error:
            if not self._faults.is_done:
                self._lose(run)
            self._broken[run] = error
            raise
        self._raise_broken(run)  # by another barrier, which was on its way
        if (record := self._runs.get(run)) is not None:
            self._kept[run] = len(record.events)

    def _raise_broken(self, run: str) -> None:
        if (broken := self._broken.get(run)) is not None:
            raise broken

    def _lose(self, run: str) -> None:
        record = self._runs.get(run)
        if record is None:
            return
        if not (kept := self._kept.get(run, 0)):
            self._drop(run)
            self.runs.remove(run)
        record.events = record.events[:kept]
        record.questions = None

    async def resume(self, run: str) -> list[Event]:
        try:
            events = await self._faults.around("journal.resume", lambda: MemoryJournal.resume(self, run))
        except StoreError:
            if self._faults.is_done:  # the row says that it is ours, but nothing here holds it
                super().release(run)
            raise
        self._kept[run] = len(events)
        return events

    def release(self, run: str, *, waiting: bool = False) -> None:
        super().release(run, waiting=waiting)
        self._broken.pop(run, None)
        self._news.set()

    async def read(self, run: str) -> list[Event]:
        return await self._faults.around("journal.read", lambda: MemoryJournal.read(self, run))

    async def previews(self, run: str, after: int = 0) -> dict[int, list[Preview]]:
        return await self._faults.around("journal.previews", lambda: MemoryJournal.previews(self, run, after))

    async def extent(self, run: str) -> tuple[int, int]:
        return await self._faults.around("journal.extent", lambda: MemoryJournal.extent(self, run))

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        return await self._faults.around(
            "journal.runs_of_calls", lambda: MemoryJournal.runs_of_calls(self, owner, call_ids)
        )

    async def open_questions(self, owner: str, limit: int) -> list[RunQuestions]:
        return await self._faults.around(
            "journal.open_questions", lambda: MemoryJournal.open_questions(self, owner, limit)
        )

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        return await self._faults.around("journal.unfinished_runs", lambda: MemoryJournal.unfinished_runs(self))

    async def list_runs(self, query: RunQuery) -> RunPage:
        return await self._faults.around("journal.list_runs", lambda: MemoryJournal.list_runs(self, query))

    async def close(self) -> None:
        await self._faults.around("journal.close", lambda: MemoryJournal.close(self))

    # ---- its result ---------------------------------------------------------------------------------------------

    def facts(self, run: str) -> list[Event]:
        record = self._runs.get(run)
        return [] if record is None else record.events

    @property
    def held(self) -> list[str]:
        return [name for name, record in self._runs.items() if record.is_driven]

    @property
    def waiting(self) -> list[str]:
        return [name for name, record in self._runs.items() if record.waiting and not record.finished]

    @property
    def unfinished(self) -> list[str]:
        """Those that outlive their client. Others are told with an end when no process drives them any more."""
        return [name for name, record in self._runs.items() if record.outlives and not record.finished]

    async def until(self, kind: type) -> None:
        """Until an event of a kind is in it, or nothing is held any more."""
        while self.held and not any(type(one) is kind for run in self.runs for one in self.facts(run)):
            await self._next()

    async def until_settled(self) -> None:
        """Until nothing is held, and what is not over waits for people."""
        while self.held or set(self.unfinished) - set(self.waiting):
            await self._next()

    async def _next(self) -> None:
        self._news.clear()
        await self._news.wait()


class FaultyClaims(MemoryClaims):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self._faults = faults

    async def claim(self, owner: str, name: str) -> bool:
        try:
            return await self._faults.around("claims.claim", lambda: MemoryClaims.claim(self, owner, name))
        except StoreError:
            self.release(owner, name)
            raise


class FaultyCatalog(MemoryCatalog):
    """The queue is in its tables, too."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.claims = FaultyClaims(faults)
        self._faults = faults

    async def read(self, job: Callable[[Sql], _T]) -> _T:
        return await self._faults.around(f"catalog.read {_name(job)}", lambda: MemoryCatalog.read(self, job))

    async def write(self, job: Callable[[Sql], _T], alone: str = "", *, may_be_lost: bool = False) -> _T:
        return await self._faults.around(f"catalog.write {_name(job)}", lambda: MemoryCatalog.write(self, job))


def _name(job: Callable[..., Any]) -> str:
    return job.__qualname__.partition(".<locals>")[0]
