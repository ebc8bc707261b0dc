"""HTTP as uvicorn reads it, within bounds that it does not set itself.

    400    two names of the server; none, but in HTTP/1.0 (RFC 9112, 3.2)
    431    a head that is larger than 64 KiB, however it comes; as much behind it that is no body
    408    a head that is not there after `header_seconds`, a body of which nothing has come for `body_seconds`, that then came at
           less than `body_rate`, or is not complete after `max_body_seconds`
    —      a client that has taken nothing of its answer for `stall_seconds` is gone

How long it takes is looked at once in a while (`look`), for all connections: a timer for each request would cost more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import unquote

import httptools
from msgspec import json
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ronda.server.http.cycle import Cycle
from ronda.server.http.failure import ErrorWriter
from ronda.server.http.fair_reads import PIECE, STALL_SECONDS, Pieces
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from uvicorn._types import ASGIVersions, HTTPScope
    from uvicorn.config import Config
    from uvicorn.server import ServerState

MAX_HEAD: Final = 64 * 1024
HEADER_SECONDS: Final = 20.0
BODY_SECONDS: Final = 60.0
BODY_RATE: Final = 500  # bytes a second, as Apache's mod_reqtimeout has it
MAX_BODY_SECONDS: Final = 3600.0
# What websockets reads of the head that opens one.
_SOCKET_HEADERS: Final = 128
_SOCKET_LINE: Final = 8190

_parse: Final = HttpToolsProtocol.data_received

_LOOKED_AT: Final = frozenset((b"expect", b"host"))
_ASGI: Final[ASGIVersions] = {"version": "3.0", "spec_version": "2.3"}

# Since something came: a client that has nothing more to send has had the time to read its answer.
LINGER_SECONDS: Final = 2.0
# What is sent meanwhile is read and dropped; at 1 MB a second the largest body is through.
MAX_LINGER_SECONDS: Final = 60.0
_PHRASES: Final = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large"}


# The path of an address → how errors are written there.
FindErrorWriter: TypeAlias = Callable[[str], ErrorWriter]


def plain_errors(path: str) -> ErrorWriter:
    """For a connection whose server has said nothing of dialects."""
    return lambda failure: json.encode({"error": failure.message})


class _StopParser(Exception):
    """Stops the parser."""


class _TooEarly(Exception):
    """Stops the parser: a connection with an answer under way becomes no WebSocket. Else its client could leave unnoticed."""


class _Flow(FlowControl):
    """Tells its connection, too, when more is wanted."""

    def __init__(self, transport: asyncio.Transport, connection: BoundedProtocol) -> None:
        super().__init__(transport)
        self.connection: BoundedProtocol | None = connection

    def resume_reading(self) -> None:
        if self.read_paused:
            super().resume_reading()
            if self.connection is not None:
                self.connection.go_on()


class BoundedProtocol(Pieces, HttpToolsProtocol):
    # What uvicorn has in each connection, and is the same in all, or is set before it is read.
    logger, access_logger, access_log = Cycle.logger, Cycle.access_logger, Cycle.access_log
    asgi_version = "3.0"
    timeout_keep_alive_task = None
    transport: asyncio.Transport = None  # type: ignore[assignment]
    flow: FlowControl = None  # type: ignore[assignment]
    server: tuple[str, int | None] | None = None
    client: tuple[str, int] | None = None
    scheme: Literal["http", "https"] | None = None
    scope: HTTPScope = None  # type: ignore[assignment]
    headers: list[tuple[bytes, bytes]] = None  # type: ignore[assignment]

    # Besides uvicorn's, which are nearly as many as an instance's dictionary is quick with.
    __slots__ = (
        "_answered",
        "_before",
        "_begins_here",
        "_beside_body",
        "_body_rate",
        "_body_seconds",
        "_body_waited",
        "_error_writer",
        "_has_host",
        "_head_failure",
        "_head_since",
        "_header_seconds",
        "_is_between",
        "_is_ending",
        "_is_scheduled",
        "_is_upgrade",
        "_last",
        "_linger_seconds",
        "_looked",
        "_max_body_seconds",
        "_received",
        "_refusal",
        "_rest",
        "_unsent",
        "_unsent_since",
        "stall_seconds",
    )  # fmt: skip

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        error_writer: FindErrorWriter = plain_errors,
        header_seconds: float = HEADER_SECONDS,
        body_seconds: float = BODY_SECONDS,
        body_rate: float = BODY_RATE,
        max_body_seconds: float = MAX_BODY_SECONDS,
        stall_seconds: float = STALL_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        """As uvicorn's, which looks up for each connection what is the same for all."""
        if not config.loaded:
            config.load()
        self.config = config
        self.app = config.loaded_app
        self.loop = _loop or asyncio.get_event_loop()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.ws_protocol_class = config.ws_protocol_class
        self.root_path = config.root_path
        self.limit_concurrency = config.limit_concurrency
        self.timeout_keep_alive = config.timeout_keep_alive
        self.app_state = app_state
        self.server_state = server_state
        self.connections = server_state.connections
        self.tasks = server_state.tasks
        self.pipeline = deque()
        self.expect_100_continue = False
        self.cycle = None  # type: ignore[assignment]  # as uvicorn has it
        # Ours.
        self._rest = b""
        self._is_scheduled = False
        self._unsent = 0
        self._unsent_since = 0.0
        self._error_writer = error_writer
        self._header_seconds = header_seconds
        self._body_seconds = body_seconds
        self._body_rate = body_rate
        self._max_body_seconds = max_body_seconds
        self._body_waited = 0.0  # seconds that a body was waited for: not while the server did not read …
        self._looked: float | None = None  # … when it was last waited for
        self.stall_seconds = stall_seconds
        self._linger_seconds = linger_seconds
        self._head_since: float | None = self.loop.time()  # while one is awaited: from the first moment on
        self._last = 0.0  # when something came
        self._received = 0  # bytes, with all of the piece in which the head began …
        self._before = 0  # … of which so many may stand before it
        self._is_between = True  # no request has begun that is not complete
        self._begins_here = False  # the next one, with the piece
        self._is_upgrade = False
        self._has_host = False
        self._head_failure: Failure | None = None
        self.url = b""
        self._answered: RequestResponseCycle | None = None  # others may have come behind it
        self._beside_body = 0  # bytes since the last of the body, or since the head began
        self._is_ending = False  # nothing that comes is looked at
        self._refusal: Failure | None = None  # to be said when the answers before it are through

    # ---- reading -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """As uvicorn's, which asks the socket for its addresses, and that costs more than all the rest."""
        self.connections.add(self)
        self.transport = transport
        self.flow = _Flow(transport, self)
        address: tuple[str, int] | str | None = transport.get_extra_info("sockname")
        if isinstance(address, str):  # of a UNIX socket, on which a client has none
            self.server = address, None
        elif address is not None:
            self.server = address[:2]  # IPv6 has four members
            self.client = transport.get_extra_info("peername")[:2]
        self.scheme = "https" if transport.get_extra_info("sslcontext") else "http"

    @property
    def is_paused(self) -> bool:
        return not self._is_ending and (self.flow.read_paused or bool(self.pipeline))

    def take(self, data: bytes) -> None:
        self._last = self.loop.time()
        if self._refusal is not None or self._is_ending:
            return
        size = len(data)
        self._begins_here = self._is_between
        if self._begins_here:
            self._received = self._before = 0
        self._received += size
        self._beside_body += size
        _parse(self, data)
        if self._head_since is not None and self._received - self._before > MAX_HEAD and self._refusal is None:
            self._refuse(_too_large())  # and it is not complete yet
        elif self._beside_body > MAX_HEAD and not self._is_between and self._refusal is None:
            self._refuse_rest()

    def on_message_begin(self) -> None:
        self._head_since = self._last
        if not self._begins_here:  # but behind another in this piece: where is not told
            self._received = self._before = PIECE
        self._is_between = self._begins_here = False
        self._body_waited, self._looked = 0.0, None
        self._beside_body = 0
        self._has_host = False
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _LOOKED_AT:
            if self._head_since is None:  # behind the body: it may not say what the head was looked at for
                return
            if name == b"expect":
                self.expect_100_continue = value.lower() == b"100-continue"
            elif self._has_host:  # a proxy before us may have looked at the other one
                self._refuse_head(_bad_host("two 'Host' headers"))
            else:
                self._has_host = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head_since = None
        is_upgrade = self.parser.should_upgrade()
        if (self._received > MAX_HEAD or is_upgrade) and self._measures_too_much(is_upgrade):
            self._refuse_head(_too_large())
        if not self._has_host and self.parser.get_http_version() != "1.0":
            self._refuse_head(_bad_host("no 'Host' header"))
        self._is_upgrade = is_upgrade
        if is_upgrade:
            if self._answered is not None and not self._answered.response_complete:
                raise _TooEarly
            self.scope = self._new_scope()
            super().on_headers_complete()
        else:
            self._begin_cycle()

    def _new_scope(self, raw_path: bytes = b"", query: bytes | None = None) -> HTTPScope:
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self.parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": self.parser.get_method().decode("ascii"),
            "root_path": self.root_path,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query or b"",
            "headers": self.headers,
            "state": self.app_state.copy(),
        }

    def _begin_cycle(self) -> None:
        """As uvicorn does, which has no place to say of which class a cycle is to be."""
        url = httptools.parse_url(self.url)
        scope, before = self._new_scope(url.path, url.query), self.cycle
        self.scope = scope
        self.headers = []  # what comes behind the body belongs to no request
        keep_alive = scope["http_version"] != "1.0" and self.parser.should_keep_alive()
        self.cycle = cycle = Cycle(scope, self, keep_alive, self.on_response_complete)
        if before is None or before.response_complete:
            self._answered = cycle
            self._start_asgi_task(cycle, self.app)
        else:  # it came before the answer to the one before it was through
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_body(self, body: bytes) -> None:
        self._beside_body = 0
        if self._is_upgrade:
            super().on_body(body)
        elif not (cycle := self.cycle).response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._is_between = True
        if self._is_upgrade:
            super().on_message_complete()
        elif not (cycle := self.cycle).response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    def _measures_too_much(self, is_upgrade: bool) -> bool:
        lines = [len(name) + len(value) + 4 for name, value in self.headers]
        if is_upgrade and (len(lines) > _SOCKET_HEADERS or max(lines, default=0) > _SOCKET_LINE):
            return True
        return len(self.url) + sum(lines) > MAX_HEAD

    # ---- refusing ----------------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Called once in a while: is it waited for too long?"""
        super().look(now)
        if self._refusal is not None or self.transport.is_closing() or self._rest:
            return
        cycle = self.cycle
        if self._head_since is not None:
            if now - self._head_since > self._header_seconds:
                self._refuse(_too_slow(f"the request's head is not complete after {self._header_seconds:g} seconds"))
            return
        if cycle is not None and cycle.response_complete and self._is_between:
            if now - self._last > self.timeout_keep_alive:
                self.transport.close()
            return
        waits = cycle is not None and cycle.more_body and not self.flow.read_paused
        if not waits:
            self._looked = None
        elif (slow := self._slow_body(now)) is not None:
            self._refuse(_too_slow(slow))

    def _slow_body(self, now: float) -> str | None:
        """Why a body that is waited for is waited for no longer."""
        self._body_waited += 0.0 if self._looked is None else now - self._looked
        self._looked = now
        if now - self._last > self._body_seconds:
            return f"nothing of the request's body came for {self._body_seconds:g} seconds"
        if self._body_waited > self._max_body_seconds:
            return f"the request's body is not complete after {self._max_body_seconds:g} seconds"
        if self._body_waited > self._body_seconds and self._received < self._body_waited * self._body_rate:
            return f"the request's body came at less than {self._body_rate:.0f} bytes a second"
        return None

    def _refuse_head(self, failure: Failure) -> NoReturn:
        self._head_failure = failure
        raise _StopParser

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if self._head_failure is not None:
            self._refuse(self._head_failure)
        elif cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started):
            self._refuse(_malformed(msg))
        else:
            super().send_400_response(msg)  # behind a request that is still answered: the connection ends

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if type(self.flow) is _Flow:
            self.flow.connection = None
        cycle = self._answered
        if cycle is None or cycle.response_complete:
            return
        cycle.disconnected = True  # uvicorn tells the last one that came
        cycle.message_event.set()
        if type(cycle) is Cycle and cycle.gone is not None:
            cycle.gone()

    def on_response_complete(self) -> None:
        """As uvicorn does, but for the timer that would end an idle connection: `look` does that."""
        self.server_state.total_requests += 1
        self._last = self.loop.time()  # what was not read meanwhile did not come slowly
        if self.transport.is_closing():
            return
        if type(self.cycle) is Cycle and self.cycle.lingers:
            self.linger()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._answered, app = self.pipeline.pop()
            self._start_asgi_task(self._answered, app)
            self.go_on()
        if self._refusal is not None and (self.cycle is None or self.cycle.response_complete):
            self._say(self._refusal)

    def _refuse(self, failure: Failure) -> None:
        """Answers come in the order of their requests: this one when the others are through."""
        self._refusal = failure
        self._head_since = None
        cycle = self.cycle
        is_its_own = cycle is not None and cycle.more_body
        if (
            cycle is None
            or cycle.response_complete
            or (is_its_own and not cycle.response_started and not self.pipeline)
        ):
            self._say(failure)
        elif is_its_own:
            self.transport.close()
        else:
            self.transport.pause_reading()

    def _refuse_rest(self) -> None:
        """Trailers, or what stands next to the length of a chunk: the parser keeps them until they end."""
        if self.cycle is not None and self.cycle.response_complete:
            self.transport.close()
        else:
            self._refuse(_too_large())

    def _say(self, failure: Failure) -> None:
        if self.transport.is_closing():
            return
        path = (self.url or b"/").partition(b"?")[0].decode("latin-1")
        body = self._error_writer(path)(failure)
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
            % (failure.status, _PHRASES[failure.status], len(body), body)
        )
        self.linger()

    def linger(self) -> None:
        """A client that is still sending would lose the answer if the connection were closed before it has sent all: many read
        none before. So what comes is read and dropped, until nothing has come for a while."""
        self._is_ending = True
        self._last = self.loop.time()
        self.transport.write_eof()
        self.transport.resume_reading()
        self.go_on()
        self._linger_until(self._last + MAX_LINGER_SECONDS)

    def _linger_until(self, end: float) -> None:
        now = self.loop.time()
        due = min(self._last + self._linger_seconds, end)
        if now >= due or self.transport.is_closing():
            self.transport.close()
        else:
            self.loop.call_at(due, self._linger_until, end)


def _bad_host(what: str) -> Failure:
    return Failure(400, "invalid_request_error", f"the request has {what}; HTTP/1.1 wants one, with the server's name")


def _too_large() -> Failure:
    return Failure(431, "invalid_request_error", f"the request's headers are larger than {MAX_HEAD} bytes")


def _malformed(problem: str) -> Failure:
    return Failure(400, "invalid_request_error", f"this is no HTTP request that the server can read: {problem}")


def _too_slow(message: str) -> Failure:
    return Failure(408, "invalid_request_error", message)
