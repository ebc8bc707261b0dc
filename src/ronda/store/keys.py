"""API keys: whose each is. A key itself is shown once, to whoever makes it; kept is its hash, which opens nothing.

A key is long and random, so nobody can try them all: a fast hash is as good as a slow one here.
"""

from __future__ import annotations

import secrets
from hashlib import blake2b

from msgspec import Struct

from ronda.store.sql import TableStore

PREFIX = "rk_"  # so that people and secret scanners see what it is
_BYTES = 32


class KeyRow(Struct, frozen=True):
    id: str
    owner: str
    hash: bytes
    created: float
    revoked: float | None = None


class Keys(TableStore):
    async def add(self, key: KeyRow) -> None:
        row = (key.id, key.owner, key.hash, key.created, key.revoked)
        await self._tables.write(
            lambda db: db.execute("INSERT INTO key (id, owner, hash, created, revoked) VALUES (?, ?, ?, ?, ?)", row)
        )

    async def all(self) -> list[KeyRow]:
        """Every key there ever was, the oldest first: revoked ones stay, so that revoking the last opens nothing."""
        rows = await self._rows("SELECT id, owner, hash, created, revoked FROM key ORDER BY rowid")
        return [KeyRow(*row) for row in rows]

    async def revoke(self, id: str, now: float) -> bool:
        """False for a key that is not there."""
        return await self._change("UPDATE key SET revoked = coalesce(revoked, ?) WHERE id = ?", (now, id))


def new_key(owner: str, now: float) -> tuple[str, KeyRow]:
    """A key to be shown once, and what is kept of it."""
    key = PREFIX + secrets.token_urlsafe(_BYTES)
    return key, KeyRow(f"key_{secrets.token_hex(6)}", owner, hash_key(key.encode()), now)


def hash_key(key: bytes) -> bytes:
    return blake2b(key, digest_size=32, person=b"ronda key").digest()
