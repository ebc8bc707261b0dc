"""A store that fails while a session is taken, kept or left: that is tried again and told, and no session stays busy."""

from __future__ import annotations

import asyncio

import pytest
from tests.interaction.doors import Pauses, soon

from ronda.core.run import Run
from ronda.host.sessions import SessionHost, Visit
from ronda.store import StoreError
from ronda.store.claims import MemoryClaims
from ronda.store.memory import MemoryCatalog
from ronda.store.sessions import Sessions
from ronda.store.values.sessions import Lease, LeaseAnswer
from ronda.wire.shared.door_request import SessionWish


class Failing(Sessions):
    """Fails so often at what is named: before it is done, or after."""

    def __init__(self) -> None:
        super().__init__(MemoryCatalog())
        self.failures: dict[str, int] = {}
        self.after = False
        self.was_renewed = asyncio.Event()

    def _fail(self, name: str, *, is_done: bool) -> None:
        if self.failures.get(name, 0) and self.after is is_done:
            self.failures[name] -= 1
            raise StoreError("somewhere", f"{name} failed")

    async def lease(self, owner: str, name: str, lease: Lease, now: float, dead: str | None = None) -> LeaseAnswer:
        self._fail("lease", is_done=False)
        answer = await super().lease(owner, name, lease, now, dead)
        self._fail("lease", is_done=True)
        return answer

    async def release(self, owner: str, name: str, lease: Lease) -> None:
        self._fail("release", is_done=False)
        await super().release(owner, name, lease)

    async def renew(self, holder: str, until: float) -> list[tuple[str, str]]:
        self._fail("renew", is_done=False)
        self.was_renewed.set()
        return await super().renew(holder, until)


class FailingClaims(MemoryClaims):
    failures = 0

    async def claim(self, owner: str, name: str) -> bool:
        if self.failures:
            self.failures -= 1
            raise StoreError("somewhere", "claim failed")
        return await super().claim(owner, name)


def a_host(store: Sessions, claims: MemoryClaims | None = None, pauses: Pauses | None = None) -> SessionHost:
    async def find_run(run: str, owner: str) -> Run | None:
        return None

    return SessionHost(
        store,
        claims or MemoryClaims(),
        find_run=find_run,
        cancel=lambda run, owner: None,
        clock=lambda: 0.0,
        sleep=pauses or Pauses(),
    )


async def enter(sessions: SessionHost, run: str = "run_1") -> Visit:
    async with soon():
        return await sessions.enter("ann", SessionWish("s"), run)


async def test_a_claim_that_failed_is_made_with_the_next_lease() -> None:
    store, claims = Failing(), FailingClaims()
    claims.failures = 1
    sessions = a_host(store, claims)
    with pytest.raises(StoreError, match="claim failed"):
        await enter(sessions)
    visit = await enter(sessions)
    assert claims._claims  # by which others see that this process lives
    await visit.leave()
    await sessions.close()


async def test_a_renewal_that_failed_is_in_the_log_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    store = Failing()
    sessions = a_host(store)
    visit = await enter(sessions)
    store.failures["renew"] = 1
    sessions.leases._renewed = -1.0  # the clock of this test stands still
    sessions.leases.renew_soon()
    async with soon():
        await sessions.leases._supervisor.wait()
    sessions.leases._renewed = -1.0
    sessions.leases.renew_soon()
    async with soon():
        await store.was_renewed.wait()
    await visit.leave()
    await sessions.close()
    assert "the renewal of the sessions that runs continue was not done: somewhere: renew failed" in caplog.text


@pytest.mark.parametrize("after", [False, True], ids=["before it was done", "after it was done"])
async def test_a_session_that_could_not_be_taken_is_free(after: bool) -> None:
    store = Failing()
    store.after, store.failures["lease"] = after, 1
    sessions = a_host(store)
    with pytest.raises(StoreError, match="lease failed"):
        await enter(sessions, "run_1")
    visit = await enter(sessions, "run_2")
    await visit.leave()
    await sessions.close()


async def test_a_session_that_could_not_be_left_is_left_later(caplog: pytest.LogCaptureFixture) -> None:
    store, pauses = Failing(), Pauses()
    store.failures["release"] = 3
    sessions = a_host(store, pauses=pauses)
    await (await enter(sessions, "run_1")).leave()  # which is no failure of the request that leaves
    await (await enter(sessions, "run_2")).leave()
    await sessions.close()
    assert pauses.asked == [1.0, 2.0]
    assert "the session 's' is busy until it can be released" in caplog.text


async def test_a_run_that_takes_its_session_over_again_keeps_it() -> None:
    """The first try left a lease behind, and what was to clear it away comes late."""
    store, pauses = Failing(), Pauses(are_over=False)
    sessions = a_host(store, pauses=pauses)
    store.after, store.failures = True, {"lease": 1}
    with pytest.raises(StoreError, match="lease failed"):
        await sessions.leases.take_over(("ann", "s"), "run_1")
    store.after, store.failures = False, {"release": 1}
    await pauses.until(1.0)
    hold = await sessions.leases.take_over(("ann", "s"), "run_1")
    assert hold is not None
    pauses.end()
    await asyncio.sleep(0)
    assert not (await store.lease("ann", "s", Lease("other", "run_2", 9.0), 0.0)).is_ours
    await hold.release()
    await sessions.close()


async def test_a_host_that_closes_does_not_wait_for_a_store_that_is_away() -> None:
    store, pauses = Failing(), Pauses(are_over=False)
    store.failures["release"] = 10**6
    sessions = a_host(store, pauses=pauses)
    await (await enter(sessions)).leave()
    await pauses.until(1.0)
    async with soon():
        await sessions.close()
