"""Our HTTP client against servers that write their bytes by hand: every way to frame an answer, to cut it, to end it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop
from tests.providers.raw_upstream import Upstream, chunked, cut, http, pieces, read, request, says, sized

from ronda.core.limits import Timeouts
from ronda.errors import UpstreamBroken, UpstreamError, UpstreamUnreachable
from ronda.providers.http import Http
from ronda.providers.http.connection import Connection

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
    "chunked, and a length that does not count": chunked(b"hello", more=(b"Content-Length: 3",)),
    "a length that does not count, and chunked": chunked(b"hello").replace(b"OK", b"OK\r\nContent-Length: 3"),
    "with many headers": sized(b"hello", *[b"X-%d: y" % n for n in range(300)]),
    "with a header over several lines": sized(b"hello", b"X-Long: a,\r\n  b"),
    "with line ends of another kind": sized(b"hello").replace(b"\r\n", b"\n"),
    "with an empty line before it and behind it": b"\r\n" + sized(b"hello") + b"\r\n",
    "with an offer to speak another protocol": sized(b"hello", b"Upgrade: h2c", b"Connection: Upgrade"),
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
@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n"],
    ids=["old", "new", "said in a way of its own"],
)
async def test_a_body_without_a_length_ends_with_its_connection(head: bytes, step: int) -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for byte in head + b"\r\nhello":
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
    [
        sized(b"one", b"Connection: close"),
        sized(b"one").replace(b"1.1", b"1.0"),
        sized(b"one") + b"and more",
        sized(b"one") + sized(b"and more"),
        sized(b"one") + b"HTTP/1.1 200 OK\r\nContent-Le",
        sized(b"", status=b"204 No Content").replace(b": 0", b": 3") + b"one",
    ],
    ids=["says close", "old", "more than was said", "two answers", "one and a half", "more than none"],
)
async def test_a_connection_that_does_not_last_is_not_used_again(answer: bytes) -> None:
    async with Upstream(says(answer), says(sized(b"two"))).running() as upstream:
        endpoint = http(upstream)
        answers = [await read(endpoint), await read(endpoint)]

    assert answers in ([(200, b"one"), (200, b"two")], [(204, b""), (200, b"two")])


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
        ("//:p%40ss@/x", "POST /x HTTP/1.1", "Authorization: Basic OnBAc3M="),
        ("/x#key", "POST /x HTTP/1.1", ""),
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
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (30 * 1024 * 1024))
        for _ in range(30):
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

    assert size == 30 * 1024 * 1024
    assert kept < 20


def test_nobody_is_asked_for_the_time_again_and_again_while_the_server_waits_for_us() -> None:
    """A reader that is slower than the server's patience: the connection looks at its clock now and then, not always."""
    loop = Clock()
    transport = Sink()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 2_000_000
    connection = Connection(loop, memoryview(answer))  # type: ignore[arg-type]  # as much of a loop as it asks for
    connection.connection_made(transport)
    connection.ask(b"POST / HTTP/1.1\r\nContent-Length: ", b"{}", 1.0)
    connection.buffer_updated(len(answer))
    looks = 0
    while (next_look := loop.timers.pop()).when() < 100 and looks < 1000:
        looks += 1
        loop.now = next_look.when()
        next_look._run()

    assert looks < 20
    assert not connection.closed


class Clock:
    """An event loop's clock, and what it is to do when."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_at(self, when: float, what: Callable[[], None]) -> asyncio.TimerHandle:
        self.timers.append(asyncio.TimerHandle(when, what, (), self))  # type: ignore[arg-type]  # see above
        return self.timers[-1]


class Sink(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def pause_reading(self) -> None: ...

    def abort(self) -> None: ...


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
    "a header without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 900_000, UpstreamUnreachable, "its head is too long"),
    "headers without end": (
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 90_000, UpstreamUnreachable, "its head is too long",
    ),
    "hints without end": (b"HTTP/1.1 103 Hint\r\n\r\n" * 20_000, UpstreamUnreachable, "its head is too long"),
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
    ("answer", "expected"),
    [
        (b"", "no answer from http://127.0.0.1:{port}: it did not begin to answer within 0.5 seconds"),
        (
            sized(b"hello")[:-2],
            "the answer of http://127.0.0.1:{port} fell silent: nothing came for 0.5 seconds",
        ),
    ],
    ids=["before it began", "in the middle"],
)
async def test_silence_is_bounded(answer: bytes, expected: str) -> None:
    async with Upstream(says(answer or b"", step=1)).running() as upstream:
        with pytest.raises(UpstreamError) as error:
            await read(http(upstream, first_byte=0.5))

    assert str(error.value) == expected.format(port=upstream.port)
    assert error.value.retryable


async def test_a_short_patience_on_a_connection_that_had_a_long_one() -> None:
    async with Upstream(says(sized(b"one"), b"")).running() as upstream:
        first = await read(http(upstream, first_byte=600))
        with pytest.raises(UpstreamError, match=r"within 0\.5 seconds"):
            await read(http(upstream, first_byte=0.5))

    assert first == (200, b"one")


async def test_a_server_that_does_not_run_is_asked_about() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        address = f"http://127.0.0.1:{once.getsockname()[1]}"

    with pytest.raises(UpstreamUnreachable) as error:
        await read(Http(address, {}, Timeouts()))

    assert str(error.value) == f"cannot reach the model's server at {address}: Connection refused; is it running?"


@pytest.mark.parametrize(
    ("url", "says_so"),
    [
        ("ftp://127.0.0.1/?key=secret", "at ftp://127.0.0.1/: it must begin with http:// or https://"),
        ("http:///v1?key=secret", "at http:///v1: it names no host"),
        ("http://127.0.0.1:99999/#secret", "at http://127.0.0.1:99999/: its port is no number from 1 to 65535"),
        ("http://127.0.0.1:0/", "at http://127.0.0.1:0/: its port is no number from 1 to 65535"),
        ("http://user:secret@127.0.0.1:x/", "at http://127.0.0.1:x/: its port is no number from 1 to 65535"),
        ("http://user:secret/word@127.0.0.1/", "at http://127.0.0.1/: its port is no number from 1 to 65535"),
        ("http://user:secret?word@127.0.0.1/", "at http://127.0.0.1/: its port is no number from 1 to 65535"),
        ("http://user:secret@exa\u2100mple/", "at http://exa\u2100mple/: its host is no name and no number"),
        ("http://user:secret@[::1/", "at http://[::1/: its host is no name and no number"),
        ("http://user:secret@\xfc..x/", "at http://\xfc..x/: its host is no name and no number"),
        ("user:secret@127.0.0.1/?key=secret", "at 127.0.0.1/: it must begin with http:// or https://"),
        ("http://a b/", "at http://a b/: its host is no name and no number"),
        ("http://127.0.0.1/\ud800", "at http://127.0.0.1/\\ud800: it has a character in it that cannot be written"),
    ],
)
async def test_an_address_that_is_none_is_said_so_once_and_no_password_with_it(url: str, says_so: str) -> None:
    with pytest.raises(UpstreamUnreachable) as error:
        await read(Http(url, {}, Timeouts()))

    assert str(error.value) == f"cannot reach the model's server {says_so}"
    assert not error.value.retryable


async def test_a_key_with_a_line_end_cannot_write_headers() -> None:
    with pytest.raises(UpstreamUnreachable) as error:
        await read(Http("http://127.0.0.1:1/?key=a", {"Authorization": "Bearer a\r\nX-Other: b"}, Timeouts()))

    assert str(error.value) == (
        "cannot reach the model's server at http://127.0.0.1:1/: the header 'Authorization' has a line end or NUL in its value"
    )


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
