"""Hashes of a conversation, turn by turn: each is of everything up to its turn, so that what conversations share is kept once.

Requests of a session bring the same turns again, the very same objects, and a few more. What was hashed for the request before
need not be hashed again: `Chains` remembers a few of the latest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from operator import is_
from typing import Final

import msgspec
from msgspec import Struct

from ronda.core.parts import KnownTurns, Turn

MAX_CHAINS: Final = 64  # conversations …
MAX_CHAIN_BYTES: Final = 128 << 10  # … of so many bytes at the most
_LOOKED_BACK: Final = 64  # turns that one run may have added

_encode = msgspec.json.Encoder().encode


class Chain(Struct, frozen=True):
    turns: tuple[Turn, ...]
    hasher: blake2b
    hashes: tuple[bytes, ...]
    size: int  # bytes of all turns


class Chains:
    def __init__(self) -> None:
        self._by_last: OrderedDict[int, Chain] = OrderedDict()  # by the object that a conversation ends with

    def of(self, turns: tuple[Turn, ...], bodies: Sequence[bytes] | None = None) -> Chain:
        """`bodies` are the turns as JSON, where they were written."""
        begun = self._hashed_before(turns) if type(turns) is KnownTurns else None
        hasher = blake2b(digest_size=20, person=b"turn") if begun is None else begun.hasher.copy()
        done, size = (0, 0) if begun is None else (len(begun.turns), begun.size)
        hashes: list[bytes] = []
        for body in map(_encode, turns[done:]) if bodies is None else bodies:
            # JSON objects end where they end, so nothing needs to part them.
            hasher.update(body)
            hashes.append(hasher.digest())
            size += len(body)
        chain = Chain(turns, hasher, tuple(hashes) if begun is None else (*begun.hashes, *hashes), size)
        if type(turns) is KnownTurns and size <= MAX_CHAIN_BYTES:
            self._by_last[id(turns[-1])] = chain  # which holds on to the turn: its id is no other's
            if len(self._by_last) > MAX_CHAINS:
                self._by_last.popitem(last=False)
        return chain

    def _hashed_before(self, turns: tuple[Turn, ...]) -> Chain | None:
        """What was hashed of these turns before."""
        for index in range(len(turns) - 1, max(-1, len(turns) - _LOOKED_BACK), -1):
            chain = self._by_last.get(id(turns[index]))
            if chain is not None and len(chain.turns) == index + 1 and all(map(is_, chain.turns, turns)):
                return self._by_last.pop(id(turns[index]))
        return None
