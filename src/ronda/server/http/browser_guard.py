"""Pages in a browser are kept out, unless they are ours or the operator has named where they come from.

A browser lets any page send to whatever listens on this machine, and a page whose name is made to point here may read the
answers, too (DNS rebinding). Browsers say where a page comes from in `Origin`; no other client does, so no other is asked. They
leave it out where a page asks for something of its own address: so where only this machine can ask, what it calls us (`Host`)
must be a name that no other server can have, or one that the operator has named.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from ipaddress import ip_address
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda.wire.shared.failures import Failure

log = logging.getLogger("ronda.server")

_MAX_NAMES: Final = 64  # names that were found to be ours, and those that were not


class BrowserGuard:
    """Looks at a request first: `instead` says who answers it in the place of the server."""

    def __init__(
        self, app: ASGIApp, refused: ASGIApp, host: str, allowed: Sequence[str], hosts: Sequence[str] = ()
    ) -> None:
        """`host` is where the server listens, `hosts` what else it is called. `app` answers a page that was let in, `refused`
        one that was not."""
        self._refused = refused
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in allowed)
        named = [name_of(origin.partition("://")[2].encode()) for origin in self._allowed]
        self._hosts = frozenset([*named, *[name.lower() for name in hosts]])
        self._is_private = is_loopback(host) and "*" not in (*hosts, *self._allowed)
        self.ours: set[bytes] = (
            set()
        )  # names that were asked for and are ours: where no page asks, there is nothing to look at
        self._reported: set[str] = set()  # refusals that are in the server's log
        self._app = app

    @cached_property
    def _shared(self) -> ASGIApp:
        from starlette.middleware.cors import CORSMiddleware  # most servers let no page of others in

        return CORSMiddleware(
            self._app,
            allow_origins=["*"],  # only asked for pages that are allowed
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["*"],
            max_age=600,
        )

    def instead(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ASGIApp | None:
        """None: it is the server's to answer. `headers` are those of the scope."""
        host = headers.get(b"host", b"")
        if host not in self.ours and not self._knows(host):
            return self._keep_out(scope)
        origin = headers.get(b"origin")
        return None if origin is None else self._for_page(scope, origin, host)

    def _for_page(self, scope: Scope, origin: bytes, host: bytes) -> ASGIApp | None:
        page = _text(origin)
        if "*" in self._allowed or page in self._allowed:
            return self._shared
        # It came from where it asks, under a name that is ours.
        return None if page.partition("://")[2] == _text(host) else self._keep_out(scope)

    def _keep_out(self, scope: Scope) -> ASGIApp:
        # Once for each name: browsers hide from their users why a page may not.
        what = refusal(scope).message
        if what not in self._reported and len(self._reported) < _MAX_NAMES:
            self._reported.add(what)
            log.warning("%s", what.encode("ascii", "backslashreplace").decode())
        return self._refused if scope["type"] == "http" else refused_socket

    def _knows(self, host: bytes) -> bool:
        """Whether no other server can have this name. No browser leaves it empty."""
        name = name_of(host)
        if self._is_private and not (name == "" or is_loopback(name) or _is_number(name) or name in self._hosts):
            return False
        if len(self.ours) < _MAX_NAMES:
            self.ours.add(host)
        return True


def name_of(host: bytes) -> str:
    """Without its port."""
    text = _text(host)
    name, _, port = text.rpartition(":")
    return name if port.isdigit() else text


def refusal(scope: Scope) -> Failure:
    headers = {name: _text(value) for name, value in scope["headers"] if name in (b"origin", b"host")}
    if (origin := headers.get(b"origin")) is not None:
        what = f"pages from {origin[:200]} may not use this server; its operator can let them with --allow-origin"
        return Failure(403, "invalid_request_error", what, code="origin_not_allowed")
    name = name_of(headers.get(b"host", "").encode("latin-1"))[:200]
    what = f"this server is not called {name!r}; ask it as localhost, or let its operator start it with --allow-host {name}"
    return Failure(403, "invalid_request_error", what, code="host_not_allowed")


def _text(header: bytes) -> str:
    return header.decode("latin-1").lower()


def is_loopback(host: str) -> bool:
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


async def refused_socket(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})  # before it is accepted: a 403


def refused_upgrade(answer: ASGIApp) -> ASGIApp:
    """An answer that says why a connection is not upgraded, with its own status."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        async def instead(message: Message) -> None:
            await send({**message, "type": f"websocket.{message['type']}"})

        await receive()
        await answer(scope, receive, instead)

    return refuse
