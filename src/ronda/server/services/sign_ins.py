"""Who is signed in at the web page: a random id that a browser has in a cookie → the API key that it was given for.

The id is kept as a hash, which opens nothing. It is changed now and then; for a moment after that both are good, since a browser
has several requests under way.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from ronda.store.sql import Sql, Tables, TableStore

LIFETIME: Final = 12 * 3600.0  # seconds: a working day, after which a person gives the key again
ROTATION: Final = 3600.0  # seconds until a browser gets another id
GRACE: Final = 60.0  # seconds for which the id before the last is good: longer than a request waits to be sent
FRESH_FOR: Final = 1.0  # seconds until a row is read again, as keys are
MAX_PER_KEY: Final = 100  # browsers of one key; the oldest is signed out
_MAX_FRESH: Final = 1000  # rows that are remembered


class SignIn(Struct, frozen=True):
    """One browser. `id` never leaves the server."""

    id: str
    hash: bytes  # of what its cookie holds
    previous: bytes  # of what the cookie held before, b"" at first
    key: str  # the id of the API key
    created: float
    rotated: float
    expires: float

    @property
    def csrf(self) -> str:
        """What a page must say with requests that change something: the page can read it, other pages cannot."""
        return blake2b(self.id.encode(), digest_size=24, person=b"ronda csrf").hexdigest()


class LoginWay(Struct, frozen=True):
    """A way to sign in at the page besides giving a key: what a feature provides, and `GET /v1/login` lists."""

    kind: str
    name: str  # what people call it
    url: str  # where a browser goes


class SignIns(TableStore):
    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._fresh: OrderedDict[bytes, tuple[float, SignIn | None]] = OrderedDict()  # by hash: until when, and the row

    async def add(self, key: str, now: float) -> tuple[str, SignIn]:
        """What the browser's cookie is to hold, and what is kept of it."""
        cookie = secrets.token_urlsafe(32)
        row = SignIn(secrets.token_hex(16), _hash(cookie), b"", key, now, now, now + LIFETIME)
        values = (row.id, row.hash, row.previous, row.key, row.created, row.rotated, row.expires)

        def add(db: Sql) -> None:
            kept = "SELECT id FROM sign_in WHERE key = ? ORDER BY created DESC LIMIT ?"
            db.execute(f"DELETE FROM sign_in WHERE key = ? AND id NOT IN ({kept})", (key, key, MAX_PER_KEY - 1))
            db.execute(
                """INSERT INTO sign_in (id, hash, previous, key, created, rotated, expires)
                   VALUES (?, ?, ?, ?, ?, ?, ?)""",
                values,
            )

        await self._tables.write(add)
        return cookie, row

    async def find(self, cookie: str, now: float) -> SignIn | None:
        """Whose cookie this is, unless its time is up."""
        hashed = _hash(cookie)
        until, row = self._fresh.get(hashed, (0.0, None))
        if not now < until <= now + FRESH_FOR:  # a clock that was set back makes nothing fresh for longer
            row = await self._read(hashed)
            self._fresh[hashed] = now + FRESH_FOR, row
            if len(self._fresh) > _MAX_FRESH:
                self._fresh.popitem(last=False)
        if row is None or row.expires <= now:
            return None
        return row if row.hash == hashed or now < row.rotated + GRACE else None

    async def rotate(self, row: SignIn, now: float) -> tuple[str, SignIn] | None:
        """Another id for a browser; None if another request has just got one."""
        cookie = secrets.token_urlsafe(32)
        changed = SignIn(row.id, _hash(cookie), row.hash, row.key, row.created, now, now + LIFETIME)
        statement = "UPDATE sign_in SET hash = ?, previous = ?, rotated = ?, expires = ? WHERE id = ? AND hash = ?"
        values = (changed.hash, changed.previous, changed.rotated, changed.expires, row.id, row.hash)
        self._fresh.pop(row.hash, None)
        return (cookie, changed) if await self._change(statement, values) else None

    async def end(self, row: SignIn) -> None:
        self._fresh.pop(row.hash, None)
        self._fresh.pop(row.previous, None)
        await self._change("DELETE FROM sign_in WHERE id = ?", (row.id,))

    async def sweep(self, now: float) -> None:
        await self._change(
            """DELETE FROM sign_in WHERE expires <= ?
                OR key IN (SELECT id FROM key WHERE revoked IS NOT NULL OR expires <= ?)""",
            (now, now),
        )

    async def _read(self, hashed: bytes) -> SignIn | None:
        question = (
            "SELECT id, hash, previous, key, created, rotated, expires FROM sign_in WHERE hash = ? OR previous = ?"
        )
        rows = await self._rows(question, (hashed, hashed))
        return SignIn(*rows[0]) if rows else None


def _hash(cookie: str) -> bytes:
    return blake2b(cookie.encode(), digest_size=32, person=b"ronda sign-in").digest()
