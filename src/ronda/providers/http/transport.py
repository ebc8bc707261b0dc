"""How the servers of models are reached: what a program says in a `Transport` → a `Route` to each origin.

Without one a call goes as the environment says (`proxy`), over sockets of our own, and trusts the certificates that the system
does.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from ronda.errors import BadConfig
from ronda.providers.http.address import Origin
from ronda.providers.http.proxy import NO_PROXIES, Proxies, Proxy, environment_proxies, one_proxy

ENVIRONMENT: Final = "env"  # in the place of a proxy's address

Connect: TypeAlias = Callable[[str, int], Awaitable[socket.socket]]


class Transport(Struct, frozen=True, kw_only=True):
    """How to reach the servers of models. What is not said is as it is without one."""

    proxy: str | None = None  # http://USER:PASSWORD@HOST:PORT, https://… or socks5://…, for all calls; "" is none
    no_proxy: str | None = None  # what is reached without it, as NO_PROXY has it
    env_proxy: bool = True  # where `proxy` is not given: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY
    ca_file: str | None = None  # certificates in PEM that are trusted besides the system's
    tls: ssl.SSLContext | None = None  # instead of both: client certificates, other roots
    connect: Connect | None = None  # async (host, port) → a connected socket: a unix socket, a tunnel; no proxy then

    def routes(self, environ: Mapping[str, str]) -> Routes:
        """Raises BadConfig for what cannot be."""
        tls = self.tls
        if tls is None and self.ca_file is not None:
            tls = tls_context(self.ca_file)
        return Routes(NO_PROXIES if self.connect is not None else self._proxies(environ), tls, self.connect)

    def _proxies(self, environ: Mapping[str, str]) -> Proxies:
        if self.proxy is None and not self.env_proxy:
            return NO_PROXIES
        if self.proxy is None:
            found = environment_proxies(environ)
            return (
                found if self.no_proxy is None else found._replace(exceptions=one_proxy("", self.no_proxy).exceptions)
            )
        exceptions = self.no_proxy
        if exceptions is None:
            exceptions = environ.get("no_proxy", environ.get("NO_PROXY", "")) if self.env_proxy else ""
        return one_proxy(self.proxy, exceptions)


def web_routes(proxy: str | None, ca_file: str | None, environ: Mapping[str, str]) -> Routes:
    """To addresses that strangers name: directly, unless the operator names a proxy, or 'env' for the environment's. Raises
    BadConfig, also for a proxy that aiohttp and httpx cannot speak to."""
    if proxy is None and ca_file is None:
        return DIRECT
    routes = Transport(proxy=None if proxy == ENVIRONMENT else proxy or "", ca_file=ca_file).routes(environ)
    if any(one is not None and one.scheme == "socks5" for one in (routes.proxies.http, routes.proxies.https)):
        raise BadConfig("--fetch-proxy takes an http:// or https:// proxy; a SOCKS proxy is for calls of models only")
    return routes


class Route(NamedTuple):
    """How connections get to an origin; they are kept by it."""

    origin: Origin
    proxy: Proxy | None = None
    tls: ssl.SSLContext | None = None  # None: the usual one
    connect: Connect | None = None

    @property
    def is_forwarded(self) -> bool:
        """Whether the proxy is asked for the request itself, by its whole address, and not for a tunnel."""
        return self.proxy is not None and self.proxy.scheme != "socks5" and not self.origin.tls

    def __str__(self) -> str:
        return str(self.origin) if self.proxy is None else f"{self.origin} through the proxy {self.proxy}"


class Routes(NamedTuple):
    """A `Transport` as it holds in one environment."""

    proxies: Proxies = NO_PROXIES
    tls: ssl.SSLContext | None = None
    connect: Connect | None = None

    def to(self, origin: Origin) -> Route:
        return Route(origin, self.proxies.to(origin), self.tls, self.connect)


DIRECT: Final = Routes()


@cache
def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """What the system trusts, and what is in the file. Raises BadConfig."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # what is no certificate is one, too
            raise BadConfig(f"the CA file {ca_file!r} cannot be read: {error.strerror or error}") from error
        # Python 3.13 began to ask for every extension of RFC 5280, which certificates of companies' own authorities often lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
