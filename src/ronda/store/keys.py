"""API keys: whose each is. A key itself is shown once, to the person who makes it; kept is its hash, which opens nothing.

A key is long and random, so an attacker cannot try them all: a fast hash is as good as a slow one here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.store.sql import TableStore

PREFIX = "rk_"  # so that people and secret scanners see what it is
_BYTES = 32
MAX_OWNER = 64  # characters of an owner's name


class KeyRow(Struct, frozen=True):
    id: str
    owner: str
    hash: bytes
    created: float
    revoked: float | None = None
    rights: frozenset[str] | None = None  # its scopes; None: it has none, and may do what every key may
    expires: float | None = None
    used: float | None = None  # about when it last was: written now and then, not with each request

    def is_good(self, now: float) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


class Keys(TableStore):
    async def add(self, key: KeyRow) -> None:
        scopes = " ".join(sorted(key.rights or ()))
        row = (key.id, key.owner, key.hash, key.created, key.revoked, scopes, key.expires)
        statement = """INSERT INTO key (id, owner, hash, created, revoked, scopes, expires)
            VALUES (?, ?, ?, ?, ?, ?, ?)"""
        await self._tables.write(lambda db: db.execute(statement, row))

    async def all(self) -> list[KeyRow]:
        """Every key there ever was, the oldest first: revoked ones stay, so that revoking the last opens nothing."""
        rows = await self._rows(
            "SELECT id, owner, hash, created, revoked, scopes, expires, used FROM key ORDER BY rowid"
        )
        return [
            KeyRow(key_id, owner, hashed, created, revoked, frozenset(scopes.split()) or None, expires, used)
            for key_id, owner, hashed, created, revoked, scopes, expires, used in rows
        ]

    async def revoke(self, key_id: str, now: float) -> bool:
        """False for a key that is not there."""
        return await self._change("UPDATE key SET revoked = coalesce(revoked, ?) WHERE id = ?", (now, key_id))

    async def note_uses(self, uses: Mapping[str, float]) -> None:
        """When keys were last used, by their ids."""
        statement = "UPDATE key SET used = ? WHERE id = ? AND (used IS NULL OR used < ?)"
        values = [(at, key, at) for key, at in uses.items()]
        await self._tables.write(lambda db: db.executemany(statement, values), may_be_lost=True)


def check_owner(name: str) -> str:
    """Raises BadRequest for what is no name of an owner."""
    if not (0 < len(name) <= MAX_OWNER and name.isprintable() and name == name.strip()):
        raise BadRequest(
            f"the owner is {name[:100]!r}; it must be 1 to {MAX_OWNER} printable characters, without spaces around",
            param="owner",
        )
    return name


def new_key(owner: str, now: float, scopes: Sequence[str] = (), expires: float | None = None) -> tuple[str, KeyRow]:
    """A key to be shown once, and what is kept of it. `scopes` were checked (`scopes.check_scopes`)."""
    key = PREFIX + secrets.token_urlsafe(_BYTES)
    key_id = f"key_{secrets.token_hex(6)}"
    return key, KeyRow(key_id, owner, hash_key(key.encode()), now, None, frozenset(scopes) or None, expires)


def hash_key(key: bytes) -> bytes:
    return blake2b(key, digest_size=32, person=b"ronda key").digest()
