"""Our HTTP client's connections: which are used again, which are let go, and that none is forgotten."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
import warnings
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvloop
from tests.providers.raw_upstream import Upstream, http, read, request, says, sized
from tests.timeouts import soon

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamBroken, UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.connection import Connection
from ronda.providers.http.session import session


def runners() -> list[Any]:
    return [pytest.param(asyncio.run, id="asyncio"), pytest.param(uvloop.run, id="uvloop")]


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def gives_up_after(*answers: bytes, then: bytes = b"", resets: bool) -> Any:
    """Answers, and when it is asked once more hangs up, having said `then`."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await request(reader)
            writer.write(answer)
        await reader.readexactly(1)
        writer.write(then)
        await writer.drain()
        if resets:
            reset(writer)

    return act


@pytest.mark.parametrize("size", [2, 3_000_000], ids=["small", "large"])
@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("run", runners())
def test_a_request_that_met_a_server_hanging_up_on_a_kept_connection_is_sent_over_a_new_one(
    run: Any, resets: bool, size: int
) -> None:
    async def ask() -> list[tuple[int, bytes]]:
        first = gives_up_after(sized(b"one"), resets=resets)
        async with Upstream(first, says(sized(b"two"))).running() as upstream:
            return [await read(http(upstream)), await read(http(upstream), b"x" * size)]

    assert run(ask()) == [(200, b"one"), (200, b"two")]


async def test_it_is_sent_anew_once_and_only_if_the_connection_was_a_kept_one() -> None:
    acts = [gives_up_after(sized(b"one"), resets=True), gives_up_after(resets=True), says(sized(b"three"))]
    async with Upstream(*acts).running() as upstream:
        first = await read(http(upstream))
        with pytest.raises(UpstreamUnreachable) as error:
            await read(http(upstream))
        third = await read(http(upstream))

    assert error.value.retryable
    assert error.value.connection
    assert (first, third) == ((200, b"one"), (200, b"three"))


async def test_a_request_whose_answer_had_begun_is_not_sent_anew() -> None:
    acts = [gives_up_after(sized(b"one"), then=b"HTTP/1.1 2", resets=False), says(sized(b"two"))]
    async with Upstream(*acts).running() as upstream:
        await read(http(upstream))
        with pytest.raises(UpstreamUnreachable, match="the connection was closed"):
            await read(http(upstream))

    assert len(upstream.asked) == 1


async def test_what_a_server_says_unasked_is_no_answer_to_the_next_request() -> None:
    """Some proxies tell an idle connection so that they are about to close it."""
    heard = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sized(b"one"))
        await hurry.wait()
        writer.write(sized(b"too late", b"Connection: close", status=b"408 Request Timeout"))
        assert await reader.read() == b""
        heard.set()

    hurry = asyncio.Event()
    async with Upstream(act, says(sized(b"two"))).running() as upstream:
        first = await read(http(upstream))
        hurry.set()
        await heard.wait()
        second = await read(http(upstream))

    assert (first, second) == ((200, b"one"), (200, b"two"))


@pytest.mark.parametrize("run", runners())
def test_a_request_that_is_cancelled_at_any_moment_leaves_no_connection_open(run: Any) -> None:
    open_now = 0

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            while True:
                await request(reader)
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                await asyncio.sleep(0)
                writer.write(b"3\r\none\r\n")
                await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            open_now -= 1

    async def cancel_after(turns: int, upstream: Upstream) -> None:
        task = asyncio.create_task(read(http(upstream)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        async with soon():
            while open_now > 1:  # noqa: ASYNC110  # one may be kept; each turn of the loop is what is waited for
                await asyncio.sleep(0)

    async def all_moments() -> None:
        async with Upstream(*[act] * 100).running() as upstream:
            for turns in range(40):
                await cancel_after(turns, upstream)
                assert open_now <= 1

    run(all_moments())


async def test_an_answer_that_cannot_be_unpacked_is_hung_up_on() -> None:
    gone = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sized(b"hello", b"Content-Encoding: br")[:-1])
        assert await reader.read() == b""
        gone.set()

    async with Upstream(act).running() as upstream, soon():
        with pytest.raises(UpstreamBroken):
            await read(http(upstream))
        await gone.wait()


@pytest.mark.parametrize("run", runners())
def test_a_server_that_stops_speaking_while_we_send_is_not_waited_for(run: Any) -> None:
    """It has left, and will not read the rest: our side is not to wait until it has."""

    async def ask() -> None:
        done = asyncio.Event()

        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(10)
            writer.write_eof()
            await done.wait()

        async with Upstream(act).running() as upstream, soon():
            with pytest.raises(UpstreamUnreachable, match="the connection was closed"):
                await read(http(upstream), b"x" * 30_000_000)
            done.set()

    run(ask())


async def test_connections_that_end_while_nobody_uses_them_are_forgotten() -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sized(b"one"))
        await hurry.wait()

    hurry = asyncio.Event()
    async with Upstream(*[act] * 20).running() as upstream:
        await asyncio.gather(*[read(http(upstream)) for _ in range(20)])
        here = asyncio.get_running_loop()
        assert len(connections(here)) == 20
        hurry.set()
        async with soon():
            while connections(here):  # noqa: ASYNC110  # nothing reports it
                await asyncio.sleep(0)


async def test_a_model_that_thinks_for_long_is_not_forgotten_by_what_is_in_between() -> None:
    async with Upstream(says(sized(b"one"))).running() as upstream:
        await read(http(upstream))
        [connection] = connections(asyncio.get_running_loop())
        probes = connection._transport.get_extra_info("socket")

        assert probes.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def connections(loop: asyncio.AbstractEventLoop) -> list[Connection]:
    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, Connection) and thing._loop is loop]


# ---- event loops that come and go ------------------------------------------------------------------------------------


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(2)
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The address of a server that has no part in the event loops of the test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


async def both_clients(url: str) -> weakref.ref[asyncio.AbstractEventLoop]:
    """One request over our own connections, one over a session."""
    first = await read(Http(url, {}, Timeouts()))
    async with (await session()).post(url, data=b"{}") as answer:
        second = await answer.read()
    assert (first, second) == ((200, b"hello"), b"hello")
    return weakref.ref(asyncio.get_running_loop())


@pytest.mark.parametrize("run", runners())
def test_an_event_loop_that_is_over_is_let_go(run: Any, elsewhere: str) -> None:
    loops = [run(both_clients(elsewhere)) for _ in range(3)]

    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


def test_so_is_one_that_was_closed_without_a_word(elsewhere: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it is for programs that close a loop so
        loops = []
        for _ in range(3):
            loop = asyncio.new_event_loop()
            loops.append(loop.run_until_complete(both_clients(elsewhere)))
            loop.close()
        del loop
        asyncio.run(both_clients(elsewhere))
        gc.collect()

    assert [loop() for loop in loops] == [None] * 3


def test_threads_with_a_loop_each_do_not_meet() -> None:
    answers: list[tuple[int, bytes]] = []

    async def several() -> None:
        async with Upstream(*[says(sized(b"one"))] * 5).running() as upstream:
            answers.extend(await asyncio.gather(*[read(http(upstream)) for _ in range(5)]))

    threads = [threading.Thread(target=asyncio.run, args=(several(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [(200, b"one")] * 40
