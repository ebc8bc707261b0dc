"""Handoffs that go wrong, are cut off, kept or begun again: what is left of the conversation."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from mistralai.client import errors
from tests.interaction.doors import Door, Json, Remembering
from tests.server.doors.test_mistral_handoffs import HANDED, TO_A, TO_B, brief, called, lookup, streamed, two_agents
from tests.server.mistral_doors import MINE, serving

from ronda.core.events import PREVIEWS, Event, ModelFinished
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolResult, ToolTurn, user
from ronda.core.request import ModelRequest
from ronda.core.run import rebuild
from ronda.drive import Show
from ronda.journal.sqlite import SqliteJournal
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, calls, fails, says
from ronda.wire.mistral.handoffs import MOST_HANDOFFS


async def test_agents_that_hand_over_in_circles_are_stopped_and_leave_the_conversation_as_it_was(door: Door) -> None:
    circle = [calls(TO_B if n % 2 == 0 else TO_A) for n in range(9)]
    model = ScriptedModel(says("Hello."), *circle, *circle, says("Still here."))
    async with serving(door, model) as behind, behind.client() as client:
        talk = client.beta.conversations
        desk, billing = await two_agents(client)
        await client.beta.agents.update_async(agent_id=billing, handoffs=[desk])
        agent_id = (await talk.start_async(agent_id=desk, inputs="hi")).conversation_id
        with pytest.raises(errors.SDKError) as plain:
            await talk.append_async(conversation_id=agent_id, inputs="bill?")
        events = await streamed(behind, f"/v1/conversations/{agent_id}", {"inputs": "bill?"})
        found = await talk.get_async(conversation_id=agent_id)
        after = await talk.append_async(conversation_id=agent_id, inputs="and?")
        history = await talk.get_history_async(conversation_id=agent_id)

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
        conversation_id = events[0]["conversation_id"]
        found = await talk.get_async(conversation_id=conversation_id)
        empty = await talk.get_history_async(conversation_id=conversation_id)
        answer = await talk.append_async(conversation_id=conversation_id, inputs="hi")

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
        conversation_id = first.conversation_id
        before = await talk.restart_async(
            conversation_id=conversation_id, from_entry_id=first.outputs[0].id, inputs="you?"
        )
        behind_it = await talk.restart_async(conversation_id=conversation_id, from_entry_id=first.outputs[1].id)
        more = await talk.append_async(conversation_id=before.conversation_id, inputs="more")
        last = await talk.restart_async(
            conversation_id=conversation_id, from_entry_id=first.outputs[2].id, inputs="so?"
        )
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
            conversation_id, model = started.data.conversation_id, ScriptedModel(says("Hello."))
            # Another server finds what the first one has written down, and that no process continues it.
            left = Remembering()
            for run in journal.runs:
                left.append(run, await journal.read(run))
                left.release(run)
            assert isinstance(behind.server.catalog, SqliteCatalog)
            behind.server.catalog.claims.close()  # as the system does
            async with serving(door, model, journal=left, catalog=catalog) as second, second.client() as again:
                found = await again.beta.conversations.get_async(conversation_id=conversation_id)
                answer = await again.beta.conversations.append_async(conversation_id=conversation_id, inputs="hi")
                history = await again.beta.conversations.get_history_async(conversation_id=conversation_id)

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
    """A journal that keeps what it has taken when a writer waits for it, and remembers what each such time brought."""

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
