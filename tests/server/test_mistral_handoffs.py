"""Agents that hand a conversation over to each other: in conversations and in completions, through Mistral's SDK."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mistralai.client import errors
from tests.interaction.doors import Door, Json, Remembering, soon
from tests.server.mistral_doors import MINE, Behind, frames, function, serving

from ronda import tool
from ronda.core.events import PREVIEWS, CallDelta, Event, ModelFinished, RunStarted
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.core.run import rebuild
from ronda.drive import Show
from ronda.journal.sqlite import SqliteJournal
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says
from ronda.wire.mistral.handoffs import MOST_HANDOFFS

WEATHER = function("weather", city="string")
TO_B, TO_A = "handoff_to_Billing", "handoff_to_Front_desk"
HANDED = "The conversation was handed over to the agent 'Billing'."


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def two_agents(client: Any, a: Json | None = None, b: Json | None = None) -> tuple[str, str]:
    """A front desk, which can hand over to billing; and billing."""
    agents = client.beta.agents
    billing = await agents.create_async(
        **{
            "model": "default",
            "name": "Billing",
            "instructions": "You bill.",
            "description": "Knows bills.",
            **(b or {}),
        }
    )
    desk = await agents.create_async(
        **{
            "model": "default",
            "name": "Front desk",
            "instructions": "You greet.",
            "handoffs": [billing.id],
            **(a or {}),
        }
    )
    return desk.id, billing.id


def brief(entries: list[Any]) -> list[tuple[str, Any, Any]]:
    """What matters of entries, read by the SDK: the type, whose it is, what it says."""
    found: list[tuple[str, Any, Any]] = []
    for entry in entries:
        if entry.type == "agent.handoff":
            said = [entry.previous_agent_name, entry.next_agent_name]
            found.append((entry.type, [entry.previous_agent_id, entry.next_agent_id], said))
        else:
            text = getattr(entry, "content", None) or getattr(entry, "name", None) or getattr(entry, "result", None)
            found.append((entry.type, getattr(entry, "agent_id", None), text))
    return found


def called(*names: str, turn: int = 0, text: str = "") -> AssistantTurn:
    """What the script's turn looks like in a conversation."""
    asked = [ToolCall(f"call_{turn}_{n}", name, "{}") for n, name in enumerate(names)]
    return AssistantTurn((*((Text(text),) if text else ()), *asked), "tool_calls")


async def streamed(behind: Behind, path: str, body: Json) -> list[Json]:
    return [json.loads(data) for _, data in frames(await behind.stream(path, {**body, "stream": True}))]


# ---- making agents ----------------------------------------------------------------------------------------------------


async def test_an_agent_keeps_whom_it_hands_over_to(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        found = await client.beta.agents.get_async(agent_id=desk)
        back = await client.beta.agents.update_async(agent_id=billing, handoffs=[desk, billing])

    assert found.handoffs == [billing]
    assert back.handoffs == [desk, billing]


async def test_a_handoff_to_nobody_is_refused_by_its_id(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind:
        _, other = await behind.ask("POST", "/v1/agents", {"model": "default", "name": "O"}, key="other")
        _, mine = await behind.ask("POST", "/v1/agents", {"model": "default", "name": "M"})
        body = {"model": "default", "name": "A", "handoffs": [mine["id"], other["id"]]}
        created, said = await behind.ask("POST", "/v1/agents", body)
        updated, too = await behind.ask("PATCH", f"/v1/agents/{mine['id']}", {"handoffs": ["ag_no"]})
        _, listed = await behind.ask("GET", "/v1/agents")

    [problem] = said["detail"]
    assert (created, problem["loc"], problem["input"]) == (422, ["body", "handoffs", 1], other["id"])
    assert other["id"] in problem["msg"]
    assert (updated, too["detail"][0]["loc"]) == (422, ["body", "handoffs", 0])
    assert "'ag_no' does not exist" in too["detail"][0]["msg"]
    assert [one["id"] for one in listed] == [mine["id"]]


async def test_an_agent_is_changed_although_one_it_hands_over_to_is_gone(door: Door) -> None:
    model = ScriptedModel(says("Hello."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        await client.beta.agents.delete_async(agent_id=billing)
        changed = await client.beta.agents.update_async(agent_id=desk, name="Desk")
        status, _ = await behind.ask("PATCH", f"/v1/agents/{desk}", {"handoffs": [billing]})
        await client.beta.conversations.start_async(agent_id=desk, inputs="hi")

    assert (changed.name, changed.handoffs, status) == ("Desk", [billing], 422)
    assert model.requests[0].tools == ()


async def test_a_model_sees_one_tool_for_each_agent_it_may_hand_over_to(door: Door) -> None:
    model = ScriptedModel(says("Hello."))
    long = "x" * 80
    taken = function("handoff_to_Billing")
    async with serving(door, model, lookup) as behind, behind.client() as client:
        agents = client.beta.agents
        made = [
            await agents.create_async(model="default", name=name, **more)
            for name, more in [
                ("Billing", {"description": "Knows bills."}),
                ("Billing", {"instructions": "Do  bills.\nAlso."}),
                ("Müller & Söhne", {}),
                ("会計", {}),
                (long, {}),
            ]
        ]
        ids = [one.id for one in made]
        desk = await agents.create_async(model="default", name="D", handoffs=[*ids, ids[0]], tools=[taken])
        await client.beta.conversations.start_async(agent_id=desk.id, inputs="hi")

    tools = {spec.name: spec for spec in model.requests[0].tools}
    head = "Hand the conversation over to the agent '{}', which answers from then on."
    assert {name: spec.description for name, spec in tools.items()} == {
        "lookup": "Look something up.",
        "handoff_to_Billing": "handoff_to_Billings",
        "handoff_to_Billing_2": head.format("Billing") + " Knows bills.",
        "handoff_to_Billing_3": head.format("Billing") + " Do bills. Also.",
        "handoff_to_Muller_Sohne": head.format("Müller & Söhne"),
        "handoff_to_agent": head.format("会計"),
        ("handoff_to_" + long)[:64]: head.format(long),
    }


class Slowly:
    """Calls a function and hands over, each under a name that comes in two pieces."""

    def __init__(self) -> None:
        self.seen = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.turns[0] == SystemTurn("You bill."):
            return ModelFinished(AssistantTurn((Text("You owe 5."),)))
        show([CallDelta(0, "a", "handoff_to_", "")])
        show([CallDelta(0, "a", TO_B, "{}")])
        show([CallDelta(1, "b", "handoff_to_", '{"city":')])
        show([CallDelta(1, "b", "handoff_to_rain", "")])
        async with soon():
            await self.seen.wait()
        show([CallDelta(1, "b", "handoff_to_rain", '"Rome"}')])
        asked = (ToolCall("a", TO_B, "{}"), ToolCall("b", "handoff_to_rain", '{"city":"Rome"}'))
        return ModelFinished(AssistantTurn(asked, "tool_calls"))


async def test_a_handoff_never_goes_out_as_a_call_and_others_do_as_they_come(door: Door) -> None:
    model = Slowly()
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client, {"tools": [function("handoff_to_rain", city="string")]})
        pieces = []
        async for event in await client.beta.conversations.start_stream_async(agent_id=desk, inputs="hi"):
            if event.data.type == "function.call.delta":
                pieces.append((event.data.tool_call_id, event.data.name, event.data.arguments, event.data.output_index))
                model.seen.set()

    assert pieces == [("b", "handoff_to_rain", '{"city":', 0), ("b", "handoff_to_rain", '"Rome"}', 0)]


# ---- conversations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_the_next_agent_answers_in_the_same_request(door: Door, tools: Any) -> None:
    model = ScriptedModel(calls(TO_B, text="One moment."), says("You owe 5."), says("Yes, 5."))
    async with serving(door, model, *tools) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client, b={"completion_args": {"temperature": 0.5}})
        first = await talk.start_async(agent_id=desk, inputs="hi")
        id = first.conversation_id
        second = await talk.append_async(conversation_id=id, inputs="Sure?")
        history = await talk.get_history_async(conversation_id=id)
        found = await talk.get_async(conversation_id=id)
        [listed] = await talk.list_async()
        runs = [await behind.journal.read(run) for run in behind.journal.runs]

    handoff = ("agent.handoff", [desk, billing], ["Front desk", "Billing"])
    assert brief(first.outputs) == [
        ("message.output", desk, "One moment."),
        handoff,
        ("message.output", billing, "You owe 5."),
    ]
    assert (first.usage.prompt_tokens, first.usage.completion_tokens, first.usage.total_tokens) == (20, 10, 30)
    assert brief(second.outputs) == [("message.output", billing, "Yes, 5.")]
    said = [
        user("hi"), called(TO_B, text="One moment."), ToolTurn((ToolResult("call_0_0", HANDED),)),
    ]  # fmt: skip
    assert model.heard == [
        [SystemTurn("You greet."), user("hi")],
        [SystemTurn("You bill."), *said],
        [SystemTurn("You bill."), *said, AssistantTurn((Text("You owe 5."),)), user("Sure?")],
    ]
    assert [request.options.temperature for request in model.requests] == [None, 0.5, 0.5]
    assert [{spec.name for spec in request.tools} - {"lookup"} for request in model.requests] == [{TO_B}, set(), set()]
    assert history.entries == [history.entries[0], *first.outputs, history.entries[4], *second.outputs]
    assert [(one.agent_id, one.agent_version) for one in (found, listed)] == [(billing, None)] * 2
    starts = [events[0] for events in runs]
    assert [type(start) for start in starts] == [RunStarted] * 3
    assert [start.parent for start in starts if isinstance(start, RunStarted)] == [
        None, (behind.journal.runs[0], len(runs[0])), (behind.journal.runs[1], len(runs[1])),
    ]  # fmt: skip
    assert [rebuild(events).ended.reason for events in runs] == ["tool_calls", "stop", "stop"]  # type: ignore[union-attr]  # they have ended


SCRIPTS: dict[str, list[Line]] = {
    "a handoff": [calls(TO_B, text="One moment."), says("You owe 5.")],
    "a silent handoff": [calls(TO_B), Line(text="You owe 5.", reasoning="hm")],
    "there and back": [calls(TO_B), calls(TO_A, text="Not mine."), says("Hello again.")],
    "beside a tool of ours": [calls(Call("lookup", {"q": "x"}), Call(TO_B)), calls("lookup", q="y"), says("So.")],
    "beside a function": [calls(Call(TO_B), Call("weather", {"city": "Rome"}), text="Wait.")],
    "twice in a turn": [calls(TO_B, TO_B), says("You owe 5.")],
    "then a function": [calls(TO_B), calls(Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"}))],
}


def outputs_of(events: list[Json]) -> list[Json]:
    """Entries, put together from a stream: in the order of their places, each delta at its own."""
    found: dict[int, Json] = {}
    for event in [one for one in events if "output_index" in one]:
        entry = found.setdefault(event["output_index"], {"id": event["id"]})
        assert entry["id"] == event["id"]
        kind = event["type"]
        assert event["output_index"] == len(found) - 1 or kind == "tool.execution.done"
        if kind.startswith("message") and isinstance(event["content"], str):
            entry["content"] = entry.get("content", "") + event["content"]
        if kind.startswith("function"):
            entry["arguments"] = entry.get("arguments", "") + event["arguments"]
        dropped = ("type", "content", "arguments", "output_index", "content_index", "created_at", "role", "model")
        entry |= {name: value for name, value in event.items() if name not in dropped}
    return list(found.values())


def as_streamed(entry: Json) -> Json:
    dropped = ("object", "type", "created_at", "completed_at", "role", "model")
    made = {name: value for name, value in entry.items() if name not in dropped}
    if entry["type"] == "tool.execution":
        del made["arguments"]
    if isinstance(entry.get("content"), list):
        made["content"] = "".join(one["text"] for one in entry["content"] if one["type"] == "text")
    return made


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_a_stream_adds_up_to_the_plain_answer_and_to_the_history(
    door: Door, script: list[Line], tools: Any
) -> None:
    declared = [WEATHER] if tools else [WEATHER, function("lookup", q="string")]
    model = ScriptedModel(*script)
    async with serving(door, model, *tools) as behind, behind.client() as client:
        desk, billing = await two_agents(client, {"tools": declared}, {"tools": declared})
        await client.beta.agents.update_async(agent_id=billing, handoffs=[desk])
        body = {"agent_id": desk, "inputs": "hi"}
        events = await streamed(behind, "/v1/conversations", body)
        _, history = await behind.ask("GET", f"/v1/conversations/{events[0]['conversation_id']}/history")
        model._lines[len(model.heard) :] = script
        _, plain = await behind.ask("POST", "/v1/conversations", body)

    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("conversation.response.started", "conversation.response.done")
    assert kinds.count("conversation.response.done") == 1
    assert outputs_of(events) == [as_streamed(entry) for entry in history["entries"][1:]]
    assert events[-1]["usage"] == plain["usage"]
    named = [(entry["type"], entry.get("agent_id"), entry.get("name")) for entry in plain["outputs"]]
    assert named == [(entry["type"], entry.get("agent_id"), entry.get("name")) for entry in history["entries"][1:]]


async def test_the_sdk_reads_a_stream_that_goes_on_behind_a_handoff(door: Door) -> None:
    model = ScriptedModel(calls(TO_B, text="One moment."), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        stream = await client.beta.conversations.start_stream_async(agent_id=desk, inputs="hi")
        events = [event.data async for event in stream]
        [conversation] = await client.beta.conversations.list_async()

    said: list[Any] = []
    for event in events:
        if event.type == "message.output.delta" and said and said[-1][:2] == (event.type, event.output_index):
            said[-1] = (*said[-1][:3], said[-1][3] + event.content)
        elif event.type == "message.output.delta":
            said.append((event.type, event.output_index, event.agent_id, event.content))
        elif event.type == "agent.handoff.started":
            said.append((event.type, event.output_index, event.previous_agent_id, event.previous_agent_name))
        elif event.type == "agent.handoff.done":
            said.append((event.type, event.output_index, event.next_agent_id, event.next_agent_name))
    assert said == [
        ("message.output.delta", 0, desk, "One moment."),
        ("agent.handoff.started", 1, desk, "Front desk"),
        ("agent.handoff.done", 1, billing, "Billing"),
        ("message.output.delta", 2, billing, "You owe 5."),
    ]
    assert conversation.agent_id == billing


async def test_the_other_calls_of_a_turn_are_answered_first_and_a_second_handoff_is_not(door: Door) -> None:
    model = ScriptedModel(calls(Call(TO_B), Call("lookup", {"q": "x"}), Call("handoff_to_Legal")), says("You owe 5."))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        legal = await client.beta.agents.create_async(model="default", name="Legal")
        desk, billing = await two_agents(client)
        await client.beta.agents.update_async(agent_id=desk, handoffs=[billing, legal.id])
        answer = await client.beta.conversations.start_async(agent_id=desk, inputs="hi")

    assert brief(answer.outputs) == [
        ("tool.execution", desk, "lookup"),
        ("agent.handoff", [desk, billing], ["Front desk", "Billing"]),
        ("message.output", billing, "You owe 5."),
    ]
    twice = "Error: not handed over: a turn hands over once, and 'Billing' was asked for first."
    assert model.heard[1][-1] == ToolTurn(
        (
            ToolResult("call_0_0", HANDED),
            ToolResult("call_0_1", "found x"),
            ToolResult("call_0_2", twice, failed=True),
        )
    )


@pytest.mark.parametrize("tools", [(), (lookup,)], ids=["no tools of ours", "a tool of ours"])
async def test_a_function_beside_a_handoff_is_answered_by_the_caller_before_the_next_agent_is_asked(
    door: Door, tools: Any
) -> None:
    model = ScriptedModel(calls(Call(TO_B), Call("weather", {"city": "Rome"})), says("Hot."))
    async with serving(door, model, *tools) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client, {"tools": [WEATHER]})
        first = await talk.start_async(agent_id=desk, inputs="hi")
        empty, _ = await behind.ask("POST", f"/v1/conversations/{first.conversation_id}", {})
        result = {"type": "function.result", "tool_call_id": first.outputs[0].tool_call_id, "result": "40"}
        second = await talk.append_async(conversation_id=first.conversation_id, inputs=[result])

    assert brief(first.outputs) == [
        ("function.call", desk, "weather"),
        ("agent.handoff", [desk, billing], ["Front desk", "Billing"]),
    ]
    assert empty == 422
    assert brief(second.outputs) == [("message.output", billing, "Hot.")]
    assert model.heard[1][0] == SystemTurn("You bill.")
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", HANDED), ToolResult("call_0_1", "40")))


@pytest.mark.parametrize("inputs", [None, [], "go on"], ids=["nothing", "no entries", "a message"])
async def test_a_client_that_hands_over_itself_goes_on_by_appending(door: Door, inputs: Any) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client)
        first = await talk.start_async(agent_id=desk, inputs="hi", handoff_execution="client")
        id = first.conversation_id
        found = await talk.get_async(conversation_id=id)
        asked = len(model.heard)
        second = await talk.append_async(conversation_id=id, **({} if inputs is None else {"inputs": inputs}))
        again, _ = await behind.ask("POST", f"/v1/conversations/{id}", {"inputs": []})
        history = await talk.get_history_async(conversation_id=id)

    handoff = ("agent.handoff", [desk, billing], ["Front desk", "Billing"])
    assert (brief(first.outputs), asked, found.agent_id) == ([handoff], 1, billing)
    assert brief(second.outputs) == [("message.output", billing, "You owe 5.")]
    more = [user("go on")] if inputs else []
    assert model.heard[1] == [
        SystemTurn("You bill."), user("hi"), called(TO_B), ToolTurn((ToolResult("call_0_0", HANDED),)), *more,
    ]  # fmt: skip
    assert again == 422
    kinds = ["message.input", "agent.handoff", *["message.input" for _ in more], "message.output"]
    assert [entry.type for entry in history.entries] == kinds


async def test_a_stream_of_a_client_that_hands_over_itself_ends_with_the_handoff(door: Door) -> None:
    async with serving(door, ScriptedModel(calls(TO_B))) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        body = {"agent_id": desk, "inputs": "hi", "handoff_execution": "client"}
        events = await streamed(behind, "/v1/conversations", body)

    assert [event["type"] for event in events] == [
        "conversation.response.started", "agent.handoff.started", "agent.handoff.done", "conversation.response.done",
    ]  # fmt: skip


async def test_agents_that_hand_over_in_circles_are_stopped_and_leave_the_conversation_as_it_was(door: Door) -> None:
    circle = [calls(TO_B if n % 2 == 0 else TO_A) for n in range(9)]
    model = ScriptedModel(says("Hello."), *circle, *circle, says("Still here."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client)
        await client.beta.agents.update_async(agent_id=billing, handoffs=[desk])
        id = (await talk.start_async(agent_id=desk, inputs="hi")).conversation_id
        with pytest.raises(errors.SDKError) as plain:
            await talk.append_async(conversation_id=id, inputs="bill?")
        events = await streamed(behind, f"/v1/conversations/{id}", {"inputs": "bill?"})
        found = await talk.get_async(conversation_id=id)
        after = await talk.append_async(conversation_id=id, inputs="and?")
        history = await talk.get_history_async(conversation_id=id)

    why = "the agents handed over 8 times in this request, and 'Front desk' wants to again"
    assert plain.value.status_code == 502
    assert why in json.loads(plain.value.body)["message"]
    kinds = [event["type"] for event in events]
    assert kinds.count("agent.handoff.done") == 9
    assert (kinds[-1], events[-1]["code"]) == ("conversation.response.error", 502)
    assert why in events[-1]["message"]
    assert len(model.heard) == 20
    assert found.agent_id == desk
    assert brief(after.outputs) == [("message.output", desk, "Still here.")]
    assert [entry.type for entry in history.entries] == ["message.input", "message.output"] * 2
    assert model.heard[-1] == [
        SystemTurn("You greet."), user("hi"), AssistantTurn((Text("Hello."),)), user("and?"),
    ]  # fmt: skip


async def test_eight_handoffs_in_one_request_are_allowed(door: Door) -> None:
    circle = [calls(TO_B if n % 2 == 0 else TO_A) for n in range(8)]
    async with serving(door, ScriptedModel(*circle, says("Hello."))) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        await client.beta.agents.update_async(agent_id=billing, handoffs=[desk])
        answer = await client.beta.conversations.start_async(agent_id=desk, inputs="hi")

    assert [entry.type for entry in answer.outputs] == [*["agent.handoff"] * 8, "message.output"]
    assert (answer.outputs[-1].agent_id, answer.usage.total_tokens) == (desk, 9 * 15)


async def test_an_agent_that_fails_behind_a_handoff_leaves_the_conversation_as_it_was(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), fails("no way", 400), calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, _ = await two_agents(client)
        events = await streamed(behind, "/v1/conversations", {"agent_id": desk, "inputs": "hi"})
        id = events[0]["conversation_id"]
        found = await talk.get_async(conversation_id=id)
        empty = await talk.get_history_async(conversation_id=id)
        answer = await talk.append_async(conversation_id=id, inputs="hi")

    assert [event["type"] for event in events] == [
        "conversation.response.started", "agent.handoff.started", "agent.handoff.done", "conversation.response.error",
    ]  # fmt: skip
    assert (found.agent_id, empty.entries) == (desk, [])
    assert [entry.type for entry in answer.outputs] == ["agent.handoff", "message.output"]
    assert model.heard[2] == [SystemTurn("You greet."), user("hi")]


async def test_an_agent_that_cannot_be_asked_as_the_request_wants_is_an_error_behind_the_handoff(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), calls(TO_B))
    required = {"completion_args": {"tool_choice": "any"}}
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client, b=required)
        status, said = await behind.ask("POST", "/v1/conversations", {"agent_id": desk, "inputs": "hi"})
        events = await streamed(behind, "/v1/conversations", {"agent_id": desk, "inputs": "hi"})

    assert (status, said["message"]) == (502, 'tool_choice="required" requires at least one tool.')
    assert events[-1]["type"] == "conversation.response.error"
    assert events[-1]["message"] == said["message"]


async def test_a_choice_of_tools_is_for_the_first_agent_and_other_arguments_for_all(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        args = {"tool_choice": "any", "max_tokens": 7}
        await client.beta.conversations.start_async(agent_id=desk, inputs="hi", completion_args=args)

    assert [request.choice.mode for request in model.requests] == ["required", "auto"]
    assert [request.options.max_tokens for request in model.requests] == [7, 7]


async def test_a_restart_goes_on_with_the_agent_of_that_time(door: Door) -> None:
    model = ScriptedModel(
        calls(TO_B, text="One moment."),
        says("You owe 5."),
        says("Hello."),
        says("5 it is."),
        says("Me again."),
        says("B."),
    )
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client)
        first = await talk.start_async(agent_id=desk, inputs="hi")
        id = first.conversation_id
        before = await talk.restart_async(conversation_id=id, from_entry_id=first.outputs[0].id, inputs="you?")
        behind_it = await talk.restart_async(conversation_id=id, from_entry_id=first.outputs[1].id)
        more = await talk.append_async(conversation_id=before.conversation_id, inputs="more")
        last = await talk.restart_async(conversation_id=id, from_entry_id=first.outputs[2].id, inputs="so?")
        found = [
            (await talk.get_async(conversation_id=one.conversation_id)).agent_id
            for one in (first, before, behind_it, last)
        ]

    assert brief(before.outputs) == [("message.output", desk, "Hello.")]
    assert brief(behind_it.outputs) == [("message.output", billing, "5 it is.")]
    assert brief(more.outputs) == [("message.output", desk, "Me again.")]
    assert brief(last.outputs) == [("message.output", billing, "B.")]
    assert found == [billing, desk, billing, billing]
    assert model.heard[2] == [
        SystemTurn("You greet."), user("hi"), AssistantTurn((Text("One moment."),)), user("you?"),
    ]  # fmt: skip
    assert model.heard[3] == [
        SystemTurn("You bill."), user("hi"), called(TO_B, text="One moment."), ToolTurn((ToolResult("call_0_0", HANDED),)),
    ]  # fmt: skip


async def test_a_restart_from_the_middle_of_the_next_agents_run_has_all_that_led_to_it(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), calls("lookup", q="x", text="Let me look."), says("You owe 5."), says("Again."))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client)
        first = await talk.start_async(agent_id=desk, inputs="hi")
        [_, said, *_] = first.outputs
        again = await talk.restart_async(conversation_id=first.conversation_id, from_entry_id=said.id, inputs="Faster.")
        history = await talk.get_history_async(conversation_id=again.conversation_id)

    assert model.heard[3] == [
        SystemTurn("You bill."), user("hi"), called(TO_B), ToolTurn((ToolResult("call_0_0", HANDED),)),
        AssistantTurn((Text("Let me look."),)), user("Faster."),
    ]  # fmt: skip
    assert brief(again.outputs) == [("message.output", billing, "Again.")]
    assert [entry.type for entry in history.entries] == [
        "message.input", "agent.handoff", "message.output", "message.input", "message.output",
    ]  # fmt: skip


async def test_a_crash_behind_a_handoff_leaves_the_conversation_as_it_was(door: Door, tmp_path: Path) -> None:
    stuck, journal, catalog = Stuck(), Remembering(), str(tmp_path / "catalog.db")
    async with serving(door, stuck, journal=journal, catalog=catalog) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        stream = await client.beta.conversations.start_stream_async(agent_id=desk, inputs="hi")
        async with stream:
            started = await anext(aiter(stream))
            await stuck.thinking.wait()
            id, model = started.data.conversation_id, ScriptedModel(says("Hello."))
            # Another server finds what the first one has written down, and that nobody goes on with it.
            left = Remembering()
            for run in journal.runs:
                left.append(run, await journal.read(run))
                left.release(run)
            assert isinstance(behind.server.catalog, SqliteCatalog)
            behind.server.catalog.claims.close()  # as the system does
            async with serving(door, model, journal=left, catalog=catalog) as second, second.client() as again:
                found = await again.beta.conversations.get_async(conversation_id=id)
                answer = await again.beta.conversations.append_async(conversation_id=id, inputs="hi")
                history = await again.beta.conversations.get_history_async(conversation_id=id)

    assert (found.agent_id, brief(answer.outputs)) == (desk, [("message.output", desk, "Hello.")])
    assert [entry.type for entry in history.entries] == ["message.input", "message.output"]
    assert model.heard == [[SystemTurn("You greet."), user("hi")]]


async def test_a_conversation_that_was_handed_over_survives_a_restart_of_the_server(door: Door, tmp_path: Path) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."), says("Yes."))
    catalog = str(tmp_path / "catalog.db")
    async with (
        serving(door, model, journal=SqliteJournal(str(tmp_path / "j.db")), catalog=catalog) as behind,
        behind.client() as client,
    ):
        desk, billing = await two_agents(client)
        first = await client.beta.conversations.start_async(agent_id=desk, inputs="hi")
    async with (
        serving(door, model, journal=SqliteJournal(str(tmp_path / "j.db")), catalog=catalog) as behind,
        behind.client() as client,
    ):
        second = await client.beta.conversations.append_async(conversation_id=first.conversation_id, inputs="Sure?")
        history = await client.beta.conversations.get_history_async(conversation_id=first.conversation_id)

    assert brief(second.outputs) == [("message.output", billing, "Yes.")]
    assert history.entries[1:3] == first.outputs


class Committing(Remembering):
    """A journal that keeps what it has taken when somebody waits for it, and remembers what each such time brought."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: list[tuple[str, str]] = []
        self.commits: list[list[tuple[str, str]]] = []

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        super().append(run, events, size)
        self._taken += [(run, type(event).__name__) for event in events if type(event) not in PREVIEWS]

    async def barrier(self, run: str) -> None:
        await asyncio.sleep(0)  # others that come now share it
        if self._taken:
            self.commits.append(self._taken)
            self._taken = []


@pytest.mark.parametrize("handoffs", [1, 3, MOST_HANDOFFS + 1])
async def test_the_end_of_a_run_and_the_beginning_of_the_next_are_kept_together(door: Door, handoffs: int) -> None:
    """The last of too many, which fails before it is driven, included."""
    model = ScriptedModel(*[calls(TO_A if turn % 2 else TO_B) for turn in range(handoffs)], says("You owe 5."))
    journal = Committing()
    async with serving(door, model, journal=journal) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        await client.beta.agents.update_async(agent_id=billing, handoffs=[desk])
        with contextlib.suppress(errors.SDKError):
            await client.beta.conversations.start_async(agent_id=desk, inputs="hi")

    assert len(journal.runs) == handoffs + 1
    for run, child in itertools.pairwise(journal.runs):
        [together] = [commit for commit in journal.commits if (run, "RunFinished") in commit]
        assert (child, "RunStarted") in together


async def test_what_is_not_stored_is_handed_over_all_the_same(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        answer = await client.beta.conversations.start_async(agent_id=desk, inputs="hi", store=False)
        listed = await client.beta.conversations.list_async()

    assert [entry.type for entry in answer.outputs] == ["agent.handoff", "message.output"]
    assert (listed, behind.journal.runs) == ([], [])


async def test_an_agent_that_was_deleted_after_a_handoff_is_not_found(door: Door) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model) as behind, behind.client() as client:
        desk, billing = await two_agents(client)
        answer = await client.beta.conversations.start_async(agent_id=desk, inputs="hi")
        await client.beta.agents.delete_async(agent_id=billing)
        status, said = await behind.ask("POST", f"/v1/conversations/{answer.conversation_id}", {"inputs": "x"})

    assert (status, said["code"]) == (404, "agent_not_found")
    assert billing in said["message"]


DISPATCH: Json = {"tool_dispatch_url": "http://127.0.0.1:1/"}


@pytest.mark.parametrize(("config", "rounds"), [(DISPATCH, {}), ({}, {"max_tool_rounds": 0})], ids=["dispatch", "none"])
async def test_nobody_else_is_asked_to_run_a_handoff(door: Door, config: Json, rounds: Json) -> None:
    model = ScriptedModel(calls(TO_B), says("You owe 5."))
    async with serving(door, model, **config) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        status, said = await behind.ask("POST", "/v1/conversations", {"agent_id": desk, "inputs": "hi", **rounds})

    assert (status, [entry["type"] for entry in said["outputs"]]) == (200, ["agent.handoff", "message.output"])


class Stuck:
    """Hands over, and then thinks forever."""

    def __init__(self) -> None:
        self.thinking = asyncio.Event()
        self.left = asyncio.Event()
        self._first = ScriptedModel(calls(TO_B))

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if not self._first.heard:
            return await self._first.call(request, show)
        self.thinking.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError


async def test_a_client_that_leaves_ends_the_run_behind_the_handoff_and_the_conversation_is_free(door: Door) -> None:
    model = Stuck()
    async with serving(door, model) as behind, behind.client() as client:
        desk, _ = await two_agents(client)
        stream = await client.beta.conversations.start_stream_async(agent_id=desk, inputs="hi")
        async with stream:
            started = await anext(aiter(stream))
            await model.thinking.wait()
            busy, _ = await behind.ask("POST", f"/v1/conversations/{started.data.conversation_id}", {"inputs": "x"})
        await model.left.wait()
        _, history = await behind.ask("GET", f"/v1/conversations/{started.data.conversation_id}/history")
        ends = [rebuild(await behind.journal.read(run)).ended for run in behind.journal.runs]
        is_free = await behind.server.catalog.claims.claim(MINE, f"conversation {started.data.conversation_id}")

    assert busy == 409
    assert [end.reason for end in ends if end is not None] == ["tool_calls", "cancelled"]
    assert (history["entries"], is_free) == ([], True)
