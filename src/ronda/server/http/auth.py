"""Whose a request is: decided once, at the edge, by what its headers say, before anything else of it is read.

without keys    any bearer is accepted, and owns what it makes: one never finds another's runs
with keys       a key is an owner's, known by name, so that keys can be changed and what was made stays theirs. A client
                with none, or with one that is not known or was revoked, gets a 401 that says so
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.host.run import look_at
from ronda.server.http.incoming import Headers, Incoming
from ronda.store.keys import KeyRow, Keys, hash_key

FRESH_FOR = 1.0  # seconds until the keys are read again: so long may one that was revoked be accepted

_BEARER = b"Bearer "
_UNKNOWN = "this API key is not known here; ask the operator of this server for one"
_REVOKED = "this API key was revoked; ask the operator of this server for another"
_EXPIRED = "this API key has expired; ask the operator of this server for another"


class Unauthorized(BadRequest):
    status_hint = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_api_key")  # OpenAI's word for it


class Caller(Struct, frozen=True, array_like=True):
    """Who asks, as one process names it to another: by no secret. `key` is the id of an API key, or "" where there are none."""

    owner: str
    key: str = ""


class Auth(Protocol):
    async def owner(self, headers: Headers) -> str:
        """The name of the caller; "" for one without a name. Raises Unauthorized."""


@runtime_checkable
class CallerAuth(Auth, Protocol):
    """Can name a caller to another process, and say there what the caller may do. Without it another process's word is taken."""

    async def caller(self, headers: Headers) -> Caller:
        """As `owner`."""

    async def check(self, caller: Caller) -> None:
        """Raises Unauthorized if the caller would not be let in now."""


class KeyAuth:
    """Asks for a key as soon as there is one, and from then on: revoking the last one opens nothing."""

    def __init__(
        self,
        keys: Keys,
        *,
        fresh_for: float = FRESH_FOR,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._fresh_for = fresh_for
        self._clock = clock
        self._wall_clock = wall_clock
        self._known: dict[bytes, KeyRow] = {}
        self._by_id: dict[str, KeyRow] = {}
        self._uses: dict[str, float] = {}  # when keys were used, where that is not written yet
        self._until = clock()
        self._reading: asyncio.Task[None] | None = None

    async def owner(self, headers: Headers) -> str:
        return (await self.caller(headers)).owner

    async def key(self, headers: Headers) -> KeyRow | None:
        """The key that a request came with; None where this server has no keys. Raises Unauthorized."""
        if self.is_stale():
            await self.look()
        return self._row(credential(headers)) if self._known else None

    async def caller(self, headers: Headers) -> Caller:
        if (row := await self.key(headers)) is not None:
            return Caller(row.owner, row.id)
        key = credential(headers)
        return Caller(_name_of(key) if key else "")

    def is_stale(self) -> bool:
        """Whether the keys must be read again (`look`) before a request is let in by them."""
        return self._clock() >= self._until

    def identify(self, request: Incoming) -> None:
        """Say whose a request is, by the keys that were read last. Raises Unauthorized."""
        key = credential(request.headers)
        if self._known:
            row = self._row(key)
            request.owner, request.key, request.rights = row.owner, row.id, row.rights
        else:
            request.owner = _name_of(key) if key else ""

    async def check(self, caller: Caller) -> None:
        await self.check_key(caller)

    async def check_key(self, caller: Caller) -> KeyRow | None:
        """The caller's key; None where this server has no keys. Raises Unauthorized as `check`."""
        if self.is_stale():
            await self.look()
        if not self._known and not caller.key:
            return None
        row = self._by_id.get(caller.key)
        if row is None or row.owner != caller.owner:
            raise Unauthorized(_UNKNOWN)
        return self._good(row)

    async def find(self, key_id: str) -> KeyRow | None:
        """The key of this id, if it would be let in now."""
        if self.is_stale():
            await self.look()
        row = self._by_id.get(key_id)
        return row if row is not None and row.is_good(self._wall_clock()) else None

    async def asks_for_keys(self) -> bool:
        """Whether there are keys, or were."""
        if self.is_stale():
            await self.look()
        return bool(self._known)

    @property
    def has_keys(self) -> bool:
        """As far as this process has read them."""
        return bool(self._known)

    def forget(self) -> None:
        """The keys have changed: the next request reads them."""
        self._until = self._clock()

    async def write_uses(self) -> None:
        """Keep when keys were last used."""
        if self._uses:
            uses, self._uses = self._uses, {}
            await self._keys.note_uses(uses)

    def _row(self, key: bytes) -> KeyRow:
        if not key.startswith(_BEARER):
            raise Unauthorized(
                "this server wants an API key; send one as 'Authorization: Bearer KEY' or 'x-api-key: KEY'"
            )
        # Found by its hash, whose bytes cannot be chosen: how long that takes tells nothing of other keys.
        hashed = hash_key(key[len(_BEARER) :].strip())
        row = self._known.get(hashed)
        if row is None or not hmac.compare_digest(row.hash, hashed):
            raise Unauthorized(_UNKNOWN)
        return self._good(row)

    def _good(self, row: KeyRow) -> KeyRow:
        if row.revoked is not None:
            raise Unauthorized(_REVOKED)
        now = self._wall_clock()
        if row.expires is not None and row.expires <= now:
            raise Unauthorized(_EXPIRED)
        self._uses[row.id] = now
        return row

    async def look(self) -> None:
        """Read the keys once for all who wait. One of them who leaves must not keep the others from knowing."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(look_at)  # the request that waited may have left
        reading = self._reading
        await asyncio.wait([reading])
        reading.result()  # a store that cannot be read lets no caller in

    async def _read(self) -> None:
        begun = self._clock()
        try:
            rows = await self._keys.all()
            self._known = {row.hash: row for row in rows}
            self._by_id = {row.id: row for row in rows}
            self._until = begun + self._fresh_for
        finally:
            self._reading = None


@lru_cache(256)
def _name_of(key: bytes) -> str:
    """Of an owner whom nothing but a bearer is known of."""
    return blake2b(key, digest_size=16).hexdigest()


def credential(headers: Headers) -> bytes:
    """`Bearer KEY`, under whichever of its names it comes; or what else `Authorization` says."""
    value = headers.get(b"authorization")
    if not value:
        key = headers.get(b"x-api-key")  # the same key under Anthropic's older name
        return b"" if key is None else _BEARER + key
    if value.startswith(_BEARER):  # nearly always
        return value
    # Schemes are the same in small letters and in capitals.
    return _BEARER + value[7:] if value[:7].lower() == b"bearer " else value
