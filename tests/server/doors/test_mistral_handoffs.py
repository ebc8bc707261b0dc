"""Agents that hand a conversation over to each other: in conversations and in completions, through Mistral's SDK."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, soon
from tests.server.mistral_doors import Behind, frames, function, serving

from ronda import tool
from ronda.core.events import CallDelta, ModelFinished, RunStarted
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.core.run import rebuild
from ronda.drive import Show
from ronda.testing import Call, Line, ScriptedModel, calls, says

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
        conversation_id = first.conversation_id
        second = await talk.append_async(conversation_id=conversation_id, inputs="Sure?")
        history = await talk.get_history_async(conversation_id=conversation_id)
        found = await talk.get_async(conversation_id=conversation_id)
        [listed] = await talk.list_async()
        [again] = await talk.list_async()  # as the first list has noted it
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
    assert [(one.agent_id, one.agent_version) for one in (found, listed, again)] == [(billing, None)] * 3
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
        conversation_id = first.conversation_id
        found = await talk.get_async(conversation_id=conversation_id)
        asked = len(model.heard)
        second = await talk.append_async(
            conversation_id=conversation_id, **({} if inputs is None else {"inputs": inputs})
        )
        again, _ = await behind.ask("POST", f"/v1/conversations/{conversation_id}", {"inputs": []})
        history = await talk.get_history_async(conversation_id=conversation_id)

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
