"""Messages as they come: who asks, when they leave, when the model fails, and how a stream goes out."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest
from tests.interaction.doors import Door, soon
from tests.interaction.upstreams import Exchange, Upstream, delta, streams
from tests.server.doors.test_messages import lookup
from tests.server.messages_door import (
    HI,
    PICK,
    answer,
    asking,
    events,
    heard,
    post,
    result,
    text,
    use,
)

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.providers.script import Call, Line, ScriptedModel, fails
from ronda.providers.script import says as line

# ---- who asks, and when they leave -----------------------------------------------------------------------------------


async def test_a_key_is_the_same_under_both_names(door: Door) -> None:
    model = ScriptedModel(Line(calls=(Call("lookup", {"q": "a"}, "c1"), Call("pick", {"color": "red"}, "c2"))), "ok")

    async with door.serving(model, lookup) as served:
        first = await post(served, {"messages": [HI], "tools": [PICK]}, {"x-api-key": "alice"})
        key_id = first.json["content"][0]["id"]
        back = heard(result(key_id, "red"))
        refused = await post(served, {"messages": [back], "tools": [PICK]}, {"authorization": "Bearer mallory"})
        taken = await post(served, {"messages": [back], "tools": [PICK]}, {"authorization": "Bearer alice"})

    assert (refused.status, refused.json["error"]["type"]) == (400, "invalid_request_error")
    assert key_id in refused.json["error"]["message"]
    assert (taken.status, taken.json["content"]) == (200, [text("ok")])


class Mumbling:
    """A model that says the first word and no more."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        show([TextDelta("Hel")])
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError


async def test_a_client_that_leaves_ends_the_run(door: Door) -> None:
    model = Mumbling()

    async with door.serving(model) as served, asking(door) as claude:
        async with claude.messages.stream(
            model="default", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
        ) as seen:
            async for word in seen.text_stream:
                assert word == "Hel"
                break
        await model.stopped.wait()
        await served.all_over()
        ends = await served.ends

    assert [end.reason for end in ends] == ["cancelled"]


async def test_a_client_that_waits_is_told_that_the_server_stops(door: Door, stream: bool) -> None:
    model = Mumbling()

    async with door.serving(model) as served:
        asked = asyncio.create_task(post(served, {"messages": [HI], "stream": stream}))
        async with soon():
            await model.began.wait()
            await served.server.runs.stop()
            raw = await asked

    if stream:
        name, data = events(raw)[-1]
        assert (name, data["error"]["type"]) == ("error", "overloaded_error")
    else:
        assert (raw.status, raw.json["error"]["type"]) == (503, "overloaded_error")


# ---- when the model fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
    ],
)
async def test_a_failing_model_is_an_error_of_its_class(door: Door, status: int, error: Any, kind: str) -> None:
    async with door.serving(ScriptedModel(*[fails("no", status)] * 9)), asking(door) as claude:
        with pytest.raises(error) as raised:
            await answer(claude, stream=False)

    assert raised.value.type == kind
    assert raised.value.request_id == raised.value.body["request_id"]
    assert raised.value.request_id.startswith("run_")


async def test_a_model_that_fails_in_the_middle_ends_the_stream_with_an_error(door: Door) -> None:
    async with door.serving(ScriptedModel(line("Hel", cut=True))) as served:
        found = events(await post(served, {"messages": [HI], "stream": True}))
        async with asking(door) as claude:
            with pytest.raises(anthropic.APIStatusError, match="script"):
                await answer(claude, stream=True)

    assert [name for name, _ in found][-1] == "error"
    assert found[-1][1]["error"]["type"] == "api_error"
    assert ("message_stop", {"type": "message_stop"}) not in found


# ---- as it comes -----------------------------------------------------------------------------------------------------


async def test_arguments_are_seen_before_the_upstream_has_sent_the_last(door: Door) -> None:
    frames = (
        delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "pick", "arguments": ""}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": '{"color"'}}]),
        ...,  # until the client has seen that
        delta(tool_calls=[{"index": 0, "function": {"arguments": ':"red"}'}}]),
        delta(finish="tool_calls"),
        "[DONE]",
    )
    async with (
        Upstream(streams(*frames)) as upstream,
        door.serving(upstream.url),
        asking(door) as claude,
        claude.messages.stream(
            model="default",
            max_tokens=99,
            messages=[{"role": "user", "content": "hi"}],
            tools=[PICK],  # type: ignore[list-item]
        ) as seen,
    ):
        async for event in seen:
            if event.type == "input_json":
                upstream.shown.set()
        message = await seen.get_final_message()

    assert [block.to_dict() for block in message.content] == [use("c1", "pick", color="red")]
    assert message.stop_reason == "tool_use"


async def test_silence_is_filled_with_pings(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ronda.server.answering.answer.KEEP_ALIVE_SECONDS", 0.01)

    async def waits(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send(delta(content="Hi"), ..., delta(finish="stop"), "[DONE]")
        await exchange.end_stream()

    async with Upstream(waits) as upstream, door.serving(upstream.url) as served, soon():
        body = {"messages": [HI], "stream": True}
        async with served.http.post(f"{served.url}/messages", json=body) as raw:
            seen = b""
            while b"event: ping" not in seen:
                seen += await raw.content.readany()
            upstream.shown.set()
            seen += await raw.read()

    assert b'event: ping\ndata: {"type":"ping"}\n\n' in seen
    assert seen.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
