"""GET, POST, DELETE /v1/keys and GET /v1/audit; and a look at keys, so that a revoked one ends what it has under way.

Every act is noted before it is done: a row may be about one that failed, but none is missing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda.errors import BadRequest, NotFound
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.contract import Chore, Feature, Line, Services
from ronda.server.http.auth import KeyAuth
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.operations import Named, Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.acting import note_act
from ronda.store.keys import KeyRow, check_owner, new_key
from ronda.store.values.scopes import check_scopes
from ronda.wire.codec.json import UNREADABLE, encode

MAX_BODY: Final = 65_536  # bytes: a hundred scopes of the longest kind
MAX_SECONDS: Final = 10 * 365 * 86400.0  # of a key with an end: one that is to last longer needs none
_LOOK_SECONDS: Final = 0.5  # with the second for which keys are not read again, a revoked key ends within 2
_USES_SECONDS: Final = 60.0  # between two writes of when keys were last used
_MAX_PAGE: Final = 1000
_OWN: Final = Dialect("Ronda", chat_error)
_NOT_KEPT: Final[Header] = (b"cache-control", b"no-store")


class _NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    owner: str
    scopes: tuple[str, ...] = ()
    expires_in: float | None = None  # seconds


class Keys(Feature):
    name = "keys"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._auth = services.auth
        self._catalog = services.catalog
        self._open_requests = services.open_requests

    def chores(self) -> Sequence[Chore]:
        if not isinstance(self._auth, KeyAuth):
            return ()
        return [
            Chore("the end of revoked keys", _LOOK_SECONDS, self.end_revoked),
            Chore("the last uses of keys", _USES_SECONDS, self._auth.write_uses),
        ]

    async def doctor(self) -> Sequence[Line]:
        if not isinstance(self._auth, KeyAuth):
            return [Line("keys", "works", "the program that has this server says whose requests are")]
        rows = await self._catalog.keys.all()
        good = [row for row in rows if row.is_good(time.time())]
        if good:
            return [Line("keys", "works", f"{len(good)} API keys; requests without one are refused")]
        if rows:
            return [
                Line("keys", "fails", "all API keys have expired or were revoked", "ronda keys create --owner NAME")
            ]
        text = "no API keys: every program on this machine may use the server"
        return [Line("keys", "partly", text, "ronda keys create --owner NAME")]

    async def stop(self) -> None:
        if isinstance(self._auth, KeyAuth):
            await self._auth.write_uses()

    async def end_revoked(self) -> None:
        """End what is under way with keys that are not good any more. Where nothing is, nothing is read."""
        if isinstance(self._auth, KeyAuth):
            for key in list(self._open_requests.keys):
                if await self._auth.find(key) is None:
                    await self._open_requests.end(key)

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/v1/keys", _OWN, self.list_keys, "read", right="operate:write"),
            Route("POST", "/v1/keys", _OWN, self.create, "write", right="operate:write"),
            Route("DELETE", "/v1/keys/{key_id}", _OWN, self.revoke, "write", right="operate:write"),
            Route("GET", "/v1/audit", _OWN, self.list_acts, "read", right="operate"),
        ]

    def operations(self) -> Mapping[str, Operation]:
        return _OPERATIONS

    async def list_keys(self, request: Incoming) -> ASGIApp:
        rows = await self._catalog.keys.all()
        return Json(encode({"object": "list", "data": [_shown(row) for row in rows], "has_more": False}))

    async def create(self, request: Incoming) -> ASGIApp:
        """The answer is the one place where the key itself is."""
        wish = await request.read(MAX_BODY, _read_new_key)
        owner, scopes = check_owner(wish.owner), check_scopes(wish.scopes)
        now = time.time()
        expires = None
        if wish.expires_in is not None:
            if not 0 < wish.expires_in <= MAX_SECONDS:
                raise BadRequest(
                    f"'expires_in' must be more than 0 and at most {MAX_SECONDS:.0f} seconds", param="expires_in"
                )
            expires = now + wish.expires_in
        key, row = new_key(owner, now, scopes, expires)
        await note_act(
            self._catalog.audit, request, "key.create", row.id, f"owner {owner}; scopes {' '.join(scopes) or 'none'}"
        )
        await self._catalog.keys.add(row)
        self._changed()
        return Json(encode({**_shown(row), "key": key}), 201, [_NOT_KEPT])

    async def revoke(self, request: Incoming) -> ASGIApp:
        key_id = request.places["key_id"]
        row = next((row for row in await self._catalog.keys.all() if row.id == key_id), None)
        if row is None:
            raise NotFound(f"there is no key '{key_id[:100]}'; GET /v1/keys lists those there are", param="key_id")
        await note_act(self._catalog.audit, request, "key.revoke", key_id, f"owner {row.owner}")
        await self._catalog.keys.revoke(key_id, time.time())
        self._changed()
        return Json(encode({"object": "key.deleted", "id": key_id, "deleted": True}))

    def _changed(self) -> None:
        if isinstance(self._auth, KeyAuth):
            self._auth.forget()

    async def list_acts(self, request: Incoming) -> ASGIApp:
        limit, before = _number(request, "limit", _MAX_PAGE) or 100, _number(request, "before", 2**62)
        found = await self._catalog.audit.page(limit + 1, before)
        return Json(encode({"object": "list", "data": found[:limit], "has_more": len(found) > limit}))


def _shown(row: KeyRow) -> dict[str, Any]:
    return {
        "object": "key",
        "id": row.id,
        "owner": row.owner,
        "scopes": None if row.rights is None else sorted(row.rights),
        "created_at": row.created,
        "expires_at": row.expires,
        "revoked_at": row.revoked,
        "last_used_at": row.used,
    }


def _read_new_key(body: bytes) -> _NewKey:
    try:
        return msgspec.json.decode(body, type=_NewKey)
    except UNREADABLE as error:
        raise BadRequest(
            f"the body must be JSON with 'owner', and if need be 'scopes' and 'expires_in': {error}"
        ) from None


def _number(request: Incoming, name: str, most: int) -> int | None:
    given = request.query.get(name)
    if given is None:
        return None
    text = given[-1]
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 1 <= int(text) <= most):
        raise BadRequest(f"'{name}' must be a number from 1 to {most}", param=name)
    return int(text)


_KEY: Final = Named(
    "Key",
    {
        "object": "key",
        "id": str,
        "owner": str,
        "scopes": ([str], None),
        "created_at": float,
        "expires_at": (float, None),
        "revoked_at": (float, None),
        "last_used_at": (float, None),
        "key?": str,
    },
    "An API key; the key itself is only in the answer to the request that made it.",
)
_ACT: Final = {
    "id": int,
    "at": float,
    "owner": str,
    "actor": str,
    "act": str,
    "subject": str,
    "client": str,
    "details": str,
}
_OPERATIONS: Final[dict[str, Operation]] = {
    "GET /v1/keys": Operation(
        name="list_keys", summary="List all API keys", answer={"object": "list", "data": [_KEY], "has_more": bool}
    ),
    "POST /v1/keys": Operation(
        name="create_key",
        summary="Make an API key; it is shown once",
        fields={
            "owner": (str, "whose it is"),
            "scopes": ([str], "what it may do; everything that a key may if left out"),
            "expires_in": (float, "seconds; it does not expire if left out"),
        },
        needs=("owner",),
        answer=_KEY,
        status=201,
    ),
    "DELETE /v1/keys/{key_id}": Operation(
        name="revoke_key",
        summary="Revoke an API key",
        answer={"object": "key.deleted", "id": str, "deleted": bool},
    ),
    "GET /v1/audit": Operation(
        name="list_acts",
        summary="List what operators have done, the newest first",
        query={"limit": (int, f"up to {_MAX_PAGE}; 100 if left out"), "before": (int, "the id of an act")},
        answer={"object": "list", "data": [_ACT], "has_more": bool},
    ),
}
