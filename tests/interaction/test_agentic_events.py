"""Each executed call has its own record and its own pair of events, with every field of source 000 and of the digest §8."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, declared, soon

from ronda import tool
from ronda.core.parts import Image
from ronda.providers.script import Call, Line, ScriptedModel, calls, says


@tool
async def search(query: str, limit: int = 3) -> str:
    """Search."""
    return f"{limit} of {query}"


@tool
async def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@tool
async def draw() -> list[Any]:
    """Draw."""
    return ["a dot", Image("data:image/png;base64," + base64.b64encode(b"dot").decode())]


ONE = calls(Call("search", {"query": "é", "limit": 2}, "c1"))
BODY: Json = {"messages": [{"role": "user", "content": "go"}], "stream": True}
PROGRESS = "agentic_tool_call_progress"


async def progress(door: Door, *lines: Line, **request: Any) -> list[Json]:
    async with door.serving(ScriptedModel(*lines), search, fail, draw) as served:
        answer = await served.post({**BODY, **request})
    chunks = [chunk for chunk in answer.chunks if chunk.get("type") == PROGRESS]
    named = [name for name, data in answer.events if name == PROGRESS]
    assert len(named) == len(chunks), "every one of them is a named event"
    return chunks


async def first_pair(door: Door) -> tuple[Json, Json]:
    calling, complete = await progress(door, ONE, says("done"))
    return calling, complete


# ---- source 000, field by field --------------------------------------------------------------------------------------


async def test_the_event_is_named_and_says_its_type(door: Door) -> None:
    calling, complete = await first_pair(door)
    assert (calling["type"], complete["type"]) == (PROGRESS, PROGRESS)


async def test_phase_calling_comes_before_and_complete_after(door: Door) -> None:
    calling, complete = await first_pair(door)
    assert (calling["phase"], complete["phase"]) == ("calling", "complete")


async def test_calling_includes_the_tool_name(door: Door) -> None:
    calling, _ = await first_pair(door)
    assert calling["tool_name"] == "search"


async def test_calling_includes_the_parsed_arguments(door: Door) -> None:
    calling, _ = await first_pair(door)
    assert calling["data"]["input"] == {"query": "é", "limit": 2}


async def test_calling_includes_the_arguments_as_a_json_string(door: Door) -> None:
    calling, _ = await first_pair(door)
    assert calling["data"]["arguments"] == '{"query":"é","limit":2}'


async def test_complete_of_a_custom_tool_has_arguments(door: Door) -> None:
    _, complete = await first_pair(door)
    assert complete["data"]["arguments"] == '{"query":"é","limit":2}'


async def test_complete_of_a_custom_tool_has_content(door: Door) -> None:
    _, complete = await first_pair(door)
    assert complete["data"]["content"] == "2 of é"


# ---- and of the digest -----------------------------------------------------------------------------------------------


async def test_both_phases_name_round_tool_and_call(door: Door) -> None:
    named = [(event["round"], event["tool_name"], event["tool_call_id"]) for event in await first_pair(door)]
    assert named == [(0, "search", "c1"), (0, "search", "c1")]


async def test_both_phases_say_the_tools_type(door: Door) -> None:
    calling, complete = await first_pair(door)
    assert (calling["data"]["tool_type"], complete["data"]["tool_type"]) == ("custom", "custom")


async def test_complete_repeats_the_parsed_arguments(door: Door) -> None:
    _, complete = await first_pair(door)
    assert complete["data"]["input"] == {"query": "é", "limit": 2}


async def test_both_phases_have_a_choice_for_naive_readers(door: Door) -> None:
    calling, complete = await first_pair(door)
    empty = [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]
    assert (calling["choices"], complete["choices"]) == (empty, empty)


async def test_a_program_that_adds_up_the_text_of_every_chunk_gets_the_text(door: Door) -> None:
    """The original's streaming example, word by word."""
    async with door.serving(ScriptedModel(ONE, says("It is é.")), search) as served, soon():
        resp = ""
        messages: Any = [{"role": "user", "content": "go"}]
        async for chunk in await served.client().chat.completions.create(
            model="default", messages=messages, stream=True
        ):
            delta: Any = chunk.choices[0].delta
            resp += delta.content

    assert resp == "It is é."


async def test_the_text_of_an_answer_that_is_nothing_but_calls_stays_null_when_it_is_added_up(door: Door) -> None:
    async with door.serving(ScriptedModel(calls(Call("pick", {}, "c1")))) as served, soon():
        messages: Any = [{"role": "user", "content": "go"}]
        tools: Any = [declared("pick")]
        async with served.client().chat.completions.stream(model="default", messages=messages, tools=tools) as stream:
            message = (await stream.get_final_completion()).choices[0].message

    assert message.content is None


async def test_the_whole_of_both_events(door: Door) -> None:
    calling, complete = await first_pair(door)
    head = {key: calling.pop(key) for key in ("id", "object", "created", "model", "system_fingerprint")}
    choices = [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]
    of_both = {"type": PROGRESS, "round": 0, "tool_name": "search", "tool_call_id": "c1", "choices": choices}
    data = {"tool_type": "custom", "arguments": '{"query":"é","limit":2}', "input": {"query": "é", "limit": 2}}

    assert calling == {**of_both, "phase": "calling", "data": data}
    assert complete == {**head, **of_both, "phase": "complete", "data": {**data, "content": "2 of é"}}


# ---- which calls have them -------------------------------------------------------------------------------------------


async def test_every_executed_call_has_its_own_pair(door: Door) -> None:
    three = calls(*[Call("search", {"query": str(n)}, f"c{n}") for n in range(3)])

    events = await progress(door, three, ONE, says("done"))

    pairs = sorted((event["round"], event["tool_call_id"], event["phase"]) for event in events)
    assert pairs == [
        (0, "c0", "calling"), (0, "c0", "complete"),
        (0, "c1", "calling"), (0, "c1", "complete"),
        (0, "c2", "calling"), (0, "c2", "complete"),
        (1, "c1", "calling"), (1, "c1", "complete"),
    ]  # fmt: skip


async def test_a_call_that_fails_has_its_pair(door: Door) -> None:
    events = await progress(door, calls(Call("fail", {"why": "no luck"}, "c1")), says("done"))

    assert [(event["phase"], event["data"].get("content")) for event in events] == [
        ("calling", None),
        ("complete", "Error: Tool 'fail' failed: ValueError: no luck"),
    ]


async def test_a_callers_call_has_none(door: Door) -> None:
    assert await progress(door, calls(Call("ask_user", {}, "u1")), tools=[declared("ask_user")]) == []


async def test_a_call_that_is_not_executed_has_none(door: Door) -> None:
    assert await progress(door, calls(Call("nothing_like_it", {}, "c1")), says("sorry")) == []


async def test_in_the_client_side_flow_there_are_none(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        answer = await served.post({**BODY, "stream": stream})

    assert b"agentic" not in answer.body


async def test_text_of_a_round_comes_before_its_events_and_those_before_the_next_round(door: Door) -> None:
    talk = Line("Let me see.", calls=(Call("search", {"query": "x"}, "c1"),))

    async with door.serving(ScriptedModel(talk, says("Done.")), search) as served:
        answer = await served.post(BODY)

    shown = [chunk.get("phase") or chunk["choices"][0]["delta"].get("content", "") for chunk in answer.chunks]
    assert "|".join(shown) == "Let |me |see.|calling|complete|\n\nDone.|"


async def test_a_naive_client_reads_a_stream_with_events(door: Door) -> None:
    """The loop every tutorial has, through the official SDK."""
    async with door.serving(ScriptedModel(ONE, says("all done")), search) as served, soon():
        chunks = await served.client().chat.completions.create(
            model="default", messages=[{"role": "user", "content": "go"}], stream=True
        )
        text = ""
        async for chunk in chunks:
            text += chunk.choices[0].delta.content or ""

    assert text == "all done"


# ---- plain -----------------------------------------------------------------------------------------------------------


async def plain(door: Door, *lines: Line, **config: Any) -> Json:
    async with door.serving(ScriptedModel(*lines), search, fail, draw, **config) as served:
        answer: Json = (await served.post({**BODY, "stream": False})).json
    return answer


async def test_a_plain_answer_records_every_executed_call(door: Door) -> None:
    answer = await plain(door, ONE, calls(Call("fail", {"why": "no luck"}, "c2")), says("done"))

    assert answer["agentic_tool_calls"] == [
        {
            "round": 0,
            "tool_call_id": "c1",
            "name": "search",
            "arguments": '{"query":"é","limit":2}',
            "result_content": "2 of é",
        },
        {
            "round": 1,
            "tool_call_id": "c2",
            "name": "fail",
            "arguments": '{"why":"no luck"}',
            "result_content": "Error: Tool 'fail' failed: ValueError: no luck",
            "failed": True,
        },
    ]


async def test_a_record_has_the_images_of_its_result(door: Door) -> None:
    answer = await plain(door, calls(Call("draw", {}, "c1")), says("done"))

    assert answer["agentic_tool_calls"] == [
        {
            "round": 0,
            "tool_call_id": "c1",
            "name": "draw",
            "arguments": "{}",
            "result_content": "a dot\n[image]",
            "result_images_base64": [base64.b64encode(b"dot").decode()],
        }
    ]


async def test_an_answer_without_calls_has_no_records(door: Door) -> None:
    assert "agentic_tool_calls" not in await plain(door, says("hi"))


# ---- as the source does it -------------------------------------------------------------------------------------------


async def test_first_runs_only_the_first_call_of_a_turn_with_a_warning(door: Door, stream: bool) -> None:
    two = calls(Call("search", {"query": "a"}, "c1"), Call("search", {"query": "b"}, "c2"))
    model = ScriptedModel(two, says("done"))

    async with door.serving(model, search, tool_calls="first") as served:
        said = await served.ask(stream=stream)

    assert [record["tool_call_id"] for record in said.records] == ["c1"]
    assert said.warnings == ["the model made 2 calls in one turn; only the first, 'search', is run"]
    assert [len(turn.calls) for turn in model.heard[1] if hasattr(turn, "calls")] == [1]


@pytest.mark.parametrize("how", ["first", "all"])
async def test_one_call_is_run_without_a_warning_either_way(door: Door, stream: bool, how: str) -> None:
    async with door.serving(ScriptedModel(ONE, says("done")), search, tool_calls=how) as served:
        said = await served.ask(stream=stream)

    assert [record["tool_call_id"] for record in said.records] == ["c1"]
    assert said.warnings == []
