"""The proxy that the call of a model goes through: what the environment or a program says → a `Proxy` for an origin, or none.

The rules are those that curl, requests and httpx have in common. HTTPS_PROXY is for https addresses, HTTP_PROXY for http ones,
ALL_PROXY for what neither names; small letters count before capitals, and an empty variable means none. NO_PROXY names hosts
(with all below them), addresses, networks and ports that are reached without one.

Here a proxy is chosen; `tunnel` speaks to it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from ronda.errors import BadConfig
from ronda.providers.http.address import Origin, without_secrets

Scheme: TypeAlias = Literal["http", "https", "socks5"]

# By what people write; `socks5h` differs from `socks5` in other programs by who looks the name up. Here it is always the proxy.
_SCHEMES: Final[Mapping[str, Scheme]] = {"http": "http", "https": "https", "socks5": "socks5", "socks5h": "socks5"}
_PORTS: Final[Mapping[Scheme, int]] = {"http": 80, "https": 443, "socks5": 1080}


class Proxy(NamedTuple):
    scheme: Scheme
    host: str
    port: int
    user: str = ""
    password: str = ""
    source: str = ""  # the variable or setting that names it

    def __str__(self) -> str:
        """Without user and password: this stands in errors and logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}" + (f" ({self.source})" if self.source else "")

    def __repr__(self) -> str:
        return str(self)

    @property
    def origin(self) -> Origin:
        return Origin(self.scheme == "https", self.host, self.port)

    @property
    def authorization(self) -> str | None:
        """The value of `Proxy-Authorization`."""
        if not self.user and not self.password:
            return None
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.password, (self.authorization or "").removeprefix("Basic ")) if self.password else ()


def read_proxy(text: str, source: str) -> Proxy | None:
    """`host:port` without a scheme is an HTTP proxy; nothing is none. Raises BadConfig, without a password in its words."""
    text = text.strip()
    if not text:
        return None
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        scheme, host, port = _SCHEMES.get(parts.scheme.lower()), parts.hostname or "", parts.port
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:  # whose text may repeat a password
        raise BadConfig(f"{source} is {without_secrets(text)!r}, which is not the address of a proxy") from None
    if scheme is None:
        known = "http://, https:// or socks5://"
        raise BadConfig(f"{source} is {without_secrets(text)!r}; the address of a proxy begins with {known}")
    if not host or port == 0 or any(character <= " " for character in host):
        raise BadConfig(f"{source} is {without_secrets(text)!r}; the address of a proxy is http://HOST:PORT")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Proxy(scheme, host, port or _PORTS[scheme], user, password, source)


# ---- exceptions ------------------------------------------------------------------------------------------------------


class _Exception(NamedTuple):
    """`host` is a name, with all below it, or a network. Without a port it is for all of them."""

    host: str | IPv4Network | IPv6Network
    port: int | None = None

    def matches(self, host: str, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if isinstance(self.host, str):
            return host == self.host or host.endswith(f".{self.host}")
        try:
            return ip_address(host) in self.host
        except ValueError:
            return False


class NoProxy(NamedTuple):
    """What is reached without a proxy: `NO_PROXY`, read."""

    all: bool = False
    exceptions: tuple[_Exception, ...] = ()

    def matches(self, origin: Origin) -> bool:
        host = origin.host.lower().rstrip(".").partition("%")[0]
        return self.all or any(one.matches(host, origin.port) for one in self.exceptions)


def read_no_proxy(text: str) -> NoProxy:
    """Commas or spaces between the entries. What makes no sense matches nothing: all clients pass over it."""
    entries = text.replace(",", " ").lower().split()
    return NoProxy("*" in entries, tuple([read for entry in entries if (read := _exception(entry)) is not None]))


def _exception(entry: str) -> _Exception | None:
    entry = entry.rpartition("://")[2]
    name, port = entry, None
    if entry.startswith("["):  # [::1] or [::1]:8080
        name, _, rest = entry[1:].partition("]")
        port = _port(rest[1:]) if rest.startswith(":") else None
    elif entry.count(":") == 1:
        name, _, number = entry.partition(":")
        if (port := _port(number)) is None:
            return None
    try:
        return _Exception(ip_network(name, strict=False), port)
    except ValueError:
        pass
    name = name.removeprefix("*").strip(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode()
        except UnicodeError:
            return None
    return _Exception(name, port) if name else None


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


# ---- which proxy -----------------------------------------------------------------------------------------------------


class Proxies(NamedTuple):
    """One for each scheme, and what goes without."""

    http: Proxy | None = None
    https: Proxy | None = None
    exceptions: NoProxy = NoProxy()

    def to(self, origin: Origin) -> Proxy | None:
        proxy = self.https if origin.tls else self.http
        return None if proxy is None or self.exceptions.matches(origin) else proxy


NO_PROXIES: Final = Proxies()


def environment_proxies(environ: Mapping[str, str]) -> Proxies:
    """Raises BadConfig for a variable that is no address of a proxy."""
    every = _variable(environ, "ALL_PROXY")
    http, https = _variable(environ, "HTTP_PROXY"), _variable(environ, "HTTPS_PROXY")
    if "REQUEST_METHOD" in environ and "http_proxy" not in environ:
        http = None  # in a CGI script HTTP_PROXY is a header of the client's: `Proxy`
    exceptions = _variable(environ, "NO_PROXY")
    return Proxies(
        _read_variable(http or every),
        _read_variable(https or every),
        read_no_proxy("" if exceptions is None else exceptions[1]),
    )


def _variable(environ: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """Its name as it is spelt there, and its value. An empty one in small letters hides the other."""
    for spelt in (name.lower(), name):
        if spelt in environ:
            return (spelt, environ[spelt]) if environ[spelt].strip() else None
    return None


def _read_variable(found: tuple[str, str] | None) -> Proxy | None:
    return None if found is None else read_proxy(found[1], found[0])


def one_proxy(address: str, exceptions: str, source: str = "proxy") -> Proxies:
    """The same for all addresses."""
    proxy = read_proxy(address, source)
    return Proxies(proxy, proxy, read_no_proxy(exceptions))
