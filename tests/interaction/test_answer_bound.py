"""One answer of a model may have so many bytes and no more: what goes on for ever ends with an error, on every door."""

from __future__ import annotations

import json

import pytest
from tests.interaction.doors import Door
from tests.interaction.test_stream_status import BODIES, error_in, post
from tests.interaction.upstreams import Exchange, Upstream, delta

from ronda.core.limits import Retry

DOORS = pytest.mark.parametrize("path", BODIES)
LIMIT = 20_000
SAID = f"is larger than {LIMIT} bytes"


async def goes_on(exchange: Exchange) -> None:
    """A stream without end; the client has seen its beginning."""
    await exchange.begin_stream()
    await exchange.send(delta(content="Once upon a time"), ...)
    while True:
        await exchange.send(delta(content="x" * 100))


async def plainly(exchange: Exchange) -> None:
    message = {"role": "assistant", "content": "x" * 2 * LIMIT}
    await exchange.answer(json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode())


@DOORS
async def test_a_stream_without_end_is_ended_with_an_error(door: Door, path: str) -> None:
    async with Upstream(goes_on) as upstream, door.serving(upstream.url, max_answer_bytes=LIMIT) as served:
        answer = await post(served, path, stream=True, shown=upstream.shown)
        [end] = await served.ends

    assert error_in(path, answer)["type"] in ("server_error", "api_error")
    assert b"Once upon a time" in answer.body
    assert SAID.encode() in answer.body
    assert b"--max-answer-bytes" in answer.body
    assert len(upstream.bodies) == 1  # it is not asked for again
    assert end.reason == "failed"


@DOORS
async def test_a_frame_without_end_is_an_error_too(door: Door, path: str) -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.write(b"ffffff\r\ndata: ")
        while True:
            await exchange.write(b"x" * 1000)

    async with (
        Upstream(act) as upstream,
        door.serving(upstream.url, max_answer_bytes=LIMIT, retry=Retry(tries=1)) as served,
    ):
        answer = await post(served, path, stream=True)

    assert (answer.status, len(upstream.bodies)) == (502, 1)
    assert SAID.encode() in answer.body


@DOORS
async def test_a_plain_answer_that_is_too_large_is_an_error(door: Door, path: str) -> None:
    async with Upstream(plainly) as upstream, door.serving(upstream.url, max_answer_bytes=LIMIT) as served:
        answer = await post(served, path, stream=False)

    assert (answer.status, len(upstream.bodies)) == (502, 1)
    assert SAID.encode() in answer.body


async def test_an_answer_within_the_bound_is_an_answer(door: Door) -> None:
    async with Upstream(plainly) as upstream, door.serving(upstream.url, max_answer_bytes=3 * LIMIT) as served:
        answer = await post(served, "/chat/completions", stream=False)

    assert answer.status == 200
