"""Conversations that the server keeps: start, append, restart, history, messages, streams, through Mistral's SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json, Remembering, Upstream, completes, soon
from tests.server.mistral_doors import Behind, frames, function, serving

from ronda import tool
from ronda.core.events import CallDelta, ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import UpstreamError
from ronda.store.conversations import RunRow
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

WEATHER = function("weather", city="string")
CALLED = AssistantTurn((ToolCall("call_0_0", "weather", '{"city":"Rome"}'),), "tool_calls")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def brief(entries: list[Any]) -> list[tuple[str, Any]]:
    """What matters of entries, read by the SDK."""
    return [
        (
            entry.type,
            getattr(entry, "content", None) or getattr(entry, "arguments", None) or getattr(entry, "result", None),
        )
        for entry in entries
    ]


async def test_a_conversation_is_started_continued_and_read(door: Door) -> None:
    model = ScriptedModel(says("Hello."), says("Monet."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(
            model="default", inputs="hi", instructions="Be brief", name="N", metadata={"a": 1}
        )
        second = await talk.append_async(conversation_id=first.conversation_id, inputs="Who?")
        history = await talk.get_history_async(conversation_id=first.conversation_id)
        messages = await talk.get_messages_async(conversation_id=first.conversation_id)
        found = await talk.get_async(conversation_id=first.conversation_id)

    assert (first.object, second.conversation_id) == ("conversation.response", first.conversation_id)
    assert brief(first.outputs) == [("message.output", "Hello.")]
    assert (first.outputs[0].role, first.outputs[0].model) == ("assistant", "test")
    assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (10, 5, 15)
    assert model.heard[1] == [
        SystemTurn("Be brief"),
        user("hi"),
        AssistantTurn((Text("Hello."),)),
        user("Who?"),
    ]
    assert brief(history.entries) == [
        ("message.input", "hi"),
        ("message.output", "Hello."),
        ("message.input", "Who?"),
        ("message.output", "Monet."),
    ]
    assert history.entries[1] == first.outputs[0]
    assert history.entries[3] == second.outputs[0]
    assert messages.messages == history.entries
    assert (found.model, found.instructions, found.name, found.metadata) == ("default", "Be brief", "N", {"a": 1})
    assert found.updated_at > found.created_at


async def test_a_conversation_with_an_agent_follows_it(door: Door) -> None:
    model = ScriptedModel(says("0"), says("1"), says("2"))
    async with serving(door, model) as behind, behind.client() as client:
        agents, talk = client.beta.agents, client.beta.conversations
        id = (await agents.create_async(model="default", name="A", instructions="first")).id
        free = (await talk.start_async(agent_id=id, inputs="hi")).conversation_id
        bound = (await talk.start_async(agent_id=id, agent_version=0, inputs="hi")).conversation_id
        await agents.update_async(agent_id=id, instructions="second")
        model._lines += [Line(text="3"), Line(text="4")]
        answer = await talk.append_async(conversation_id=free, inputs="more")
        await talk.append_async(conversation_id=bound, inputs="more")
        found = [await talk.get_async(conversation_id=one) for one in (free, bound)]

    assert [heard[0] for heard in model.heard] == [SystemTurn(one) for one in ("first", "first", "second", "first")]
    assert [(one.agent_id, one.agent_version) for one in found] == [(id, None), (id, 0)]
    assert answer.outputs[0].agent_id == id


async def test_function_calls_go_out_and_their_results_come_back(door: Door) -> None:
    model = ScriptedModel(calls("weather", city="Rome"), says("Hot."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="hi", tools=[WEATHER])
        [call] = first.outputs
        result = {"type": "function.result", "tool_call_id": call.tool_call_id, "result": "40"}
        second = await talk.append_async(conversation_id=first.conversation_id, inputs=[result])
        history = await talk.get_history_async(conversation_id=first.conversation_id)

    assert (call.type, call.name, call.arguments) == ("function.call", "weather", '{"city":"Rome"}')
    assert model.heard[1] == [user("hi"), CALLED, ToolTurn((ToolResult("call_0_0", "40"),))]
    assert brief(second.outputs) == [("message.output", "Hot.")]
    assert brief(history.entries) == [
        ("message.input", "hi"),
        ("function.call", '{"city":"Rome"}'),
        ("function.result", "40"),
        ("message.output", "Hot."),
    ]


async def test_tools_of_the_server_run_inside_the_answer_and_beside_the_callers(door: Door) -> None:
    both = calls(Call("lookup", {"q": "b"}), Call("weather", {"city": "Rome"}), text="Both.")
    model = ScriptedModel(calls("lookup", q="a"), both, says("Done."))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="hi", tools=[WEATHER])
        call = first.outputs[-1]
        result = {"type": "function.result", "tool_call_id": call.tool_call_id, "result": "40"}
        await talk.append_async(conversation_id=first.conversation_id, inputs=[result])

    assert brief(first.outputs) == [
        ("tool.execution", '{"q":"a"}'),
        ("message.output", "Both."),
        ("tool.execution", '{"q":"b"}'),
        ("function.call", '{"city":"Rome"}'),
    ]
    assert [one.info for one in first.outputs if one.type == "tool.execution"] == [
        {"result": "found a"},
        {"result": "found b"},
    ]
    assert first.usage.connectors == {"lookup": 2}
    assert model.heard[2][-1] == ToolTurn((ToolResult("call_1_0", "found b"), ToolResult("call_1_1", "40")))
    assert len(model.heard[2]) == 5


async def test_a_new_message_may_come_in_the_place_of_results(door: Door) -> None:
    model = ScriptedModel(calls("weather", city="Rome"), says("Fine."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        id = (await talk.start_async(model="default", inputs="hi", tools=[WEATHER])).conversation_id
        await talk.append_async(conversation_id=id, inputs="never mind")

    said = model.heard[1]
    assert said[:2] == [user("hi"), CALLED]
    assert isinstance(said[2], ToolTurn)
    assert said[2].results[0].failed
    assert said[3:] == [user("never mind")]


# ---- streams -------------------------------------------------------------------------------------------------------------


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
        id = first.conversation_id
        appended = [one.data async for one in await talk.append_stream_async(conversation_id=id, inputs="more")]
        restarted = [
            one.data
            async for one in await talk.restart_stream_async(
                conversation_id=id, from_entry_id=first.outputs[0].id, inputs="other"
            )
        ]

    assert [one.content for one in (*appended, *restarted) if one.type == "message.output.delta"] == ["1", "2"]
    assert appended[0].conversation_id == id != restarted[0].conversation_id


async def test_a_stream_that_fails_ends_with_an_error(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="a", text="Let me see."), fails("no way", 400))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        stream = await client.beta.conversations.start_stream_async(model="default", inputs="hi")
        events = [event.data async for event in stream]

    assert (events[0].type, events[-1].type) == ("conversation.response.started", "conversation.response.error")
    assert (events[-1].message, events[-1].code) == ("no way", 400)


# ---- what reaches the model ------------------------------------------------------------------------------------------------


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


# ---- what is refused -------------------------------------------------------------------------------------------------------


REFUSED: dict[str, tuple[Json, int, Any]] = {
    "neither agent nor model": ({"inputs": "hi"}, 422, ["body"]),
    "both": ({"inputs": "hi", "model": "default", "agent_id": "default"}, 422, ["body"]),
    "nothing said": ({"inputs": [], "model": "default"}, 422, ["body", "inputs"]),
    "no inputs": ({"model": "default"}, 422, ["body", "inputs"]),
    "an entry": ({"model": "default", "inputs": [{"type": "x"}]}, 422, ["body", "inputs", 0, "type"]),
    "a role": (
        {"model": "default", "inputs": [{"role": "system", "content": "x"}]},
        422,
        ["body", "inputs", 0, "role"],
    ),
    "a model of another server": ({"model": "gpt-9", "inputs": "hi"}, 404, "model_not_found"),
    "an agent that is not there": ({"agent_id": "ag_1", "inputs": "hi"}, 404, "agent_not_found"),
    "a tool we have not": (
        {"model": "default", "inputs": "hi", "tools": [{"type": "web_search"}]},
        422,
        ["body", "tools", 0, "type"],
    ),
    "instructions beside an agent": (
        {"agent_id": "default", "inputs": "hi", "instructions": "x"},
        422,
        ["body", "instructions"],
    ),
    "a version beside a model": (
        {"model": "default", "inputs": "hi", "agent_version": 1},
        422,
        ["body", "agent_version"],
    ),
    "guardrails that must be asked": (
        {"model": "default", "inputs": "hi", "guardrails": [{"block_on_error": True}]},
        403,
        "guardrail_error",
    ),
    "a result nobody waits for": (
        {"model": "default", "inputs": [{"type": "function.result", "tool_call_id": "x", "result": "y"}]},
        400,
        None,
    ),
    "handoff_execution": (
        {"model": "default", "inputs": "hi", "handoff_execution": "?"},
        422,
        ["body", "handoff_execution"],
    ),
}


@pytest.mark.parametrize(("body", "status", "said"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_conversation_that_could_not_be_is_refused_and_not_kept(
    door: Door, body: Json, status: int, said: Any
) -> None:
    async with serving(door, ScriptedModel()) as behind:
        got, answer = await behind.ask("POST", "/v1/conversations", body)
        _, listed = await behind.ask("GET", "/v1/conversations")

    assert got == status, answer
    assert (answer["detail"][0]["loc"] if status == 422 else answer["code"]) == said
    assert listed == []


async def test_what_cannot_be_appended_is_refused(door: Door) -> None:
    async with serving(door, ScriptedModel(says("x"))) as behind:
        _, first = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "hi"})
        path = f"/v1/conversations/{first['conversation_id']}"
        result = {"type": "function.result", "tool_call_id": "zzz", "result": "y"}
        confirmation = {"tool_call_id": "zzz", "confirmation": "allow"}
        entry = first["outputs"][0]["id"]
        asked = [
            await behind.ask("POST", path, {}),
            await behind.ask("POST", path, {"tool_confirmations": [confirmation]}),
            await behind.ask("POST", path, {"inputs": [result]}),
            await behind.ask("POST", f"{path}/restart", {"inputs": "x"}),
            await behind.ask("POST", f"{path}/restart", {"from_entry_id": "nope", "inputs": "x"}),
            await behind.ask("POST", f"{path}/restart", {"from_entry_id": entry}),
            await behind.ask("POST", f"{path}/restart", {"from_entry_id": entry, "inputs": "x", "agent_version": 1}),
        ]

    assert [status for status, _ in asked] == [422, 422, 400, 422, 404, 422, 422]
    assert asked[1][1]["detail"][0]["loc"] == ["body", "tool_confirmations", 0, "tool_call_id"]
    assert "zzz" in asked[2][1]["message"]


async def test_a_conversation_that_the_journal_has_forgotten_says_so(door: Door, tmp_path: Path) -> None:
    catalog = str(tmp_path / "catalog.db")
    async with serving(door, ScriptedModel(says("x")), catalog=catalog) as behind:
        _, first = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "hi"})
    async with serving(door, ScriptedModel(), catalog=catalog) as behind:  # with a journal that has nothing
        status, said = await behind.ask("POST", f"/v1/conversations/{first['conversation_id']}", {"inputs": "more"})

    assert (status, said["code"]) == (404, "conversation_gone")


async def test_a_conversation_that_another_server_answers_in_is_busy(door: Door, tmp_path: Path) -> None:
    """Also where nothing of the answer is kept, so that no run in the journal tells of it."""
    model, catalog, journal = Slow(), str(tmp_path / "catalog.db"), Remembering()
    async with soon(), serving(door, model, catalog=catalog, journal=journal) as first:
        _, begun = await first.ask("POST", "/v1/conversations", {"model": "default", "inputs": "a"})
        path = f"/v1/conversations/{begun['conversation_id']}"
        going_on = asyncio.create_task(first.ask("POST", path, {"inputs": "b", "store": False}))
        await model.asked.wait()
        async with serving(door, ScriptedModel(says("c")), catalog=catalog, journal=journal) as second:
            status, refused = await second.ask("POST", path, {"inputs": "c"})
            model.let.set()
            await going_on
            after, _ = await second.ask("POST", path, {"inputs": "c"})

    assert (status, refused["code"], after) == (409, "conversation_busy", 200)


async def test_another_server_that_went_on_first_wins(door: Door, tmp_path: Path) -> None:
    """Two servers share the catalog: the one that adds its run second is told, and its run is over."""
    model = Slow()
    async with serving(door, model, catalog=str(tmp_path / "catalog.db")) as behind:
        _, first = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "a"})
        id = first["conversation_id"]
        rows = behind.server.catalog.conversations

        async def none_yet(owner: str, id: str) -> list[RunRow]:
            return []

        kept_runs = rows.runs
        rows.runs = none_yet  # type: ignore[method-assign]  # it looked before the other one wrote
        status, said = await behind.ask("POST", f"/v1/conversations/{id}", {"inputs": "b"})
        rows.runs = kept_runs  # type: ignore[method-assign]
        [start, *rest] = await behind.journal.read(behind.journal.runs[-1])

    assert (status, said["code"]) == (409, "conversation_busy")
    assert [type(event).__name__ for event in rest] == ["RunFinished"]
    assert start is not None
    assert model.count == 1


@pytest.mark.parametrize("asked", [{}, {"items": [{"role": "user", "content": "hi"}], "metadata": {"a": "b"}}])
async def test_openais_conversations_are_told_what_this_is(door: Door, asked: Json) -> None:
    """They have the same address."""
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(openai.BadRequestError) as refused:
            await served.client().conversations.create(**asked)

    assert "this address is Mistral's" in str(refused.value)
    assert "previous_response_id" in str(refused.value)


class Slow:
    """Answers the first at once, and the next when it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()
        self.count = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.count += 1
        if self.count == 2:
            if request.stream:
                show([TextDelta("so ")])
            self.asked.set()
            await self.let.wait()
        return ModelFinished(AssistantTurn((Text(f"so {self.count}"),)))
