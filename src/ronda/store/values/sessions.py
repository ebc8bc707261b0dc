"""What is kept of a session: its row, the nodes of its tree, who may continue it, and the bounds of all sessions together."""

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
    """Who may continue a session, for which run, and until when no other may."""

    holder: str
    run: str
    until: float


class LeaseAnswer(Struct, frozen=True):
    """`other`: where it is not ours, whose it is; else whose it was until now, and may not have written its run back."""

    is_ours: bool
    other: Lease | None = None
    row: SessionRow | None = None  # of the session, where it is ours


class Bounds(Struct, frozen=True):
    """What is kept at the most, of all owners together and of one. An owner who keeps no more than the others loses nothing to
    them: sessions go from the owner who keeps the most, those that were unused for longest first."""

    max_age: float | None = None  # seconds
    max_count: int | None = None
    max_bytes: int | None = None
    owner_count: int | None = None
    owner_bytes: int | None = None


NO_BOUNDS: Final = Bounds()


class Rewrite(Protocol):
    """Takes words out of what a session keeps, as JSON."""

    def turns(self, turns: bytes) -> bytes: ...

    def labels(self, labels: Raw) -> Raw: ...
