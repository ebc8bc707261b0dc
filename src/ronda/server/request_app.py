"""Each request of a server → its answer: whose it is, whether it is let in, which address it asks, what that answers.

Whatever happens behind an address, the client gets an answer in its dialect. What is behind the addresses is in `doors` and
`features`; where bytes come from is in `http`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.drive.offload import LOADED, load
from ronda.errors import BadConfig, RondaError
from ronda.server.doors.dialects import CHAT
from ronda.server.features.running import Features, reason_of
from ronda.server.http.auth import Caller, Unauthorized
from ronda.server.http.body_memory import BodyMemory
from ronda.server.http.browser_guard import BrowserGuard, refusal, refused_socket, refused_upgrade
from ronda.server.http.failure import BROKE_DOWN, STOPPING, ErrorWriter, Refused, error_answer, failure_of
from ronda.server.http.incoming import (
    NO_PLACES,
    REQUEST_ID,
    Header,
    Headers,
    Incoming,
    Json,
    with_headers,
    with_request_id,
)
from ronda.server.http.open_requests import OpenRequest, OpenRequests
from ronda.server.http.rights import RIGHTS, check_door, check_right
from ronda.server.http.routing import WEBSOCKET, Route, Routes, unmatched
from ronda.server.services.admission import find_named
from ronda.server.services.callers import Callers
from ronda.server.services.other_processes import OtherProcesses
from ronda.server.services.runs import Runs
from ronda.server.services.toolbox import Toolbox
from ronda.store import StoreError
from ronda.store.reserve import Reserve, is_full
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.store.reach import Reach

log = logging.getLogger("ronda.server")

_NEEDS_KEY: Final[tuple[Header, ...]] = ((b"www-authenticate", b"Bearer"),)


class ServerParts(Protocol):
    """What requests go through."""

    config: ServerConfig
    features: Features
    callers: Callers
    others: OtherProcesses
    open_requests: OpenRequests
    body_memory: BodyMemory
    toolbox: Toolbox
    runs: Runs
    reserve: Reserve | None

    def open(self) -> None: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class App:
    def __init__(self, server: ServerParts, routes: Routes | None = None) -> None:
        """`routes` stand in the place of those that the server's features bring."""
        self._server = server
        self._callers = server.callers
        self._others = server.others
        self.routes = server.features.routes(CHAT) if routes is None else routes
        self.open_guard()

    def open_guard(self) -> None:
        config, let_in = self._server.config, partial(self, is_let_in=True)
        self._guard = BrowserGuard(let_in, self._refused_page, config.host, config.allow_origins, config.allow_hosts)

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, is_let_in: bool = False, caller: Caller | None = None
    ) -> None:
        """`is_let_in`: the browser guard has looked at it. `caller` is of a letter from another process; nothing that comes over
        HTTP can set it."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._live(receive, send)
            return
        server = self._server
        request = Incoming(scope, receive, NO_PLACES, "", server.body_memory)
        headers, guard = request.headers, self._guard
        no_page_asks = b"origin" not in headers and headers.get(b"host") in guard.ours  # nearly always
        if not (no_page_asks or is_let_in) and caller is None and (other := guard.instead(scope, headers)) is not None:
            await other(scope, receive, send)
            return
        watches = server.features.watches
        began = time.monotonic() if watches else 0.0
        method = scope["method"] if kind == "http" else WEBSOCKET
        found = self.routes.find(method, scope["path"])
        if not isinstance(found, tuple):
            await load(*self.routes.dialect_of(scope["path"]).loads)
            answer: ASGIApp = self._nothing_there(scope, found, request.headers)
            route = unmatched(method, self.routes.dialect_of(scope["path"]))
            if watches:
                server.features.report_request(request, route)
        else:
            route, request.places = found
            request.route = route
            if watches:
                request.is_letter = caller is not None
                server.features.report_request(request, route)
            if not (LOADED.issuperset(route.dialect.loads) and LOADED.issuperset(route.loads)):
                await load(*route.dialect.loads, *route.loads)
            more: Sequence[Header] = ()
            opened: OpenRequest | None = None
            try:
                if caller is not None:
                    await self._callers.sign_in_letter(request, caller)
                else:
                    if route.scope != "public" and not self._callers.sign_in_at_once(request):
                        await self._callers.sign_in(request)
                    if server.features.admitting:
                        more = await server.features.admit(request, route)
                if request.rights is not RIGHTS.get():
                    RIGHTS.set(request.rights)
                if request.key:
                    opened = server.open_requests.add(request.key, scope, send)
                if request.rights is not None and route.scope != "public":
                    check_door(request.rights, route)
                if route.right is not None:
                    check_right(request, route.right)
                if route.capability is not None:
                    server.toolbox.check_capability(route.capability)
                if (reach := self._others.reach) is not None and route.needs_store:
                    answer = await self._answer_within(reach, route, request)
                else:
                    elsewhere = None if route.of_run is None else await self._elsewhere(request, route.of_run)
                    if elsewhere is not None:
                        answer = elsewhere
                    elif route.method == "DELETE":
                        answer = await self._delete(route, request)
                    else:
                        answer = await route.handler(request)
            except Unauthorized as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers), _NEEDS_KEY)
            except Refused as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers), error.headers)
            except RondaError as error:
                answer = error_answer(failure_of(error), route.dialect.error_for(request.headers))
            except asyncio.CancelledError:
                if not self._server.runs.stopping:
                    raise
                answer = error_answer(STOPPING, route.dialect.error_for(request.headers))
            except Exception as error:  # ours: told as such, with the rest in the log
                log.error("%s broke down", scope["path"], exc_info=error)
                answer = error_answer(BROKE_DOWN, route.dialect.error_for(request.headers))
            finally:
                if opened is not None:  # nothing waits from here to where the answer is sent
                    server.open_requests.remove(opened)
            if more:
                answer = with_headers(answer, more)
            if kind == "websocket" and isinstance(answer, Json):
                answer = refused_upgrade(answer)
        if REQUEST_ID in headers:
            answer = with_request_id(answer, headers[REQUEST_ID])
        if watches:
            answer = server.features.report_answer(request, route, answer, began)
        if isinstance(answer, Json) and answer.send_at_once(send):
            return
        opened = server.open_requests.add(request.key, scope, send) if request.key else None
        try:
            await answer(scope, receive, send)
        except asyncio.CancelledError:
            if not self._server.runs.stopping:  # else it is one who does not read, and has had time enough to
                raise
        finally:
            if opened is not None:
                server.open_requests.remove(opened)

    async def _elsewhere(self, incoming: Incoming, prefix: str) -> ASGIApp | None:
        """What answers a request about a run that another process drives; None if there is none. An address may have the name
        that the run's owner has given it: from here on it has the run's id."""
        run = prefix + incoming.places["id"].removeprefix("resp_").partition("-")[0]
        if (named := await find_named(self._server.runs, incoming.owner, run)) is not None:
            name, request_id = run.removeprefix(prefix), named.removeprefix(prefix)
            incoming.places = {**incoming.places, "id": incoming.places["id"].replace(name, request_id, 1)}
            run = named
        if self._others.peers is None or run in self._server.runs.live:
            return None
        return await self._others.peers.answer(incoming, run, self._server.config.max_body)

    async def _delete(self, route: Route, request: Incoming) -> ASGIApp:
        """On a disk that is full there is room for it, too: what the server holds in reserve is given up for it."""
        server = self._server
        try:
            return await route.handler(request)
        except StoreError as error:
            reserve = server.reserve
            if reserve is None or not is_full(error) or not await asyncio.to_thread(reserve.give_up):
                raise
            log.error("the disk is full; what is held in reserve is given up, so that something can be deleted")
            return await route.handler(request)

    async def _answer_within(self, reach: Reach, route: Route, request: Incoming) -> ASGIApp:
        """The answer of a server whose database may be away. A request that only reads is given up then; of one that changes
        something it would not be known what became of it."""
        reach.check()
        reads = route.method == "GET"
        if route.of_run is not None:
            finding = self._elsewhere(request, route.of_run)
            if (elsewhere := await (reach.wait_for(finding) if reads else finding)) is not None:
                return elsewhere
        answering = route.handler(request)
        return await (reach.wait_for(answering) if reads else answering)

    def _nothing_there(self, scope: Scope, failure: Failure, sent: Headers) -> ASGIApp:
        path: str = scope["path"]
        if scope["type"] == "websocket":
            return refused_socket
        allowed = self.routes.allowed(path)
        headers = ((b"allow", ", ".join(allowed).encode()),) if failure.status == 405 else ()
        return error_answer(failure, self.routes.dialect_of(path).error_for(sent), headers)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._server.open()
            await self._server.start()
        except Exception as error:  # of ours, too: what serves the app goes on without a start that only raises
            problem = str(error) if isinstance(error, BadConfig) else f"the server could not start: {reason_of(error)}"
            await send({"type": "lifespan.startup.failed", "message": problem})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._server.close()
        await send({"type": "lifespan.shutdown.complete"})

    def error_writer(self, path: str) -> ErrorWriter:
        return self.routes.dialect_of(path).error

    async def _refused_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        await load(*self.routes.dialect_of(scope["path"]).loads)
        await error_answer(refusal(scope), self.error_writer(scope["path"]))(scope, receive, send)
