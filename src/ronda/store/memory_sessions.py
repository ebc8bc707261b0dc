"""Sessions that are forgotten with their process. Threads may share them, as they may share whoever runs agents."""

from __future__ import annotations

import threading

from msgspec import Raw
from msgspec.structs import asdict, replace

from ronda.store.sessions import (
    ROOT,
    Bounds,
    Cursor,
    Lease,
    LeaseAnswer,
    NewNode,
    NodeRow,
    SessionPage,
    SessionRow,
)


class _Session:
    __slots__ = ("nodes", "row")

    def __init__(self, row: SessionRow) -> None:
        self.row = row
        self.nodes: list[NodeRow] = []  # the first has the number 1

    def add(self, node: NewNode, now: float) -> NodeRow:
        row = NodeRow(**asdict(node), number=len(self.nodes) + 1, created=now)
        self.nodes.append(row)
        self.row = replace(self.row, updated=now, size=self.row.size + len(node.turns))
        return row

    def move(self, number: int) -> None:
        ends = self.nodes[number - 1].ends if number else 0
        self.row = replace(self.row, head=number, ends=ends)


class MemorySessions:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[tuple[str, str], _Session] = {}
        self.leases: dict[tuple[str, str], Lease] = {}
        self._interrupted: set[tuple[str, str]] = set()

    async def find(self, owner: str, name: str) -> SessionRow | None:
        found = self._sessions.get((owner, name))
        return None if found is None else found.row

    async def page(self, owner: str, limit: int, before: Cursor | None = None) -> SessionPage:
        with self._lock:
            mine = [session.row for (whose, _), session in self._sessions.items() if whose == owner]
        mine.sort(key=_last_use, reverse=True)
        if before is not None:
            mine = [row for row in mine if _last_use(row) < before]
        return SessionPage(mine[:limit], _last_use(mine[limit - 1]) if len(mine) > limit else None)

    async def path(self, owner: str, name: str, node: int) -> list[NodeRow]:
        found = self._sessions.get((owner, name))
        path: list[NodeRow] = []
        while found is not None and ROOT < node <= len(found.nodes):
            path.append(found.nodes[node - 1])
            node = path[-1].parent
        return path[::-1]

    async def tips(self, owner: str, name: str) -> list[NodeRow]:
        with self._lock:
            found = self._sessions.get((owner, name))
            nodes = [] if found is None else list(found.nodes)
        continued = {(node.parent, node.upto) for node in nodes}
        return [replace(node, turns=b"") for node in nodes if (node.number, node.ends) not in continued]

    async def node_of(self, owner: str, name: str, run: str) -> int | None:
        found = self._sessions.get((owner, name))
        return None if found is None else _node_of(found, run)

    async def add(
        self,
        owner: str,
        name: str,
        node: NewNode,
        now: float,
        *,
        stood_at: int | None = None,
        release: Lease | None = None,
    ) -> tuple[int, bool]:
        with self._lock:
            if release is not None:
                self._release((owner, name), release)
            session = self._sessions.get((owner, name))
            if session is None:
                session = self._sessions[owner, name] = _Session(SessionRow(name, now, now, ROOT, 0, 0))
            elif (known := _node_of(session, node.run)) is not None:
                return known, session.row.head == known
            is_head = session.row.head == stood_at
            number = session.add(node, now).number
            if is_head:
                session.move(number)
            return number, is_head

    async def replace(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
        with self._lock:
            self._put(owner, name, node, labels, now)

    async def create(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> bool:
        with self._lock:
            if (owner, name) in self._sessions:
                return False
            self._put(owner, name, node, labels, now)
            return True

    def _put(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
        session = self._sessions[owner, name] = _Session(SessionRow(name, now, now, ROOT, 0, 0, labels))
        session.move(session.add(node, now).number)

    async def change(self, owner: str, name: str, now: float, *, head: int | None, labels: Raw | None) -> bool:
        with self._lock:
            session = self._sessions.get((owner, name))
            if session is None or not (head is None or ROOT <= head <= len(session.nodes)):
                return False
            if head is not None:
                session.move(head)
            session.row = replace(session.row, updated=now, labels=session.row.labels if labels is None else labels)
            return True

    async def delete(self, owner: str, name: str) -> bool:
        return self._sessions.pop((owner, name), None) is not None

    async def prune(self, bounds: Bounds, now: float) -> int:
        with self._lock:
            oldest = sorted(self._sessions.items(), key=lambda one: _last_use(one[1].row))
            idle = [(key, session.row) for key, session in oldest if key not in self.leases]
            count, size = len(oldest), sum([session.row.size for _, session in oldest])
            forgotten = 0
            for key, row in idle:
                is_old = bounds.max_age is not None and row.updated < now - bounds.max_age
                are_many = bounds.max_count is not None and count > bounds.max_count
                are_large = bounds.max_bytes is not None and size > bounds.max_bytes
                if not (is_old or are_many or are_large):
                    break
                del self._sessions[key]
                count, size, forgotten = count - 1, size - row.size, forgotten + 1
            return forgotten

    # ---- leases ------------------------------------------------------------------------------------------------------

    async def lease(self, owner: str, name: str, lease: Lease, now: float, dead: str | None = None) -> LeaseAnswer:
        with self._lock:
            other = self.leases.get((owner, name))
            if other is not None and other.until > now and other.holder != dead:
                return LeaseAnswer(False, other)
            self.leases[owner, name] = lease
            self._interrupted.discard((owner, name))
            session = self._sessions.get((owner, name))
            return LeaseAnswer(True, other, None if session is None else session.row)

    async def renew(self, holder: str, until: float) -> list[tuple[str, str]]:
        with self._lock:
            mine = [key for key, lease in self.leases.items() if lease.holder == holder]
            for key in mine:
                self.leases[key] = replace(self.leases[key], until=until)
            return [key for key in mine if key in self._interrupted]

    async def interrupt(self, owner: str, name: str) -> None:
        with self._lock:
            if (owner, name) in self.leases:
                self._interrupted.add((owner, name))

    async def release(self, owner: str, name: str, lease: Lease) -> None:
        with self._lock:
            self._release((owner, name), lease)

    def _release(self, key: tuple[str, str], lease: Lease) -> None:
        held = self.leases.get(key)
        if held is not None and (held.holder, held.run) == (lease.holder, lease.run):
            del self.leases[key]
            self._interrupted.discard(key)


def _last_use(row: SessionRow) -> Cursor:
    return row.updated, row.name


def _node_of(session: _Session, run: str) -> int | None:
    return next((node.number for node in session.nodes if run and node.run == run), None)
