"""Sessions that clients name: what was said in each, as a tree, and who may go on with one now.

A node is what one run added: the turns it was asked with and those that came of it. It stands behind `upto` turns of its parent's
path, so that a conversation which goes on from an earlier place leaves what followed there as a branch. The path from the root to
the `head` is the session as it stands. What the turns mean is not known here.

A lease lets one run at a time go on with a session. It is one holder's (a process), and ends by itself when nobody renews it.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from msgspec import Raw, Struct

ROOT = 0  # stands before the first turn of every session; nodes count from 1
NO_LABELS = Raw(b"{}")


class SessionRow(Struct, frozen=True):
    name: str
    created: float
    updated: float
    head: int  # the node that the session goes on from
    ends: int  # how many turns its path has
    size: int  # bytes of all its nodes
    labels: Raw = NO_LABELS  # what its owner notes on it: JSON


class NewNode(Struct, frozen=True):
    """`turns` is a JSON list of `count` turns, of which the first `asked` are what the run was asked with."""

    parent: int
    upto: int
    turns: bytes
    count: int
    asked: int
    run: str = ""

    @property
    def ends(self) -> int:
        return self.upto + self.count


class NodeRow(NewNode, frozen=True):
    number: int = 0
    created: float = 0.0


Cursor: TypeAlias = tuple[float, str]  # when a session was used last, and its name


class SessionPage(Struct, frozen=True):
    """`before` is where the next page begins; None if there is none."""

    sessions: list[SessionRow]
    before: Cursor | None = None


class Lease(Struct, frozen=True):
    """Who may go on with a session, for which run, and until when nobody else may."""

    holder: str
    run: str
    until: float


class LeaseAnswer(Struct, frozen=True):
    """`other`: where it is not ours, whose it is; else whose it was until now, and may not have written its run back."""

    is_ours: bool
    other: Lease | None = None
    row: SessionRow | None = None  # of the session, where it is ours


class Bounds(Struct, frozen=True):
    """What is kept at the most; the sessions that nobody has used for the longest time go first."""

    max_age: float | None = None  # seconds
    max_count: int | None = None
    max_bytes: int | None = None


NO_BOUNDS: Final = Bounds()


class Sessions(Protocol):
    """A session is known by its owner and its name."""

    async def find(self, owner: str, name: str) -> SessionRow | None: ...

    async def page(self, owner: str, limit: int, before: Cursor | None = None) -> SessionPage:
        """An owner's, those that were used last first. `before` is that of the page before."""

    async def path(self, owner: str, name: str, node: int) -> list[NodeRow]:
        """The nodes from the root to this one; none if it is not there."""

    async def tips(self, owner: str, name: str) -> list[NodeRow]:
        """The last nodes of all branches, oldest first, without their turns."""

    async def node_of(self, owner: str, name: str, run: str) -> int | None: ...

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
        """The number of a new node, and whether it is the head now: it is if the session still stands `stood_at`. A session that
        is not there begins with it. A run adds one node, however often it says so. With it, the lease to `release` ends."""

    async def replace(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> None:
        """The session is this node alone."""

    async def create(self, owner: str, name: str, node: NewNode, labels: Raw, now: float) -> bool:
        """The same, of one that is not there yet; False if it is."""

    async def change(self, owner: str, name: str, now: float, *, head: int | None, labels: Raw | None) -> bool:
        """False if there is no such session, or no such node in it."""

    async def delete(self, owner: str, name: str) -> bool: ...

    async def prune(self, bounds: Bounds, now: float) -> int:
        """Forget what is beyond the bounds; returns how many sessions. One that somebody has a lease of stays."""

    # ---- leases ------------------------------------------------------------------------------------------------------

    async def lease(self, owner: str, name: str, lease: Lease, now: float, dead: str | None = None) -> LeaseAnswer:
        """Take it, if nobody has it: one whose time is up, or whose holder is `dead`, has not."""

    async def renew(self, holder: str, until: float) -> list[tuple[str, str]]:
        """All leases of this holder. Returned are the sessions (owner, name) whose run is to make room."""

    async def interrupt(self, owner: str, name: str) -> None:
        """Let whoever has the lease know that its run is to make room."""

    async def release(self, owner: str, name: str, lease: Lease) -> None: ...
