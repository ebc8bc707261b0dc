"""One turn may ask for our tools and the caller's: ours run, theirs go out, and their results find our half again."""

from __future__ import annotations

import re

import openai
import pytest
from tests.interaction.doors import Door, Said, declared, result, user
from tests.interaction.upstreams import call

from ronda import tool
from ronda.core.parts import AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Turn
from ronda.core.parts import user as says_user
from ronda.core.transcript import NO_RESULT
from ronda.providers.script import Call, Line, ScriptedModel, calls, says


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


ASK = declared("ask_user", question="string")
PICK = declared("pick", color="string")

MIXED = Line(
    calls=(
        Call("lookup", {"q": "a"}, "c1"),
        Call("ask_user", {"question": "why?"}, "c2"),
        Call("lookup", {"q": "b"}, "c3"),
    )
)
MIXED_TURN = AssistantTurn(
    (
        ToolCall("c1", "lookup", '{"q":"a"}'),
        ToolCall("c2", "ask_user", '{"question":"why?"}'),
        ToolCall("c3", "lookup", '{"q":"b"}'),
    ),
    "tool_calls",
)
WHOLE: list[Turn] = [
    says_user("go"),
    MIXED_TURN,
    ToolTurn((ToolResult("c1", "found a"), ToolResult("c2", "because"), ToolResult("c3", "found b"))),
]


def given(said: Said, place: int = 0) -> str:
    """The id under which a call went out."""
    return said.calls[place][0]


def in_order(said: Said) -> Said:
    """Calls that run side by side are recorded as they end; which is first does not matter here."""
    said.records.sort(key=lambda record: (record["round"], record["tool_call_id"]))
    return said


async def test_ours_run_and_the_callers_go_out(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(MIXED), lookup) as served:
        said = await served.ask(stream=stream, tools=[ASK])

    assert re.fullmatch("call_[A-Za-z0-9]{9}", given(said))
    assert in_order(said) == Said(
        calls=[(given(said), "ask_user", '{"question":"why?"}')],
        finish_reason="tool_calls",
        usage=(10, 5),
        records=[
            {"round": 0, "tool_call_id": "c1", "name": "lookup", "arguments": '{"q":"a"}', "result_content": "found a"},
            {"round": 0, "tool_call_id": "c3", "name": "lookup", "arguments": '{"q":"b"}', "result_content": "found b"},
        ],
    )


async def test_the_callers_results_find_our_half_again(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        said = await served.ask(
            [user("go"), first.message, result(given(first), "because")], stream=stream, tools=[ASK]
        )

    assert said == Said("done", finish_reason="stop", usage=(10, 5))
    assert model.heard[1] == WHOLE


async def test_the_results_alone_are_enough(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        said = await served.ask([result(given(first), "because")], stream=stream, tools=[ASK])

    assert said.content == "done"
    assert model.heard[1] == WHOLE


async def test_the_results_may_come_without_the_assistants_message(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        said = await served.ask([user("go"), result(given(first), "because")], stream=stream, tools=[ASK])

    assert said.content == "done"
    assert model.heard[1] == WHOLE


async def test_another_key_does_not_find_the_run_by_a_result_alone(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, key="alice", tools=[ASK])
        with pytest.raises(openai.BadRequestError, match=given(first)) as refused:
            await served.ask([result(given(first), "because")], stream=stream, key="mallory", tools=[ASK])

    assert refused.value.type == "invalid_request_error"
    assert len(model.heard) == 1


async def test_another_key_sees_nothing_of_our_half(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, key="alice", tools=[ASK])
        conversation = [user("go"), first.message, result(given(first), "because")]
        await served.ask(conversation, stream=stream, key="mallory", tools=[ASK])

    assert model.heard[1] == [
        says_user("go"),
        AssistantTurn((ToolCall(given(first), "ask_user", '{"question":"why?"}'),), "tool_calls"),
        ToolTurn((ToolResult(given(first), "because"),)),
    ]


async def test_two_conversations_with_the_same_ids_are_not_mixed_up(door: Door, stream: bool) -> None:
    """Some models count their calls instead of making ids up, so every conversation has the same ones."""
    asked = [Line(calls=(Call("lookup", {"q": q}, "c1"), Call("ask_user", {"question": "why?"}, "c2"))) for q in "ab"]
    model = ScriptedModel(*asked, says("A."), says("B."))
    async with door.serving(model, lookup) as served:
        first = await served.ask("I am a.", stream=stream, tools=[ASK])
        second = await served.ask("I am b.", stream=stream, tools=[ASK])
        for who, said in (("a", first), ("b", second)):
            await served.ask(
                [user(f"I am {who}."), said.message, result(given(said), "so")],
                stream=stream,
                tools=[ASK],
                max_tool_rounds=4,
            )

    for who, heard in zip("ab", model.heard[2:], strict=True):
        results = ToolTurn((ToolResult("c1", f"found {who}"), ToolResult("c2", "so")))
        assert (heard[0], heard[2]) == (says_user(f"I am {who}."), results)


async def test_two_turns_of_a_conversation_with_the_same_ids_are_not_mixed_up(door: Door, stream: bool) -> None:
    asked = [Line(calls=(Call("lookup", {"q": q}, "c1"), Call("ask_user", {"question": "why?"}, "c2"))) for q in "ab"]
    model = ScriptedModel(*asked, says("Done."))
    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        before = [user("go"), first.message, result(given(first), "so")]
        second = await served.ask(before, stream=stream, tools=[ASK])
        ((new, _, _),) = second.calls  # ours may repeat its id, the caller's never does
        await served.ask([*before, second.message, result(new, "well")], stream=stream, tools=[ASK])

    results = [turn for turn in model.heard[2] if isinstance(turn, ToolTurn)]
    assert [[one.content for one in turn.results] for turn in results] == [["found a", "so"], ["found b", "well"]]
    assert new != given(first)


async def test_results_alone_find_their_conversation_whoever_else_waits(door: Door, stream: bool) -> None:
    """The model has the same ids in every conversation; what the callers have tells them apart."""
    asked = [Line(calls=(Call("lookup", {"q": q}, "c1"), Call("ask_user", {"question": "why?"}, "c2"))) for q in "abc"]
    model = ScriptedModel(*asked, says("B."), says("A."), says("C."))
    async with door.serving(model, lookup) as served:
        said = {who: await served.ask("I am the same.", stream=stream, tools=[ASK]) for who in "abc"}
        for who in "bac":
            await served.ask([result(given(said[who]), f"so {who}")], stream=stream, tools=[ASK])

    for who, heard in zip("bac", model.heard[3:], strict=True):
        assert heard[-1] == ToolTurn((ToolResult("c1", f"found {who}"), ToolResult("c2", f"so {who}")))


async def test_a_run_is_used_only_for_calls_of_the_names_it_gave(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"))
    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK, PICK])
        edited = {"role": "assistant", "content": None, "tool_calls": [call("pick", given(first), color="red")]}
        await served.ask([user("go"), edited, result(given(first), "because")], stream=stream, tools=[ASK, PICK])

    asked = AssistantTurn((ToolCall(given(first), "pick", '{"color": "red"}'),), "tool_calls")
    assert model.heard[1] == [says_user("go"), asked, ToolTurn((ToolResult(given(first), "because"),))]


async def test_a_turn_that_was_the_callers_alone_finds_no_other_conversation(door: Door, stream: bool) -> None:
    """Its ids may be those of a mixed turn that another client waits for."""
    mixed = Line(calls=(Call("lookup", {"q": "b"}, "c1"), Call("ask_user", {"question": "why?"}, "c2")))
    alone = calls(Call("ask_user", {"question": "why?"}, "c2"))
    model = ScriptedModel(mixed, alone, says("Done."))
    async with door.serving(model, lookup) as served:
        await served.ask("I am b.", stream=stream, tools=[ASK])
        said = await served.ask("I am a.", stream=stream, tools=[ASK], max_tool_rounds=0)
        await served.ask([user("I am a."), said.message, result("c2", "so")], stream=stream, tools=[ASK])

    asked = AssistantTurn((ToolCall("c2", "ask_user", '{"question":"why?"}'),), "tool_calls")
    assert model.heard[2] == [says_user("I am a."), asked, ToolTurn((ToolResult("c2", "so"),))]


async def test_rounds_the_caller_never_saw_are_found_too(door: Door, stream: bool) -> None:
    alone = Line("First this.", calls=(Call("lookup", {"q": "x"}, "c0"),))
    model = ScriptedModel(alone, MIXED, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        await served.ask([user("go"), first.message, result(given(first), "because")], stream=stream, tools=[ASK])

    assert first.content == "First this."
    assert model.heard[2] == [
        says_user("go"),
        AssistantTurn((Text("First this."), ToolCall("c0", "lookup", '{"q":"x"}')), "tool_calls"),
        ToolTurn((ToolResult("c0", "found x"),)),
        *WHOLE[1:],
    ]


async def test_a_conversation_with_two_mixed_turns_is_whole_at_the_end(door: Door, stream: bool) -> None:
    again = Line(calls=(Call("ask_user", {"question": "sure?"}, "d1"), Call("lookup", {"q": "z"}, "d2")))
    model = ScriptedModel(MIXED, again, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        conversation = [user("go"), first.message, result(given(first), "because")]
        second = await served.ask(conversation, stream=stream, tools=[ASK])
        conversation += [second.message, result(given(second), "yes")]
        third = await served.ask(conversation, stream=stream, tools=[ASK])

    assert third.content == "done"
    assert model.heard[2] == [
        *WHOLE,
        AssistantTurn(
            (ToolCall("d1", "ask_user", '{"question":"sure?"}'), ToolCall("d2", "lookup", '{"q":"z"}')), "tool_calls"
        ),
        ToolTurn((ToolResult("d1", "yes"), ToolResult("d2", "found z"))),
    ]


async def test_two_mixed_turns_answered_with_results_alone_are_whole_at_the_end(door: Door, stream: bool) -> None:
    again = Line(calls=(Call("ask_user", {"question": "sure?"}, "d1"), Call("lookup", {"q": "z"}, "d2")))
    model = ScriptedModel(MIXED, again, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        second = await served.ask([result(given(first), "because")], stream=stream, tools=[ASK])
        await served.ask([result(given(second), "yes")], stream=stream, tools=[ASK])

    assert model.heard[2][:3] == WHOLE
    assert model.heard[2][-1] == ToolTurn((ToolResult("d1", "yes"), ToolResult("d2", "found z")))


async def test_results_in_any_order_are_heard_in_the_models_order(door: Door, stream: bool) -> None:
    asks = Line(
        calls=(
            Call("pick", {"color": "red"}, "p1"),
            Call("lookup", {"q": "a"}, "p2"),
            Call("ask_user", {"question": "why?"}, "p3"),
        )
    )
    model = ScriptedModel(asks, says("done"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK, PICK])
        last, picked = result(given(first, 1), "because"), result(given(first), "picked")
        conversation = [user("go"), first.message, last, picked]
        await served.ask(conversation, stream=stream, tools=[ASK, PICK])

    assert [name for _, name, _ in first.calls] == ["pick", "ask_user"]
    assert model.heard[1][-1] == ToolTurn(
        (ToolResult("p1", "picked"), ToolResult("p2", "found a"), ToolResult("p3", "because"))
    )


async def test_a_result_the_caller_does_not_bring_is_said_to_be_missing(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("pick", {"color": "red"}, "p1"), Call("lookup", {"q": "a"}, "p2"),
                                Call("pick", {"color": "blue"}, "p3")), says("done"))  # fmt: skip

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[PICK])
        await served.ask([user("go"), first.message, result(given(first, 1), "picked")], stream=stream, tools=[PICK])

    assert model.heard[1][-1] == ToolTurn(
        (ToolResult("p1", NO_RESULT, failed=True), ToolResult("p2", "found a"), ToolResult("p3", "picked"))
    )


async def test_the_callers_question_can_be_answered_twice(door: Door, stream: bool) -> None:
    """A client that lost our answer sends the same request again."""
    model = ScriptedModel(MIXED, says("done"), says("done again"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        conversation = [user("go"), first.message, result(given(first), "because")]
        await served.ask(conversation, stream=stream, tools=[ASK])
        again = await served.ask(conversation, stream=stream, tools=[ASK])

    assert again.content == "done again"
    assert model.heard[2] == WHOLE


async def test_a_conversation_goes_on_after_a_mixed_turn(door: Door, stream: bool) -> None:
    model = ScriptedModel(MIXED, says("done"), says("bye"))

    async with door.serving(model, lookup) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        conversation = [user("go"), first.message, result(given(first), "because")]
        second = await served.ask(conversation, stream=stream, tools=[ASK])
        third = await served.ask([*conversation, second.message, user("thanks")], stream=stream, tools=[ASK])

    assert third.content == "bye"
    assert model.heard[2] == [*WHOLE, AssistantTurn((Text("done"),)), says_user("thanks")]


@pytest.mark.parametrize("written", ['{"question": "why?",}', '```json\n{"question": "why?"}\n```', "why?", ""])
async def test_a_callers_call_is_handed_over_as_the_model_wrote_it(door: Door, stream: bool, written: str) -> None:
    model = ScriptedModel(calls(Call("ask_user", written, "c1"), Call("lookup", {"q": "a"}, "c2")), says("done"))

    async with door.serving(model, lookup) as served:
        said = await served.ask(stream=stream, tools=[ASK])

    assert (said.calls, said.finish_reason) == ([(given(said), "ask_user", written)], "tool_calls")
    assert [record["result_content"] for record in said.records] == ["found a"]


@pytest.mark.parametrize("written", ['{"question": "why?",}', "why?", ""])
async def test_without_server_tools_a_call_is_handed_over_as_the_model_wrote_it(
    door: Door, stream: bool, written: str
) -> None:
    async with door.serving(ScriptedModel(calls(Call("ask_user", written, "c1")))) as served:
        said = await served.ask(stream=stream, tools=[ASK])

    assert said == Said(calls=[("c1", "ask_user", written)], finish_reason="tool_calls", usage=(10, 5))


async def test_without_server_tools_the_caller_runs_the_loop(door: Door, stream: bool) -> None:
    model = ScriptedModel(calls(Call("ask_user", {"question": "why?"}, "c1")), says("done"))

    async with door.serving(model) as served:
        first = await served.ask(stream=stream, tools=[ASK])
        second = await served.ask([user("go"), first.message, result("c1", "because")], stream=stream, tools=[ASK])

    assert second == Said("done", finish_reason="stop", usage=(10, 5))
    assert model.heard[1] == [
        says_user("go"),
        AssistantTurn((ToolCall("c1", "ask_user", '{"question":"why?"}'),), "tool_calls"),
        ToolTurn((ToolResult("c1", "because"),)),
    ]
