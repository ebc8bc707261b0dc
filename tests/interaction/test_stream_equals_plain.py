"""What a stream shows adds up to what the plain answer says, whatever the model does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.driving import drive
from tests.interaction.doors import QUICK, Door, Raw, Said, declared
from tests.interaction.upstreams import Upstream, delta, streams

from ronda import tool
from ronda.core.events import Event, RunStarted
from ronda.core.limits import Limits
from ronda.core.parts import Usage
from ronda.core.parts import user as says_user
from ronda.core.plan import AUTO, NONE, Options, Plan, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.run import Run
from ronda.drive import Tool
from ronda.providers.script import Call, Line, ScriptedModel, calls, says
from ronda.wire.openai_chat.server_answer import ChatAnswer, ChatOptions


@tool
async def echo(text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


@tool
async def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


ASK = ToolSpec("ask", kind="caller")
HANDLERS: dict[str, Tool] = {"echo": echo, "fail": fail}


def answer(lines: list[Line], plan: Plan, stream: bool) -> Said:
    """One answer through the driver and the writer, without a socket between."""
    plan = msgspec.structs.replace(plan, model="test", retry=QUICK, stream=stream)
    run = Run(RunStarted("run_1", plan, (says_user("go"),), session="s", about=ChatOptions(model="test").about))
    writer = ChatAnswer([run])
    sent: list[bytes] = []

    def emit(batch: list[Event]) -> None:
        if stream:
            sent.append(writer.feed(0, batch))
        else:
            writer.fold(0, batch)

    asyncio.run(drive(run, provider=ScriptedModel(*lines), tools=HANDLERS, emit=emit))
    if stream:
        return Raw(200, {"content-type": "text/event-stream"}, b"".join(sent)).said
    return Raw(200, {"content-type": "application/json"}, writer.body()).said


NUMBER = msgspec.Raw(b'{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}')
_texts = st.text(max_size=12) | st.sampled_from(
    ["", '{"n": 1}', "{}", "Hello there.", " a\n\nb ", "\n", "é☃", "data: x\n\n"]
)
_arguments = st.sampled_from(["", "{}", '{"text": "a"}', '{"text": "a",}', "garbage", '{"text": 5}', '{"text": "'])
_calls = st.lists(
    st.builds(Call, st.sampled_from(["echo", "fail", "ask", "nobody"]), _arguments, st.none() | st.just("same")),
    max_size=3,
)
_stops = st.sampled_from([None, None, None, "stop", "length", "content_filter"])
_usage = st.builds(Usage, st.integers(0, 99), st.integers(0, 99), st.integers(0, 9), st.integers(0, 9))
_lines = st.builds(
    Line, _texts, _texts, _calls.map(tuple), _stops, _usage, st.lists(st.text(max_size=4), max_size=3).map(tuple)
).filter(lambda line: not (line.chunks and line.text))
_failures = st.builds(Line, error=st.just("not now"), status=st.sampled_from([None, 400, 503]))
_scripts = st.lists(st.one_of(_lines, _lines, _lines, _failures), min_size=1, max_size=6)
_tools = st.sampled_from([(), (ASK,), (echo.spec, fail.spec), (echo.spec, fail.spec, ASK)])
_limits = st.builds(Limits, st.sampled_from([1, 2, 256]), st.sampled_from([None, None, 1]), st.sampled_from([None, 50]))


_formats = st.sampled_from([None, None, ResponseFormat("json_object"), ResponseFormat("json_schema", schema=NUMBER)])
_plans = st.builds(
    Plan,
    st.just("test"),
    _tools,
    st.sampled_from([AUTO, AUTO, NONE, ToolChoice("required"), ToolChoice("auto", ("echo",))]),
    st.builds(Options, response_format=_formats),
    _limits,
    tool_calls=st.sampled_from(["all", "all", "first"]),
    parallel=st.booleans(),
)


@given(lines=_scripts, plan=_plans)
@settings(max_examples=300)
def test_a_stream_adds_up_to_the_plain_answer(lines: list[Line], plan: Plan) -> None:
    streamed = answer(lines, plan, True)
    plain = answer(lines, plan, False)

    for said in (streamed, plain):
        said.records.sort(key=lambda record: json.dumps(record, sort_keys=True))
    assert streamed == plain
    assert plain.finish_reason is not None


def rounds(*lines: Line) -> tuple[Said, Said]:
    plan = Plan("test", (echo.spec, ASK))
    return answer(list(lines), plan, True), answer(list(lines), plan, False)


def test_usage_is_summed_over_rounds_both_ways() -> None:
    asks = Line(calls=(Call("echo", {}, "c1"),), usage=Usage(10, 5))

    streamed, plain = rounds(asks, says("done", usage=Usage(20, 7)))

    assert streamed.usage == plain.usage == (30, 12)


def test_reasoning_of_several_rounds_is_one_text_both_ways() -> None:
    asks = Line("One.", reasoning="Hm.", calls=(Call("echo", {}, "c1"),))

    streamed, plain = rounds(asks, Line("Two.", reasoning="Aha."))

    assert (streamed.content, streamed.reasoning) == ("One.\n\nTwo.", "Hm.\n\nAha.")
    assert streamed == plain


def test_a_failure_after_text_reads_the_same() -> None:
    streamed, plain = rounds(Line("One.", calls=(Call("echo", {}, "c1"),)), Line(error="never", status=400))

    assert streamed == plain


def test_a_choice_of_none_hands_out_the_same_calls_both_ways() -> None:
    plan = Plan("test", (ASK,), NONE)
    lines = [calls(Call("ask", {}, "c1"), text="Hm.")]

    assert answer(lines, plan, True) == answer(lines, plan, False)


def test_an_empty_piece_is_no_piece() -> None:
    asks = Line("One.", calls=(Call("echo", {}, "c1"),))

    streamed, plain = rounds(asks, Line(chunks=("", "Two."), calls=(Call("echo", {}, "c2"),)), Line(chunks=("",)))

    assert streamed == plain
    assert streamed.content == "One.\n\nTwo."


async def test_the_official_sdk_reads_the_same(door: Door) -> None:
    mixed = Line(
        "Let me see.", reasoning="Hm.", calls=(Call("echo", {"text": "a"}, "c1"), Call("ask", {"text": "?"}, "c2"))
    )
    read: list[Any] = []

    for stream in (False, True):
        async with door.serving(ScriptedModel(calls(Call("echo", {}, "c0")), mixed), echo) as served:
            read.append(await served.ask(stream=stream, tools=[declared("ask", text="string")]))

    plain, streamed = read
    assert [call[1:] for call in plain.calls] == [call[1:] for call in streamed.calls] == [("ask", '{"text":"?"}')]
    for said in read:  # ids of ours are of the run that made the calls
        said.calls, said.message = [], {}
    assert plain == streamed
    assert plain.finish_reason == "tool_calls"


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
HI = delta(role="assistant", content="hi")
PLACES: dict[str, list[Any]] = {
    "a chunk of its own": [HI, delta("stop"), {"choices": [], "usage": USAGE}, "[DONE]"],
    "the last chunk": [HI, {**delta("stop"), "usage": USAGE}, "[DONE]"],
    "every chunk": [{**HI, "usage": {**USAGE, "completion_tokens": 1}}, {**delta("stop"), "usage": USAGE}, "[DONE]"],
    "x_groq": [HI, {**delta("stop"), "x_groq": {"usage": USAGE}}, "[DONE]"],
    "before the finish": [HI, {"choices": [], "usage": USAGE}, delta("stop"), "[DONE]"],
    "null elsewhere": [
        {**HI, "usage": None},
        {**delta("stop"), "usage": USAGE},
        {"choices": [], "usage": None},
        "[DONE]",
    ],
}


async def test_usage_is_found_wherever_a_provider_puts_it(door: Door) -> None:
    for frames in PLACES.values():
        async with Upstream(streams(*frames)) as upstream, door.serving(upstream.url) as served:
            said = await served.ask(stream=True)
        assert said == Said("hi", finish_reason="stop", usage=(7, 3))


async def test_include_usage_puts_it_into_a_chunk_of_its_own(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        answer = await served.post({"messages": "go", "stream": True, "stream_options": {"include_usage": True}})

    *before, last = answer.chunks
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"], last["usage"]["total_tokens"]) == (
        10,
        5,
        15,
    )
    assert [chunk.get("usage") for chunk in before] == [None] * len(before)
    assert before[-1]["choices"][0]["finish_reason"] == "stop"


async def test_what_an_upstream_says_over_several_lines_comes_in_one(door: Door) -> None:
    """A line of an event's data ends at the first line break, wherever in the JSON it stands."""
    logprobs = {"content": [{"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": []}]}
    hi = delta(content="hi")
    hi["choices"][0]["logprobs"] = logprobs
    frame = json.dumps(hi, indent=2).replace("\n", "\ndata: ")
    async with Upstream(streams(frame, delta("stop"), "[DONE]")) as upstream, door.serving(upstream.url) as served:
        answer = await served.post({"messages": "go", "stream": True, "logprobs": True})

    said = [choice["logprobs"] for chunk in answer.chunks for choice in chunk["choices"] if choice.get("logprobs")]
    assert said == [logprobs]
