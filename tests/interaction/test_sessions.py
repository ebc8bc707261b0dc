"""A session has a name: the caller's, echoed, or one that is made."""

from __future__ import annotations

import openai
import pytest
from tests.interaction.doors import Door
from tests.interaction.upstreams import Exchange, Upstream

from ronda.providers.script import ScriptedModel, says


async def test_a_session_id_is_echoed(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        assert (await served.ask(stream=stream, session_id="my session é")).session == "my session é"


async def test_a_session_id_is_made_when_none_is_given(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"), says("hi"))) as served:
        first = await served.ask(stream=stream)
        second = await served.ask(stream=stream)

    assert first.session
    assert second.session
    assert first.session != second.session


async def test_a_stream_names_its_session_on_the_last_chunk_only(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi there"))) as served:
        answer = await served.post({"messages": "go", "stream": True, "session_id": "s1"})

    assert ["session_id" in chunk for chunk in answer.chunks] == [False] * (len(answer.chunks) - 1) + [True]


async def test_detach_is_refused_by_name(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("never said"))

    async with door.serving(model) as served:
        with pytest.raises(openai.BadRequestError, match="on_disconnect") as refused:
            await served.ask(stream=stream, on_disconnect="stay")

    assert refused.value.param == "on_disconnect"
    assert model.heard == []


async def test_cancel_is_what_happens_anyway(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        assert (await served.ask(stream=stream, on_disconnect="cancel")).content == "hi"


async def test_an_answer_has_an_id_to_look_it_up_by(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        answer = await served.post({"messages": "go", "stream": stream})
        [events] = await served.events

    assert answer.headers["x-request-id"] == getattr(events[0], "run", None)


async def test_a_chunk_is_sent_when_it_comes(door: Door) -> None:
    """Nothing holds back what the model has said until it has said more."""

    async def says_hel_and_waits_until_it_was_read(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.send({"choices": [{"index": 0, "delta": {"content": "Hel"}}]}, ...)
        await exchange.send({"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]}, "[DONE]")
        await exchange.end_stream()

    async with Upstream(says_hel_and_waits_until_it_was_read) as upstream, door.serving(upstream.url) as served:
        answer = await served.post({"messages": "go", "stream": True}, upstream.shown)

    assert answer.said.content == "Hello"
