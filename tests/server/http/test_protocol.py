"""Heads that are too large and requests that come too slowly, over a socket of its own, as `ronda serve` has it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import uvicorn
from tests.interaction.doors import TIMEOUT, soon

from ronda.cli.process import Process
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import Line, ScriptedModel, says
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.http.body_memory import UNBOUNDED, BodyMemory
from ronda.server.http.protocol import MAX_HEAD, BoundedProtocol
from ronda.server.http.sockets import BoundedSockets

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
SOCKET = (
    b"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
CHAT = b'{"messages":[{"role":"user","content":"hi"}]}'
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Each in a packet of its own, as far as that can be had."""
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                self.writer.write(piece)
                await self.writer.drain()
                await asyncio.sleep(0)

    async def read(self) -> bytes:
        """All that is said until the other side hangs up."""
        said = b""
        with contextlib.suppress(ConnectionError):
            async with soon():
                while data := await self.reader.read(65536):
                    said += data
        return said

    async def answer(self) -> bytes:
        """One answer with a length."""
        async with soon():
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            return head + await self.reader.readexactly(length)


class LookedAt(Process):
    """Tells when it has looked for slow requests."""

    def __init__(self, looked: asyncio.Event, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._looked = looked

    def look_around(self, now: float) -> None:
        super().look_around(now)
        self._looked.set()


class Running:
    def __init__(self, port: int, looked: asyncio.Event, connections: set[Any]) -> None:
        self._port = port
        self.looked = looked
        self.connections = connections

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def told(self, *pieces: bytes) -> bytes:
        async with self.connected() as connection:
            await connection.send(*pieces)
            return await connection.read()


@contextlib.asynccontextmanager
async def running(
    *lines: Line, model: ScriptedModel | None = None, memory: BodyMemory = UNBOUNDED, **limits: Any
) -> AsyncIterator[Running]:
    server = Server(ServerConfig(model="script:test"), MemoryJournal(), provider=model or ScriptedModel(*lines))
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    up, looked = asyncio.Event(), asyncio.Event()
    app = create_app(server)
    protocol: Any = partial(BoundedProtocol, error_writer=app.error_writer, **limits)
    sockets: Any = partial(BoundedSockets, memory=memory)
    settings = uvicorn.Config(app, http=protocol, ws=sockets, log_level="critical")
    process = LookedAt(looked, settings, up=up.set, before_end=server.runs.stop)
    task = asyncio.create_task(process.serve([listener]))
    try:
        async with soon():
            await up.wait()
        yield Running(listener.getsockname()[1], looked, process.server_state.connections)
    finally:
        process.should_exit = True
        async with asyncio.timeout(TIMEOUT):
            await task
        listener.close()


def message(answer: bytes) -> str:
    said: str = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    return said


LARGE = b"X-Large: " + b"x" * MAX_HEAD + b"\r\n"
MANY = b"".join([b"X-%d: %b\r\n" % (n, b"x" * 100) for n in range(700)])


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([GET + LARGE + b"\r\n"], id="one large header"),
        pytest.param([GET + MANY + b"\r\n"], id="many small ones"),
        pytest.param([GET, *[MANY[at : at + 700] for at in range(0, len(MANY), 700)], b"\r\n"], id="bit by bit"),
        pytest.param([GET + LARGE], id="without an end"),
        pytest.param([b"GET /" + b"x" * MAX_HEAD + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"], id="a large address"),
        pytest.param(
            [POST + LARGE + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT], id="in one packet with its body"
        ),
        pytest.param([SOCKET + LARGE + b"\r\n"], id="of a WebSocket"),
        pytest.param([SOCKET + MANY + b"\r\n"], id="of a WebSocket, many small ones"),
        pytest.param([SOCKET + b"X: " + b"x" * 9000 + b"\r\n\r\n"], id="of a WebSocket, more than its library takes"),
        pytest.param([SOCKET + b"X: x\r\n" * 200 + b"\r\n"], id="of a WebSocket, more headers than its library takes"),
    ],
)
async def test_a_large_head_is_431_however_it_comes(pieces: list[bytes], caplog: pytest.LogCaptureFixture) -> None:
    async with running() as server:
        answer = await server.told(*pieces)

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert message(answer) == "the request's headers are larger than 65536 bytes"
    assert "Traceback" not in caplog.text


async def test_a_head_of_64_kib_is_not_too_large() -> None:
    padding = MAX_HEAD - len("/healthHostlocalhostConnectionclose") - 3 * 4 - len("X")
    async with running() as server:
        head = GET + b"Connection: close\r\nX: "
        assert (await server.told(head + b"x" * padding + b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await server.told(head + b"x" * (padding + 1) + b"\r\n\r\n")).startswith(b"HTTP/1.1 431 ")


async def test_a_large_head_behind_other_requests_is_431_when_they_are_answered() -> None:
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT
    async with running(says("one"), says("two")) as server:
        answer = await server.told(asked + asked + GET + LARGE + b"\r\n")

    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"200", b"431"]


async def test_many_requests_in_one_packet_are_all_answered() -> None:
    async with running() as server:
        answer = await server.told((GET + b"\r\n") * 5_000 + GET + b"Connection: close\r\n\r\n")

    assert answer.count(b"HTTP/1.1 200 OK") == 5_001


async def test_a_large_body_behind_its_head_is_taken() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 3_000_000}]}).encode()
    async with running(says("yes"), says("yes")) as server:
        for _ in range(2):
            answer = await server.told(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            assert answer.startswith(b"HTTP/1.1 200 ")


CHUNKED = POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n"
CHUNK = b"%x\r\n%b\r\n" % (len(CHAT), CHAT)


@pytest.mark.parametrize(
    ("head", "trailer"),
    [
        pytest.param(CHUNKED, b"Host: evil.example\r\n", id="a name that is not ours"),
        pytest.param(CHUNKED, b"Origin: https://evil.example\r\n", id="a page"),
        pytest.param(CHUNKED, b"Content-Type: text/plain\r\n", id="a type"),
    ],
)
async def test_what_stands_behind_a_body_is_no_header(head: bytes, trailer: bytes) -> None:
    async with running(says("yes")) as server:
        answer = await server.told(head + b"\r\n" + CHUNK + b"0\r\n" + trailer + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_name_behind_a_body_does_not_let_in_what_the_head_keeps_out() -> None:
    head = CHUNKED.replace(b"Host: localhost", b"Host: evil.example")
    async with running() as server:
        answer = await server.told(head + b"\r\n" + CHUNK + b"0\r\nHost: localhost\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(CHUNK + b"0\r\nX: " + b"x" * 2 * MAX_HEAD, id="a trailer without an end"),
        pytest.param(CHUNK + b"0\r\n" + b"X: x\r\n" * MAX_HEAD, id="trailers without an end"),
        pytest.param(b"1;" + b"x" * 2 * MAX_HEAD, id="words beside a length without an end"),
    ],
)
async def test_what_is_sent_beside_a_body_has_an_end(rest: bytes) -> None:
    async with running() as server:
        answer = await server.told(CHUNKED + b"\r\n" + rest)
        elsewhere = await server.told(CHUNKED.replace(b"/v1/chat/completions", b"/nowhere") + b"\r\n" + rest)

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert re.findall(rb"HTTP/1.1 (\d+)", elsewhere) == [b"404"]


async def test_an_answer_reaches_a_client_that_is_still_sending() -> None:
    """One that wants the connection to end with it: closed at once, the answer would be lost with what is on its way."""
    sends = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % 1_000_000_000
    async with running() as server, server.connected() as connection:
        await connection.send(sends + b" " * 100_000)
        async with soon():
            head = await connection.reader.readuntil(b"\r\n\r\n")
        await connection.send(*[b" " * 100_000] * 20)

        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"takes 52428800" in await connection.read()


async def test_a_refused_client_may_send_all_of_its_body_before_it_reads() -> None:
    """As many libraries do: a connection that is closed meanwhile loses them the answer."""
    sends = POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % 1_000_000_000
    async with running(linger_seconds=0.5) as server, server.connected() as connection:
        await connection.send(sends)
        for _ in range(3):
            server.looked.clear()
            async with soon():
                while not server.looked.is_set():
                    await connection.send(b" " * 1000)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(server.looked.wait(), 0.05)
        is_open = len(server.connections)
        told = await connection.read()

    assert is_open == 1
    assert told.startswith(b"HTTP/1.1 413 ")


async def test_pings_whose_answers_nobody_takes_are_not_answered_without_end() -> None:
    ping = b"\x89\xfd" + bytes(4) + b"x" * 125
    async with running() as server, server.connected() as connection:
        await connection.send(SOCKET + b"\r\n")
        async with soon():
            await connection.reader.readuntil(b"\r\n\r\n")
            connection.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of what it reads from
            for _ in range(100):
                connection.writer.write(ping * 1_000)
                await connection.writer.drain()

        assert [one.transport.get_write_buffer_size() < 1_000_000 for one in server.connections] == [True]


def frame(payload: bytes) -> bytes:
    """A whole message of a client's, masked with nothing."""
    return b"\x81\xff" + len(payload).to_bytes(8) + bytes(4) + payload


class WatchedMemory(BodyMemory):
    """Tells when a large message is there in great part, and when nothing is any more."""

    def __init__(self) -> None:
        super().__init__(1024 * 1024)
        self.is_used = asyncio.Event()
        self.is_free = asyncio.Event()

    def grow(self, size: int, new: int) -> int:
        counted = super().grow(size, new)
        if self.used > 600_000:
            self.is_used.set()
        return counted

    def release(self, size: int) -> None:
        super().release(size)
        if not self.used:
            self.is_free.set()


async def opened(connection: Connection) -> None:
    await connection.send(SOCKET + b"\r\n")
    assert b" 101 " in await connection.reader.readuntil(b"\r\n\r\n")


async def until(connection: Connection, text: bytes) -> bytes:
    said = b""
    while text not in said:
        data = await connection.reader.read(65536)
        assert data, said[-200:]
        said += data
    return said


REQUEST = json.dumps({"type": "response.create", "model": "default", "input": "x" * 700_000}).encode()


async def test_large_messages_of_websockets_share_the_memory_of_all_requests() -> None:
    memory = WatchedMemory()
    async with running(says("first"), memory=memory) as server, server.connected() as first, soon():
        await opened(first)
        await first.send(frame(REQUEST)[:-1])
        await memory.is_used.wait()
        async with server.connected() as second:
            await opened(second)
            await second.send(frame(REQUEST)[:500_000])
            refused = await second.read()
        memory.is_free.clear()
        await first.send(REQUEST[-1:])
        assert b"first" in await until(first, b"response.completed")
        await memory.is_free.wait()

    assert refused == b"" or b"\x03\xf5the server reads too many large messages" in refused  # 1013: try again later
    assert memory.used == 0


async def test_pings_count_for_nothing() -> None:
    request = json.dumps({"type": "response.create", "model": "default", "input": "x"}).encode()
    async with running(says("first"), memory=BodyMemory(0)) as server, server.connected() as client, soon():
        await opened(client)
        await client.send(*[b"\x89\x80\0\0\0\0" * 1000] * 60, frame(request))
        assert b"first" in await until(client, b"response.completed")


async def test_a_client_that_speaks_before_it_is_let_in_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """It is gone, or was let in meanwhile."""
    async with running() as server, server.connected() as connection:
        await connection.send(SOCKET + b"\r\n", frame(REQUEST)[:-1])
        with contextlib.suppress(ConnectionError):
            async with soon():
                await connection.reader.read(1)

    assert caplog.text == ""


@pytest.mark.parametrize(("times", "later"), [(2, b""), (1, SOCKET + b"\r\n")], ids=["another request", "a WebSocket"])
async def test_a_client_that_leaves_with_requests_behind_the_first_ends_the_run_of_the_first(
    times: int, later: bytes
) -> None:
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT
    model = Thinks(says("yes"), says("yes"))
    async with running(model=model) as server:
        model.looked = server.looked
        async with server.connected() as connection, soon():
            await connection.send(asked * times)
            await model.asked.wait()
            await connection.send(later)
            connection.writer.transport.abort()
            await model.cancelled.wait()


@pytest.mark.parametrize(
    ("head", "count"),
    [
        pytest.param(POST + b"host: localhost\r\n", "two", id="two"),
        pytest.param(POST.replace(b"Host: localhost\r\n", b""), "no", id="none"),
        pytest.param(SOCKET.replace(b"Host: localhost\r\n", b""), "no", id="none, of a WebSocket"),
        pytest.param(GET + b"\r\nGET /health HTTP/1.1\r\n", "no", id="none, in the second request of a connection"),
    ],
)
async def test_a_request_names_the_server_once(head: bytes, count: str) -> None:
    async with running() as server:
        said = await server.told(head + b"Content-Length: 0\r\n\r\n")

    refused = said[said.rindex(b"HTTP/1.1 4") :]
    assert refused.startswith(b"HTTP/1.1 400 ")
    assert message(refused).startswith(f"the request has {count} 'Host' header")


async def test_http_1_0_needs_no_name_of_the_server() -> None:
    async with running() as server:
        assert (await server.told(b"GET /health HTTP/1.0\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_requests_that_nobody_takes_the_answers_of_wait_unread() -> None:
    """However many one read brings: each would be kept as an object otherwise."""
    asked = POST + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT
    model = Thinks(*[says("yes")] * 2_000)
    async with running(model=model) as server:
        model.looked = server.looked
        async with server.connected() as connection:
            connection.writer.write(asked * 2_000)
            async with soon():
                await model.asked.wait()
                server.looked.clear()
                await server.looked.wait()

            assert [0 < len(one.pipeline) < 200 for one in server.connections] == [True]


# ---- slowly ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b"GET /hea", GET, POST], ids=["nothing", "a line", "headers", "of a POST"])
async def test_a_head_that_does_not_come_is_408(begun: bytes) -> None:
    async with running(header_seconds=0.1) as server:
        answer = await server.told(begun)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert message(answer) == "the request's head is not complete after 0.1 seconds"


async def test_a_head_that_comes_byte_by_byte_has_no_longer() -> None:
    async with running(header_seconds=0.3) as server, server.connected() as connection:
        await connection.send(b"GET /")
        reading = asyncio.create_task(connection.read())
        while not reading.done():
            await connection.send(b"x")
            await asyncio.wait([reading], timeout=0.02)

    assert (await reading).startswith(b"HTTP/1.1 408 ")


async def test_the_second_head_of_a_connection_has_as_long() -> None:
    async with running(header_seconds=0.1) as server, server.connected() as connection:
        await connection.send(GET + b"\r\n")
        assert (await connection.answer()).startswith(b"HTTP/1.1 200 ")
        await connection.send(b"GET /")
        assert (await connection.read()).startswith(b"HTTP/1.1 408 ")


async def test_a_body_of_which_nothing_comes_is_408_in_the_dialect_of_its_door() -> None:
    async with running(body_seconds=0.1) as server:
        chat = await server.told(POST + b"Content-Length: 100\r\n\r\n{")
        messages = await server.told(
            b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )

    assert chat.startswith(b"HTTP/1.1 408 ")
    assert message(chat) == "nothing of the request's body came for 0.1 seconds"
    assert messages.startswith(b"HTTP/1.1 408 ")
    assert json.loads(messages.partition(b"\r\n\r\n")[2])["type"] == "error"


async def test_a_body_that_comes_on_is_waited_for() -> None:
    async with running(says("yes"), body_seconds=1.0) as server, server.connected() as connection:
        await connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(CHAT))
        for at in range(len(CHAT)):
            await connection.send(CHAT[at : at + 1])
        assert (await connection.answer()).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"body_seconds": 0.3, "body_rate": 10**9}, "the request's body came at less than 1000000000 bytes a second"),
        ({"max_body_seconds": 0.3}, "the request's body is not complete after 0.3 seconds"),
    ],
    ids=["a least rate", "a limit for all of it"],
)
async def test_a_body_that_never_ends_is_not_waited_for(limits: dict[str, Any], problem: str) -> None:
    async with running(**limits) as server, server.connected() as connection, soon():
        await connection.send(POST + b"Content-Length: 1000000\r\n\r\n")
        answering = asyncio.create_task(connection.answer())
        while not answering.done():
            with contextlib.suppress(ConnectionError):
                await connection.send(b"x")
            await asyncio.wait([answering], timeout=0.01)
        refused = await answering

    assert refused.startswith(b"HTTP/1.1 408 ")
    assert message(refused) == problem


class Thinks(ScriptedModel):
    """Answers when the server has looked for slow requests twice."""

    looked: asyncio.Event

    def __init__(self, *lines: Line) -> None:
        super().__init__(*lines)
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.asked.set()
        try:
            for _ in range(2):
                self.looked.clear()
                await self.looked.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().call(request, show)


async def test_an_answer_may_take_as_long_as_it_takes() -> None:
    """A request that is complete is not slow, however long its model thinks."""
    model = Thinks(says("yes"))
    async with running(model=model, header_seconds=0.01, body_seconds=0.01) as server:
        model.looked = server.looked
        async with server.connected() as connection:
            await connection.send(POST + b"Content-Length: %d\r\n\r\n" % len(CHAT) + CHAT)
            assert (await connection.answer()).startswith(b"HTTP/1.1 200 ")
