"""A URL becomes what a connection needs: where to connect, and the head of a request that is the same every time."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

_PATH = "/%:@!$&'()*+,;=~"  # what a path may hold as it is; the rest is written with percent signs
_QUERY = _PATH + "?[]"


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
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError("the address must begin with http:// or https://")
        if not parts.hostname:
            raise ValueError("the address has no host")
        tls = parts.scheme == "https"
        try:
            host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
            self.origin = Origin(tls, host, parts.port or (443 if tls else 80))
        except ValueError as error:  # an IDNA error is one, too
            raise ValueError(f"the address is not one: {error}") from error
        if any(character <= " " or character == "\x7f" for character in host):
            raise ValueError("the host of the address has a space or a control character in it")
        self.target = quote(parts.path or "/", _PATH) + (f"?{quote(parts.query, _QUERY)}" if parts.query else "")
        self._user = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None

    def head(self, headers: Mapping[str, str]) -> bytes:
        """A POST up to the number of its bytes, which is all that differs from one to the next."""
        known = {name.lower() for name in headers}
        host = str(self.origin).partition("://")[2]
        lines = [f"POST {self.target} HTTP/1.1", f"Host: {host}"]
        if self._user is not None and "authorization" not in known:
            lines.append("Authorization: Basic " + base64.b64encode(self._user.encode()).decode())
        if "accept-encoding" not in known:
            lines.append("Accept-Encoding: identity")  # what is compressed comes later: a stream is to come at once
        for name, value in headers.items():
            if any(character in "\r\n\0" for character in name + value):
                raise ValueError(f"the header {name!r} has a line end or NUL in its value")  # which may be a key
            lines.append(f"{name}: {value}")
        return "\r\n".join([*lines, "Content-Length: "]).encode()
