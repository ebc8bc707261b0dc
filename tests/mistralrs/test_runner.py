"""The Chat door without HTTP: the same requests, the same loop, the same answers, in Python."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.timeouts import TIMEOUT
from tests.weather import WEATHER, program

from ronda import ChatCompletionRequest, Runner, ToolChoice, tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolResult, ToolTurn
from ronda.core.plan import ToolChoice as Choice
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadRequest, NotFound, RunEnded
from ronda.testing import Call, Line, ScriptedModel, calls, fails, says

EXAMPLE = program(imports="from ronda import ChatCompletionRequest, Runner, ToolChoice", runner="Runner(model=MODEL)")


def test_the_example_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [{"name": "get_weather", "arguments": {"city": "Tokyo"}, "id": "c1"}]}]))

    names: dict[str, Any] = {"MODEL": f"script:{script}"}
    exec(EXAMPLE, names)  # the document's own text

    [call] = names["response"].choices[0].message.tool_calls
    assert (call.id, call.type, call.function.name, call.function.arguments) == (
        "c1", "function", "get_weather", '{"city":"Tokyo"}',
    )  # fmt: skip
    assert "get_weather" in capsys.readouterr().out


def ask(runner: Runner, messages: Any = "hi", **fields: Any) -> Any:
    return runner.send_chat_completion_request(ChatCompletionRequest(messages=messages, **fields))


@pytest.mark.parametrize("stream", [False, True])
def test_a_callback_runs_the_calls_of_a_tool_that_the_request_declares(stream: bool) -> None:
    asked = []

    def get_weather(name: str, arguments: dict[str, Any]) -> str:
        asked.append((name, arguments))
        return "sunny"

    model = ScriptedModel(calls("get_weather", city="Rome"), says("It is sunny."))
    runner = Runner(model=model, tool_callbacks={"get_weather": get_weather})

    answer = ask(runner, tool_schemas=[WEATHER], stream=stream)
    if stream:
        chunks = list(answer)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert [(one.phase, one.tool_name) for one in chunks if one.type] == [
            ("calling", "get_weather"),
            ("complete", "get_weather"),
        ]
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert chunks[-1].usage.total_tokens == 30
    else:
        text = answer.choices[0].message.content
        assert [(one.name, one.result_content) for one in answer.agentic_tool_calls] == [("get_weather", "sunny")]
        assert answer.usage.total_tokens == 30

    assert text == "It is sunny."
    assert asked == [("get_weather", {"city": "Rome"})]


def test_a_stream_adds_up_to_the_plain_answer() -> None:
    line = Line(text="one two", reasoning="hm", calls=(Call("get_weather", {"city": "Rome"}),))
    plain = ask(Runner(ScriptedModel(line)), tool_schemas=[WEATHER])
    chunks = list(ask(Runner(ScriptedModel(line)), tool_schemas=[WEATHER], stream=True))

    deltas = [chunk.choices[0].delta for chunk in chunks]
    pieces = [piece for delta in deltas for piece in delta.tool_calls or ()]
    message = plain.choices[0].message
    assert "".join(delta.content or "" for delta in deltas) == message.content == "one two"
    assert "".join(delta.reasoning_content or "" for delta in deltas) == message.reasoning_content == "hm"
    assert "".join(piece.function.arguments for piece in pieces) == message.tool_calls[0].function.arguments
    assert chunks[-1].choices[0].finish_reason == plain.choices[0].finish_reason == "tool_calls"
    assert chunks[-1].usage == plain.usage


def test_results_come_back_as_messages() -> None:
    model = ScriptedModel(calls("get_weather", city="Rome"), says("Sunny."))
    runner = Runner(model)
    question = {"role": "user", "content": "hi"}
    [call] = ask(runner, [question], tool_schemas=[WEATHER]).choices[0].message.tool_calls
    asked = {
        "role": "assistant",
        "tool_calls": [{"id": call.id, "function": {"name": call.function.name, "arguments": call.function.arguments}}],
    }
    result = {"role": "tool", "tool_call_id": call.id, "content": "18"}
    answer = ask(runner, [question, asked, result], tool_schemas=[WEATHER])

    assert answer.choices[0].message.content == "Sunny."
    assert answer.choices[0].message.tool_calls is None
    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", "18"),))


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        (ToolChoice.Auto, Choice()),
        (ToolChoice.NoTools, Choice("none")),
        (ToolChoice.Required, Choice("required")),
        ({"type": "function", "function": {"name": "get_weather"}}, Choice("required", ("get_weather",), named=True)),
    ],
)
def test_every_choice_reaches_the_model(said: Any, heard: Choice) -> None:
    model = ScriptedModel(calls("get_weather", city="Rome") if heard.mode == "required" else says("no"))
    ask(Runner(model), tool_schemas=[WEATHER], tool_choice=said)

    assert model.requests[0].choice == heard


def test_the_fields_of_a_request_reach_the_model() -> None:
    model = ScriptedModel(says("x"))
    ask(
        Runner(model),
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        seed=3,
        stop_seqs=["END"],
        top_k=4,
        repetition_penalty=1.1,
        reasoning_effort="low",
        extra={"mirostat": 2},
    )

    [request] = model.requests
    options = request.options
    assert (options.max_tokens, options.temperature, options.top_p, options.seed) == (5, 0.5, 0.9, 3)
    assert (options.stop, options.reasoning_effort) == (("END",), "low")
    assert {name: json.loads(bytes(value)) for name, value in options.extra.items()} == {
        "top_k": 4,
        "repetition_penalty": 1.1,
        "mirostat": 2,
    }


def test_rounds_are_limited_by_the_request_and_by_the_runner() -> None:
    def forever() -> ScriptedModel:
        return ScriptedModel(*[calls("get_weather", city=str(n)) for n in range(3)], says("Enough."), says("Enough."))

    callbacks = {"get_weather": lambda city: f"fine in {city}"}
    by_request = ask(Runner(forever(), tool_callbacks=callbacks), tool_schemas=[WEATHER], max_tool_rounds=1)
    by_runner = ask(Runner(forever(), tool_callbacks=callbacks, max_tool_rounds=2), tool_schemas=[WEATHER])

    assert [len(one.agentic_tool_calls) for one in (by_request, by_runner)] == [1, 2]
    assert by_request.limit == "max_tool_rounds"


def test_tools_of_the_runner_are_offered_in_every_request() -> None:
    @tool
    def clock() -> str:
        """The time."""
        return "noon"

    answer = ask(Runner(ScriptedModel(calls("clock"), says("It is noon.")), tools=[clock]))

    assert answer.choices[0].message.content == "It is noon."


def test_several_choices() -> None:
    answer = ask(Runner(ScriptedModel(says("a"), says("a"))), n_choices=2)

    assert [(one.index, one.message.content) for one in answer.choices] == [(0, "a"), (1, "a")]


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_makes_no_sense_is_refused_at_once(stream: bool) -> None:
    runner = Runner(ScriptedModel())
    with pytest.raises(NotFound, match="'nope' does not exist"):
        ask(runner, model="nope", stream=stream)
    with pytest.raises(BadRequest, match=r"tool_schemas\[0\] is not a JSON object"):
        ask(runner, tool_schemas=["{"], stream=stream)
    with pytest.raises(BadRequest, match="messages"):
        ask(runner, [], stream=stream)
    with pytest.raises(BadRequest, match="cannot be said in JSON"):
        ask(runner, extra={"x": object()}, stream=stream)


def test_a_run_that_fails_raises() -> None:
    with pytest.raises(RunEnded, match="no way"):
        ask(Runner(ScriptedModel(fails("no way", 400))))
    with pytest.raises(RunEnded, match="no way"):
        ask(Runner(ScriptedModel(fails("no way", 400))), stream=True)
    model = ScriptedModel(calls("get_weather", city="Rome"), fails("no way", 400))
    runner = Runner(model=model, tool_callbacks={"get_weather": lambda name, arguments: "sunny"})
    stream = ask(runner, tool_schemas=[WEATHER], stream=True)
    with pytest.raises(RunEnded, match="no way"):
        list(stream)
    assert list(stream) == []


class Endless:
    """Says a word and waits; knows when it is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        try:
            show([TextDelta("so ")])
            await asyncio.Event().wait()
        finally:
            self.over.set()
        return ModelFinished(AssistantTurn((Text("so"),)))


def test_a_stream_that_is_left_ends_the_run() -> None:
    model = Endless()
    with ask(Runner(model), stream=True) as stream:
        assert next(stream).choices[0].delta.content == "so "

    assert model.over.is_set()
    assert list(stream) == []


def test_a_stream_that_nobody_reads_ends_the_run_too() -> None:
    model = Endless()
    stream = ask(Runner(model), stream=True)
    del stream

    assert model.over.wait(TIMEOUT)


async def test_it_works_inside_a_running_loop() -> None:
    assert ask(Runner(ScriptedModel(says("fine")))).choices[0].message.content == "fine"
    assert next(ask(Runner(ScriptedModel(says("fine"))), stream=True)).choices[0].delta.content == "fine"


# ---- sessions ----------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_exported_imported_forked_and_deleted() -> None:
    model = ScriptedModel("One.", "Two.", "Three.", "Four.")
    runner = Runner(model)

    def ask(text: str, session: str) -> str:
        request = ChatCompletionRequest(messages=text, session_id=session)
        return str(runner.send_chat_completion_request(request).choices[0].message.content)

    ask("First?", "a")
    ask("Second?", "a")
    document = runner.export_session("a")
    assert document is not None
    assert runner.export_session("b") is None
    runner.import_session("b", document)
    assert runner.fork_session("b", "c", 1) == "c"
    ask("Third?", "b")
    ask("Third?", "c")
    assert runner.list_session_ids() == ["c", "b", "a"]
    assert (runner.delete_session("a"), runner.delete_session("a")) == (True, False)
    assert runner.list_session_ids() == ["c", "b"]
    assert [len(turns) for turns in model.heard] == [1, 3, 5, 3]


def test_threads_take_turns_in_a_session() -> None:
    model = ScriptedModel(*[f"{at}." for at in range(8)])
    runner = Runner(model)

    def ask(text: str) -> None:
        request = ChatCompletionRequest(messages=text, session_id="s", session_mode="append")
        runner.send_chat_completion_request(request)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, [f"{at}?" for at in range(8)]))
    assert sorted(len(turns) for turns in model.heard) == [1, 3, 5, 7, 9, 11, 13, 15]


# ---- approvals --------------------------------------------------------------------------------------------------------


def _broken(approval: Any) -> bool:
    raise RuntimeError("no idea")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("callback", "text"),
    [
        (None, "no approval handler is configured"),
        (_broken, "the approval handler failed"),
        (lambda approval: "perhaps", "the approval handler failed"),
        (lambda approval: approval.tool.label == "send" and approval.arguments() == {"to": "ada"}, "sent to ada"),
    ],
)
def test_nothing_runs_that_nobody_has_approved(stream: bool, callback: Any, text: str) -> None:
    def send(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    model = ScriptedModel(calls("send", to="ada"), says("done"))
    request = ChatCompletionRequest(
        messages="go", stream=stream, agent_permission="ask", agent_approval_callback=callback
    )
    answer = Runner(model, tools=[send]).send_chat_completion_request(request)
    if stream:
        for _ in answer:
            pass
    assert text in str(model.heard[-1][-1])
