"""One HTTP request as a door sees it, answers that are ready to send, and a call when the client closes its connection.

Doors are called for every request of every client, so they stand in front of the framework: its request objects,
middleware and response objects would cost a third of a plain request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ronda.drive.offload import LIGHT_BYTES, aside
from ronda.errors import BadRequest, TooLarge
from ronda.server.http.bodies import TINY, read_body
from ronda.server.http.body_memory import UNBOUNDED, UNCOUNTED, BodyMemory
from ronda.server.http.cycle import Cycle

if TYPE_CHECKING:
    from ronda.server.http.routing import Route

T = TypeVar("T")

Header = tuple[bytes, bytes]
Headers: TypeAlias = Mapping[bytes, bytes]  # names in small letters; of one that is there twice, the last
NO_PLACES: Final[Mapping[str, str]] = {}
REQUEST_ID: Final = b"x-request-id"
_TAKEN_ID: Final = re.compile(rb"[!-~]{1,128}")  # what a client may call its request: no spaces, no line ends


class WrongType(BadRequest):
    status_hint = 415


class Incoming:
    """The few things a door reads of a request."""

    __slots__ = (
        "_memory", "_scope", "headers", "is_letter", "key", "owner", "places", "receive", "rights", "route",
        "signed_in_by",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        places: Mapping[str, str] = NO_PLACES,
        owner: str = "",
        memory: BodyMemory = UNBOUNDED,
    ) -> None:
        """`places` is what stands in the places of its address, `owner` whose it is, `memory` what all bodies share."""
        self._scope = scope
        self._memory = memory
        self.receive = receive
        self.places = places
        self.owner = owner
        self.key = ""  # the id of the API key that it came with; "": it came with none
        self.rights: frozenset[str] | None = None  # that key's scopes (`store.values.scopes`); None: it has none
        self.signed_in_by = ""  # the feature that knows whose it is; "": the server's own keys
        self.route: Route | None = None  # the row of the table of addresses that answers it
        self.is_letter = False  # another process has asked, which drives no run that this one does not
        self.headers: Headers = dict(scope["headers"])

    def run_name(self) -> str | None:
        """By which the client wants to find its run."""
        return self.header(b"x-ronda-run")

    @property
    def method(self) -> str:
        return str(self._scope["method"])

    @property
    def is_socket(self) -> bool:
        """It is a WebSocket, or a message of one."""
        return bool(self._scope["type"] == "websocket")

    @property
    def client(self) -> str:
        """The address that the connection comes from; empty where that is not known."""
        found = self._scope.get("client")
        return "" if not found else str(found[0])

    @property
    def scheme(self) -> str:
        return str(self._scope.get("scheme", "http"))

    @property
    def target(self) -> bytes:
        """Its address, as it was sent."""
        path: bytes = self._scope.get("raw_path") or quote(self._scope["path"]).encode()
        query: bytes = self._scope.get("query_string", b"")
        return path.partition(b"?")[0] + (b"?" + query if query else b"")

    @property
    def root(self) -> str:
        """The path that the server is mounted at in another app; empty where it stands alone."""
        return str(self._scope.get("root_path", ""))

    @property
    def base(self) -> str:
        """Where the client has found the server."""
        return f"{self._scope.get('scheme', 'http')}://{self.header(b'host') or 'localhost'}"

    @property
    def query(self) -> dict[str, list[str]]:
        """The parameters behind the `?` of its address."""
        text = self._scope.get("query_string", b"").decode("latin-1")
        return parse_qs(text, keep_blank_values=True, encoding="utf-8", errors="replace")

    def header(self, name: bytes) -> str | None:
        """`name` is in small letters."""
        value = self.headers.get(name)
        return None if value is None else bytes(value).decode("latin-1")

    def has_twice(self, name: bytes) -> bool:
        """Whether a header came more than once; `headers` has the last of them."""
        return [sent for sent, _ in self._scope["headers"]].count(name) > 1

    async def read(self, limit: int, read: Callable[[bytes], T]) -> T:
        """What `read` makes of the body."""
        content_type = self.headers.get(b"content-type", b"")
        if content_type != b"application/json":
            _check_type(content_type)
        body = self._arrived(limit)
        if body is None:
            body = await self.body(limit)
        if len(body) <= TINY:
            return read(body)
        if len(body) <= UNCOUNTED:
            return await read_body(body, read)
        memory, counted, task = self._memory, self._memory.grow(0, len(body)), asyncio.current_task()
        try:
            found = await read_body(body, read)
        except BaseException:
            memory.release(counted)
            raise
        memory.keep(counted)
        assert task is not None
        task.add_done_callback(lambda _: memory.forget(counted))  # each request is answered in a task of its own
        return found

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes in, for one who does not keep it."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise BadRequest("the body broke off")
            if piece := message.get("body"):
                yield piece
            more = message.get("more_body", False)

    def _arrived(self, limit: int) -> bytes | None:
        """All of the body, if it is here, as it nearly always is."""
        cycle = getattr(self.receive, "__self__", None)
        whole = cycle.take_body() if type(cycle) is Cycle else None
        return None if whole is None else _within(whole, limit)

    async def body(self, limit: int) -> bytes:
        length = self.headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > limit:
            raise TooLarge(f"the body has {int(length)} bytes; this server takes {limit}")
        if (whole := self._arrived(limit)) is not None:
            return whole
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            return _within(body, limit)
        pieces: list[bytes] = []
        last = bytearray(body)
        size = len(body)
        counted = 0
        try:
            while message.get("more_body"):
                message = await self.receive()
                last += (piece := message.get("body", b""))
                size += len(piece)
                if len(last) >= _LARGE_PIECE:
                    pieces.append(bytes(last))
                    last = bytearray()
                if size > limit:
                    raise TooLarge(f"the body has more than the {limit} bytes this server takes")
                if size > UNCOUNTED:
                    counted = self._memory.grow(counted, size)
            if message["type"] == "http.disconnect":
                raise BadRequest("the body broke off")
            pieces.append(bytes(last))
            # Of more than a megabyte, joining lets go of the interpreter's lock: off the loop no request waits for it.
            return b"".join(pieces) if size <= LIGHT_BYTES else await aside(b"".join, pieces)
        finally:
            self._memory.release(counted)


# Bytes. What a socket gives at a time is smaller, and the C library keeps such blocks among others that stay: after 20 bodies of
# 49 MB it had 250 MB of them. Blocks of this size it gives back (`cli/memory`).
_LARGE_PIECE: Final = 1 << 20


def _check_type(content_type: bytes) -> None:
    kind = content_type.partition(b";")[0].strip().lower()
    if kind not in (b"", b"application/json") and not kind.endswith(b"+json"):
        shown = content_type[:100].decode("latin-1")
        raise WrongType(f"the body must be sent as application/json, not {shown}")


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise TooLarge(f"the body has {len(body)} bytes; this server takes {limit}")
    return body


class Whole:
    """An answer in one piece. (The framework has such a class, and imports forms, mail and threads with it: 2 MB.)"""

    __slots__ = ("_body", "_headers", "status")

    def __init__(self, body: bytes, status: int = 200, headers: Sequence[Header] = ()) -> None:
        self._body = body
        self.status = status
        self._headers = [(b"content-length", b"%d" % len(body)), *headers]

    def add_headers(self, headers: Sequence[Header]) -> None:
        self._headers = [*self._headers, *headers]

    def set_request_id(self, given: bytes) -> None:
        self._headers = _with_id(self._headers, given)

    def send_at_once(self, send: Send) -> bool:
        """Whether it could be sent without waiting, as it nearly always can."""
        cycle = getattr(send, "__self__", None)  # none where something stands between us and the connection
        return type(cycle) is Cycle and cycle.answer(self.status, self._headers, self._body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.send_at_once(send):
            return
        await send({"type": "http.response.start", "status": self.status, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


class Json(Whole):
    __slots__ = ()

    def __init__(self, body: bytes, status: int = 200, headers: Sequence[Header] = ()) -> None:
        self._body = body
        self.status = status
        length = (b"content-length", b"%d" % len(body))
        self._headers = [(b"content-type", b"application/json"), length, *headers]


class NoContent(Whole):
    """There is nothing to say but that it is done."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(b"", 204)
        self._headers = []  # where nothing may follow, nothing is counted


def with_headers(answer: ASGIApp, headers: Sequence[Header]) -> ASGIApp:
    """The same answer, with more headers."""
    if isinstance(answer, Whole):
        answer.add_headers(headers)
        return answer

    async def extended(scope: Scope, receive: Receive, send: Send) -> None:
        async def add(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        await answer(scope, receive, add)

    return extended


def with_request_id(answer: ASGIApp, given: bytes) -> ASGIApp:
    """The same answer, with the id that its client has given the request in the place of ours."""
    if not is_request_id(given):
        return answer
    if isinstance(answer, Whole):
        answer.set_request_id(given)
        return answer

    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        async def name(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.accept", "websocket.http.response.start"):
                message = {**message, "headers": _with_id(message.get("headers", ()), given)}
            await send(message)

        await answer(scope, receive, name)

    return named


def is_request_id(given: bytes) -> bool:
    return _TAKEN_ID.fullmatch(given) is not None


def _with_id(headers: Sequence[Header], given: bytes) -> list[Header]:
    return [*[header for header in headers if header[0] != REQUEST_ID], (REQUEST_ID, given)]


# ---- whether the client is there ----------------------------------------------------------------------------------------


# Most answers are over before this; only longer ones are worth a task that listens for the client going away.
_WATCH_AFTER = 0.05


class Watch:
    """Calls `gone` when the client closes its connection: told by the connection, where it is one of ours."""

    __slots__ = ("_cycle", "_gone", "_receive", "_task", "_timer")

    def __init__(self, receive: Receive, gone: Callable[[], None]) -> None:
        cycle = getattr(receive, "__self__", None)
        if type(cycle) is Cycle:
            self._cycle: Cycle | None = cycle
            if cycle.disconnected:
                gone()
            cycle.gone = gone
            return
        self._cycle = None
        self._receive = receive
        self._gone = gone
        self._task: asyncio.Future[Any] | None = None
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER, self._listen)

    def _listen(self) -> None:
        self._task = asyncio.ensure_future(self._until_gone())

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone()

    def stop(self) -> None:
        if self._cycle is not None:
            self._cycle.gone = None
            return
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None  # which knows us, by where it was cancelled: a cycle, with all that `gone` knows
