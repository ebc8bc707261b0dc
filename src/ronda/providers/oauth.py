"""A client's id and secret → a token, and a provider that is called with one: OAuth's client credentials.

Tokens are kept until shortly before they end, for all runs of this process. One that is refused is asked for again, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from ronda.core.events import ModelFinished
from ronda.core.limits import Timeouts
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from ronda.providers.grants import Grant
from ronda.providers.http import Http
from ronda.providers.http.address import without_secrets
from ronda.providers.http.transport import Routes

EARLY: Final = 60.0  # seconds before its end a token is not used any more
LIFETIME: Final = 3600.0  # of a token that does not say
MAX_ANSWER: Final = 1_000_000
TIMEOUTS: Final = Timeouts(connect=10, first_byte=30, silence=30)


class _Token(Struct, frozen=True):
    access_token: str
    expires_in: float = LIFETIME


_tokens: dict[Grant, tuple[float, str]] = {}


async def token_for(grant: Grant, *, anew: bool = False, routes: Routes | None = None) -> str:
    kept = _tokens.get(grant)
    if kept is not None and not anew and kept[0] > time.monotonic():
        return kept[1]
    token = await _ask(grant, routes)
    _tokens[grant] = (time.monotonic() + token.expires_in - EARLY, token.access_token)
    return token.access_token


async def _ask(grant: Grant, routes: Routes | None) -> _Token:
    form = {"grant_type": "client_credentials", "client_id": grant.client, "client_secret": grant.secret}
    if grant.scopes:
        form["scope"] = " ".join(grant.scopes)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    http = Http(grant.url, headers, TIMEOUTS, routes, what="the server of tokens")
    where = without_secrets(grant.url)
    try:
        async with http.post(urlencode(form).encode(), MAX_ANSWER) as answer:
            data = await answer.read()
            if answer.status != 200:
                text = data[:300].decode("utf-8", "replace")
                raise UpstreamError(f"no token from {where}: {answer.status} {text}", status=answer.status)
            return msgspec.json.decode(data, type=_Token, strict=False)
    except (UpstreamUnreachable, UpstreamBroken) as error:
        raise UpstreamUnreachable(f"no token: {error}", retryable=error.retryable, connection=True) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UpstreamError(f"no token from {where}: its answer cannot be read: {error}") from error


class OAuthProvider:
    """A provider that is opened with a token as its key."""

    def __init__(
        self, grant: Grant, open_provider: Callable[[str | None], Provider], routes: Routes | None = None
    ) -> None:
        self._grant = grant
        self._routes = routes  # to the server that gives tokens
        self._open = open_provider
        self._closed = open_provider(None)

    @property
    def capabilities(self) -> Capabilities:
        able = capabilities_of(self._closed)
        return Capabilities(check=able.check, takes_addresses=able.takes_addresses, default_output=able.default_output)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        try:
            return await self._open(await token_for(self._grant, routes=self._routes)).call(request, show)
        except UpstreamError as error:
            if error.status != 401:
                raise
        return await self._open(await token_for(self._grant, anew=True, routes=self._routes)).call(request, show)
