"""`previous_response_id`: a response goes on from another with all that was said and done, and nothing that stood around it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from msgspec import Raw
from tests.interaction.doors import Door, Json
from tests.server.responses_door import ask, function, message, output, post

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.parts import (
    AssistantTurn,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    user,
)
from ronda.core.request import ModelRequest
from ronda.core.transcript import NO_RESULT
from ronda.drive import Show
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, Line, ScriptedModel, calls, says
from ronda.server.services.models import Target
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.store.values.scopes import Scopes

PICK = function("pick", color="string")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


LOOKED: list[Turn] = [
    AssistantTurn((Text("Looking."), ToolCall("c1", "lookup", '{"q":"a"}')), "tool_calls"),
    ToolTurn((ToolResult("c1", "found a"),)),
    AssistantTurn((Text("It is a."),)),
]
LOOKS = (Line(text="Looking.", calls=(Call("lookup", {"q": "a"}, "c1"),)), says("It is a."))


async def test_what_was_said_and_the_tools_that_ran_are_carried_over_but_no_instructions(
    door: Door, stream: bool
) -> None:
    model = ScriptedModel(*LOOKS, says("As I said."), says("Again."))
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, stream, input="look", instructions="Be brief.")
        second = await ask(client, stream, input="and?", previous_response_id=first.id, instructions="Be kind.")
        third = await ask(client, stream, input="once more", previous_response_id=second.id)

    before: list[Turn] = [user("look"), *LOOKED, user("and?")]
    assert model.heard[2] == [SystemTurn("Be kind."), *before]
    assert model.heard[3] == [*before, AssistantTurn((Text("As I said."),)), user("once more")]
    assert (second.previous_response_id, second.instructions) == (first.id, "Be kind.")
    assert (third.previous_response_id, third.instructions) == (second.id, None)


async def test_a_callers_results_are_all_it_has_to_send(door: Door, stream: bool) -> None:
    model = ScriptedModel(
        calls(Call("pick", {"color": "red"}, "c1"), Call("pick", {"color": "blue"}, "c2")), says("Done.")
    )
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream, tools=[PICK])
        # In another order than they were asked for.
        second = await ask(
            client, stream, input=[output("c2", "2"), output("c1", "1")], tools=[PICK], previous_response_id=first.id
        )

    assert second.output_text == "Done."
    asked = AssistantTurn(
        (ToolCall("c1", "pick", '{"color":"red"}'), ToolCall("c2", "pick", '{"color":"blue"}')), "tool_calls"
    )
    assert model.heard[1] == [user("go"), asked, ToolTurn((ToolResult("c1", "1"), ToolResult("c2", "2")))]


ALSO: Json = {"role": "user", "content": "also"}


@pytest.mark.parametrize(
    "sent",
    [
        [ALSO, output("c1", "1"), output("c2", "2")],
        [output("c1", "1"), ALSO, output("c2", "2")],
        [output("c2", "2"), ALSO, output("c1", "1")],
    ],
    ids=["words first", "words between", "words between, in another order"],
)
async def test_results_answer_their_calls_whatever_is_said_before_them(
    door: Door, stream: bool, sent: list[Json]
) -> None:
    lines = (calls(Call("pick", {"color": "red"}, "c1"), Call("pick", {"color": "blue"}, "c2")), says("Done."))
    chained, whole = ScriptedModel(*lines), ScriptedModel(lines[1])
    async with door.serving(chained) as served:
        first = await ask(served.client(), stream, tools=[PICK])
        await ask(served.client(), stream, input=sent, tools=[PICK], previous_response_id=first.id)
    async with door.serving(whole) as served:  # the caller keeps the conversation itself
        made: list[Json] = [
            {"type": "function_call", "call_id": call_id, "name": "pick", "arguments": json.dumps({"color": color})}
            for call_id, color in (("c1", "red"), ("c2", "blue"))
        ]
        await ask(served.client(), stream, input=[{"role": "user", "content": "go"}, *made, *sent], tools=[PICK])

    results = ToolTurn((ToolResult("c1", "1"), ToolResult("c2", "2")))
    assert chained.heard[1][2:] == [results, user("also")]
    assert whole.heard[0][2:] == [results, user("also")]


async def test_our_half_of_a_mixed_turn_is_there(door: Door, stream: bool) -> None:
    mixed = Line(
        calls=(Call("lookup", {"q": "b"}, "c2"), Call("pick", {"color": "red"}, "c3"), Call("lookup", {"q": "d"}, "c4"))
    )
    model = ScriptedModel(LOOKS[0], mixed, says("Done."), says("Bye."))
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, stream, tools=[PICK])
        [call_id] = [item.call_id for item in first.output if item.type == "function_call"]
        second = await ask(client, stream, input=[output(call_id, "ok")], tools=[PICK], previous_response_id=first.id)
        await ask(client, stream, input="bye", previous_response_id=second.id)
        given: list[Any] = [item async for item in client.responses.input_items.list(second.id)]

    assert re.fullmatch("call_[A-Za-z0-9]{9}", call_id)
    assert [item.call_id for item in given if item.type == "function_call" and item.name == "pick"] == [call_id]
    assert call_id in [item.call_id for item in given if item.type == "function_call_output"]
    asked = AssistantTurn(
        (
            ToolCall("c2", "lookup", '{"q":"b"}'),
            ToolCall("c3", "pick", '{"color":"red"}'),
            ToolCall("c4", "lookup", '{"q":"d"}'),
        ),
        "tool_calls",
    )
    results = ToolTurn((ToolResult("c2", "found b"), ToolResult("c3", "ok"), ToolResult("c4", "found d")))
    heard: list[Turn] = [user("go"), *LOOKED[:2], asked, results]
    assert model.heard[2] == heard
    assert model.heard[3] == [*heard, AssistantTurn((Text("Done."),)), user("bye")]


async def test_a_caller_that_does_not_answer_its_calls_can_go_on_all_the_same(door: Door, stream: bool) -> None:
    mixed = Line(calls=(Call("lookup", {"q": "b"}, "c1"), Call("pick", {"color": "red"}, "c2")))
    model = ScriptedModel(mixed, says("Fine."))
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, stream, tools=[PICK])
        await ask(client, stream, input="never mind", tools=[PICK], previous_response_id=first.id)

    results = (ToolResult("c1", "found b"), ToolResult("c2", NO_RESULT, failed=True))
    assert model.heard[1][2:] == [ToolTurn(results), user("never mind")]


async def test_results_that_a_chain_has_may_be_sent_again(door: Door, stream: bool) -> None:
    both = Line(calls=(Call("lookup", {"q": "b"}, "c1"), Call("pick", {"color": "red"}, "c2")))
    model = ScriptedModel(both, calls(Call("pick", {"color": "blue"}, "c3")), says("Done."))
    sent: list[Json] = []
    previous: str | None = None
    async with door.serving(model, lookup) as served:
        for _ in range(3):  # as Semantic Kernel goes on
            answer = await ask(
                served.client(), stream, input=[ALSO, *sent], tools=[PICK], previous_response_id=previous
            )
            previous = answer.id
            sent += [output(item.call_id, "ok") for item in answer.output if item.type == "function_call"]

    assert (answer.output_text, len(sent)) == ("Done.", 2)
    results = [result for turn in model.heard[2] if isinstance(turn, ToolTurn) for result in turn.results]
    assert results == [ToolResult("c1", "found b"), ToolResult("c2", "ok"), ToolResult("c3", "ok")]


async def test_a_result_that_nobody_asked_for_is_a_400(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Hi."))
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream)
        with pytest.raises(openai.BadRequestError, match="call_nobody_made") as refused:
            await ask(client, stream, input=[output("call_nobody_made", "1")], previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="call_nobody_made") as alone:
            await ask(client, stream, input=[output("call_nobody_made", "1")])

    assert (refused.value.param, alone.value.param, len(model.heard)) == ("input", "input", 1)


@pytest.mark.parametrize("id", ["resp_nothing", "run_x", "", "resp_", "chatcmpl-1", "resp_\0", "resp_🙂"])
async def test_a_response_that_is_not_there_is_a_404(door: Door, stream: bool, id: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(openai.NotFoundError) as refused:
            await ask(served.client(), stream, previous_response_id=id)

    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


async def test_another_keys_response_is_not_there(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Hi."))
    async with door.serving(model) as served:
        first = await ask(served.client("ada"), stream)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await ask(served.client("eve"), stream, previous_response_id=first.id)

    assert len(model.heard) == 1


async def test_a_response_that_was_not_stored_cannot_be_continued(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        client = served.client()
        first = await ask(client, stream, store=False)
        with pytest.raises(openai.NotFoundError, match="not found"):
            await ask(client, stream, previous_response_id=first.id)

    assert first.to_dict()["store"] is False


async def test_a_chat_is_no_response(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        await served.ask(stream=False)
        (events,) = await served.events
        response_id = "resp_" + events[0].run.removeprefix("run_")  # type: ignore[union-attr]  # a run begins with its start
        with pytest.raises(openai.NotFoundError):
            await ask(served.client(), False, previous_response_id=response_id)


async def test_a_chain_goes_on_after_a_restart(door: Door, tmp_path: Path) -> None:
    model = ScriptedModel(*LOOKS, says("As I said."))
    async with door.serving(model, lookup, journal=SqliteJournal(tmp_path / "journal.db")) as served:
        first = await ask(served.client(), True, input="look")
    async with door.serving(model, lookup, journal=SqliteJournal(tmp_path / "journal.db")) as served:
        second = await ask(served.client(), True, input="and?", previous_response_id=first.id)

    assert second.output_text == "As I said."
    assert model.heard[2] == [user("look"), *LOOKED, user("and?")]


async def test_what_an_agent_says_around_a_conversation_is_said_once(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("One."), says("Two."))
    lead, tail = SystemTurn("You are a pirate."), SystemTurn("Answer now.", "developer")

    class Pirates:
        async def find(self, name: str, owner: str) -> Target | None:
            return (
                Target("pirate", "script:test", model, begin=lambda turns: (lead, *turns, tail))
                if name == "pirate"
                else None
            )

        def names(self) -> list[str]:
            return ["pirate"]

        def names_open_to(self, scopes: Scopes) -> list[str]:
            return self.names()

    async with door.serving(model) as served:
        served.server.models.add(Pirates())
        client = served.client()
        first = await ask(client, stream, model="pirate", input="a", instructions="Be brief.")
        second = await ask(client, stream, model="pirate", input="b", previous_response_id=first.id)

    assert model.heard == [
        [lead, SystemTurn("Be brief."), user("a"), tail],
        [lead, user("a"), AssistantTurn((Text("One."),)), user("b"), tail],
    ]
    assert (first.instructions, second.instructions, second.model) == ("Be brief.", None, "pirate")


# ---- the model's own JSON --------------------------------------------------------------------------------------------

SIGNED = AssistantTurn(
    (Reasoning("Hm."), Text("Hi.")),
    "stop",
    Native("anthropic", Raw(b'[{"type":"thinking","thinking":"Hm.","signature":"s"}]')),
)


class Signing:
    """A model whose turns have JSON of their own."""

    def __init__(self) -> None:
        self.heard: list[list[Turn]] = []

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.heard.append(list(request.turns))
        return ModelFinished(SIGNED, Usage(1, 1))


async def test_a_chain_keeps_the_models_own_json(door: Door, stream: bool) -> None:
    model = Signing()
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream)
        await ask(client, stream, input="and?", previous_response_id=first.id)

    assert model.heard[1] == [user("go"), SIGNED, user("and?")]


async def test_a_caller_that_keeps_its_conversation_can_carry_the_models_own_json(door: Door, stream: bool) -> None:
    model = Signing()
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream, store=False, include=["reasoning.encrypted_content"])
        said: list[Any] = [{"role": "user", "content": "go"}, *_sent_back(first), {"role": "user", "content": "and?"}]
        await ask(client, stream, store=False, input=said)
        edited = [message("Something else.") if item.get("role") == "assistant" else item for item in said]
        await ask(client, stream, store=False, input=edited)
        await ask(served.client("eve"), stream, store=False, input=said)

    assert model.heard[1] == [user("go"), SIGNED, user("and?")]
    plain = [turn for heard in model.heard[2:] for turn in heard if isinstance(turn, AssistantTurn)]
    assert [(turn.text, turn.native is None or turn.native.api) for turn in plain] == [
        ("Something else.", "openai-responses@caller"),
        ("Hi.", "openai-responses@caller"),
    ]


async def test_what_a_caller_carries_is_good_after_a_restart(door: Door, stream: bool, tmp_path: Path) -> None:
    model, catalog = Signing(), str(tmp_path / "catalog.db")
    async with door.serving(model, catalog=SqliteCatalog(catalog)) as served:
        first = await ask(served.client(), stream, store=False, include=["reasoning.encrypted_content"])
    said: list[Any] = [{"role": "user", "content": "go"}, *_sent_back(first), {"role": "user", "content": "and?"}]
    async with door.serving(model, catalog=SqliteCatalog(catalog)) as served:
        await ask(served.client(), stream, store=False, input=said)

    assert model.heard[1] == [user("go"), SIGNED, user("and?")]


ASKED = AssistantTurn(
    (Reasoning("Hm."), ToolCall("c1", "pick", '{"color":"red"}')),
    "tool_calls",
    Native("anthropic", Raw(b'[{"type":"tool_use","id":"c1","signature":"s"}]')),
)


class Asking(Signing):
    """One whose first turn asks for something of the caller's."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        finished = await super().call(request, show)
        return ModelFinished(ASKED, Usage(1, 1)) if len(self.heard) == 1 else finished


@pytest.mark.parametrize("is_kept", [True, False], ids=["the run is found", "the run is gone"])
async def test_a_call_under_an_id_of_ours_carries_the_models_own_json(door: Door, stream: bool, is_kept: bool) -> None:
    """The seal has the model's id, the items have ours: they are compared, and told the model, by what stands for what."""
    model = Asking()
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, stream, store=False, tools=[PICK], include=["reasoning.encrypted_content"])
        [call_id] = [item.call_id for item in first.output if item.type == "function_call"]
        if not is_kept:
            served.server.runs.memory = MemoryJournal()
        asked: list[Any] = [{"role": "user", "content": "go"}, *_sent_back(first), output(call_id, "picked")]
        await ask(client, stream, store=False, input=asked, tools=[PICK])

    assert call_id != "c1"
    assert model.heard[1] == [user("go"), ASKED, ToolTurn((ToolResult("c1", "picked"),))]


async def test_without_being_asked_for_nothing_is_sealed(door: Door, stream: bool) -> None:
    async with door.serving(Signing()) as served:
        response = await ask(served.client(), stream)

    assert [item.type for item in response.output] == ["reasoning", "message"]


def _sent_back(response: Any) -> list[Json]:
    items: list[Json] = []
    for item in response.to_dict()["output"]:
        for part in item.get("content", []):
            part.pop("parsed", None)
        items.append(item)
    return items


# ---- items by their names --------------------------------------------------------------------------------------------


async def test_items_of_stored_responses_can_be_named(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Hello."), says("Again."))
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(
            client, stream, input=[{"role": "user", "content": "hi"}, {"role": "user", "content": "there"}]
        )
        given = await client.responses.input_items.list(first.id, order="asc")
        named = [
            {"type": "item_reference", "id": given.data[1].id},
            {"id": first.output[0].id},
            {"role": "user", "content": "and?"},
        ]
        await ask(client, stream, input=named)
        with pytest.raises(openai.NotFoundError, match="Item with id") as other:
            await ask(served.client("eve"), stream, input=named)
        with pytest.raises(openai.NotFoundError, match="msg_nothing"):
            await ask(client, stream, input=[{"type": "item_reference", "id": "msg_nothing"}])

    heard = model.heard[1]
    assert (heard[0], heard[2]) == (user("there"), user("and?"))
    assert isinstance(heard[1], AssistantTurn)
    assert heard[1].text == "Hello."
    assert other.value.param == "input[0].id"


# ---- compaction ------------------------------------------------------------------------------------------------------


async def test_a_conversation_is_compacted_by_one_call_with_tools_off(door: Door) -> None:
    model = ScriptedModel(*LOOKS, says("They looked, it is a."), says("It was a."))
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, False, input="look")
        compacted = await client.responses.compact(model="default", previous_response_id=first.id, input="and now?")
        base: Any = [item.to_dict(warnings=False) for item in compacted.output]
        await ask(client, False, input=[*base, {"role": "user", "content": "what was it?"}])
        again = await post(served, {"model": "default", "input": base}, "/responses/compact")

    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message", "message", "compaction"]
    assert compacted.usage.total_tokens == 15
    assert (model.requests[2].tools, model.requests[2].choice.mode) == ((), "none")
    assert model.heard[2][:-1] == [user("look"), *LOOKED, user("and now?")]
    told = model.heard[3]
    assert told[:2] == [user("look"), user("and now?")]
    assert "They looked, it is a." in told[2].parts[0].text  # type: ignore[union-attr]
    assert told[3:] == [user("what was it?")]
    assert again.status == 502  # the script is over; but what was compacted was read


async def test_a_compacted_conversation_is_no_response(door: Door) -> None:
    async with door.serving(ScriptedModel(says("Summary."))) as served:
        client = served.client()
        compacted = await client.responses.compact(model="default", input="a long story")
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(compacted.id)


async def test_compaction_wants_a_model_and_takes_no_other_fields(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        nameless = await post(served, {"input": "a"}, "/responses/compact")
        more = await post(served, {"model": "default", "input": "a", "tools": []}, "/responses/compact")

    assert (nameless.status, nameless.error["param"]) == (400, "model")
    assert (more.status, more.error["param"]) == (400, "tools")
