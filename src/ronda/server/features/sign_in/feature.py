"""GET and POST /v1/login, POST /v1/logout, GET /v1/me: a browser gives an API key once, and has a cookie from then on.

    key ──► POST /v1/login ──► a row: a random id, hashed, and the id of the key ──► the cookie, with the random id

A request that brings a key of its own is not looked at here. Without API keys there is nothing to sign in for.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp

from ronda._version import __version__
from ronda.errors import BadRequest
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.contract import Chore, Feature, Refused, Services
from ronda.server.http.auth import FRESH_FOR, KeyAuth
from ronda.server.http.cookies import cookie_of, is_own_page, name_for, plain_name, set_cookie
from ronda.server.http.incoming import Header, Incoming, Json, NoContent
from ronda.server.http.operations import Named, Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.attempts import Attempts
from ronda.server.services.sign_ins import LIFETIME, ROTATION, LoginWay, SignIn, SignIns
from ronda.store.keys import KeyRow
from ronda.wire.codec.json import UNREADABLE, encode

CSRF: Final = b"x-ronda-csrf"
MAX_BODY: Final = 4096  # bytes: a key has 46 characters
_SWEEP_SECONDS: Final = 600.0  # rows whose time is up open nothing: they only take room
_OWN: Final = Dialect("Ronda", chat_error, door="")
_NOT_KEPT: Final[Header] = (b"cache-control", b"no-store")
_READS: Final = ("GET", "HEAD")


class _Login(Struct, frozen=True):
    key: str


class SignInPage(Feature):
    name = "sign_in"
    sign_in_headers = (b"cookie",)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._auth = services.auth
        self._clock = services.clock
        self._feature_names = services.feature_names
        self._sign_ins = SignIns(services.catalog)
        self._attempts = Attempts()
        self._provided = services.provided

    def chores(self) -> Sequence[Chore]:
        return [Chore("the tidying of sign-ins", _SWEEP_SECONDS, self._sweep)]

    async def _sweep(self) -> None:
        await self._sign_ins.sweep(self._clock())

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/v1/login", _OWN, self.ways, "public"),
            Route("POST", "/v1/login", _OWN, self.login, "public"),
            Route("POST", "/v1/logout", _OWN, self.logout, "public"),
            Route("GET", "/v1/me", _OWN, self.me, "read"),
        ]

    def operations(self) -> Mapping[str, Operation]:
        me = Named(
            "Me",
            {
                "object": "me",
                "owner": str,
                "key_id": (str, None),
                "scopes": ([str], None),
                "needs_key": bool,
                "csrf": (str, None),
                "signed_in_until": (float, None),
                "version": str,
                "features": [str],
            },
            "Who asks, and what the server has.",
        )
        return {
            "GET /v1/login": Operation(
                summary="How people sign in here",
                answer={"object": "list", "data": [{"kind": str, "name?": str, "url?": str}]},
            ),
            "POST /v1/login": Operation(
                summary="Sign a browser in: a key for a cookie",
                fields={"key": (str, "an API key of this server")},
                needs=("key",),
                answer=me,
            ),
            "POST /v1/logout": Operation(summary="Sign a browser out", answer=None, status=204),
            "GET /v1/me": Operation(name="get_me", summary="Who asks, and what the server has", answer=me),
        }

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def sign_in(self, request: Incoming) -> str | None:
        if b"authorization" in request.headers or b"x-api-key" in request.headers:
            return None
        if (row := await self._find(request)) is None or not isinstance(self._auth, KeyAuth):
            return None
        key = await self._auth.find(row.key)
        if key is None and self._clock() < row.created + 2 * FRESH_FOR:
            self._auth.forget()  # another process may have made the key with the sign-in, a moment ago
            key = await self._auth.find(row.key)
        if key is None:
            return None
        # A WebSocket has an `Origin`, and browsers let pages send no other header with it.
        if not request.is_socket and request.method not in _READS:
            _check_csrf(request, row)
        request.key, request.rights = key.id, key.rights
        return key.owner

    async def ways(self, request: Incoming) -> ASGIApp:
        """How people sign in here: with a key, and with what a feature brings."""
        way: LoginWay | None = self._provided(LoginWay)
        found = [{"kind": "key"}] + ([] if way is None else [{"kind": way.kind, "name": way.name, "url": way.url}])
        return Json(encode({"object": "list", "data": found}))

    async def login(self, request: Incoming) -> ASGIApp:
        """A key → a cookie."""
        _check_page(request)
        given = await request.read(MAX_BODY, _read_login)
        if not isinstance(self._auth, KeyAuth):
            raise BadRequest("this server does not sign in with keys", code="no_login")
        self._attempts.begin(request.client)
        key = await self._auth.key({b"authorization": b"Bearer " + given.key.encode()})
        self._attempts.succeeded(request.client)
        if key is None:
            raise BadRequest("this server has no API keys: there is nothing to sign in for", code="no_login")
        if (before := await self._find(request)) is not None:
            await self._sign_ins.end(before)
        cookie, row = await self._sign_ins.add(key.id, self._clock())
        headers = [set_cookie(name_for(request), cookie, LIFETIME), _NOT_KEPT]
        return Json(encode(self._facts(key.owner, key, row)), headers=headers)

    async def logout(self, request: Incoming) -> ASGIApp:
        """Also of a browser whose sign-in is over: it forgets its cookie."""
        _check_page(request)
        if (row := await self._find(request)) is not None:
            _check_csrf(request, row)
            await self._sign_ins.end(row)
        found = cookie_of(request)
        answer = NoContent()
        answer.add_headers([set_cookie(plain_name(request) if found is None else found[0], "", 0), _NOT_KEPT])
        return answer

    async def me(self, request: Incoming) -> ASGIApp:
        """Who asks, and what the server has. A browser whose cookie is old gets another."""
        headers: list[Header] = [_NOT_KEPT]
        key, row = None, None
        if request.key and isinstance(self._auth, KeyAuth):
            key = await self._auth.find(request.key)
        if request.signed_in_by == self.name and (row := await self._find(request)) is not None:
            now, (name, value) = self._clock(), cookie_of(request) or ("", "")
            if now >= row.rotated + ROTATION and (rotated := await self._sign_ins.rotate(row, now)) is not None:
                value, row = rotated
                headers.append(set_cookie(name, value, LIFETIME))
        return Json(encode(self._facts(request.owner, key, row)), headers=headers)

    async def _find(self, request: Incoming) -> SignIn | None:
        """The sign-in that a request's cookie stands for, where the cookie counts."""
        found = cookie_of(request)
        if found is None or not is_own_page(request, found[0]):
            return None
        return await self._sign_ins.find(found[1], self._clock())

    def _facts(self, owner: str, key: KeyRow | None, row: SignIn | None) -> dict[str, object]:
        return {
            "object": "me",
            "owner": owner,
            "key_id": None if key is None else key.id,
            "scopes": None if key is None or key.rights is None else sorted(key.rights),
            "needs_key": isinstance(self._auth, KeyAuth) and self._auth.has_keys,
            "csrf": None if row is None else row.csrf,
            "signed_in_until": None if row is None else row.expires,
            "version": __version__,
            "features": self._feature_names(),
        }


def _check_page(request: Incoming) -> None:
    """No other page signs a browser in or out, whatever pages are let in. A program says nothing of pages."""
    if b"sec-fetch-site" not in request.headers and b"origin" not in request.headers:
        return
    if not is_own_page(request):
        raise Refused("only the page of this server may sign in or out", 403, code="origin_not_allowed")


def _check_csrf(request: Incoming, row: SignIn) -> None:
    given = request.headers.get(CSRF, b"")
    if not hmac.compare_digest(given, row.csrf.encode()):
        raise Refused(
            "a request that changes something must say in X-Ronda-CSRF what GET /v1/me says as 'csrf'",
            403,
            code="csrf_token_wrong",
        )


def _read_login(body: bytes) -> _Login:
    try:
        return msgspec.json.decode(body, type=_Login)
    except UNREADABLE as error:  # whose words name the field, and no value
        what = "key" if isinstance(error, msgspec.ValidationError) else None
        raise BadRequest("the body must be JSON: an object with 'key', an API key of this server", param=what) from None
