"""An address may have a password or a key in it; no error repeats them, and no answer is read without bounds."""

from __future__ import annotations

import asyncio

import pytest
from tests.providers.raw_upstream import Upstream

from ronda.errors import UpstreamError, UpstreamUnreachable
from ronda.providers.grants import Grant
from ronda.providers.oauth import token_for
from ronda.providers.openai_data import get
from ronda.tools.openapi import fetch as fetching
from ronda.tools.openapi.document import BadDocument

SECRET = [
    "http://name:s3cret@127.0.0.1:1/v1?key=s3cret",
    "http://name:s3cret@[",
    "http://name:s3cret@host:port/?key=s3cret",
]


@pytest.mark.parametrize("url", SECRET)
async def test_a_list_of_models_that_cannot_be_had(url: str) -> None:
    with pytest.raises(UpstreamUnreachable) as error:
        await get(url, {})

    assert "s3cret" not in str(error.value)
    assert "models" in str(error.value)


@pytest.mark.parametrize("url", SECRET)
async def test_a_token_that_cannot_be_had(url: str) -> None:
    with pytest.raises(UpstreamError) as error:
        await token_for(Grant(url, "client", "other-s3cret"))

    assert "s3cret" not in str(error.value)
    assert "no token" in str(error.value)


async def test_a_document_without_end_is_not_read_to_its_end() -> None:
    gone = asyncio.Event()

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while True:
                writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                await writer.drain()
        except OSError:
            gone.set()

    async with Upstream(act).running() as upstream:
        with pytest.raises(BadDocument, match=f"larger than {fetching.MAX_SIZE} bytes"):
            await fetching.fetch(upstream.url)
        await gone.wait()
