"""A stream of a model's server, read where it arrives: however it is cut, whichever reader gets it, and whatever goes wrong."""

from __future__ import annotations

import asyncio
import weakref
import zlib
from collections.abc import Sequence
from contextvars import ContextVar

import msgspec
import pytest
from tests.providers.raw_upstream import Upstream, chunked, http, request, says, sized

from ronda.core.events import Preview, TextDelta
from ronda.core.parts import Text
from ronda.core.request import Wait
from ronda.drive import Show
from ronda.errors import UpstreamBroken
from ronda.providers.http import Http
from ronda.wire.openai_chat.client_answer import Reader

WORDS = [f"word{n} " for n in range(20)]
FRAMES = [
    *[b"data: %b\n\n" % msgspec.json.encode({"choices": [{"delta": {"content": word}}]}) for word in WORDS],
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
STREAM = b"Content-Type: text/event-stream"


def gzipped(data: bytes) -> bytes:
    pack = zlib.compressobj(wbits=31)
    return pack.compress(data) + pack.flush()


ANSWERS = {
    "chunked": chunked(*FRAMES, more=(STREAM,)),
    "sized": sized(b"".join(FRAMES), STREAM),
    "compressed": sized(gzipped(b"".join(FRAMES)), STREAM, b"Content-Encoding: gzip"),
}


async def stream(endpoint: Http, show: Show, room: Wait | None = None, most: int = 1 << 20) -> Reader:
    reader = Reader()
    async with endpoint.post(b"{}", most) as answer:
        await answer.stream_into(reader, show, room)
    return reader


def texts(previews: Sequence[Preview]) -> str:
    return "".join([preview.text for preview in previews if type(preview) is TextDelta])


@pytest.mark.parametrize("step", [0, 1, 3, 64])
@pytest.mark.parametrize("name", ANSWERS)
async def test_a_stream_is_the_same_however_it_is_cut(name: str, step: int) -> None:
    shown: list[Preview] = []
    async with Upstream(says(ANSWERS[name], ANSWERS[name], step=step)).running() as upstream:
        endpoint = http(upstream)
        for _ in range(2):
            shown.clear()
            reader = await stream(endpoint, shown.extend)
            assert texts(shown) == "".join(WORDS)
            assert reader.finish().turn.parts == (Text("".join(WORDS)),)
    assert len(upstream.asked) == 1  # the connection was used again


async def test_whoever_has_no_room_is_waited_for_and_misses_nothing() -> None:
    shown: list[Preview] = []
    waits = 0

    async def room() -> None:
        nonlocal waits
        waits += 1
        await asyncio.sleep(0)

    def show(previews: list[Preview]) -> bool:
        shown.extend(previews)
        return False

    async with Upstream(says(ANSWERS["chunked"], step=40)).running() as upstream:
        await stream(http(upstream), show, room)

    assert texts(shown) == "".join(WORDS)
    assert waits > 1


where: ContextVar[str] = ContextVar("where", default="nowhere")


async def test_whoever_is_told_is_told_in_the_context_of_the_run() -> None:
    seen: list[str] = []

    async def run(name: str) -> None:
        where.set(name)
        await stream(endpoint, lambda previews: seen.append(where.get()))

    async with Upstream(says(ANSWERS["chunked"], ANSWERS["chunked"], step=40)).running() as upstream:
        endpoint = http(upstream)
        await asyncio.create_task(run("first"))
        first, seen = seen, []
        await asyncio.create_task(run("second"))

    assert set(first) == {"first"}
    assert set(seen) == {"second"}


class DiskFull(OSError):
    pass


@pytest.mark.parametrize("at", [0, 5])
async def test_what_goes_wrong_with_whoever_is_told_is_not_the_servers_fault(at: int) -> None:
    shown: list[Preview] = []
    raised: list[weakref.ref[DiskFull]] = []

    def show(previews: list[Preview]) -> None:
        shown.extend(previews)
        if len(shown) > at:
            error = DiskFull("no room")
            raised.append(weakref.ref(error))
            try:
                raise error
            finally:
                del error

    async def what_is_raised() -> str:
        try:
            await stream(endpoint, show)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    async with Upstream(says(ANSWERS["chunked"], step=40), says(ANSWERS["chunked"])).running() as upstream:
        endpoint = http(upstream)
        assert await what_is_raised() == "DiskFull: no room"
        assert [error() for error in raised] == [None]  # nothing that it knows knows it: else the collector had to come
        shown.clear()
        at = 1000
        await stream(endpoint, show)
        assert texts(shown) == "".join(WORDS)
    assert len(upstream.asked) == 2  # what was not read to its end is not used again


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_stream_that_is_larger_than_it_may_be_is_not_read_on(name: str) -> None:
    async with Upstream(says(ANSWERS[name], step=40)).running() as upstream:
        with pytest.raises(UpstreamBroken, match="is larger than 300 bytes"):
            await stream(http(upstream), lambda previews: None, most=300)


async def test_what_came_before_a_stream_broke_off_is_shown() -> None:
    shown: list[Preview] = []

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        head, _, _ = ANSWERS["sized"].partition(b"\r\n\r\n")
        for piece in (head + b"\r\n\r\n", *FRAMES[:5]):
            writer.write(piece)
            await writer.drain()

    async with Upstream(act).running() as upstream:
        with pytest.raises(UpstreamBroken, match="broke off"):
            await stream(http(upstream), shown.extend)

    assert texts(shown) == "".join(WORDS[:5])
