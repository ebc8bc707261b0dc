"""What /v1/agents/completions answers: one message or several, plain or streamed, and what goes wrong on the way."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mistralai.client import errors
from tests.interaction.doors import Door, Json, soon
from tests.interaction.upstreams import Upstream, delta, streams
from tests.server.mistral_doors import chunks, fold, function, serving, without_ids

from ronda import tool
from ronda.core.events import ModelFinished, RunFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolResult, ToolTurn
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

HI: list[Any] = [{"role": "user", "content": "hi"}]
COMPLETIONS = "/v1/agents/completions"


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def both(door: Door, lines: list[Line], *tools: Any, **request: Any) -> tuple[Json, list[Json]]:
    """The same question, asked plain and streamed, of models that say the same: the body, and the chunks."""
    body = {"agent_id": "default", "messages": HI, **request}
    async with serving(door, ScriptedModel(*lines), *tools) as behind:
        status, plain = await behind.ask("POST", COMPLETIONS, body)
    assert status == 200, plain
    async with serving(door, ScriptedModel(*lines), *tools) as behind:
        return plain, chunks(await behind.stream(COMPLETIONS, {**body, "stream": True}))


# ---- message and messages ----------------------------------------------------------------------------------------------


async def test_an_answer_without_tools_is_one_message(door: Door) -> None:
    plain, read = await both(door, [says("Sunny.")])

    [choice] = plain.pop("choices")
    assert choice == {"index": 0, "message": {"role": "assistant", "content": "Sunny."}, "finish_reason": "stop"}
    assert plain.keys() == {"id", "object", "created", "model", "usage", "session_id"}
    assert (plain["object"], plain["model"]) == ("chat.completion", "test")
    assert plain["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert fold(read).messages == [choice["message"]]
    assert {chunk["object"] for chunk in read} == {"chat.completion.chunk"}


CALLED = {"id": "call_0_0", "type": "function", "function": {"name": "lookup", "arguments": '{"q":"x"}'}, "index": 0}


async def test_where_tools_ran_the_message_is_the_last_one_and_messages_has_them_all(door: Door) -> None:
    plain, _ = await both(door, [calls("lookup", q="x"), says("Sunny.")], lookup)

    [choice] = plain["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Sunny."}
    assert choice["messages"] == [
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "call_0_0", "name": "lookup", "content": "found x"},
        {"role": "assistant", "content": "Sunny."},
    ]
    assert plain["agentic_tool_calls"] == [
        {
            "round": 0,
            "tool_call_id": "call_0_0",
            "name": "lookup",
            "arguments": '{"q":"x"}',
            "result_content": "found x",
        }
    ]


async def test_the_sdk_reads_an_answer_with_messages(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="x"), Line(text="Sunny.", reasoning="hm"))
    async with serving(door, model, lookup) as behind, behind.client() as client:
        answer = await client.agents.complete_async(agent_id="default", messages=HI)

    [choice] = answer.choices
    assert [chunk.type for chunk in choice.message.content] == ["thinking", "text"]
    assert [message.role for message in choice.messages] == ["assistant", "tool", "assistant"]
    assert choice.messages[0].tool_calls[0].function.name == "lookup"


SCRIPTS: dict[str, list[Line]] = {
    "text": [says("one two three")],
    "thoughts": [Line(text="Sunny.", reasoning="hm, hm")],
    "tools": [calls("lookup", q="x"), says("Sunny.")],
    "text before tools": [calls("lookup", q="x", text="Let me look."), says("Sunny.")],
    "thoughts in each round": [
        Line(text="Let me look.", reasoning="first", calls=(Call("lookup", {"q": "x"}),)),
        Line(text="Sunny.", reasoning="then"),
    ],
    "two tools at once": [calls(Call("lookup", {"q": "a"}), Call("lookup", {"q": "b"})), says("Sunny.")],
    "nothing at all": [calls("lookup", q="x"), says("")],
    "a caller's call": [calls("weather", city="Rome", text="I see.")],
    "a caller's call behind one of ours": [calls("lookup", q="x", text="One."), calls("weather", city="Rome")],
    "both in one turn": [calls(Call("lookup", {"q": "x"}), Call("weather", {"city": "Rome"}), text="Both.")],
    "cut": [Line(text="so", stop="length")],
    "a tool that is not there": [calls("nope"), says("Sunny.")],
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_a_stream_adds_up_to_the_plain_answer(door: Door, script: list[Line]) -> None:
    plain, read = await both(door, script, lookup, tools=[function("weather", city="string")])

    [choice] = plain["choices"]
    folded = fold(read)
    assert without_ids(folded.messages[-1]) == without_ids(choice["message"])
    assert folded.finish_reason == choice["finish_reason"]
    assert folded.usage == plain["usage"]
    said = [one["content"] for one in choice.get("messages", [choice["message"]]) if one["role"] == "assistant"]
    assert [one for one in said if one] == [one["content"] for one in folded.messages if one["content"]]
    records = [
        (one["round"], one["tool_name"], one["data"]["content"])
        for one in folded.progress
        if one["phase"] == "complete"
    ]
    assert sorted(records) == sorted(
        (one["round"], one["name"], one["result_content"]) for one in plain.get("agentic_tool_calls", [])
    )


async def test_texts_that_are_only_joined_have_a_paragraph_between_them(door: Door) -> None:
    _, read = await both(door, [calls("lookup", q="x", text="Let me look."), says("Sunny.")], lookup)

    texts = [part["delta"].get("content", "") for chunk in read for part in chunk["choices"]]
    assert "".join(texts) == "Let me look.\n\nSunny."


async def test_progress_rides_in_chunks_with_one_empty_choice_and_the_sdk_reads_on(door: Door) -> None:
    lines = [calls("lookup", q="x"), says("Sunny.")]
    _, read = await both(door, lines, lookup)
    async with serving(door, ScriptedModel(*lines), lookup) as behind, behind.client() as client:
        events = [event.data async for event in await client.agents.stream_async(agent_id="default", messages=HI)]

    assert [one["phase"] for one in fold(read).progress] == ["calling", "complete"]
    assert fold(read).progress[1] == {
        "round": 0,
        "tool_name": "lookup",
        "tool_call_id": "call_0_0",
        "phase": "complete",
        "data": {"tool_type": "custom", "arguments": '{"q":"x"}', "input": {"q": "x"}, "content": "found x"},
    }
    assert "".join(str(event.choices[0].delta.content) for event in events) == "Sunny."


async def test_several_choices_have_an_index_each(door: Door) -> None:
    plain, read = await both(door, [says("Sunny."), says("Sunny.")], n=2)

    assert [(one["index"], one["message"]["content"]) for one in plain["choices"]] == [(0, "Sunny."), (1, "Sunny.")]
    assert [fold(read, choice).messages[-1]["content"] for choice in (0, 1)] == ["Sunny.", "Sunny."]
    assert plain["usage"] == fold(read).usage == {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


async def test_a_limit_is_named_and_the_last_answer_given(door: Door) -> None:
    plain, read = await both(door, [calls("lookup", q="x"), says("Enough.")], lookup, max_tool_rounds=1)

    assert plain["limit"] == fold(read).top["limit"] == "max_tool_rounds"
    assert plain["choices"][0]["finish_reason"] == "stop"


async def test_an_answer_in_a_form_is_shown_when_it_was_checked(door: Door) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    answer_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    lines = [calls("lookup", q="x", text="Let me look."), says("wrong"), says('{"a": 1}')]

    plain, read = await both(door, lines, lookup, response_format=answer_format)

    assert plain["choices"][0]["message"]["content"] == '{"a": 1}'
    assert [one["content"] for one in fold(read).messages] == ['{"a": 1}']


async def test_a_session_is_said_again(door: Door) -> None:
    plain, read = await both(door, [says("Sunny.")], session_id="mine")

    assert plain["session_id"] == fold(read).top["session_id"] == "mine"


# ---- calls of the caller -------------------------------------------------------------------------------------------------


async def test_our_half_of_a_turn_is_found_again_when_the_callers_half_comes(door: Door) -> None:
    model = ScriptedModel(calls(Call("lookup", {"q": "x"}), Call("weather", {"city": "Rome"})), says("Sunny."))
    tools = [function("weather", city="string")]
    async with serving(door, model, lookup) as behind, behind.client() as client:
        first = await client.agents.complete_async(agent_id="default", messages=HI, tools=tools)
        [asked] = first.choices[0].message.tool_calls
        result = {"role": "tool", "tool_call_id": asked.id, "content": "hot"}
        second = await client.agents.complete_async(
            agent_id="default", messages=[*HI, first.choices[0].message, result], tools=tools
        )

    assert (asked.function.name, first.choices[0].finish_reason) == ("weather", "tool_calls")
    assert second.choices[0].message.content == "Sunny."
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", "found x"), ToolResult("call_0_1", "hot")))


async def test_a_caller_may_send_back_all_messages_and_nothing_is_said_twice(door: Door) -> None:
    model = ScriptedModel(calls("lookup", q="x", text="One."), calls("weather", city="Rome"), says("Sunny."))
    tools = [function("weather", city="string")]
    async with serving(door, model, lookup) as behind:
        body = {"agent_id": "default", "messages": HI, "tools": tools}
        _, first = await behind.ask("POST", COMPLETIONS, body)
        history = [*HI, *first["choices"][0]["messages"]]
        result = {"role": "tool", "tool_call_id": "call_1_0", "content": "hot"}
        _, second = await behind.ask("POST", COMPLETIONS, {**body, "messages": [*history, result]})

    assert second["choices"][0]["message"]["content"] == "Sunny."
    assert [type(turn).__name__ for turn in model.heard[2]] == [
        "UserTurn", "AssistantTurn", "ToolTurn", "AssistantTurn", "ToolTurn",
    ]  # fmt: skip


def call_piece(arguments: str, **first: Any) -> Json:
    return delta(tool_calls=[{"index": 0, "function": {"arguments": arguments, **first.pop("function", {})}, **first}])


async def test_the_first_arguments_are_here_before_the_upstream_sends_its_last(door: Door) -> None:
    first = call_piece('{"city":', id="abcdefghi", function={"name": "weather"})
    act = streams(first, ..., call_piece('"Rome"}'), delta(finish="tool_calls"), "[DONE]")
    body = {"agent_id": "default", "messages": HI, "stream": True, "tools": [function("weather", city="string")]}
    async with Upstream(act) as upstream, serving(door, upstream.url, spec="mistral:small") as behind:
        url = behind.url + COMPLETIONS
        async with soon(), behind.http.post(url, json=body, headers={"authorization": "Bearer k"}) as answer:
            seen = b""
            while b'{\\"city\\":' not in seen:
                seen += await answer.content.readany()
            upstream.shown.set()
            seen += await answer.read()

    [message] = fold(chunks(seen)).messages
    [asked] = message["tool_calls"]
    assert asked["function"] == {"name": "weather", "arguments": '{"city":"Rome"}'}


async def test_pieces_of_calls_are_read_by_the_sdk(door: Door) -> None:
    model = ScriptedModel(calls(Call("weather", {"city": "Rome"}), Call("clock", {})))
    tools = [function("weather", city="string"), function("clock")]
    async with serving(door, model) as behind, behind.client() as client:
        pieces: list[Any] = []
        async for event in await client.agents.stream_async(agent_id="default", messages=HI, tools=tools):
            for choice in event.data.choices:
                pieces += choice.delta.tool_calls or ()

    joined: dict[int, list[str]] = {}
    for piece in pieces:
        call = joined.setdefault(piece.index, ["", "", ""])
        call[0] = piece.id
        call[1] += piece.function.name
        call[2] += piece.function.arguments
    assert joined == {0: ["call_0_0", "weather", '{"city":"Rome"}'], 1: ["call_0_1", "clock", "{}"]}


# ---- what goes wrong -----------------------------------------------------------------------------------------------------


async def test_an_agent_that_does_not_exist_is_a_404(door: Door) -> None:
    async with serving(door, ScriptedModel()) as behind, behind.client() as client:
        with pytest.raises(errors.SDKError) as refused:
            await client.agents.complete_async(agent_id="nobody", messages=HI)

    assert refused.value.status_code == 404
    assert json.loads(refused.value.body) == {
        "object": "error",
        "message": "the agent 'nobody' does not exist; make one with POST /v1/agents, or name one of 'default', 'test'",
        "type": "invalid_request_error",
        "param": "agent_id",
        "code": "agent_not_found",
    }


@pytest.mark.parametrize(("status", "answered"), [(400, 400), (429, 429), (500, 502)])
async def test_what_the_upstream_refuses_is_said_with_its_words(door: Door, status: int, answered: int) -> None:
    lines = [fails("no way", status, 0.0)] * 3
    async with serving(door, ScriptedModel(*lines)) as behind:
        got, body = await behind.ask("POST", COMPLETIONS, {"agent_id": "default", "messages": HI})

    assert (got, body["object"], body["message"], body["code"]) == (answered, "error", "no way", "upstream_error")


async def test_a_stream_that_fails_ends_with_an_error_and_done(door: Door) -> None:
    async with serving(door, ScriptedModel(calls("lookup", q="a"), fails("no way", 400)), lookup) as behind:
        read = chunks(await behind.stream(COMPLETIONS, {"agent_id": "default", "messages": HI, "stream": True}))

    folded = fold(read)
    assert folded.finish_reason == "error"
    assert folded.top["error"] == {
        "message": "no way",
        "type": "invalid_request_error",
        "param": None,
        "code": "upstream_error",
    }


async def test_a_server_that_breaks_down_says_so_in_the_same_shape(door: Door, stream: bool) -> None:
    class Broken:
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            raise ZeroDivisionError

    async with serving(door, Broken()) as behind:
        body = {"agent_id": "default", "messages": HI}
        status, said = await behind.ask("POST", COMPLETIONS, {**body, "stream": stream})
        assert (status, said["object"]) == (500, "error")


class Slow:
    """Says a word, and then nothing until it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.stream:
            show([TextDelta("so ")])
        self.asked.set()
        await self.let.wait()
        return ModelFinished(AssistantTurn((Text("so it is"),)))


async def test_a_client_that_leaves_ends_the_run(door: Door, stream: bool) -> None:
    model = Slow()
    body = {"agent_id": "default", "messages": HI, "stream": stream}
    async with serving(door, model) as behind:
        asking = asyncio.create_task(behind.ask("POST", COMPLETIONS, body))
        async with soon():
            await model.asked.wait()
        asking.cancel()
        await behind.journal.until(RunFinished)
        [events] = [await behind.journal.read(run) for run in behind.journal.runs]

    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "cancelled"


ELSEWHERE: dict[str, tuple[str, str, int]] = {
    "a door that takes POST": ("GET", COMPLETIONS, 405),
    "an address that is none": ("GET", "/v1/agents/ag_1/nowhere", 404),
    "a conversation's": ("GET", "/v1/conversations/conv_1/nowhere", 404),
    "a method agents have not": ("PUT", "/v1/agents", 405),
}


@pytest.mark.parametrize(("method", "path", "status"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
async def test_errors_of_all_its_addresses_have_the_same_shape(door: Door, method: str, path: str, status: int) -> None:
    async with serving(door, ScriptedModel()) as behind:
        got, body = await behind.ask(method, path)

    assert got == status
    assert body.keys() == {"object", "message", "type", "param", "code"}


@pytest.mark.parametrize(("headers", "status"), [({"content-type": "text/plain"}, 415)])
async def test_another_content_type_is_refused(door: Door, headers: dict[str, str], status: int) -> None:
    async with serving(door, ScriptedModel()) as behind:
        got, body = await behind.ask("POST", COMPLETIONS, {"agent_id": "default", "messages": HI}, headers=headers)

    assert (got, body["object"]) == (status, "error")


async def test_a_body_over_the_limit_is_a_413(door: Door) -> None:
    async with serving(door, ScriptedModel(), max_body=100) as behind:
        got, body = await behind.ask(
            "POST", COMPLETIONS, {"agent_id": "default", "messages": [{"role": "user", "content": "x" * 100}]}
        )

    assert (got, body["object"]) == (413, "error")


async def test_a_result_that_nobody_waits_for_is_the_callers_mistake(door: Door) -> None:
    history = [*HI, {"role": "tool", "tool_call_id": "zzz", "content": "hot"}]
    async with serving(door, ScriptedModel()) as behind:
        got, body = await behind.ask("POST", COMPLETIONS, {"agent_id": "default", "messages": history})

    assert (got, body["object"]) == (400, "error")
    assert "zzz" in body["message"]
