"""Conversations that the server keeps: start, append, restart, history, messages, streams, through Mistral's SDK."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.interaction.doors import Door, Json, Remembering, soon
from tests.server.conversation_entries import WEATHER, Slow, brief, lookup
from tests.server.mistral_doors import serving

from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, user
from ronda.store.conversations import RunRow
from ronda.testing import Call, Line, ScriptedModel, calls, says

CALLED = AssistantTurn((ToolCall("call_0_0", "weather", '{"city":"Rome"}'),), "tool_calls")


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
        agent_id = (await agents.create_async(model="default", name="A", instructions="first")).id
        free = (await talk.start_async(agent_id=agent_id, inputs="hi")).conversation_id
        bound = (await talk.start_async(agent_id=agent_id, agent_version=0, inputs="hi")).conversation_id
        await agents.update_async(agent_id=agent_id, instructions="second")
        model._lines += [Line(text="3"), Line(text="4")]
        answer = await talk.append_async(conversation_id=free, inputs="more")
        await talk.append_async(conversation_id=bound, inputs="more")
        found = [await talk.get_async(conversation_id=one) for one in (free, bound)]

    assert [heard[0] for heard in model.heard] == [SystemTurn(one) for one in ("first", "first", "second", "first")]
    assert [(one.agent_id, one.agent_version) for one in found] == [(agent_id, None), (agent_id, 0)]
    assert answer.outputs[0].agent_id == agent_id


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
        conversation_id = (await talk.start_async(model="default", inputs="hi", tools=[WEATHER])).conversation_id
        await talk.append_async(conversation_id=conversation_id, inputs="never mind")

    said = model.heard[1]
    assert said[:2] == [user("hi"), CALLED]
    assert isinstance(said[2], ToolTurn)
    assert said[2].results[0].failed
    assert said[3:] == [user("never mind")]


# ---- what is refused -----------------------------------------------------------------------------------------------


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
    "a result that no call waits for": (
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
        conversation_id = first["conversation_id"]
        rows = behind.server.catalog.conversations

        async def none_yet(*asked: object) -> list[tuple[int, RunRow]]:
            return []

        kept_runs = rows.last_runs
        rows.last_runs = none_yet  # type: ignore[method-assign, assignment]  # it looked before the other one wrote
        status, said = await behind.ask("POST", f"/v1/conversations/{conversation_id}", {"inputs": "b"})
        rows.last_runs = kept_runs  # type: ignore[method-assign]
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
        with pytest.raises(openai.BadRequestError) as refused_too:
            await served.client().conversations.update("conv_1", metadata={"a": "b"})

    assert "this address is Mistral's" in str(refused.value)
    assert "previous_response_id" in str(refused.value)
    assert str(refused_too.value) == str(refused.value)
