"""Runs that wait to be driven, in the order in which they came, and who drives which: seven methods.

    enqueue ──► waits ──► claim ──► driven under a lease, which renew keeps ──► finish takes it off
                  ▲ │                      │
                  │ └► cancel takes it off │
                  └─ its lease ran out, or ◄┘
                     unclaim gave it back

A worker is a process, by a name that no other has. The queue knows nothing of what a run is: whether one may still be driven
is the journal's to say, which lets only one driver write. Every queue passes `tests/store/queues.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from ronda.errors import RondaError


class QueueFull(RondaError):
    status_hint = 429


class QueueLimits(Struct, frozen=True):
    """How many runs are driven at a time: in all, for one owner (None: as `may_have` says), and in one session of an owner's."""

    total: int
    per_owner: int | None
    per_session: int


def may_have(own: int, taken: int, limit: int, per_owner: int | None) -> bool:
    """Whether an owner who has `own` of the places that are `taken` gets one more of `limit`. Without a number of its own an
    owner gets as many as are left for others: half of them if it is alone, and a later owner finds some."""
    return taken < limit and own < (limit - taken if per_owner is None else per_owner)


class QueuedRun(Struct, frozen=True):
    run: str
    owner: str
    session: str
    at: float


class ClaimedRun(Struct, frozen=True):
    """`claims` counts: of one that was claimed before, the worker is gone. `is_cancelled`: it is to end."""

    run: str
    claims: int = 1
    is_cancelled: bool = False


class QueueEntry(Struct, frozen=True):
    """`position` is how many wait before it; None for one that is driven. `claims`: how often a process began to drive it."""

    run: str
    owner: str
    session: str
    at: float
    position: int | None
    claims: int = 0


class Queue(Protocol):
    async def enqueue(self, run: QueuedRun, limit: int, per_owner: int | None = None) -> None:
        """Add a run. Raises QueueFull if `limit` runs wait already, or too many of its owner's (`may_have`); and WriteConflict
        for a run that is there."""

    async def claim(
        self, worker: str, limits: QueueLimits, now: float, until: float, limit: int = 1, *, but: Sequence[str] = ()
    ) -> list[ClaimedRun]:
        """The first that waits, of the owner who has the fewest driven, and that the limits have room for: it is this worker's
        until then; and the next ones, as if they were claimed one after another. One whose lease ran out waits again, in its
        old place. `but`: runs that are left to other workers. Fewer than `limit`: nothing else can be claimed now."""

    async def unclaim(self, run: str, worker: str) -> None:
        """This worker cannot drive it: it waits again in its old place, as if it had not been claimed."""

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        """All that is this worker's stays so until then; `until` 0 gives all of it back. What is not among them another
        worker has."""

    async def cancel(self, run: str, now: float) -> bool:
        """Take off a run that is to end. True if it is off: it waited. False if it is not there, or a worker drives it, which is
        told when it renews."""

    async def finish(self, runs: Sequence[str], now: float, worker: str) -> list[str]:
        """Take off runs that are over, and say which are off. A worker that has lost one takes nothing off."""

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        """An owner's runs, or all, in their order. Positions count the runs of all owners."""
