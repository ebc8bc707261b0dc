"""A conversation's answer as a stream, and what reaches the model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.upstreams import Upstream, completes
from tests.server.conversation_entries import WEATHER, lookup
from tests.server.mistral_doors import Behind, frames, function, serving

from ronda import tool
from ronda.core.events import CallDelta, ModelFinished
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

# ---- streams -------------------------------------------------------------------------------------------------------


async def streamed(behind: Behind, path: str, body: Json) -> list[Json]:
    read = frames(await behind.stream(path, {**body, "stream": True}))
    events = [json.loads(data) for _, data in read]
    assert [event for event, _ in read] == [event["type"] for event in events]  # and no [DONE]
    return events


SCRIPTS: dict[str, list[Line]] = {
    "text": [says("one two three")],
    "thoughts": [Line(text="Sunny.", reasoning="hm")],
    "a caller's calls": [calls(Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}), text="I see.")],
    "ours": [calls("lookup", q="x", text="Let me look."), Line(text="Sunny.", reasoning="so")],
    "two of ours": [calls(Call("lookup", {"q": "a"}), Call("lookup", {"q": "b"})), says("Sunny.")],
    "both": [calls(Call("lookup", {"q": "a"}), Call("weather", {"city": "Rome"}))],
    "cut": [Line(text="so", stop="length")],
}


def outputs_of(events: list[Json]) -> list[Json]:
    """Entries, put together from the deltas of a stream."""
    found: dict[int, Json] = {}
    for event in events:
        if "output_index" not in event:
            continue
        entry = found.setdefault(event["output_index"], {"id": event["id"]})
        assert entry["id"] == event["id"]
        match event["type"]:
            case "message.output.delta":
                contents = entry.setdefault("content", [])
                if event["content_index"] == len(contents):
                    contents.append(event["content"])
                elif isinstance(event["content"], str):
                    contents[-1] += event["content"]
                else:
                    contents[-1]["thinking"][0]["text"] += event["content"]["thinking"][0]["text"]
            case "function.call.delta":
                entry |= {name: event[name] for name in ("name", "tool_call_id")}
                entry["arguments"] = entry.get("arguments", "") + event["arguments"]
            case "tool.execution.started":
                entry |= {name: event[name] for name in ("name", "arguments")}
            case "tool.execution.done":
                entry["info"] = event["info"]
    entries = [entry for _, entry in sorted(found.items())]
    # A caller's call is shown as it arrives, before ours beside it run; among the entries it stands last, where clients look.
    return sorted(entries, key=lambda entry: "tool_call_id" in entry)


def without_times(entries: list[Json]) -> list[Json]:
    """Entries as `outputs_of` makes them: a text is a content of one."""
    kept = ("id", "name", "tool_call_id", "arguments", "info")
    found = []
    for entry in entries:
        made = {name: entry[name] for name in kept if name in entry}
        if "content" in entry:
            content = entry["content"]
            texts = [content] if isinstance(content, str) else content
            made["content"] = [one["text"] if isinstance(one, dict) and one["type"] == "text" else one for one in texts]
        found.append(made)
    return found


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["caller's tools", "both kinds of tools"])
async def test_a_stream_adds_up_to_what_the_history_says(door: Door, script: list[Line], tools: Any) -> None:
    declared = [WEATHER] if tools else [WEATHER, function("lookup", q="string")]
    body = {"model": "default", "inputs": "hi", "tools": declared}
    async with serving(door, ScriptedModel(*script), *tools) as behind:
        events = await streamed(behind, "/v1/conversations", body)
        _, history = await behind.ask("GET", f"/v1/conversations/{events[0]['conversation_id']}/history")
    async with serving(door, ScriptedModel(*script), *tools) as behind:
        _, plain = await behind.ask("POST", "/v1/conversations", body)

    assert events[0]["type"] == "conversation.response.started"
    assert events[-1]["type"] == "conversation.response.done"
    assert outputs_of(events) == without_times(history["entries"][1:])
    assert events[-1]["usage"] == plain["usage"]
    ids = {made["id"]: entry["id"] for made, entry in zip(plain["outputs"], history["entries"][1:], strict=True)}
    again = [{**entry, "id": ids[entry["id"]]} for entry in without_times(plain["outputs"])]
    assert again == outputs_of(events)


async def test_the_sdk_reads_every_event_of_a_stream(door: Door) -> None:
    model = ScriptedModel(
        Line(text="Let me look.", reasoning="hm", calls=(Call("lookup", {"q": "x"}),)), says("Sunny.")
    )
    async with serving(door, model, lookup) as behind, behind.client() as client:
        stream = await client.beta.conversations.start_stream_async(model="default", inputs="hi")
        events = [event async for event in stream]

    assert {type(event.data).__name__ for event in events} == {
        "ResponseStartedEvent",
        "MessageOutputEvent",
        "ToolExecutionStartedEvent",
        "ToolExecutionDoneEvent",
        "ResponseDoneEvent",
    }


@tool(preview=["/words"])
async def note(words: str) -> str:
    """Write something down."""
    return "noted"


async def test_arguments_that_are_watched_come_before_their_call_runs(door: Door) -> None:
    """As Mistral's own tools do it: it has started, more of it comes, it is done; and what adds up is what ran."""
    model = ScriptedModel(*[calls("note", words="milk"), says("Done.")] * 2)
    async with serving(door, model, note) as behind, behind.client() as client:
        events = await streamed(behind, "/v1/conversations", {"model": "default", "inputs": "hi"})
        _, history = await behind.ask("GET", f"/v1/conversations/{events[0]['conversation_id']}/history")
        stream = await client.beta.conversations.start_stream_async(model="default", inputs="hi")
        read = [type(event.data).__name__ async for event in stream]

    mine = [event for event in events if event["type"].startswith("tool.execution.")]
    kinds = [event["type"].removeprefix("tool.execution.") for event in mine]
    assert kinds == ["started", *["delta"] * (len(mine) - 2), "done"]
    assert mine[1]["agentic_tool_call_preview"]["patches"][0]["path"] == "/words"
    assert len({(event["id"], event["output_index"]) for event in mine}) == 1
    [entry] = [entry for entry in history["entries"] if entry["type"] == "tool.execution"]
    assert (entry["id"], entry["arguments"]) == (mine[0]["id"], "".join(event["arguments"] for event in mine[:-1]))
    assert [name for name in read if name.startswith("Tool")][:2] == [
        "ToolExecutionStartedEvent",
        "ToolExecutionDeltaEvent",
    ]


class BreaksOff:
    """A model that never ends its call."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        show([CallDelta(0, "c1", "note", '{"words": "mi')])
        raise UpstreamError("torn", retryable=False)


async def test_a_call_that_was_watched_and_broke_off_is_done_and_failed(door: Door) -> None:
    async with serving(door, BreaksOff(), note) as behind:
        events = await streamed(behind, "/v1/conversations", {"model": "default", "inputs": "hi"})

    started, *_, done, _ = events[1:]
    assert (started["type"], done["type"]) == ("tool.execution.started", "tool.execution.done")
    assert (done["id"], done["info"]) == (started["id"], {"failed": True})


async def test_append_and_restart_stream_too(door: Door) -> None:
    model = ScriptedModel(says("0"), says("1"), says("2"))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="hi")
        conversation_id = first.conversation_id
        appended = [
            one.data async for one in await talk.append_stream_async(conversation_id=conversation_id, inputs="more")
        ]
        restarted = [
            one.data
            async for one in await talk.restart_stream_async(
                conversation_id=conversation_id, from_entry_id=first.outputs[0].id, inputs="other"
            )
        ]

    assert [one.content for one in (*appended, *restarted) if one.type == "message.output.delta"] == ["1", "2"]
    assert appended[0].conversation_id == conversation_id != restarted[0].conversation_id


async def test_a_stream_that_fails_ends_with_an_error(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="a", text="Let me see."), fails("no way", 400))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        stream = await client.beta.conversations.start_stream_async(model="default", inputs="hi")
        events = [event.data async for event in stream]

    assert (events[0].type, events[-1].type) == ("conversation.response.started", "conversation.response.error")
    assert (events[-1].message, events[-1].code) == ("no way", 400)


# ---- what reaches the model ----------------------------------------------------------------------------------------


async def test_arguments_of_a_conversation_hold_and_those_of_a_request_come_first(door: Door) -> None:
    acts = [completes("x")] * 2
    async with Upstream(*acts) as upstream, serving(door, upstream.url, spec="openai-chat:small") as behind:
        body = {"model": "default", "inputs": "hi", "completion_args": {"temperature": 0.5, "max_tokens": 7}}
        _, first = await behind.ask("POST", "/v1/conversations", body)
        path = f"/v1/conversations/{first['conversation_id']}"
        await behind.ask("POST", path, {"inputs": "more", "completion_args": {"max_tokens": 9}})

    assert [(one["temperature"], one["max_tokens"]) for one in upstream.requests] == [(0.5, 7), (0.5, 9)]


async def test_all_kinds_of_entries_may_be_sent(door: Door) -> None:
    inputs: list[Any] = [
        {"type": "message.input", "role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"type": "message.output", "content": "Let me see."},
        {"type": "function.call", "tool_call_id": "c1", "name": "weather", "arguments": {"city": "Rome"}},
        {"type": "function.result", "tool_call_id": "c1", "result": "40"},
        {"type": "tool.execution", "name": "lookup", "arguments": "{}", "info": {"result": "found"}},
        {
            "type": "agent.handoff",
            "previous_agent_id": "a",
            "previous_agent_name": "A",
            "next_agent_id": "b",
            "next_agent_name": "B",
        },
        {"type": "message.input", "role": "user", "content": "and?"},
    ]
    model = ScriptedModel(says("x"))
    async with serving(door, model) as behind, behind.client() as client:
        answer = await client.beta.conversations.start_async(model="default", inputs=inputs)
        history = await client.beta.conversations.get_history_async(conversation_id=answer.conversation_id)

    [heard] = model.heard
    assert isinstance(heard[3], AssistantTurn)
    [execution] = heard[3].calls
    assert heard == [
        user("hi"),
        AssistantTurn((Text("Let me see."), ToolCall("c1", "weather", '{"city":"Rome"}')), "tool_calls"),
        ToolTurn((ToolResult("c1", "40"),)),
        AssistantTurn((ToolCall(execution.id, "lookup", "{}"),), "tool_calls"),
        ToolTurn((ToolResult(execution.id, "found"),)),
        user("and?"),
    ]
    assert [entry.type for entry in history.entries] == [
        entry["type"] for entry in (*inputs, {"type": "message.output"})
    ]


async def test_a_prefix_begins_the_answer(door: Door) -> None:
    inputs = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "The sky", "prefix": True}]
    async with serving(door, ScriptedModel(says(" is blue"))) as behind:
        _, answer = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": inputs})

    assert answer["outputs"][0]["content"] == "The sky is blue"
