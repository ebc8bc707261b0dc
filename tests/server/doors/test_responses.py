"""POST /v1/responses through the official SDK: plain and streamed, tools of ours and the caller's, forms, pictures, errors."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from tests.interaction.doors import Door, TakesFiles, soon
from tests.interaction.upstreams import Upstream, call, completes, delta, refuses, streams
from tests.server.responses_door import (
    as_sent,
    ask,
    events_of,
    function,
    items_of,
    message,
    output,
    post,
    schemas,
)

from ronda import tool
from ronda.core.events import RunFinished
from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    UserTurn,
    user,
)
from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says

PICK = function("pick", color="string")
PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


# ---- words -----------------------------------------------------------------------------------------------------------


async def test_a_text_gets_an_answer(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Hello there."))
    async with door.serving(model) as served:
        response = await ask(served.client(), stream, input="hi", instructions="Be brief.")

    assert model.heard == [[SystemTurn("Be brief."), user("hi")]]
    assert items_of(response) == [message("Hello there.")]
    assert (response.status, response.output_text) == ("completed", "Hello there.")
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (10, 5, 15)


async def test_thoughts_come_as_a_summary_before_the_answer(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(Line(text="Yes.", reasoning="Hm."))) as served:
        response = await ask(served.client(), stream)

    thoughts = {"type": "reasoning", "status": "completed", "summary": [{"type": "summary_text", "text": "Hm."}]}
    assert items_of(response) == [thoughts, message("Yes.")]


async def test_a_request_written_over_several_lines_has_a_stream_of_whole_lines(door: Door) -> None:
    """What is echoed stands in the data of an event, which ends at the first line break."""
    async with door.serving(ScriptedModel(says("Hi."))) as served:
        request = {"input": "go", "stream": True, "tools": [PICK]}
        raw = await post(served, json.dumps(request, indent=2).replace("\n", "\r\n").encode())

    last = json.loads(raw.frames[-2])
    assert last["response"]["tools"] == [PICK]
    assert [json.loads(said)["type"] for said in raw.frames[:2]] == ["response.created", "response.in_progress"]


async def test_a_stream_says_everything_in_the_schemas_words(door: Door) -> None:
    lines = (Line(text="Let me see.", reasoning="Hm.", calls=(Call("lookup", {"q": "a"}, "c1"),)), says("It is a."))
    async with door.serving(ScriptedModel(*lines), lookup) as served:
        raw = await post(served, {"input": "go", "stream": True})
    events = events_of(raw)

    assert raw.headers["content-type"].startswith("text/event-stream")
    progress = [event for event in events if event["type"] == "agentic_tool_call_progress"]
    assert [(event["phase"], event["tool_name"], event["round"]) for event in progress] == [
        ("calling", "lookup", 0),
        ("complete", "lookup", 0),
    ]
    assert items_of(events[-1]["response"])[1:] == [message("Let me see.", "commentary"), message("It is a.")]
    assert events[-1]["response"]["agentic_tool_calls"] == [
        {"round": 0, "tool_call_id": "c1", "name": "lookup", "arguments": '{"q":"a"}', "result_content": "found a"}
    ]


async def test_a_plain_answer_is_of_the_schema_and_is_what_the_stream_ends_with(door: Door) -> None:
    def model() -> ScriptedModel:
        return ScriptedModel(Line(text="Let me see.", calls=(Call("lookup", {"q": "a"}, "c1"),)), says("It is a."))

    request = {"input": "go", "session_id": "s", "metadata": {"a": "b"}, "max_tool_rounds": 3}
    async with door.serving(model(), lookup) as served:
        plain = (await post(served, request)).json
    async with door.serving(model(), lookup) as served:
        streamed = events_of(await post(served, {**request, "stream": True}))[-1]["response"]
    schemas().check(plain, "ResponseResource")

    differs = ("id", "created_at", "completed_at", "output")
    assert {name: value for name, value in plain.items() if name not in differs} == {
        name: value for name, value in streamed.items() if name not in differs
    }
    assert items_of(plain) == items_of(streamed)


async def test_an_answer_that_was_cut_is_incomplete(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("So far", stop="length"))) as served:
        response = await ask(served.client(), stream, max_output_tokens=16)

    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert items_of(response) == [message("So far", status="incomplete")]


# ---- tools -----------------------------------------------------------------------------------------------------------


async def test_the_callers_tools_go_out_as_calls_and_their_results_come_back(door: Door, stream: bool) -> None:
    model = ScriptedModel(
        Line(text="Both.", calls=(Call("pick", {"color": "red"}, "c1"), Call("pick", {"color": "blue"}, "c2"))),
        says("Done."),
    )
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream, tools=[PICK])
        sent = [{"role": "user", "content": "go"}, *[as_sent(item.to_dict()) for item in first.output]]
        second = await ask(client, stream, input=[*sent, output("c1", "1"), output("c2", "2")], tools=[PICK])

    picks = [
        {
            "type": "function_call",
            "call_id": call_id,
            "name": "pick",
            "arguments": f'{{"color":"{color}"}}',
            "status": "completed",
        }
        for call_id, color in (("c1", "red"), ("c2", "blue"))
    ]
    assert items_of(first) == [message("Both.", "commentary"), *picks]
    assert second.output_text == "Done."
    turn = AssistantTurn(
        (Text("Both."), ToolCall("c1", "pick", '{"color":"red"}'), ToolCall("c2", "pick", '{"color":"blue"}')),
        "tool_calls",
    )
    heard = model.heard[1]
    assert [heard[0], heard[2]] == [user("go"), ToolTurn((ToolResult("c1", "1"), ToolResult("c2", "2")))]
    assert isinstance(heard[1], AssistantTurn)
    assert heard[1].parts == turn.parts


async def test_the_first_piece_of_arguments_is_here_before_the_last_is_sent(door: Door) -> None:
    begun = call("pick", color="red")
    begun["function"]["arguments"] = '{"col'
    rest = {"index": 0, "function": {"arguments": 'or":"red"}'}}
    act = streams(
        delta(tool_calls=[{"index": 0, **begun}]), ..., delta(tool_calls=[rest]), delta(finish="tool_calls"), "[DONE]"
    )
    seen: list[str] = []
    async with Upstream(act) as upstream, door.serving(upstream.url) as served, soon():
        create: Any = served.client().responses.create
        events = await create(model="default", input="go", tools=[PICK], stream=True)
        async for event in events:
            if event.type == "response.function_call_arguments.delta":
                seen.append(event.delta)
                upstream.shown.set()  # only now does the upstream go on

    assert seen == ['{"col', 'or":"red"}']


async def test_of_a_mixed_turn_ours_run_and_the_callers_go_out(door: Door, stream: bool) -> None:
    mixed = Line(
        calls=(Call("lookup", {"q": "a"}, "c1"), Call("pick", {"color": "red"}, "c2"), Call("lookup", {"q": "b"}, "c3"))
    )
    model = ScriptedModel(mixed, says("Done."))
    async with door.serving(model, lookup) as served:
        client = served.client()
        first = await ask(client, stream, tools=[PICK])
        second = await ask(
            client,
            stream,
            tools=[PICK],
            input=[{"role": "user", "content": "go"}, first.output[0].to_dict(), output(first.output[0].call_id, "ok")],
        )

    assert [item["name"] for item in items_of(first)] == ["pick"]
    assert [record["tool_call_id"] for record in first.to_dict()["agentic_tool_calls"]] == ["c1", "c3"]
    assert second.output_text == "Done."
    assert model.heard[1][-1] == ToolTurn(
        (ToolResult("c1", "found a"), ToolResult("c2", "ok"), ToolResult("c3", "found b"))
    )


async def test_functions_of_a_namespace_are_called_by_both_names(door: Door, stream: bool) -> None:
    space = {"type": "namespace", "name": "paint", "description": "", "tools": [PICK]}
    model = ScriptedModel(calls(Call("paint.pick", {"color": "red"}, "c1")), says("Done."))
    async with door.serving(model) as served:
        client = served.client()
        first = await ask(client, stream, tools=[space])
        (made,) = items_of(first)
        second = await ask(
            client, stream, tools=[space], input=[{"role": "user", "content": "go"}, made, output("c1", "ok")]
        )

    assert (made["namespace"], made["name"]) == ("paint", "pick")
    assert [tool.name for tool in model.requests[0].tools] == ["paint.pick"]
    assert second.output_text == "Done."
    assert model.heard[1][1:] == [
        AssistantTurn((ToolCall("c1", "paint.pick", '{"color":"red"}'),), "tool_calls"),
        ToolTurn((ToolResult("c1", "ok"),)),
    ]


async def test_there_can_be_an_end_to_calls_and_to_rounds(door: Door, stream: bool) -> None:
    line = Line(calls=(Call("lookup", {"q": "a"}), Call("lookup", {"q": "b"})))
    async with door.serving(ScriptedModel(line, says("Enough.")), lookup) as served:
        by_calls = await ask(served.client(), stream, max_tool_calls=1)
    async with door.serving(ScriptedModel(line, says("Enough.")), lookup) as served:
        by_rounds = await ask(served.client(), stream, extra_body={"max_tool_rounds": 1})

    assert (by_calls.to_dict()["limit"], by_calls.max_tool_calls, by_calls.output_text) == (
        "max_tool_calls",
        1,
        "Enough.",
    )
    assert len(by_calls.to_dict()["agentic_tool_calls"]) == 1
    assert (by_rounds.to_dict()["limit"], by_rounds.output_text) == ("max_tool_rounds", "Enough.")
    assert len(by_rounds.to_dict()["agentic_tool_calls"]) == 2


async def test_without_parallel_calls_tools_run_one_after_the_other(door: Door, stream: bool) -> None:
    under_way = 0
    most = 0

    @tool
    async def slow(q: str) -> str:
        """Take a while."""
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return q

    line = Line(calls=(Call("slow", {"q": "a"}), Call("slow", {"q": "b"})))
    async with door.serving(ScriptedModel(line, says("Done.")), slow) as served:
        response = await ask(served.client(), stream, parallel_tool_calls=False)

    assert (most, response.parallel_tool_calls) == (1, False)


# ---- forms -----------------------------------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int


async def test_structured_output_is_parsed(door: Door, stream: bool) -> None:
    model = ScriptedModel(
        Line(text="Looking.", calls=(Call("lookup", {"q": "a"}),)), says('{"name": "Bern", "people": 146}')
    )
    async with door.serving(model, lookup) as served, soon():
        client = served.client()
        if stream:
            async with client.responses.stream(model="default", input="go", text_format=City) as events:
                response = await events.get_final_response()
        else:
            response = await client.responses.parse(model="default", input="go", text_format=City)

    assert response.output_parsed == City(name="Bern", people=146)
    answer_format = model.requests[0].options.response_format
    assert answer_format is not None
    assert (answer_format.type, answer_format.name, answer_format.strict) == ("json_schema", "City", True)
    schemas().check(json.loads(response.to_json())["text"], "TextField")


async def test_an_answer_that_is_not_the_form_is_an_error_after_a_second_chance(door: Door) -> None:
    async with door.serving(ScriptedModel(says("no"), says("no"))) as served:
        with pytest.raises(openai.InternalServerError, match="not JSON"):
            await ask(served.client(), False, text={"format": {"type": "json_object"}})


async def test_a_tools_arguments_are_parsed_by_the_sdk(door: Door, stream: bool) -> None:
    strict: Any = openai.pydantic_function_tool(City)["function"]
    async with door.serving(ScriptedModel(calls(Call("City", {"name": "Bern", "people": 146}, "c")))) as served:
        response = await ask(served.client(), stream, tools=[{"type": "function", **strict}])

    assert json.loads(response.output[0].arguments) == {"name": "Bern", "people": 146}


# ---- pictures, sounds, files -----------------------------------------------------------------------------------------


async def test_every_kind_of_content_reaches_the_model(door: Door, stream: bool) -> None:
    model = TakesFiles(says("I see."))
    content = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": PNG, "detail": "low"},
        {"type": "input_image", "image_url": "https://example.org/a.png"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,YQ=="},
        {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        {"type": "input_file", "file_id": "file-1"},
    ]
    async with door.serving(model) as served:
        await ask(served.client(), stream, input=[{"role": "user", "content": content}])

    assert model.heard == [
        [
            UserTurn(
                (
                    Text("Look:"),
                    Image(PNG, "low"),
                    Image("https://example.org/a.png"),
                    Audio("AAAA", "wav"),
                    File("data:text/plain;base64,YQ==", "a.txt"),
                    File("https://example.org/a.pdf"),
                    File(None, None, "file-1"),
                )
            )
        ]
    ]


async def test_a_result_can_be_a_picture(door: Door, stream: bool) -> None:
    model = ScriptedModel(says("Nice."))
    made = {"type": "function_call", "call_id": "c1", "name": "pick", "arguments": "{}"}
    seen = [{"type": "input_text", "text": "here"}, {"type": "input_image", "image_url": PNG, "detail": "auto"}]
    result = {"type": "function_call_output", "call_id": "c1", "output": seen}
    async with door.serving(model) as served:
        await ask(served.client(), stream, input=[{"role": "user", "content": "go"}, made, result], tools=[PICK])

    assert model.heard[0][-1] == ToolTurn((ToolResult("c1", "here", attachments=(Image(PNG, "auto"),)),))


async def test_all_that_an_assistant_can_have_said_is_read(door: Door) -> None:
    model = ScriptedModel(says("ok"))
    said = [
        {"role": "user", "content": "a"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "one"}],
            "phase": "commentary",
        },
        {"role": "assistant", "content": "two"},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "developer", "content": [{"type": "input_text", "text": "be kind"}]},
        {"role": "user", "content": "b"},
    ]
    async with door.serving(model) as served:
        await ask(served.client(), False, input=said)

    turns = [turn.parts if isinstance(turn, AssistantTurn) else turn for turn in model.heard[0]]
    assert turns == [
        user("a"),
        (Text("one"),),
        (Text("two"),),
        (Refusal("no"),),
        SystemTurn("be kind", "developer"),
        user("b"),
    ]


# ---- what goes wrong -------------------------------------------------------------------------------------------------


async def test_a_model_that_fails_is_an_error_or_the_end_of_the_stream(door: Door) -> None:
    async with door.serving(ScriptedModel(*[fails("overloaded", 429)] * 3)) as served:
        with pytest.raises(openai.RateLimitError, match="overloaded"):
            await ask(served.client(), False)
    lines = [calls(Call("lookup", {"q": "a"}, "c1")), *[fails("overloaded", 429)] * 3]
    async with door.serving(ScriptedModel(*lines), lookup) as served:
        failed = await ask(served.client(), True)

    assert (failed.status, failed.error.code) == ("failed", "rate_limit_exceeded")
    assert "overloaded" in failed.error.message


async def test_an_upstreams_refusal_is_the_callers(door: Door) -> None:
    async with Upstream(refuses(400, "too long for me")) as upstream, door.serving(upstream.url) as served:
        with pytest.raises(openai.BadRequestError, match="too long for me"):
            await ask(served.client(), False)


async def test_an_unknown_model_is_a_404(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel()) as served:
        with pytest.raises(openai.NotFoundError, match="no-such-model") as refused:
            await ask(served.client(), stream, model="no-such-model")

    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


async def test_a_client_that_goes_away_takes_its_run_with_it(door: Door) -> None:
    act = streams(delta(role="assistant", content="So"), ..., delta(content=" on"))
    async with Upstream(act) as upstream, door.serving(upstream.url) as served, soon():
        events = await served.client().responses.create(model="default", input="go", stream=True)
        async for event in events:
            if event.type == "response.output_text.delta":
                break
        await events.close()
        await served.server.runs.journal.until(RunFinished)  # type: ignore[attr-defined]  # the tests' own journal
        (end,) = await served.ends

    assert end.reason == "cancelled"


async def test_many_at_once_do_not_mix(door: Door, stream: bool) -> None:
    acts = [completes(f"number {n}") for n in range(8)]
    async with Upstream(*acts) as upstream, door.serving(upstream.url) as served:
        client = served.client()
        responses = await asyncio.gather(*[ask(client, stream, input=f"{n}") for n in range(8)])

    assert sorted(response.output_text for response in responses) == sorted(f"number {n}" for n in range(8))
    assert len({response.id for response in responses}) == 8


async def test_the_client_without_async_works_too(door: Door) -> None:
    model = ScriptedModel(says("One."), says("Two."))

    def talk(url: str) -> list[str]:
        with openai.OpenAI(base_url=url, api_key="test", max_retries=0) as client:
            first = client.responses.create(model="default", input="a")
            with client.responses.stream(model="default", input="b", previous_response_id=first.id) as events:
                second = events.get_final_response()
            return [first.output_text, second.output_text]

    async with door.serving(model) as served, soon():
        said = await asyncio.to_thread(talk, served.url)

    assert said == ["One.", "Two."]
    assert len(model.heard[1]) == 3
