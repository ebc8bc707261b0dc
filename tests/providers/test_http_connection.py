"""Our HTTP client against servers that write their bytes by hand: every way to frame an answer, to cut it, to end it."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.endpoint import MAX_ANSWER

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Upstream:
    """`acts` has what is done with one connection after the other; what was asked over each is kept."""

    def __init__(self, *acts: Act) -> None:
        self._acts = list(acts)
        self.asked: list[list[bytes]] = []
        self.gone = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat?version=2"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append([])
        act = self._acts.pop(0)
        try:
            await act(reader, writer)
        finally:
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Upstream]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()


async def request(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return head + await reader.readexactly(length)


def cut(answer: bytes, step: int) -> list[bytes]:
    """Pieces of `step` bytes, of more where that would take forever; 0 is one piece."""
    step = max(step, len(answer) // 300) if step else len(answer)
    return [answer[start : start + step] for start in range(0, len(answer), step or 1)]


def says(*answers: bytes, step: int = 0) -> Act:
    """One answer after the other over one connection, in pieces of `step` bytes."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await request(reader)
            for piece in cut(answer, step):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        await reader.read()

    return act


def sized(body: bytes, *more: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join([*lines, b"", body])


def chunked(*pieces: bytes, more: tuple[bytes, ...] = (), trailer: bytes = b"") -> bytes:
    head = b"\r\n".join([b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked", *more, b"", b""])
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n%b\r\n" % trailer


def http(upstream: Upstream, **timeouts: float) -> Http:
    return Http(upstream.url, {"Authorization": "Bearer key"}, Timeouts(**timeouts))


async def read(endpoint: Http, body: bytes = b"{}") -> tuple[int, bytes]:
    async with endpoint.post(body) as answer:
        return answer.status, await answer.read()


async def pieces(endpoint: Http) -> bytes:
    """The same through the door of streams."""
    read = b""
    async with endpoint.post(b"{}") as answer:
        while piece := await answer.next():
            read += piece
    return read


WHOLE = {
    "sized": sized(b"hello"),
    "sized and empty": sized(b""),
    "chunked": chunked(b"he", b"llo"),
    "chunked with extensions and a trailer": chunked(b"he", b"llo", trailer=b"X-After: 1\r\n").replace(
        b"\r\n2\r\nhe", b"\r\n2;a=b\r\nhe"
    ),
    "after a hint": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + sized(b"hello"),
    "after 'go on'": b"HTTP/1.1 100 Continue\r\n\r\n" + chunked(b"hello"),
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "gzip": sized(gzip.compress(b"hello"), b"Content-Encoding: gzip"),
    "deflate": chunked(zlib.compress(b"hello"), more=(b"Content-Encoding: deflate",)),
}


@pytest.mark.parametrize("step", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("name", WHOLE)
async def test_an_answer_is_the_same_however_it_is_framed_and_cut(name: str, step: int) -> None:
    expected = b"" if name in ("sized and empty", "no content") else b"hello"
    async with Upstream(says(WHOLE[name], WHOLE[name], step=step)).running() as upstream:
        endpoint = http(upstream)
        first = (await read(endpoint))[1]
        second = await pieces(endpoint)

    assert (first, second) == (expected, expected)
    assert len(upstream.asked) == 1  # the connection was used again


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_body_without_a_length_ends_with_its_connection(version: bytes, step: int) -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for byte in b"HTTP/%b 200 OK\r\n\r\nhello" % version:
            writer.write(bytes([byte]))
            if step:
                await writer.drain()

    async with Upstream(act, act).running() as upstream:
        endpoint = http(upstream)
        answers = [await read(endpoint), await read(endpoint)]

    assert answers == [(200, b"hello"), (200, b"hello")]
    assert len(upstream.asked) == 2


@pytest.mark.parametrize(
    "answer",
    [sized(b"one", b"Connection: close"), sized(b"one").replace(b"1.1", b"1.0"), sized(b"one") + b"and more"],
    ids=["says close", "old", "more than was said"],
)
async def test_a_connection_that_does_not_last_is_not_used_again(answer: bytes) -> None:
    async with Upstream(says(answer), says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        answers = [await read(endpoint), await read(endpoint)]

    assert answers == [(200, b"one"), (200, b"two")]


async def test_a_connection_the_server_closed_while_idle_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(sized(b"one"))
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    async with Upstream(act, says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        first = await read(endpoint)
        await closed.wait()
        for _ in range(5):
            await asyncio.sleep(0)  # a turn of the loop each: our side hears of it
        second = await read(endpoint)

    assert (first, second) == ((200, b"one"), (200, b"two"))


async def test_what_was_not_read_to_its_end_is_closed_and_not_drained() -> None:
    gone = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(chunked(b"first")[:-5])
        assert await reader.read() == b""
        gone.set()

    async with Upstream(act, says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        async with endpoint.post(b"{}") as answer:
            first = await answer.next()
        await gone.wait()
        second = await read(endpoint)

    assert (first, second) == (b"first", (200, b"two"))


async def test_a_cancelled_request_hangs_up() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        asked.set()
        assert await reader.read() == b""
        gone.set()

    async with Upstream(act).running() as upstream:
        task = asyncio.create_task(read(http(upstream)))
        await asked.wait()
        task.cancel()
        await gone.wait()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_several_at_once_have_a_connection_each_and_are_not_mixed_up() -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            try:
                asked = await request(reader)
            except asyncio.IncompleteReadError:
                return
            writer.write(sized(asked.partition(b"\r\n\r\n")[2]))
            await asyncio.sleep(0)

    async with Upstream(*[act] * 20).running() as upstream:
        endpoint = http(upstream)
        for _ in range(3):
            answers = await asyncio.gather(*[read(endpoint, b"%d" % n) for n in range(20)])
            assert answers == [(200, b"%d" % n) for n in range(20)]

    assert len(upstream.asked) == 20


async def test_the_request_says_what_it_must() -> None:
    seen: list[bytes] = []

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(sized(b""))

    async with Upstream(act).running() as upstream:
        await read(http(upstream), b'{"a":1}')

    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert body == b'{"a":1}'
    assert head.decode().split("\r\n") == [
        "POST /v1/chat?version=2 HTTP/1.1",
        f"Host: 127.0.0.1:{upstream.port}",
        "Accept-Encoding: identity",
        "Content-Type: application/json",
        "User-Agent: ronda",
        "Authorization: Bearer key",
        "Content-Length: 7",
    ]


@pytest.mark.parametrize(
    ("url", "first", "more"),
    [
        ("/a b/ü?q=é&x=1", "POST /a%20b/%C3%BC?q=%C3%A9&x=1 HTTP/1.1", ""),
        ("/a%2Fb:do", "POST /a%2Fb:do HTTP/1.1", ""),
        ("", "POST / HTTP/1.1", ""),
        ("//user:p%40ss@/x", "POST /x HTTP/1.1", "Authorization: Basic dXNlcjpwQHNz"),
    ],
)
async def test_addresses_are_written_as_http_wants_them(url: str, first: str, more: str) -> None:
    seen: list[bytes] = []

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await request(reader))
        writer.write(sized(b""))

    async with Upstream(act).running() as upstream:
        user, _, path = url.removeprefix("//").rpartition("@") if url.startswith("//") else ("", "", url)
        await read(Http(f"http://{user + '@' if user else ''}127.0.0.1:{upstream.port}{path}", {}, Timeouts()))

    lines = seen[0].decode().split("\r\n")
    assert lines[0] == first
    assert more in lines


async def test_a_large_request_and_a_large_answer() -> None:
    body = bytes(range(256)) * 40_000

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await request(reader)
        writer.write(sized(asked.partition(b"\r\n\r\n")[2]))
        await writer.drain()
        await reader.read()

    async with Upstream(act).running() as upstream:
        answer = await read(http(upstream), body)

    assert answer == (200, body)


async def test_an_answer_before_the_request_is_out_is_heard() -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sized(b"too much", status=b"413 Content Too Large"))
        await writer.drain()
        await gone.wait()

    gone = asyncio.Event()
    async with Upstream(act, says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        first = await read(endpoint, b"x" * 50_000_000)
        gone.set()
        second = await read(endpoint)

    assert (first, second) == ((413, b"too much"), (200, b"two"))


async def test_a_slow_reader_makes_the_server_wait() -> None:
    sent = 0
    stuck = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (200 * 1024 * 1024))
        for _ in range(200):
            writer.write(b"x" * 1024 * 1024)
            waiting = asyncio.create_task(writer.drain())
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            if not done:
                stuck.set()
                await waiting
            sent += 1

    async with Upstream(act).running() as upstream, http(upstream).post(b"{}") as answer:
        await stuck.wait()
        kept = sent
        size = 0
        while piece := await answer.next():
            size += len(piece)

    assert size == 200 * 1024 * 1024
    assert kept < 100


# ---- what goes wrong -------------------------------------------------------------------------------------------------

BROKEN = {
    "a body cut short": (sized(b"hello")[:-1], UpstreamBroken, "broke off: the connection was closed"),
    "a chunk cut short": (chunked(b"hello")[:-8], UpstreamBroken, "broke off: the connection was closed"),
    "no last chunk": (chunked(b"hello")[:-5], UpstreamBroken, "broke off: the connection was closed"),
    "a chunk of no size": (chunked(b"hello").replace(b"5\r\n", b"zz\r\n"), UpstreamBroken, "is not HTTP"),
    "nothing": (b"", UpstreamUnreachable, "cannot reach the model's server"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", UpstreamUnreachable, "cannot reach the model's server"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", UpstreamUnreachable, "is not HTTP"),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", UpstreamUnreachable, "is not HTTP",
    ),
    "a header without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n", UpstreamError, "is not HTTP"),
    "headers without end": (b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(900)), UpstreamError, ""),
}  # fmt: skip


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer_is_a_clear_error_and_its_connection_is_closed(name: str, step: int) -> None:
    sent, kind, says_so = BROKEN[name]

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for piece in cut(sent, step):
            writer.write(piece)
            await asyncio.sleep(0)

    async with Upstream(act, says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        with pytest.raises(kind) as error:
            await read(endpoint)
        second = await read(endpoint)

    assert says_so in str(error.value)
    assert f"http://127.0.0.1:{upstream.port}" in str(error.value)
    assert second == (200, b"two")


@pytest.mark.parametrize(
    ("answer", "says_so"),
    [
        (sized(gzip.compress(b"hello")[:-9], b"Content-Encoding: gzip"), "broke off: its compressed end is missing"),
        (sized(b"hello", b"Content-Encoding: gzip"), "broke off: Error -3"),
        (sized(b"hello", b"Content-Encoding: br"), "is compressed as 'br'"),
    ],
    ids=["cut short", "not what it says", "in a way we cannot read"],
)
async def test_what_cannot_be_unpacked_is_a_clear_error(answer: bytes, says_so: str) -> None:
    async with Upstream(says(answer)).running() as upstream:
        with pytest.raises(UpstreamBroken) as error:
            await read(http(upstream))

    assert says_so in str(error.value)


async def test_an_answer_that_grows_when_it_is_unpacked_is_bounded() -> None:
    bomb = gzip.compress(b"\0" * (MAX_ANSWER + 1))
    async with Upstream(says(sized(bomb, b"Content-Encoding: gzip"))).running() as upstream:
        with pytest.raises(UpstreamBroken, match=f"larger than {MAX_ANSWER} bytes"):
            await read(http(upstream))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "no answer from http://127.0.0.1:{port}: it did not begin to answer within 0.05 seconds"),
        (
            sized(b"hello")[:-2],
            "the answer of http://127.0.0.1:{port} fell silent: nothing came for 0.05 seconds",
        ),
    ],
    ids=["before it began", "in the middle"],
)
async def test_silence_is_bounded(answer: bytes, expected: str) -> None:
    async with Upstream(says(answer or b"", step=1)).running() as upstream:
        with pytest.raises(UpstreamError) as error:
            await read(http(upstream, first_byte=0.05))

    assert str(error.value) == expected.format(port=upstream.port)
    assert error.value.retryable


async def test_a_short_patience_on_a_connection_that_had_a_long_one() -> None:
    async with Upstream(says(sized(b"one"), b"")).running() as upstream:
        first = await read(http(upstream, first_byte=600))
        with pytest.raises(UpstreamError, match=r"within 0\.05 seconds"):
            await read(http(upstream, first_byte=0.05))

    assert first == (200, b"one")


@pytest.mark.parametrize(
    ("url", "says_so"),
    [
        ("ftp://127.0.0.1/", "must begin with http:// or https://"),
        ("http:///v1", "has no host"),
        ("http://127.0.0.1:99999/", "the address is not one"),
        ("http://user:secret@127.0.0.1:x/", "the address is not one"),
        ("http://a b/", "a space"),
    ],
)
async def test_an_address_that_is_none_is_said_so_once_and_no_password_with_it(url: str, says_so: str) -> None:
    with pytest.raises(UpstreamUnreachable) as error:
        await read(Http(url, {}, Timeouts()))

    assert says_so in str(error.value)
    assert "secret" not in str(error.value)
    assert not error.value.retryable


async def test_a_key_with_a_line_end_cannot_write_headers() -> None:
    with pytest.raises(UpstreamUnreachable) as error:
        await read(Http("http://127.0.0.1:1/", {"Authorization": "Bearer a\r\nX-Other: b"}, Timeouts()))

    assert "'Authorization' has a line end" in str(error.value)
    assert "Bearer" not in str(error.value)


@pytest.mark.parametrize("step", [0, 1])
def test_the_servers_event_loop_does_it_as_well(step: int) -> None:
    async def all_of_them() -> list[bytes]:
        async with Upstream(says(*WHOLE.values(), step=step)).running() as upstream:
            return [(await read(http(upstream)))[1] for _ in WHOLE]

    assert set(uvloop.run(all_of_them())) == {b"hello", b""}


def test_every_event_loop_has_connections_of_its_own_and_ends_them() -> None:
    async def once() -> tuple[int, bytes]:
        async with Upstream(says(sized(b"one"))).running() as upstream:
            return await read(http(upstream))

    assert [asyncio.run(once()) for _ in range(3)] == [(200, b"one")] * 3
