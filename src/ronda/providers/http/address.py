"""A URL becomes what a connection needs: where to connect, and the head of a request that is the same every time."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

_PATH = "/%:@!$&'()*+,;=~"  # what a path may hold as it is; the rest is written with percent signs
_QUERY = _PATH + "?[]"
LENGTH: Final = b"Content-Length: "  # what the head of a request ends with


class Origin(NamedTuple):
    """Where to connect; connections are kept by it."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        scheme, usual = ("https", 443) if self.tls else ("http", 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}" if self.port == usual else f"{scheme}://{host}:{self.port}"


class Address:
    """One endpoint: where it is, and its path."""

    __slots__ = ("_user", "origin", "target")

    def __init__(self, url: str) -> None:
        """Raises ValueError, whose words have nothing of the address in them: part of it may be a password."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
            host = host if host.isascii() else host.encode("idna").decode()
        except ValueError:  # an IDNA error is one, too
            raise ValueError("its host is no name and no number") from None
        if parts.scheme not in ("http", "https"):
            raise ValueError("it must begin with http:// or https://")
        try:
            port = parts.port
        except ValueError:
            port = 0
        tls = parts.scheme == "https"
        if port == 0:
            raise ValueError("its port is no number from 1 to 65535")
        if not host:
            raise ValueError("it names no host")
        if any(character <= " " or character == "\x7f" for character in host):
            raise ValueError("its host is no name and no number")
        self.origin = Origin(tls, host, port or (443 if tls else 80))
        try:
            self.target = quote(parts.path or "/", _PATH) + (f"?{quote(parts.query, _QUERY)}" if parts.query else "")
        except UnicodeError:
            raise ValueError("it has a character in it that cannot be written") from None
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        self._user = f"{user}:{password}" if user or password else None

    def head(self, headers: Mapping[str, str], method: str = "POST", *, is_forwarded: bool = False) -> bytes:
        """A request up to the number of its bytes, which is all that differs from one to the next. A proxy that forwards it wants
        the whole address."""
        known = {name.lower() for name in headers}
        host = str(self.origin).partition("://")[2]
        target = f"{self.origin}{self.target}" if is_forwarded else self.target
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
        if self._user is not None and "authorization" not in known:
            lines.append("Authorization: Basic " + base64.b64encode(self._user.encode()).decode())
        if "accept-encoding" not in known:
            lines.append("Accept-Encoding: identity")  # what is compressed comes later: a stream is to come at once
        for name, value in headers.items():
            if any(character in "\r\n\0" for character in name + value):
                raise ValueError(f"the header {name!r} has a line end or NUL in its value")  # which may be a key
            lines.append(f"{name}: {value}")
        return "\r\n".join([*lines, ""]).encode() + LENGTH


def without_secrets(url: str) -> str:
    """What of an address may be shown: a name and a password stand before the host, and a query may have a key in it."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    shown = scheme + mark + rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return shown.encode(errors="backslashreplace").decode()  # half a character cannot be kept in a journal


# Parameters that say how an API is to be spoken to; any other may be a key.
_PLAIN_PARAMETERS: Final = frozenset({"alt", "api-version"})


def shown_address(url: str) -> str:
    """An address as a person may see it: with its query, but for the values that may be secrets."""
    query = url.partition("#")[0].partition("?")[2]
    if not query:
        return without_secrets(url)
    pairs = [part.partition("=") for part in query.split("&")]
    shown = [f"{name}={value if name in _PLAIN_PARAMETERS else '…'}" for name, _, value in pairs if name]
    return f"{without_secrets(url)}?{'&'.join(shown)}".encode(errors="backslashreplace").decode()
