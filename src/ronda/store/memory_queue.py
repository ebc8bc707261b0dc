"""A queue that forgets with its process."""

from __future__ import annotations

from ronda.store import Taken
from ronda.store.queue import ClaimedRun, QueuedRun, QueueEntry, QueueFull, QueueLimits


class _Place:
    def __init__(self, queued: QueuedRun) -> None:
        self.queued = queued
        self.worker = ""
        self.until = 0.0
        self.claims = 0
        self.is_cancelled = False

    def is_driven(self, now: float) -> bool:
        return bool(self.worker) and self.until > now

    @property
    def claimed(self) -> ClaimedRun:
        return ClaimedRun(self.queued.run, self.claims, self.is_cancelled)


class MemoryQueue:
    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}  # the oldest first

    async def enqueue(self, run: QueuedRun, most: int) -> None:
        if run.run in self._places:
            raise Taken(f"the run '{run.run}' is queued already")
        if sum([not place.worker for place in self._places.values()]) >= most:
            raise QueueFull(f"{most} runs wait already, and no more are allowed; try again later")
        self._places[run.run] = _Place(run)

    async def claim(self, worker: str, limits: QueueLimits, now: float, until: float) -> ClaimedRun | None:
        driven = [place.queued for place in self._places.values() if place.is_driven(now)]
        if len(driven) >= limits.total:
            return None
        for run, place in self._places.items():
            owner, session = place.queued.owner, place.queued.session
            of_owner = [other for other in driven if other.owner == owner]
            if (
                not place.is_driven(now)
                and len(of_owner) < limits.per_owner
                and sum([other.session == session for other in of_owner]) < limits.per_session
            ):
                place.worker, place.until, place.claims = worker, until, place.claims + 1
                return self._places[run].claimed
        return None

    async def renew(self, worker: str, until: float) -> list[ClaimedRun]:
        mine = [place for place in self._places.values() if place.worker == worker]
        for place in mine:
            place.until = until
        return [place.claimed for place in mine]

    async def cancel(self, run: str, now: float, worker: str = "") -> bool:
        place = self._places.get(run)
        if place is None:
            return False
        if place.is_driven(now) and place.worker != worker:
            place.is_cancelled = True
            return False
        del self._places[run]
        return True

    async def list(self, now: float, owner: str | None = None) -> list[QueueEntry]:
        entries, waiting = [], 0
        for place in self._places.values():
            queued, is_driven = place.queued, place.is_driven(now)
            if owner is None or queued.owner == owner:
                position = None if is_driven else waiting
                entries.append(QueueEntry(queued.run, queued.owner, queued.session, queued.at, position))
            waiting += not is_driven
        return entries
