"""How much each owner may keep when all together keep too much: an equal share, and what others leave of theirs.

An owner who keeps no more than an equal share loses nothing. What an owner keeps beyond it is room that the others do not use
yet: it is given back when they do, by the owner who has the most of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def level(sizes: Iterable[int], limit: int) -> int:
    """How much one may keep at most, so that all together keep at most `limit`."""
    left = limit
    ordered = sorted(sizes)
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return max(share, 0)
        left -= size
    return ordered[-1] if ordered else 0


def beyond(kept: Mapping[K, int], limit: int | None, each: int | None, room: float = 1.0) -> dict[K, int]:
    """By how much an owner keeps too much: more than `each` may, or its share of `limit`, if all keep more than that. Where they
    do, they are brought down to `room` of it, so that it need not be done again at once."""
    allowed = each
    if limit is not None and sum(kept.values()) > limit:
        share = level(kept.values(), int(limit * room))
        allowed = share if each is None else min(share, each)
    return {} if allowed is None else {owner: size - allowed for owner, size in kept.items() if size > allowed}


def oldest_beyond(rows: Sequence[tuple[T, K, int]], limit: int) -> list[T]:
    """Of things with their owners and sizes, the newest first: those to forget, the oldest of each owner who keeps too much."""
    kept: dict[K, int] = {}
    for _, owner, size in rows:
        kept[owner] = kept.get(owner, 0) + size
    excess = beyond(kept, limit, None)
    gone = []
    for thing, owner, size in reversed(rows):
        if excess.get(owner, 0) > 0:
            gone.append(thing)
            excess[owner] -= size
    return gone
