"""Pages in a browser are kept out, unless they are ours or the operator has named where they come from.

A browser lets any page send to whatever listens on this machine, and a page whose name is made to point here may read the
answers, too (DNS rebinding). Browsers say where a page comes from in `Origin`; nobody else does, so nobody else is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.wire.failures import Failure


class Pages:
    def __init__(self, app: ASGIApp, refused: ASGIApp, host: str, allowed: Sequence[str]) -> None:
        """`host` is where the server listens, `refused` answers a page that may not."""
        self._app = app
        self._refused = refused
        self._is_private = _is_loopback(host)
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in allowed)
        self._shared = CORSMiddleware(
            app,
            allow_origins=["*"],  # only asked for pages that are allowed
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["*"],
            max_age=600,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] != "lifespan" and (origin := _said(scope, b"origin")) is not None:
            if "*" in self._allowed or origin in self._allowed:
                app = self._shared
            elif not self._is_ours(origin, _said(scope, b"host") or ""):
                app = self._refused if scope["type"] == "http" else _closed
        await app(scope, receive, send)

    def _is_ours(self, origin: str, host: str) -> bool:
        """It came from where it asks; and where only this machine can ask, under a name nobody else can give it."""
        if origin.partition("://")[2] != host:
            return False
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return not self._is_private or _is_loopback(name) or _is_number(name)


def refusal(scope: Scope) -> Failure:
    origin = _said(scope, b"origin") or ""
    return Failure(
        403,
        "invalid_request_error",
        f"pages from {origin[:200]} may not use this server; its operator can let them with --allow-origin",
        code="origin_not_allowed",
    )


def _said(scope: Scope, header: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == header:
            return bytes(value).decode("latin-1").lower()
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_number(host: str) -> bool:
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


async def _closed(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})  # before it is accepted: a 403
