"""Conversations that are restarted from an entry, kept and read again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mistralai.client import errors
from tests.interaction.doors import Door, Remembering, soon
from tests.server.conversation_entries import WEATHER, Slow, brief, lookup
from tests.server.mistral_doors import serving

from ronda.core.events import Event
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolResult, ToolTurn, user
from ronda.journal.sqlite import SqliteJournal
from ronda.testing import Call, ScriptedModel, calls, fails, says

# ---- restart -------------------------------------------------------------------------------------------------------------


async def test_a_restart_leaves_the_original_as_it_was(door: Door) -> None:
    model = ScriptedModel(says("0"), says("1"), says("2"), says("3"))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="a", metadata={"x": 1})
        conversation_id = first.conversation_id
        await talk.append_async(conversation_id=conversation_id, inputs="b")
        before = await talk.get_history_async(conversation_id=conversation_id)
        again = await talk.restart_async(conversation_id=conversation_id, from_entry_id=first.outputs[0].id, inputs="c")
        further = await talk.append_async(conversation_id=again.conversation_id, inputs="d")
        after = await talk.get_history_async(conversation_id=conversation_id)
        history = await talk.get_history_async(conversation_id=again.conversation_id)
        found = await talk.get_async(conversation_id=again.conversation_id)

    assert again.conversation_id != conversation_id
    assert further.conversation_id == again.conversation_id
    assert after == before
    assert brief(history.entries) == [
        ("message.input", "a"), ("message.output", "0"), ("message.input", "c"), ("message.output", "2"),
        ("message.input", "d"), ("message.output", "3"),
    ]  # fmt: skip
    assert history.entries[:2] == before.entries[:2]
    assert model.heard[3] == [
        user("a"), AssistantTurn((Text("0"),)), user("c"), AssistantTurn((Text("2"),)), user("d"),
    ]  # fmt: skip
    assert found.metadata == {"x": 1}


async def test_a_restart_from_a_question_asks_it_again(door: Door) -> None:
    model = ScriptedModel(says("0"), says("1"), says("2"))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        conversation_id = (await talk.start_async(model="default", inputs="a")).conversation_id
        await talk.append_async(conversation_id=conversation_id, inputs="b")
        history = await talk.get_history_async(conversation_id=conversation_id)
        again = await talk.restart_async(conversation_id=conversation_id, from_entry_id=history.entries[2].id)
        cut = await talk.get_history_async(conversation_id=again.conversation_id)

    assert model.heard[2] == model.heard[1]
    assert brief(cut.entries)[2:] == [("message.input", "b"), ("message.output", "2")]


async def test_a_restart_from_a_restart_and_from_inside_an_answer(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="x", text="Let me look."), says("0"), says("1"), says("2"))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="a")
        one = await talk.restart_async(
            conversation_id=first.conversation_id, from_entry_id=first.outputs[1].id, inputs="b"
        )
        cut = (await talk.get_history_async(conversation_id=one.conversation_id)).entries
        two = await talk.restart_async(conversation_id=one.conversation_id, from_entry_id=cut[1].id, inputs="c")
        last = (await talk.get_history_async(conversation_id=two.conversation_id)).entries

    assert brief(cut) == [
        ("message.input", "a"),
        ("message.output", "Let me look."),
        ("tool.execution", '{"q":"x"}'),
        ("message.input", "b"),
        ("message.output", "1"),
    ]
    assert [type(turn).__name__ for turn in model.heard[2]] == ["UserTurn", "AssistantTurn", "ToolTurn", "UserTurn"]
    assert brief(last)[1:3] == [("message.output", "Let me look."), ("message.input", "c")]
    assert model.heard[3] == [user("a"), AssistantTurn((Text("Let me look."),)), user("c")]


async def test_a_restart_may_name_a_version_of_the_agent(door: Door) -> None:
    model = ScriptedModel(*[says(str(n)) for n in range(3)])
    async with serving(door, model) as behind, behind.client() as client:
        agents, talk = client.beta.agents, client.beta.conversations
        agent_id = (await agents.create_async(model="default", name="A", instructions="first")).id
        first = await talk.start_async(agent_id=agent_id, agent_version=0, inputs="hi")
        await agents.update_async(agent_id=agent_id, instructions="second")
        asked = {"conversation_id": first.conversation_id, "from_entry_id": first.outputs[0].id, "inputs": "more"}
        await talk.restart_async(**asked)
        await talk.restart_async(**asked, agent_version=0)

    assert [heard[0] for heard in model.heard] == [SystemTurn(one) for one in ("first", "second", "first")]


# ---- keeping -------------------------------------------------------------------------------------------------------------


async def test_conversations_survive_a_restart_of_the_server(door: Door, tmp_path: Path) -> None:
    catalog, journal = str(tmp_path / "catalog.db"), str(tmp_path / "journal.db")
    script = ScriptedModel(calls(Call("lookup", {"q": "x"}), Call("weather", {"city": "Rome"})))
    async with (
        serving(door, script, lookup, catalog=catalog, journal=SqliteJournal(journal)) as behind,
        behind.client() as client,
    ):
        first = await client.beta.conversations.start_async(model="default", inputs="hi", tools=[WEATHER])
        before = await client.beta.conversations.get_history_async(conversation_id=first.conversation_id)
    model = ScriptedModel(says("Done."))
    async with (
        serving(door, model, lookup, catalog=catalog, journal=SqliteJournal(journal)) as behind,
        behind.client() as client,
    ):
        talk = client.beta.conversations
        after = await talk.get_history_async(conversation_id=first.conversation_id)
        result = {"type": "function.result", "tool_call_id": "call_0_1", "result": "40"}
        answer = await talk.append_async(conversation_id=first.conversation_id, inputs=[result])

    assert after == before
    assert brief(answer.outputs) == [("message.output", "Done.")]
    assert model.heard[0][-1] == ToolTurn((ToolResult("call_0_0", "found x"), ToolResult("call_0_1", "40")))


async def test_what_is_not_to_be_stored_is_not_there_later(door: Door) -> None:
    model = ScriptedModel(says("0"), says("1"), says("2"))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        gone = await talk.start_async(model="default", inputs="hi", store=False)
        kept = await talk.start_async(model="default", inputs="hi")
        aside = await talk.append_async(conversation_id=kept.conversation_id, inputs="psst", store=False)
        history = await talk.get_history_async(conversation_id=kept.conversation_id)
        listed = await talk.list_async()
        with pytest.raises(errors.SDKError) as refused:
            await talk.append_async(conversation_id=gone.conversation_id, inputs="more")

    assert refused.value.status_code == 404
    assert [one.id for one in listed] == [kept.conversation_id]
    assert brief(aside.outputs) == [("message.output", "2")]
    assert brief(history.entries) == [("message.input", "hi"), ("message.output", "1")]
    assert len(behind.journal.runs) == 1


async def test_lists_are_filtered_and_come_in_pages_and_what_is_deleted_is_gone(door: Door) -> None:
    model = ScriptedModel(*[says("x")] * 3)
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        ids = [
            (await talk.start_async(model="default", inputs="hi", metadata={"n": n})).conversation_id for n in range(3)
        ]

        async def listed(**asked: Any) -> list[str]:
            return [one.id for one in await talk.list_async(**asked)]

        assert await listed() == ids
        assert await listed(page=1, page_size=2) == ids[2:]
        assert await listed(metadata={"n": 1}) == [ids[1]]
        await talk.delete_async(conversation_id=ids[0])
        assert await listed() == ids[1:]
        with pytest.raises(errors.SDKError):
            await talk.get_history_async(conversation_id=ids[0])


async def test_one_key_sees_nothing_of_anothers_conversations(door: Door) -> None:
    async with serving(door, ScriptedModel(says("x"))) as behind:
        _, answer = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "hi"}, key="mine")
        path = f"/v1/conversations/{answer['conversation_id']}"
        entry = answer["outputs"][0]["id"]
        asked = [
            await behind.ask("GET", path, key="theirs"),
            await behind.ask("GET", f"{path}/history", key="theirs"),
            await behind.ask("GET", f"{path}/messages", key="theirs"),
            await behind.ask("POST", path, {"inputs": "more"}, key="theirs"),
            await behind.ask("POST", f"{path}/restart", {"from_entry_id": entry, "inputs": "x"}, key="theirs"),
            await behind.ask("DELETE", path, key="theirs"),
            await behind.ask("GET", "/v1/conversations", key="theirs"),
        ]

    assert [status for status, _ in asked] == [404] * 6 + [200]
    assert asked[-1][1] == []


async def test_an_answer_that_failed_leaves_the_conversation_as_it_was(door: Door) -> None:
    model = ScriptedModel(says("0"), fails("no way", 400), says("1"))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        conversation_id = (await talk.start_async(model="default", inputs="a")).conversation_id
        with pytest.raises(errors.SDKError, match="no way"):
            await talk.append_async(conversation_id=conversation_id, inputs="b")
        await talk.append_async(conversation_id=conversation_id, inputs="b")
        history = await talk.get_history_async(conversation_id=conversation_id)

    assert model.heard[2] == [user("a"), AssistantTurn((Text("0"),)), user("b")]
    assert brief(history.entries) == [
        ("message.input", "a"), ("message.output", "0"), ("message.input", "b"), ("message.output", "1"),
    ]  # fmt: skip


async def test_one_request_at_a_time_goes_on_with_a_conversation(door: Door, stream: bool) -> None:
    model = Slow()
    async with serving(door, model) as behind:
        _, first = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "a"})
        path = f"/v1/conversations/{first['conversation_id']}"
        body = {"inputs": "b", "stream": stream}
        going_on = asyncio.create_task(behind.stream(path, body) if stream else behind.ask("POST", path, body))
        async with soon():
            await model.asked.wait()
        status, refused = await behind.ask("POST", path, {"inputs": "c"})
        model.let.set()
        await going_on
        after, _ = await behind.ask("POST", path, {"inputs": "d"})
        _, history = await behind.ask("GET", f"{path}/history")

    assert (status, refused["code"], after) == (409, "conversation_busy", 200)
    assert [one["content"] for one in history["entries"]] == ["a", "so 1", "b", "so 2", "d", "so 3"]


async def test_a_client_that_leaves_lets_the_conversation_go(door: Door, stream: bool) -> None:
    model = Slow()
    async with serving(door, model) as behind:
        _, first = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "a"})
        path = f"/v1/conversations/{first['conversation_id']}"
        going_on = asyncio.create_task(behind.ask("POST", path, {"inputs": "b", "stream": stream}))
        async with soon():
            await model.asked.wait()
        [live] = behind.server.runs.live.values()
        assert live.task is not None
        going_on.cancel()
        async with soon():
            await asyncio.wait([live.task])
        after, _ = await behind.ask("POST", path, {"inputs": "c"})
        _, history = await behind.ask("GET", f"{path}/history")

    assert after == 200
    assert [one["content"] for one in history["entries"]] == ["a", "so 1", "c", "so 3"]


class CountingReads(Remembering):
    """A journal that counts how often a run is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


async def test_appending_reads_one_run_however_long_the_conversation_is(door: Door) -> None:
    journal = CountingReads()
    counts: list[int] = []
    model = ScriptedModel(*[says(f"{at}.") for at in range(12)])
    async with serving(door, model, journal=journal) as behind, behind.client() as client:
        talk = client.beta.conversations
        first = await talk.start_async(model="default", inputs="0")
        for at in range(1, 12):
            before = journal.reads
            await talk.append_async(conversation_id=first.conversation_id, inputs=str(at))
            counts.append(journal.reads - before)
        history = await talk.get_history_async(conversation_id=first.conversation_id)

    assert counts == [counts[0]] * 11
    assert [entry.content for entry in history.entries][-2:] == ["11", "11."]
