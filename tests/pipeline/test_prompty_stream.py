"""`PromptyStream`: text as it arrives, nothing of a turn that calls a tool, and what was shown too early is withdrawn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.interaction.upstreams import Upstream, delta, streams
from tests.pipeline.files import scripted, text_of, weather

from ronda import Agent, PromptyStream, Retry, invoke_agent, invoke_agent_async
from ronda.core.events import TextDelta
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import ExecuteError, UpstreamError
from ronda.prompty import Prompty, loads
from ronda.testing import ScriptedModel, calls, fails, says

LOOKS = calls("weather", text="Let me look. ", city="Paris")


async def read(stream: PromptyStream) -> list[Any]:
    return [piece async for piece in stream]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_text_said_before_a_call_is_withdrawn(colour: str) -> None:
    prompty = scripted(ScriptedModel(LOOKS, says("It is sunny.")))
    stream = invoke_agent(prompty, tools=[weather], stream=True)

    pieces = list(stream) if colour == "sync" else asyncio.run(read(stream))

    assert pieces == ["Let ", "me ", "look. ", "It ", "is ", "sunny."]
    assert [piece.withdrawn for piece in pieces] == [True, True, True, False, False, False]
    assert (stream.withdrawn, stream.text, stream.result) == (pieces[:3], "It is sunny.", "It is sunny.")


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_with_hold_nothing_is_shown_that_does_not_stand(colour: str) -> None:
    prompty = scripted(ScriptedModel(LOOKS, says("It is sunny.")))
    stream = invoke_agent(prompty, tools=[weather], hold=True)

    pieces = list(stream) if colour == "sync" else asyncio.run(read(stream))

    assert (pieces, stream.withdrawn, stream.text) == (["It ", "is ", "sunny."], [], "It is sunny.")


async def test_an_agent_made_in_code_streams_too() -> None:
    stream = await invoke_agent_async(Agent(ScriptedModel(LOOKS, says("Sun."))), "hi", [weather], stream=True)
    assert await read(stream) == ["Let ", "me ", "look. ", "Sun."]


def paced(*frames: Any) -> tuple[Upstream, Callable[[], Prompty]]:
    upstream = Upstream(streams(*frames), streams(delta(content="Sunny."), delta("stop")))

    def file() -> Prompty:
        model = {"id": "m", "connection": {"kind": "key", "endpoint": upstream.url}}
        return loads(text_of({"model": model}, "user:\nhi"))

    return upstream, file


async def test_a_piece_is_shown_before_the_answer_is_complete() -> None:
    upstream, file = paced(delta(content="Su"), ..., delta(content="nny."), delta("stop"))
    async with upstream:
        stream = await invoke_agent_async(file(), stream=True)
        pieces: list[str] = []
        async for piece in stream:
            pieces.append(piece)
            upstream.shown.set()  # the rest is sent only now
    assert pieces == ["Su", "nny."]


async def test_nothing_of_a_turn_is_shown_once_a_call_is_seen() -> None:
    piece = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"x"}'}}
    upstream, file = paced(
        delta(content="Let me see"), ..., delta(tool_calls=[piece]), delta(content=" and more"), delta("tool_calls")
    )
    async with upstream:
        stream = await invoke_agent_async(file(), tools=[weather], stream=True)
        pieces: list[Any] = []
        async for shown in stream:
            pieces.append(shown)
            upstream.shown.set()
    assert [(str(shown), shown.withdrawn) for shown in pieces] == [("Let me see", True), ("Sunny.", False)]


class Breaks:
    """Says something, breaks off, and says it all when it is asked again."""

    tries = 0

    async def call(self, request: ModelRequest, show: Show) -> Any:
        self.tries += 1
        if self.tries == 1:
            show([TextDelta("Sun")])
            raise UpstreamError("reset", retryable=True)
        return await ScriptedModel(says("Sunny.")).call(request, show)


def test_what_broke_off_is_not_repeated() -> None:
    stream = invoke_agent(Agent(Breaks()), "hi", [weather], stream=True)
    assert (next(stream), stream.text) == ("Sun", "Sun")
    with pytest.raises(ExecuteError, match="reset"):
        next(stream)
    assert (stream.text, stream.withdrawn) == ("Sun", [])


def test_what_broke_off_is_withdrawn_where_the_model_is_asked_again() -> None:
    retry = Retry(0.0, on_interrupt="again")
    stream = invoke_agent(Agent(Breaks()), "hi", [weather], stream=True, retry=retry)
    assert [(str(piece), piece.withdrawn) for piece in list(stream)] == [("Sun", True), ("Sunny.", False)]


def test_json_is_shown_when_it_is_known_to_be_right() -> None:
    model = ScriptedModel(says("no json"), says('{"a": 1}', chunks=('{"a"', ": 1}")))
    stream = invoke_agent(scripted(model, outputs={"a": {"kind": "integer", "required": True}}), stream=True)
    assert list(stream) == ['{"a"', ": 1}"]
    assert stream.result == {"a": 1}


def test_a_file_may_ask_for_a_stream_and_the_caller_may_not_want_it() -> None:
    wish = {"additionalProperties": {"stream": True}}
    assert list(invoke_agent(scripted(ScriptedModel(says("a b")), options=wish))) == ["a ", "b"]
    assert invoke_agent(scripted(ScriptedModel(says("a b")), options=wish), stream=False) == "a b"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_goes_wrong_is_raised_where_the_stream_is_read(colour: str) -> None:
    stream = invoke_agent(scripted(ScriptedModel(fails("no key", 401))), stream=True)
    with pytest.raises(ExecuteError, match="no key"):
        list(stream) if colour == "sync" else asyncio.run(read(stream))
    with pytest.raises(ExecuteError, match="no key"):
        _ = stream.result


def test_what_is_wrong_with_the_inputs_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="Missing required input: q"):
        invoke_agent(scripted(ScriptedModel(), inputs={"q": {"kind": "string", "required": True}}), stream=True)


async def test_a_refusal_is_raised_with_its_words() -> None:
    upstream, file = paced(delta(refusal="I will"), delta(refusal=" not"), delta("stop"))
    async with upstream:
        stream = await invoke_agent_async(file(), stream=True)
        with pytest.raises(ValueError, match=r"^Model refused: I will not$"):
            await read(stream)


def test_the_result_is_there_when_the_stream_is_over() -> None:
    stream = invoke_agent(scripted(ScriptedModel(says("a b"))), stream=True)
    with pytest.raises(RuntimeError, match="not over yet"):
        _ = stream.result
    next(stream)
    assert list(stream) == ["b"]
    assert stream.result == "a b"
    assert list(stream) == []


class Hangs:
    """Shows one piece and never ends. `ended` is set when its call is cancelled."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    async def call(self, request: ModelRequest, show: Show) -> Any:
        show([TextDelta("first")])
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_leaving_a_stream_ends_its_run() -> None:
    model = Hangs()
    with invoke_agent(Agent(model), "hi", stream=True) as stream:
        assert next(stream) == "first"
    assert model.ended.is_set()


async def test_leaving_a_stream_ends_its_run_in_a_loop_too() -> None:
    model = Hangs()
    async with await invoke_agent_async(Agent(model), "hi", stream=True) as stream:
        assert await anext(aiter(stream)) == "first"
    assert model.ended.is_set()


async def test_a_stream_is_read_one_way_or_the_other() -> None:
    stream = await invoke_agent_async(Agent(ScriptedModel(says("a b"))), "hi", stream=True)
    assert await anext(aiter(stream)) == "a "
    with pytest.raises(RuntimeError, match="being read by `async for`"):
        next(stream)
    await stream.aclose()
