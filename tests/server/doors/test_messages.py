"""The Messages door as the official SDK sees it: answers, streams, pictures, formats, counting, cancelling."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import pytest
from pydantic import BaseModel
from tests.interaction.doors import TIMEOUT, Door, Json, TakesFiles, soon
from tests.server.messages_door import (
    HI,
    PICK,
    answer,
    asking,
    events,
    heard,
    post,
    result,
    said,
    says,
    text,
    thinking,
    usage,
    use,
)

from ronda import tool
from ronda.core.events import ModelFinished, RefusalDelta, TextDelta
from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    user,
)
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Show
from ronda.providers.script import Call, Line, ScriptedModel, calls
from ronda.providers.script import says as line


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


# ---- answers ---------------------------------------------------------------------------------------------------------


async def test_an_answer_is_a_message(door: Door, stream: bool) -> None:
    async with (
        door.serving(ScriptedModel(Line(text="Hello.", reasoning="hm", usage=Usage(12, 7, 4, 3)))),
        asking(door) as claude,
    ):
        message = await answer(claude, stream=stream)

    counted = {**usage(8, 7, cache_read_input_tokens=4), "output_tokens_details": {"thinking_tokens": 3}}
    assert message == {**says(thinking("hm"), text("Hello.")), "usage": counted}


async def test_the_synchronous_client_works_too(door: Door, stream: bool) -> None:
    url = door.url.removesuffix("/v1")

    def ask() -> str:
        with anthropic.Anthropic(base_url=url, api_key="test", max_retries=0, timeout=TIMEOUT) as client:
            if not stream:
                made = client.messages.create(
                    model="default", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
                )
                return "".join(block.text for block in made.content if block.type == "text")
            with client.messages.stream(
                model="default", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            ) as seen:
                return "".join(seen.text_stream)

    async with door.serving(ScriptedModel("Hello there.")), soon():
        assert await asyncio.to_thread(ask) == "Hello there."


async def test_rounds_of_our_tools_are_blocks_of_one_message(door: Door, stream: bool) -> None:
    model = ScriptedModel(Line(text="Let me see.", reasoning="hm", calls=(Call("lookup", {"q": "a"}),)), line("Done."))

    async with door.serving(model, lookup), asking(door) as claude:
        message = await answer(claude, stream=stream)

    assert message == says(thinking("hm"), text("Let me see."), text("Done."), input=20, output=10)


async def test_a_stream_is_the_events_of_the_dialect_with_ours_between_blocks(door: Door) -> None:
    model = ScriptedModel(Line(chunks=("See: ", "so."), calls=(Call("lookup", {"q": "a"}, "c1"),)), line("Done."))

    async with door.serving(model, lookup) as served:
        raw = await post(served, {"messages": [HI], "stream": True, "session_id": "s1"})

    found = events(raw)
    message_id = raw.headers["request-id"].replace("run_", "msg_")
    data: Json = {"tool_type": "custom", "arguments": '{"q":"a"}', "input": {"q": "a"}}
    progress: Json = {
        "type": "agentic_tool_call_progress",
        "round": 0,
        "tool_name": "lookup",
        "tool_call_id": "c1",
        "data": data,
    }
    expected: list[Json] = [
        {
            "type": "message_start",
            "message": {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": "test",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": found[0][1]["message"]["usage"],
            },
        },
        {"type": "content_block_start", "index": 0, "content_block": text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "See: "}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so."}},
        {"type": "content_block_stop", "index": 0},
        {**progress, "phase": "calling"},
        {**progress, "phase": "complete", "data": {**data, "content": "found a"}},
        {"type": "content_block_start", "index": 1, "content_block": text("")},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Done."}},
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": usage(20, 10),
            "session_id": "s1",
        },
        {"type": "message_stop"},
    ]
    assert [data for _, data in found] == expected
    assert [name for name, _ in found] == [data["type"] for data in expected]


@pytest.mark.parametrize("beta", [False, True])
async def test_the_sdk_s_streams_pass_over_the_events_they_do_not_know(door: Door, beta: bool) -> None:
    model = ScriptedModel(calls("lookup", q="a"), line("Done."))

    async with door.serving(model, lookup), asking(door) as claude:
        messages: Any = claude.beta.messages if beta else claude.messages
        async with messages.stream(model="default", max_tokens=9, messages=[HI]) as seen:
            kinds = [event.type async for event in seen]
            message = await seen.get_final_message()

    assert kinds.count("agentic_tool_call_progress") == 2
    assert [block.text for block in message.content] == ["Done."]


async def test_a_client_that_takes_unknown_events_for_errors_gets_none(door: Door) -> None:
    sdk = {"user-agent": "ai/6.0.0 ai-sdk/anthropic/3.0.0 runtime/node.js/20", "content-type": "application/json"}
    body = {"model": "default", "max_tokens": 100, "messages": [HI], "stream": True}
    model = ScriptedModel(calls("lookup", q="a"), line("Done."))
    url = f"{door.url}/messages"
    async with door.serving(model, lookup), soon(), door.http.post(url, json=body, headers=sdk) as answer:
        text = await answer.text()

    assert "event: message_stop" in text
    assert "agentic" not in text


async def test_the_plain_answer_says_what_our_tools_did(door: Door) -> None:
    async with door.serving(ScriptedModel(calls("lookup", q="a"), line("Done.")), lookup) as served:
        raw = await post(served, {"messages": [HI], "session_id": "s1", "max_tool_rounds": 1})

    record = {"round": 0, "tool_call_id": "call_0_0", "name": "lookup", "arguments": '{"q":"a"}'}
    assert raw.json == {
        **says(text("Done."), input=20, output=10),
        "id": raw.headers["request-id"].replace("run_", "msg_"),
        "session_id": "s1",
        "limit": "max_tool_rounds",
        "agentic_tool_calls": [{**record, "result_content": "found a"}],
    }


async def test_warnings_ride_on_the_answer(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel("ok"), max_tool_rounds_ceiling=2) as served:
        raw = await post(served, {"messages": [HI], "max_tool_rounds": 5, "stream": stream})

    said_in = dict(events(raw))["message_delta"] if stream else raw.json
    assert said_in["warnings"] == ["max_tool_rounds was cut from 5 to 2, the most this server allows"]


@pytest.mark.parametrize(
    ("stop", "reason"), [("length", "max_tokens"), ("content_filter", "refusal"), ("stop", "end_turn")]
)
async def test_how_it_ended_is_said_in_the_dialect_s_words(door: Door, stream: bool, stop: Any, reason: str) -> None:
    async with door.serving(ScriptedModel(line("Hm", stop=stop))), asking(door) as claude:
        message = await answer(claude, stream=stream)

    assert message["stop_reason"] == reason


class Refusing:
    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.stream:
            show([TextDelta("I "), RefusalDelta("No.")])
        return ModelFinished(AssistantTurn((Text("I "), Refusal("No."))), Usage(10, 5))


async def test_a_refusal_stands_where_this_dialect_has_it(door: Door, stream: bool) -> None:
    async with door.serving(Refusing()), asking(door) as claude:
        message = await answer(claude, stream=stream)

    details = {"type": "refusal", "category": None, "explanation": "No."}
    assert message == {**says(text("I "), stop="refusal"), "stop_details": details}


class StoppedAt:
    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        return ModelFinished(AssistantTurn((Text("One"),), stop_sequence=request.options.stop[0]), Usage(10, 5))


async def test_a_stop_sequence_is_named_where_the_model_says_which(door: Door, stream: bool) -> None:
    async with door.serving(StoppedAt()), asking(door) as claude:
        message = await answer(claude, stream=stream, stop_sequences=["END"])

    assert message == {**says(text("One"), stop="stop_sequence"), "stop_sequence": "END"}


# ---- conversations ---------------------------------------------------------------------------------------------------

PNG = "iVBORw0KGgo="


async def test_every_block_reaches_the_model(door: Door) -> None:
    model = TakesFiles("ok")
    cached = {"cache_control": {"type": "ephemeral"}}
    content = [
        text("look"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}, **cached},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            "title": "a",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "b"},
        {"type": "document", "source": {"type": "content", "content": [text("one"), text("two")]}, "context": "c"},
        {"type": "document", "source": {"type": "content", "content": "three"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/z.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_2"}, "title": "d"},
        {"type": "search_result", "source": "https://x", "title": "X", "content": [text("found")]},
        {"type": "container_upload", "file_id": "file_3"},
    ]

    async with door.serving(model), asking(door) as claude:
        await answer(claude, {"role": "user", "content": content}, stream=False)

    assert [_bare(turn) for turn in model.heard[0]] == [
        UserTurn(
            (
                Text("look"),
                Image(f"data:image/png;base64,{PNG}"),
                Image("https://x/y.png"),
                File(id="file_1"),
                File("data:application/pdf;base64,JVBE", "a"),
                Text('<document title="b">\nwords\n</document>'),
                Text('<document context="c">\none\ntwo\n</document>'),
                Text("<document>\nthree\n</document>"),
                File("https://x/z.pdf"),
                File(None, "d", "file_2"),
                Text('<search_result source="https://x" title="X">\nfound\n</search_result>'),
                File(id="file_3"),
            )
        )
    ]


def _bare(turn: Turn) -> Turn:
    """Without the dialect's own JSON, which is the business of its own upstreams."""
    match turn:
        case UserTurn():
            return UserTurn(turn.parts)
        case AssistantTurn():
            return AssistantTurn(turn.parts, turn.stop)
        case SystemTurn():
            return SystemTurn(turn.text)
        case ToolTurn():
            return ToolTurn(tuple([ToolResult(r.call_id, r.content, r.failed, r.attachments) for r in turn.results]))


async def test_a_whole_conversation_reaches_the_model(door: Door) -> None:
    model = ScriptedModel("ok")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    reference = {"type": "tool_reference", "tool_name": "pick"}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    conversation = [
        HI,
        HI,
        said(
            thinking("hm", "sig"), redacted, search, found, text("So:"), use("a", "pick", color="red"), use("b", "pick")
        ),
        heard(result("b", [text("no"), text("color")], is_error=True), text("and now?")),
        heard(result("a", [text("one"), picture, reference])),
        said(text("Wait.")),
        said(),
        {"role": "system", "content": [text("Be brief.")]},
        heard(text("go")),
    ]

    async with door.serving(model), asking(door) as claude:
        system: Any = [text("Be kind."), {**text("Be short."), "cache_control": {"type": "ephemeral"}}]
        await answer(claude, *conversation, stream=False, system=system, tools=[PICK])

    assert [_bare(turn) for turn in model.heard[0]] == [
        SystemTurn("Be kind.\nBe short."),
        user("hi"),
        user("hi"),
        AssistantTurn(
            (
                Reasoning("hm"),
                Text("So:"),
                ToolCall("a", "pick", '{"color":"red"}'),
                ToolCall("b", "pick", "{}"),
            ),
            "tool_calls",
        ),
        ToolTurn(
            (
                ToolResult(
                    "a",
                    'one\n{"type":"tool_reference","tool_name":"pick"}',
                    False,
                    (Image(f"data:image/png;base64,{PNG}"),),
                ),
                ToolResult("b", "no\ncolor", True),
            )
        ),
        user("and now?"),
        AssistantTurn((Text("Wait."),)),
        SystemTurn("Be brief."),
        user("go"),
    ]


async def test_what_the_model_thought_is_taken_back_though_nobody_signed_it(door: Door, stream: bool) -> None:
    model = ScriptedModel(Line(text="A.", reasoning="hm"), line("B."))

    async with door.serving(model), asking(door) as claude:
        first = await answer(claude, stream=stream)
        await answer(claude, HI, said(*first["content"]), HI, stream=stream)

    assert [_bare(turn) for turn in model.heard[1]] == [
        user("hi"),
        AssistantTurn((Reasoning("hm"), Text("A."))),
        user("hi"),
    ]


# ---- formats ---------------------------------------------------------------------------------------------------------


class Weather(BaseModel):
    city: str
    degrees: int


async def test_parse_gives_what_was_asked_for(door: Door, stream: bool) -> None:
    model = ScriptedModel('{"city": "Paris", "degrees": "warm"}', '{"city": "Paris", "degrees": 21}')

    async with door.serving(model), asking(door) as claude:
        if stream:
            async with claude.messages.stream(
                model="default", max_tokens=99, messages=[{"role": "user", "content": "hi"}], output_format=Weather
            ) as seen:
                parsed = (await seen.get_final_message()).parsed_output
        else:
            made = await claude.messages.parse(
                model="default", max_tokens=99, messages=[{"role": "user", "content": "hi"}], output_format=Weather
            )
            parsed = made.parsed_output

    assert parsed == Weather(city="Paris", degrees=21)
    answer_format = model.requests[0].options.response_format
    assert answer_format is not None
    assert answer_format.type == "json_schema"
    assert len(model.heard) == 2  # the first answer was no weather


# ---- counting --------------------------------------------------------------------------------------------------------


class Counting:
    """A model that can count, and is not asked for anything else."""

    def __init__(self) -> None:
        self.counted: list[ModelRequest] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(count_tokens=self.count)

    async def count(self, request: ModelRequest) -> int:
        self.counted.append(request)
        return 42

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        raise AssertionError("counting calls no model")


async def test_tokens_are_counted_by_the_model_that_can(door: Door) -> None:
    model = Counting()

    async with door.serving(model, lookup), asking(door) as claude:
        count = await claude.messages.count_tokens(
            model="default",
            system="Be kind.",
            messages=[{"role": "user", "content": "hi"}],
            tools=[PICK],  # type: ignore[list-item]
        )

    assert count.input_tokens == 42
    assert list(model.counted[0].turns) == [SystemTurn("Be kind."), user("hi")]
    assert [spec.name for spec in model.counted[0].tools] == ["lookup", "pick"]


async def test_tokens_are_estimated_for_one_that_cannot(door: Door) -> None:
    model = ScriptedModel()

    async with door.serving(model), asking(door) as claude:

        async def count(content: Any, **more: Any) -> int:
            messages: Any = [{"role": "user", "content": content}]
            return (await claude.messages.count_tokens(model="default", messages=messages, **more)).input_tokens

        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        counts = [await count(""), await count("a" * 400), await count([picture]), await count("", tools=[PICK])]

    assert counts == [4, 104, 1504, 4 + 8 + 24]
    assert model.heard == []


async def test_an_answer_that_is_not_there_is_counted_by_nobody(door: Door) -> None:
    async with door.serving(ScriptedModel()), asking(door) as claude:
        with pytest.raises(anthropic.NotFoundError, match="gpt-9"):
            await claude.messages.count_tokens(model="gpt-9", messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(anthropic.BadRequestError, match="messages"):
            await claude.messages.count_tokens(model="default", messages=[])
