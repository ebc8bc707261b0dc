"""Answers that are compressed though not asked for it: our HTTP client unpacks them as they come."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest
import uvloop
from tests.providers.raw_upstream import Upstream, chunked, http, pieces, read, request, says, sized
from tests.timeouts import soon

from ronda.core.limits import ANSWER_BYTES
from ronda.errors import UpstreamBroken


def without_a_head(plain: bytes) -> bytes:
    """What some servers take `deflate` to mean."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(plain) + packer.flush()


PACKED = {
    "gzip": (b"gzip", gzip.compress(b"hello"), b"hello"),
    "gzip under its old name, in capitals": (b"X-GZIP", gzip.compress(b"hello"), b"hello"),
    "gzip, one file behind the other": (b"gzip", gzip.compress(b"he") + gzip.compress(b"") + gzip.compress(b"llo"), b"hello"),
    "gzip with something behind it": (b"gzip", gzip.compress(b"hello") + b"\0\0\0\0", b"hello"),
    "gzip and nothing in it": (b"gzip", gzip.compress(b""), b""),
    "gzip, and not a byte": (b"gzip", b"", b""),
    "gzip with a word that means nothing": (b"gzip, identity", gzip.compress(b"hello"), b"hello"),
    "deflate": (b"deflate", zlib.compress(b"hello"), b"hello"),
    "deflate without a head": (b"deflate", without_a_head(b"hello"), b"hello"),
    "deflate that is gzip": (b"deflate", gzip.compress(b"hello"), b"hello"),
    "a word for nothing": (b"identity", b"hello", b"hello"),
    "a word that names no compression": (b"utf-8", b"hello", b"hello"),
}  # fmt: skip


@pytest.mark.parametrize("step", [0, 1, 2, 7])
@pytest.mark.parametrize("name", PACKED)
async def test_a_packed_answer_is_read_however_it_is_packed_and_cut(name: str, step: int) -> None:
    coding, packed, expected = PACKED[name]
    answers = [
        sized(packed, b"Content-Encoding: " + coding),
        chunked(*([packed] if packed else []), more=(b"Content-Encoding: " + coding,)),
    ]
    async with Upstream(says(*answers, step=step)).running() as upstream:
        endpoint = http(upstream)
        found = [(await read(endpoint))[1], await pieces(endpoint)]

    assert found == [expected, expected]
    assert len(upstream.asked) == 1


async def test_no_content_may_be_called_packed() -> None:
    async with Upstream(says(b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n")).running() as upstream:
        assert await read(http(upstream)) == (204, b"")


@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "deflate", "deflate without a head"])
def test_a_packed_stream_comes_event_by_event(wbits: int) -> None:
    """The next one is not sent before the last one was seen."""
    events = [b"data: %d\n\n" % number for number in range(20)]

    async def through() -> list[bytes]:
        seen: list[bytes] = []
        one_more = asyncio.Event()
        coding = b"gzip" if wbits > 15 else b"deflate"

        async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            packer = zlib.compressobj(wbits=wbits)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: %b\r\n\r\n" % coding)
            for event in events:
                packed = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
                writer.write(b"%x\r\n%b\r\n" % (len(packed), packed))
                await one_more.wait()
                one_more.clear()
            packed = packer.flush()
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed))

        async with (
            Upstream(act).running() as upstream,
            soon(),
            http(upstream).post(b"{}") as answer,
        ):
            while event := await answer.next():
                seen.append(event)
                one_more.set()
        return seen

    assert asyncio.run(through()) == events
    assert uvloop.run(through()) == events


@pytest.mark.parametrize(
    ("answer", "says_so"),
    [
        (sized(gzip.compress(b"hello")[:-9], b"Content-Encoding: gzip"), "broke off: its compressed end is missing"),
        (sized(gzip.compress(b"hello") * 2, b"Content-Encoding: gzip")[:-9], "broke off: the connection was closed"),
        (sized(b"hello", b"Content-Encoding: gzip"), "broke off: Error -3"),
        (sized(b"hello", b"Content-Encoding: br"), "is compressed as 'br'"),
        (sized(b"hello", b"Content-Encoding: gzip, br"), "is compressed as 'gzip, br'"),
    ],
    ids=["cut short", "cut short by the connection", "not what it says", "in a way we cannot read", "twice"],
)
async def test_what_cannot_be_unpacked_is_a_clear_error(answer: bytes, says_so: str) -> None:
    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer)

    async with Upstream(act).running() as upstream:
        with pytest.raises(UpstreamBroken) as error:
            await read(http(upstream))

    assert says_so in str(error.value)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (sized(b"hello", b"Content-Encoding: br", status=b"503 Service Unavailable"), b""),
        (sized(gzip.compress(b"hello")[:-9], b"Content-Encoding: gzip", status=b"503 Service Unavailable"), b"hello"),
        (sized(b"hello", b"Content-Encoding: gzip", status=b"503 Service Unavailable"), b""),
    ],
    ids=["in a way we cannot read", "cut short", "not what it says"],
)
async def test_an_answer_that_says_no_says_so_by_its_status_alone(answer: bytes, body: bytes) -> None:
    async with Upstream(says(answer)).running() as upstream:
        assert await read(http(upstream)) == (503, body)


async def test_a_stream_whose_packed_end_is_missing_has_ended_all_the_same() -> None:
    """Some proxies pack each event and never write the last bytes: the stream itself says whether it is complete."""
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"data: [DONE]\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
    sent = sized(packed, b"Content-Type: text/event-stream", b"Content-Encoding: gzip")
    async with Upstream(says(sent)).running() as upstream:
        assert await pieces(http(upstream)) == b"data: [DONE]\n\n"


@pytest.mark.parametrize("files", [1, 3])
async def test_an_answer_that_grows_when_it_is_unpacked_is_bounded(files: int) -> None:
    bomb = gzip.compress(b"\0" * (ANSWER_BYTES // files + 1)) * files
    async with Upstream(says(sized(bomb, b"Content-Encoding: gzip"))).running() as upstream:
        with pytest.raises(UpstreamBroken, match=f"larger than {ANSWER_BYTES} bytes"):
            await read(http(upstream))
