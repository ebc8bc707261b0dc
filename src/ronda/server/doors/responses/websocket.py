"""The Responses API over a WebSocket: GET /v1/responses, upgraded. One response after the other on one connection.

    in     {"type": "response.create", …}      a request, without what only HTTP needs
           {"type": "response.follow", "response_id": …, "starting_after": …}     ours: its events, again or further
    out    the events of a stream, one a message; or {"type": "error", "status": …, "error": {…}}

A connection remembers its last responses with `store: false` by itself: they can be continued here and nowhere else; a
continuation that fails takes the response it was to go on from with it. After an hour a connection has had its time: what is
under way is finished, and the client is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw
from msgspec.structs import replace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda.core.run import Run
from ronda.drive.offload import aside
from ronda.errors import BadRequest, RondaError
from ronda.server.answering.answer import Answer
from ronda.server.answering.sinks import SocketSink
from ronda.server.doors.responses.create import ResponsesDoor, Seals
from ronda.server.doors.responses.stored_responses import StoredResponses
from ronda.server.http.bodies import is_small, read_body
from ronda.server.http.failure import BROKE_DOWN, failure_of
from ronda.server.http.incoming import Incoming, Watch
from ronda.server.http.rights import use_rights
from ronda.wire.codec.json import encode
from ronda.wire.openai_responses.resource import code_of, response_id
from ronda.wire.openai_responses.server_request import request_of
from ronda.wire.shared.failures import Failure, failure_of_run
from ronda.wire.shared.fields import field, read_bounded, read_fields

if TYPE_CHECKING:
    from ronda.server.http.routing import Route
    from ronda.server.services.callers import Callers
    from ronda.server.services.runs import Runs

log = logging.getLogger("ronda.server")

LIFETIME: Final = 3600.0  # seconds
MAX_RESPONSES: Final = 8  # responses of a connection
WAITING: Final = 16  # requests that came while one is under way
_GOING_AWAY: Final = 1001
_NOT_ALLOWED: Final = 1008

# What is said by the transport itself. For docs/compatibility.md.
FIELDS: Final[dict[str, str]] = {
    "type": 'read: "response.create"; ours: "response.follow"',
    "response_id": 'read (ours), with "response.follow": a response that is stored, whose events are sent',
    "starting_after": 'read (ours), with "response.follow": the number of the last event that was seen',
    "stream": "refused: only true; events are always sent one by one",
    "stream_options": "refused: they are of the HTTP transport",
    "background": "refused: it is of the HTTP transport",
}


class ResponsesSocket:
    def __init__(
        self, door: ResponsesDoor, stored: StoredResponses, seals: Seals, runs: Runs, callers: Callers
    ) -> None:
        self.door = door
        self.stored = stored
        self.seals = seals
        self.runs = runs
        self.callers = callers

    async def connect(self, incoming: Incoming) -> ASGIApp:
        async def connection(scope: Scope, receive: Receive, send: Send) -> None:
            # Opening a connection asks no model, each message does.
            route = None if incoming.route is None else replace(incoming.route, scope="run")
            await Connection(self, scope, receive, send, route=route).run()

        return connection


class Connection:
    """One client's connection. A task of its own reads what comes in, so that a client that goes away is noticed at once."""

    def __init__(
        self,
        socket: ResponsesSocket,
        scope: Scope,
        receive: Receive,
        send: Send,
        lifetime: float = LIFETIME,
        route: Route | None = None,
    ) -> None:
        self._socket = socket
        self._route = route
        self._receive = receive
        self._send = send
        self._lifetime = lifetime
        self._scope = scope
        self._incoming: deque[str | bytes] = deque()
        self._news = asyncio.Event()
        self._closed = asyncio.Event()
        # Those that have ended, with how many events each has, by the id of the response; the newest last.
        self._runs: dict[str, tuple[Run, int]] = {}
        self._is_over = False  # the connection has had its time

    def find(self, response: str) -> tuple[Run, int] | None:
        return self._runs.get(response)

    async def run(self) -> None:
        if (await self._receive())["type"] != "websocket.connect":
            return
        await self._send({"type": "websocket.accept"})
        reader = asyncio.create_task(self._read())
        timer = asyncio.get_running_loop().call_later(self._lifetime, self.end_of_time)
        try:
            while await self._next():
                await self._turn(self._incoming.popleft())
            if not self._closed.is_set():
                failure = Failure(
                    400,
                    "invalid_request_error",
                    f"this connection is older than {self._lifetime / 60:g} minutes; open another",
                    code="websocket_connection_limit_reached",
                )
                await self._tell(failure)
                await self._close(_GOING_AWAY, "the connection has had its time")
        finally:
            timer.cancel()
            reader.cancel()

    async def _next(self) -> bool:
        """Wait for a request; False when there will be none."""
        while True:
            if self._closed.is_set() or self._is_over:
                return False
            if self._incoming:
                return True
            self._news.clear()
            await self._news.wait()

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                self._closed.set()
                self._news.set()
                return
            value = message.get("text")
            self._incoming.append(message.get("bytes") or b"" if value is None else value)
            self._news.set()
            if len(self._incoming) > WAITING:
                await self._close(_NOT_ALLOWED, f"more than {WAITING} requests are waiting")
                self._closed.set()
                return

    def end_of_time(self) -> None:
        """Take no more requests; what is under way is finished."""
        self._is_over = True
        self._news.set()

    # ---- one response ------------------------------------------------------------------------------------------------

    async def _turn(self, message: str | bytes) -> None:
        previous: str | None = None
        failure: Failure | None
        try:
            body = message.encode("utf-8", "surrogatepass") if isinstance(message, str) else message
            fields = await read_body(body, read_fields)
            previous = _previous(fields)
            failure = await self._respond(fields, at_once=is_small(body))
        except RondaError as error:
            failure = failure_of(error)
            await self._tell(failure)
        except Exception as error:  # ours: told as such, with the rest in the log
            log.error("a response over a WebSocket broke down", exc_info=error)
            failure = BROKE_DOWN
            await self._tell(failure)
        finally:
            self._socket.callers.message_answered()
        if failure is not None and previous is not None:
            self._runs.pop(previous, None)

    async def _respond(self, fields: dict[str, Raw], at_once: bool) -> Failure | None:
        """Carry one request out, and say why it has no answer if it has none."""
        kind: str = field(fields, "type", str, "")
        if kind == "response.follow":
            await self._follow(fields)
            return None
        if kind != "response.create":
            raise BadRequest(
                f'\'type\' is {kind[:60]!r}; it can be "response.create" or "response.follow"', param="type"
            )
        for name in ("stream", "stream_options", "background"):
            if name in fields and not (name == "stream" and bytes(fields[name]) == b"true"):
                raise BadRequest(f"'{name}' is of the HTTP transport and does not go with a WebSocket", param=name)
        incoming = Incoming(self._scope, self._until_closed)
        incoming.route = self._route
        await self._socket.callers.sign_in(incoming)  # again: a connection may outlast its key
        if self._route is not None:
            await self._socket.callers.admit(incoming, self._route)
        use_rights(incoming.rights)
        sealer = await self._socket.seals.sealer(incoming.owner)
        rest = {name: raw for name, raw in fields.items() if name != "type"}
        request = request_of(rest, sealer) if at_once else await aside(request_of, rest, sealer)
        request = replace(request, stream=True)
        started: list[Run] = []
        streamed = await self._socket.door.answer(incoming, request, sse=False, local=self, started=started.append)
        assert isinstance(streamed, Answer)  # a request that streams has no other
        await self._pass_on(streamed)
        run = started[0]
        if run.ended is None and run.is_waiting:  # which its events have said
            return None
        failure = failure_of_run(run) if run.ended is not None else BROKE_DOWN
        if failure is None and not request.answer.store:  # what is stored is found where it is stored
            count, _ = await self._socket.runs.memory.extent(run.id)
            self._runs[response_id(run.id)] = (run, count)
            while len(self._runs) > MAX_RESPONSES:
                del self._runs[next(iter(self._runs))]
        return failure

    async def _follow(self, fields: dict[str, Raw]) -> None:
        """Send the rest of the events of a stored response, whether this connection or another began it."""
        response_id: str = field(fields, "response_id", str, "")
        after = read_bounded(fields, "starting_after", 0)
        if unknown := sorted(fields.keys() - {"type", "response_id", "starting_after"}):
            raise BadRequest(f"'{unknown[0][:60]}' does not go with \"response.follow\"", param=unknown[0])
        request = Incoming(self._scope, self._until_closed)
        request.route = self._route
        await self._socket.callers.sign_in(request)
        use_rights(request.rights)
        await self._pass_on(await self._socket.stored.follow_response(request, response_id, after, sse=False))

    async def _until_closed(self) -> Message:
        """What a request hears of its client: that it is gone."""
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _pass_on(self, answer: Answer) -> None:
        """Until it is over, or the client is gone."""
        watch = Watch(self._until_closed, answer.leave)
        try:
            await answer.tell(SocketSink(self._say, self._tell))
        finally:
            watch.stop()

    async def _tell(self, failure: Failure) -> None:
        error: dict[str, Any] = {
            "type": failure.type,
            "code": code_of(failure) or failure.type,
            "message": failure.message,
            "param": "input" if failure.param == "messages" else failure.param,
        }
        await self._say(encode({"type": "error", "status": failure.status, "error": error}).decode())

    async def _say(self, text: str) -> None:
        if not self._closed.is_set():
            with _unless_gone(self._closed):
                await self._send({"type": "websocket.send", "text": text})

    async def _close(self, code: int, reason: str) -> None:
        with _unless_gone(self._closed):
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


@contextlib.contextmanager
def _unless_gone(closed: asyncio.Event) -> Iterator[None]:
    """A client may leave between two words; what the server's own library raises then is different for each of them."""
    try:
        yield
    except (RuntimeError, OSError):
        closed.set()


def _previous(fields: dict[str, Raw]) -> str | None:
    raw = fields.get("previous_response_id")
    return bytes(raw)[1:-1].decode("utf-8", "replace") if raw is not None else None
