"""Whose turn it is in a session: a lease in the store, which all processes see, and a line of those that wait in this one.

A lease is renewed while its runs are under way. It gives way when its time is up, or at once when its process is dead. A run
that cannot wait has the runs that hold it cancelled, in whichever process they are.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ronda.errors import BadRequest
from ronda.host.supervisor import FIRST_PAUSE, LONGEST_PAUSE, Sleep, Supervisor, problem_with, report
from ronda.store import StoreError
from ronda.store.sessions import Sessions as SessionStore
from ronda.store.values.sessions import Lease, SessionRow
from ronda.wire.shared.door_request import OnBusy

if TYPE_CHECKING:
    from ronda.store.claims import Claims

LEASE_SECONDS: Final = 10.0  # after which a process that renews nothing is treated as gone
RENEW_SECONDS: Final = 1.0  # also how soon a run of another process makes room
TRY_AGAIN: Final = 0.05  # seconds between two looks at what another process has leased

Key: TypeAlias = tuple[str, str]  # a session's owner and its name


class SessionBusy(BadRequest):
    """Another run continues this session."""

    status_hint = 409

    def __init__(self, message: str) -> None:
        super().__init__(message, param="session_id", code="session_busy")


class Hold:
    """A lease of ours. `left` is the run of one that gave way, and may not have been written back."""

    def __init__(self, leases: Leases, key: Key, lease: Lease, row: SessionRow | None, left: str | None) -> None:
        self.key = key
        self.lease = lease
        self.row = row
        self.left = left
        self.under_way: set[str] = set()  # runs that have not ended
        self._cancelled: set[str] = set()  # once: a run that is told again could not end in peace
        self.loop = asyncio.get_running_loop()
        self.is_over = False
        self._leases = leases
        self._timer = self.loop.call_later(RENEW_SECONDS, self._renew)

    async def release(self) -> None:
        if not self.is_over:
            self.end()
            await self._leases.release(self)

    def end(self) -> None:
        """Others may have it now, or in a moment."""
        if not self.is_over:
            self.is_over = True
            self._timer.cancel()
            self._leases.forget(self)

    def make_room(self, cancel: Callable[[str, str], object]) -> None:
        """Have its runs end; one that is not driven yet is told when it is asked for again."""
        for run in self.under_way - self._cancelled:
            if cancel(run, self.key[0]) is not None:
                self._cancelled.add(run)

    def _renew(self) -> None:
        self._timer = self.loop.call_later(RENEW_SECONDS, self._renew)
        self._leases.renew_soon()


class _Waiter:
    """A request in the line for a session; a line may be of several event loops."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()

    async def wait(self) -> None:
        try:
            async with asyncio.timeout(TRY_AGAIN):
                await self._bell.wait()
        except TimeoutError:
            return
        self._bell.clear()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._bell.set)
        except RuntimeError:  # its loop is closed: it is about to leave the line
            return


class Leases:
    """`may_replace` says of the run of a dead process whether its lease may be taken; `cancel` ends a run of this one, or gives
    None if there is none yet."""

    def __init__(
        self,
        store: SessionStore,
        claims: Claims,
        clock: Callable[[], float],
        may_replace: Callable[[str, str], Awaitable[bool]],
        cancel: Callable[[str, str], object],
        max_queue: int,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._claims = claims
        self._clock = clock
        self._may_replace = may_replace
        self._cancel = cancel
        self._max_queue = max_queue
        self._holder = os.urandom(8).hex()
        self._is_claimed = False
        self._is_renewing = False
        self._is_closing = False
        self._renewed = 0.0
        self._holds: dict[Key, Hold] = {}
        self._supervisor = Supervisor(sleep)  # of its own: what is being written when a server ends is waited for
        self._releases: dict[tuple[Key, str], asyncio.Task[Any]] = {}  # that failed, by session and run
        self.lines: dict[Key, deque[_Waiter]] = {}

    async def take(self, key: Key, run: str, on_busy: OnBusy) -> Hold:
        """`run` is the first that is to continue the session."""
        if not self.lines.get(key) and (hold := await self._try(key, run)) is not None:
            return hold
        name = key[1]
        if on_busy == "reject":
            raise SessionBusy(f"another run continues the session '{name}'; try again later, or leave 'on_busy' out")
        line = self.lines.setdefault(key, deque())
        if len(line) >= self._max_queue:
            raise SessionBusy(f"{len(line)} requests wait for the session '{name}' already; try again later")
        waiter = _Waiter()
        if on_busy == "interrupt":
            line.appendleft(waiter)
        else:
            line.append(waiter)
        try:
            if on_busy == "interrupt":
                await self._interrupt(key)
            while line[0] is not waiter or (hold := await self._try(key, run)) is None:
                if on_busy == "interrupt" and key in self._holds:
                    self._make_room(key)
                await waiter.wait()
            return hold
        finally:
            line.remove(waiter)
            if line:
                line[0].wake()
            elif self.lines.get(key) is line:
                del self.lines[key]

    async def take_over(self, key: Key, run: str) -> Hold | None:
        """For a run that goes on: its own lease, of any holder, or one that is free."""
        await self._show_alive()
        lease, now = self._new_lease(run)
        with self._released_on_error(key, lease):
            answer = await self._store.lease(*key, lease, now)
            if not answer.is_ours and answer.other is not None and answer.other.run == run:
                answer = await self._store.lease(*key, lease, now, answer.other.holder)
        return self._hold(key, lease, answer.row, None) if answer.is_ours else None

    async def _try(self, key: Key, run: str) -> Hold | None:
        await self._show_alive()
        lease, now = self._new_lease(run)
        with self._released_on_error(key, lease):
            answer = await self._store.lease(*key, lease, now)
            if not answer.is_ours:
                other = answer.other
                if other is None or not await self._is_dead(other) or not await self._may_replace(other.run, key[0]):
                    return None
                answer = await self._store.lease(*key, lease, now, other.holder)
        if not answer.is_ours:
            return None
        return self._hold(key, lease, answer.row, None if answer.other is None else answer.other.run)

    async def _show_alive(self) -> None:
        """Let others see whether this process lives: before its first lease, and until that has succeeded."""
        if not self._is_claimed:
            await self._claims.claim("", _claim_of(self._holder))
            self._is_claimed = True

    def _new_lease(self, run: str) -> tuple[Lease, float]:
        now = self._clock()
        return Lease(self._holder, run, now + LEASE_SECONDS), now

    def _hold(self, key: Key, lease: Lease, row: SessionRow | None, left: str | None) -> Hold:
        if (release := self._releases.pop((key, lease.run), None)) is not None:  # of an earlier try to get it
            release.cancel()
        hold = self._holds[key] = Hold(self, key, lease, row, left)
        return hold

    async def _is_dead(self, lease: Lease) -> bool:
        name = _claim_of(lease.holder)
        if lease.holder == self._holder or not await self._claims.claim("", name):
            return False
        self._claims.release("", name)
        return True

    async def release(self, hold: Hold) -> None:
        with suppress(StoreError), self._released_on_error(hold.key, hold.lease):
            await self._store.release(*hold.key, hold.lease)
        self._wake_first(hold.key)

    @contextmanager
    def _released_on_error(self, key: Key, lease: Lease) -> Iterator[None]:
        """A lease that is in the store, or may be, and that nothing here holds would be renewed with the others for ever."""
        try:
            yield
        except BaseException:
            if (key, lease.run) not in self._releases:
                self._releases[key, lease.run] = self.do_later("the release of a session", self._release(key, lease))
            raise

    async def _release(self, key: Key, lease: Lease) -> None:
        pause = FIRST_PAUSE
        while (problem := await problem_with(self._store.release(*key, lease))) is not None and not self._is_closing:
            report(
                f"the session '{key[1]}' is busy until it can be released, which is tried again in {pause:g} s", problem
            )
            await self._supervisor.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        self._releases.pop((key, lease.run), None)
        self._wake_first(key)

    def forget(self, hold: Hold) -> None:
        if self._holds.get(hold.key) is hold:
            del self._holds[hold.key]
        self._wake_first(hold.key)

    def _wake_first(self, key: Key) -> None:
        if line := self.lines.get(key):
            line[0].wake()

    # ---- while it lasts ----------------------------------------------------------------------------------------------

    def renew_soon(self) -> None:
        now = self._clock()
        if now - self._renewed >= RENEW_SECONDS / 2 and not self._is_renewing:  # once for all holds
            self._renewed = now
            self._is_renewing = True
            self.do_later("the renewal of the sessions that runs continue", self._renew(now + LEASE_SECONDS))

    async def _renew(self, until: float) -> None:
        try:
            for key in await self._store.renew(self._holder, until):
                self._make_room(key)
        finally:
            self._is_renewing = False

    async def _interrupt(self, key: Key) -> None:
        if key in self._holds:
            self._make_room(key)
        else:
            await self._store.interrupt(*key)  # its holder looks when it renews its lease

    def _make_room(self, key: Key) -> None:
        if (hold := self._holds.get(key)) is not None:
            hold.loop.call_soon_threadsafe(hold.make_room, self._cancel)

    def do_later(self, name: str, job: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """What goes wrong with it is in the log, by this name."""
        return self._supervisor.do(name, job)

    async def close(self) -> None:
        """Wait for what is being written. What could not be is not waited for: other processes see that this one is gone."""
        self._is_closing = True
        for release in self._releases.values():
            release.cancel()
        await self._supervisor.wait()


def _claim_of(holder: str) -> str:
    return f"session holder {holder}"
