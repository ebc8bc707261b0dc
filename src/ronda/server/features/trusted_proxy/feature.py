"""A header that a proxy sets → whose a request is. It is read only from the proxy's own addresses.

Without the header a request needs an API key, also where this server has none: the way around the proxy leads nowhere.
A request that this process passes on to another of the same server is known there by a proof, since it comes from no proxy.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from ronda.errors import BadRequest
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Finding, Refused, Services
from ronda.server.features.trusted_proxy.settings import TrustedProxySettings
from ronda.server.http.auth import KeyAuth, Unauthorized
from ronda.server.http.incoming import Incoming
from ronda.store.keys import check_owner

_PROOF: Final = b"x-ronda-user-proof"
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_TAKEN: Final = ("authorization", "x-api-key", "cookie", "host", "origin")

Network: TypeAlias = IPv4Network | IPv6Network


class TrustedProxy(Feature):
    name = "trusted_proxy"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        given = settings.part(TrustedProxySettings)
        header = given.trust_user_header
        if not header:
            yield Finding("--from is for --trust-user-header: say which header the proxy sets")
        elif not _NAME.fullmatch(header) or header.lower() in _TAKEN:
            yield Finding(
                f"--trust-user-header is {header[:60]!r}; it must be the name of a header, such as X-Forwarded-User"
            )
        elif not given.trust_user_from:
            yield Finding("--trust-user-header needs --from NETWORK: other clients could send that header, too")
        for text in given.trust_user_from:
            try:
                ip_network(text)
            except ValueError as error:
                yield Finding(f"--from is {text[:60]!r}; it must be an address or a network: {error}")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        given = settings.part(TrustedProxySettings)
        self._header = given.trust_user_header.lower().encode()
        self._networks: tuple[Network, ...] = tuple([ip_network(text) for text in given.trust_user_from])
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.allow_origins)
        self._auth = services.auth
        self._catalog = services.catalog
        self._secret = b""

    async def sign_in(self, request: Incoming) -> str | None:
        value = request.headers.get(self._header, b"").strip()
        if value:
            proof = hmac.digest(await self._read_secret(), value, sha256).hex().encode()
            if self._is_proxy(request.client) or hmac.compare_digest(request.headers.get(_PROOF, b""), proof):
                if request.has_twice(self._header):
                    raise Unauthorized(
                        f"the header {self._header.decode()} came twice: the proxy must remove it from what its clients send"
                    )
                self._check_page(request)
                request.headers = {**request.headers, _PROOF: proof}
                return _owner(value)
            # Nothing further in takes it for the proxy's.
            request.headers = {name: sent for name, sent in request.headers.items() if name != self._header}
        if isinstance(self._auth, KeyAuth) and not await self._auth.asks_for_keys():
            raise Unauthorized("this server is used through a proxy that signs its users in")
        return None

    def _is_proxy(self, client: str) -> bool:
        try:
            address = ip_address(client)
        except ValueError:
            return False
        if (mapped := getattr(address, "ipv4_mapped", None)) is not None:
            address = mapped
        return any(address in network for network in self._networks)

    def _check_page(self, request: Incoming) -> None:
        """A browser is signed in at the proxy for all pages that it shows: only ours may use that."""
        site = request.header(b"sec-fetch-site")
        if site is not None:
            is_ours = site == "same-origin" or (
                site == "none" and not request.is_socket and request.method in ("GET", "HEAD")
            )
        else:
            origin = (request.header(b"origin") or "").lower()
            host = (request.header(b"host") or "").lower()
            is_ours = not origin or origin.partition("://")[2] == host or origin in self._origins
        if not is_ours:
            raise Refused("only the page of this server may use the proxy's sign-in", 403, code="origin_not_allowed")

    async def _read_secret(self) -> bytes:
        if not self._secret:
            self._secret = await self._catalog.secret("trusted_proxy")
        return self._secret


def _owner(value: bytes) -> str:
    try:
        return check_owner(value.decode("utf-8"))
    except (UnicodeDecodeError, BadRequest) as error:
        raise Unauthorized(f"the proxy names no user: {error}") from error
