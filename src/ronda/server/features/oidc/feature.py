"""GET /v1/oidc/login → the provider → GET /v1/oidc/callback → the cookie that a key would have got (`features/sign_in`).

The code flow with PKCE. What a browser must bring back (`state`), what the ID token must name (`nonce`) and what the code is
exchanged with (`verifier`) are made from one random value in a short-lived cookie and the catalog's secret: nothing is kept, and
any process that shares the catalog can finish what another began.
"""

from __future__ import annotations

import hmac
import html
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.types import ASGIApp

from ronda._extras import has_extra, install
from ronda.errors import BadRequest
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.contract import Feature, Finding, Line, Services
from ronda.server.features.oidc.provider import OidcProvider, SignInFailed
from ronda.server.features.oidc.settings import OidcOptions, OidcSettings
from ronda.server.features.oidc.users import TABLES, OidcUsers
from ronda.server.http.auth import KeyAuth, Unauthorized
from ronda.server.http.browser_guard import is_loopback
from ronda.server.http.cookies import SECURE, cookies_of, plain_name, set_cookie
from ronda.server.http.incoming import Header, Incoming, Whole
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.attempts import Attempts
from ronda.server.services.sign_ins import LIFETIME, LoginWay, SignIns
from ronda.store.keys import check_owner
from ronda.store.owners import OwnerRows
from ronda.store.values.scopes import check_scopes

CALLBACK: Final = "/v1/oidc/callback"
_FLOW_SECONDS: Final = 600.0  # in which a person finds the password and the second factor
_MAX_QUERY: Final = 4096  # characters of a code or a state: providers' codes have up to two thousand
_OWN: Final = Dialect("Ronda", chat_error, door="")
_NOT_KEPT: Final[Header] = (b"cache-control", b"no-store")
_LOADS: Final = ("jwt", "ronda.providers.http.session")

log = logging.getLogger("ronda.server")


class _Flow(Struct, frozen=True):
    """One sign-in under way."""

    state: str
    nonce: str
    verifier: str


class Oidc(Feature):
    name = "oidc"
    after = ("sign_in",)  # which is asked first: most requests have its cookie
    tables = TABLES
    owned = (OwnerRows("oidc_user"),)

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        options = settings.part(OidcSettings).oidc
        assert options is not None
        if not has_extra("oidc"):
            yield Finding(f"[oidc] needs packages that are not installed: {install('oidc')}")
        for name, url in (("issuer", options.issuer), ("redirect_url", options.redirect_url)):
            found = urlsplit(url)
            if found.scheme != "https" and not (found.scheme == "http" and is_loopback(found.hostname or "")):
                yield Finding(f"{name} of [oidc] is {url[:200]!r}; it must begin with https://")
        if not urlsplit(options.redirect_url).path.endswith(CALLBACK):
            yield Finding(f"redirect_url of [oidc] is {options.redirect_url[:200]!r}; it must end with {CALLBACK}")
        if "openid" not in options.request_scopes:
            yield Finding("request_scopes of [oidc] must have 'openid'")
        if not 0 < options.hours <= 24 * 365:
            yield Finding(f"hours of [oidc] is {options.hours:g}; it must be more than 0, and at most a year")
        try:
            check_scopes((*options.scopes, *[scope for grant in options.grants for scope in grant.scopes]))
        except BadRequest as error:
            yield Finding(f"[oidc]: {error}")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        options = settings.part(OidcSettings).oidc
        assert options is not None
        self._options: OidcOptions = options
        self._auth, self._clock, self._catalog = services.auth, services.clock, services.catalog
        self._provider = OidcProvider(options, settings.fetch_routes)
        self._users = OidcUsers(services.catalog)
        self._sign_ins = SignIns(services.catalog)
        self._attempts = Attempts()
        self._is_over_tls = options.redirect_url.startswith("https://")

    def provides(self) -> Mapping[type, object]:
        name = self._options.name or urlsplit(self._options.issuer).hostname or "OpenID Connect"
        return {LoginWay: LoginWay("oidc", name, self._base + "/v1/oidc/login")}

    @property
    def _base(self) -> str:
        """What the paths of this server begin with, where a proxy has it under one."""
        return urlsplit(self._options.redirect_url).path.removesuffix(CALLBACK)

    async def sign_in(self, request: Incoming) -> str | None:
        """Where people have accounts, none comes in without: also before the first of them has a key."""
        if isinstance(self._auth, KeyAuth) and not await self._auth.asks_for_keys():
            raise Unauthorized("sign in at the page of this server, or ask the person who runs it for an API key")
        return None

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/v1/oidc/login", _OWN, self.login, "public", loads=_LOADS),
            Route("GET", CALLBACK, _OWN, self.callback, "public", loads=_LOADS),
        ]

    def operations(self) -> Mapping[str, Operation]:
        return {
            "GET /v1/oidc/login": Operation(
                summary="Send a browser to the sign-in provider", answer=None, status=302, errors_are_pages=True
            ),
            f"GET {CALLBACK}": Operation(
                summary="Where the sign-in provider sends the browser back to; it leaves with a cookie",
                query={
                    "state": (str, "as this server gave it to the provider"),
                    "code": (str, "of the provider, for what it says of the person"),
                    "error": (str, "of the provider, where it refuses the person"),
                },
                answer=None,
                status=302,
                errors_are_pages=True,
            ),
        }

    async def doctor(self) -> Sequence[Line]:
        try:
            await self._provider.check()
        except SignInFailed as error:
            return [Line("oidc", "fails", str(error), "issuer of [oidc] is the provider's address")]
        return [Line("oidc", "works", f"{self._options.issuer} can be asked")]

    # ---- the two steps -----------------------------------------------------------------------------------------------

    async def login(self, request: Incoming) -> ASGIApp:
        value = f"{int(self._clock())}.{secrets.token_urlsafe(24)}"
        flow = await self._flow(value)
        try:
            url = await self._provider.authorization_url(flow.state, flow.nonce, flow.verifier)
        except SignInFailed as error:
            return self._sorry(error)
        cookie = self._set_flow_cookie(request, value, _FLOW_SECONDS)
        return Whole(b"", 302, [(b"location", url.encode()), cookie, _NOT_KEPT])

    async def callback(self, request: Incoming) -> ASGIApp:
        self._attempts.begin(request.client)
        try:
            cookie = await self._finish(request)
        except SignInFailed as error:
            log.warning("a sign-in by OpenID Connect failed: %s", error)
            return self._sorry(error, [self._set_flow_cookie(request, "", 0)])
        self._attempts.succeeded(request.client)
        headers = [(b"location", f"{self._base}/ui".encode()), cookie, self._set_flow_cookie(request, "", 0), _NOT_KEPT]
        return Whole(b"", 302, headers)

    async def _finish(self, request: Incoming) -> Header:
        """The cookie of a browser whose person the provider has signed in. Raises SignInFailed."""
        given = {name: values[-1] for name, values in request.query.items() if len(values[-1]) <= _MAX_QUERY}
        value = cookies_of(request).get(self._flow_cookie(request), "")
        began = value.partition(".")[0]
        if not (began.isdigit() and self._clock() < int(began[:12]) + _FLOW_SECONDS):
            raise SignInFailed("this browser has no sign-in under way, or it took too long; begin again")
        flow = await self._flow(value)
        # `state` first: only what this browser has begun is worth another look.
        if not hmac.compare_digest(given.get("state", "").encode(), flow.state.encode()):
            raise SignInFailed("this is the end of a sign-in that this browser has not begun; begin again")
        if "error" in given or "code" not in given:
            raise SignInFailed(f"the sign-in provider said no: {given.get('error', 'it sent no code')[:100]}")
        claims = await self._provider.claims(given["code"], flow.verifier, flow.nonce)
        return await self._let_in(request, claims)

    async def _let_in(self, request: Incoming, claims: Mapping[str, Any]) -> Header:
        options = self._options
        for name, value in options.require.items():
            if not _has(claims, name, value):
                raise SignInFailed(f"your account is not allowed here: its '{name}' lacks what this server requires")
        owner = _owner(claims, options.owner_claim)
        granted = [
            scope for grant in options.grants if _has(claims, grant.claim, grant.value) for scope in grant.scopes
        ]
        now = self._clock()
        key_id = await self._users.key_for(
            options.issuer,
            str(claims["sub"]),
            owner,
            frozenset((*options.scopes, *granted)),
            now,
            now + options.hours * 3600,
        )
        if key_id is None:
            raise SignInFailed("your access to this server was taken back; ask the person who runs it")
        if not isinstance(self._auth, KeyAuth):
            raise SignInFailed("this server does not sign in with keys")
        self._auth.forget()  # it reads the new key with the next request
        cookie, _ = await self._sign_ins.add(key_id, now)
        return set_cookie(SECURE if self._is_over_tls else plain_name(request), cookie, LIFETIME)

    async def _flow(self, value: str) -> _Flow:
        secret = await self._catalog.secret("oidc")

        def derived(use: bytes) -> str:
            made = hmac.new(secret, use + b"\0" + value.encode(), sha256).digest()
            return urlsafe_b64encode(made).rstrip(b"=").decode()

        return _Flow(derived(b"state"), derived(b"nonce"), derived(b"verifier"))

    # ---- what a browser gets -----------------------------------------------------------------------------------------

    def _flow_cookie(self, request: Incoming) -> str:
        return f"{SECURE if self._is_over_tls else plain_name(request)}-oidc"

    def _set_flow_cookie(self, request: Incoming, value: str, seconds: float) -> Header:
        """`Lax`, since the browser comes back from another site with it."""
        secure = "; Secure" if self._is_over_tls else ""
        text = f"{self._flow_cookie(request)}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Lax{secure}"
        return b"set-cookie", text.encode()

    def _sorry(self, error: SignInFailed, headers: Sequence[Header] = ()) -> ASGIApp:
        """A person reads it, not a program."""
        again = html.escape(f"{self._base}/v1/oidc/login", quote=True)
        page = (
            "<!doctype html><html lang=en><meta charset=utf-8><title>Ronda: sign-in</title>"
            f'<h1>You are not signed in</h1><p>{html.escape(str(error))}</p><p><a href="{again}">Try again</a></p></html>'
        )
        kind: list[Header] = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
            (b"referrer-policy", b"no-referrer"),
            _NOT_KEPT,
        ]
        return Whole(page.encode(), error.status_hint, [*kind, *headers])


def _has(claims: Mapping[str, Any], name: str, value: str) -> bool:
    found = claims.get(name)
    return value in found if isinstance(found, list) else found == value


def _owner(claims: Mapping[str, Any], name: str) -> str:
    """Raises SignInFailed. An address that the provider has not checked may be another person's."""
    value = claims.get(name)
    if not isinstance(value, str):
        raise SignInFailed(f"your account has no '{name}', by which this server knows people")
    if name == "email" and claims.get("email_verified") is not True:
        raise SignInFailed("the sign-in provider has not verified your e-mail address")
    try:
        return check_owner(value)
    except BadRequest as error:
        raise SignInFailed(f"your '{name}' cannot be the name of an owner: {error}") from error
