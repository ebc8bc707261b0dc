"""Templates of which we have no family: the engine's own chat path writes the prompt and reads the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from msgspec import Raw
from tests.local.conftest import SMALL, Asking
from tests.local.markup.foreign_shapes import FOREIGN, LEARNED, UNREAD
from tests.local.markup.outputs import check, outputs
from tests.local.markup.parsing import parse
from tests.local.markup.shapes import Shape

from ronda.core.events import CallDelta, TextDelta
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import NO_OPTIONS, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamBroken
from ronda.local.calls import AnswerReader
from ronda.local.engine import Engine
from ronda.local.files import ModelFile
from ronda.local.foreign import ForeignChat
from ronda.local.markup import family_of
from ronda.local.prompt import ControlTokenEscaper, write_flat
from ronda.local.reading import ToldParts
from ronda.local.trials import PROVER, ChatTrial

WEATHER = ToolSpec(
    "get_weather",
    "How the weather is.",
    Raw(
        b'{"type":"object","properties":{"days":{"type":"integer","minimum":1,"maximum":9}},"required":["days"],"additionalProperties":false}'
    ),
)
NOW = ToolSpec("now", "What time it is.", Raw(b'{"type":"object","properties":{}}'))
REQUIRED = ToolChoice("required")


@pytest.fixture(scope="module", params=FOREIGN, ids=[shape.model for shape in FOREIGN])
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture(scope="module")
def foreign(shape: Shape, model_file: ModelFile, engine: Engine) -> Iterator[Engine]:
    made = Engine(model_file, SMALL, shape.template)
    yield made
    made.close()


@pytest.fixture(scope="module")
def longcat(model_file: ModelFile, engine: Engine) -> Iterator[Engine]:
    made = Engine(model_file, SMALL, FOREIGN[0].template)
    yield made
    made.close()


async def test_a_call_that_must_come_is_written_and_read_in_the_templates_own_words(
    shape: Shape, foreign: Engine
) -> None:
    ask = Asking(foreign)
    assert family_of(shape.template).name == "generic"

    done, shown = await ask.watched("How is it in Rome?", tools=(WEATHER, NOW), choice=REQUIRED, max_tokens=200, seed=1)

    (call,) = done.turn.calls
    assert done.turn.stop == "tool_calls"
    assert call.name in ("get_weather", "now")
    assert call.name == "now" or 1 <= msgspec.json.decode(call.arguments)["days"] <= 9
    deltas = [preview for preview in shown if type(preview) is CallDelta]
    assert "".join([delta.arguments for delta in deltas]) == call.arguments
    native = await foreign.aside(lambda: foreign.tokenize(_native_prompt(foreign)))
    assert len(native) <= done.usage.input < len(native) + 30  # with the beginning of a call, and no word of Hermes


def _native_prompt(engine: Engine) -> str:
    def tool(spec: ToolSpec) -> object:
        function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
        return {"type": "function", "function": function}

    messages = [{"role": "user", "content": "How is it in Rome?"}]
    return engine.apply_template({"messages": messages, "tools": [tool(WEATHER), tool(NOW)]})


async def test_a_named_tool_is_the_one_that_is_called(foreign: Engine) -> None:
    named = ToolChoice("required", ("now",), named=True)

    done = await Asking(foreign)(
        "How is it in Rome?", tools=(WEATHER, NOW), choice=named, max_tokens=200, temperature=0
    )

    assert [(call.name, msgspec.json.decode(call.arguments)) for call in done.turn.calls] == [("now", {})]


async def test_what_such_a_model_writes_is_read_by_the_engine(shape: Shape, foreign: Engine) -> None:
    await foreign.load()
    for output in outputs(shape):
        if output.calls and not output.thought:
            check(output, await foreign.aside(lambda output=output: parse(foreign, output)))  # type: ignore[misc]


async def test_an_answer_without_a_call_is_text_that_comes_in_pieces(longcat: Engine) -> None:
    ask = Asking(longcat)

    done, shown = await ask.watched("Say hello.", tools=(NOW,), max_tokens=12, temperature=0)
    again = await ask("Say hello.", tools=(NOW,), max_tokens=12, temperature=0, stream=False)

    texts = [preview.text for preview in shown if type(preview) is TextDelta]
    assert len(texts) > 1
    assert "".join(texts) == done.turn.text == again.turn.text
    assert (done.turn.stop, done.usage.output) == ("length", 12)


async def test_a_stop_of_the_callers_ends_the_text_and_cuts_no_call(longcat: Engine) -> None:
    ask = Asking(longcat)
    whole = (await ask("Say hello.", tools=(NOW,), max_tokens=12, temperature=0)).turn.text
    word = whole.split()[3]

    text = await ask("Say hello.", tools=(NOW,), max_tokens=12, temperature=0, stop=(word,))
    call = await ask("Say hello.", tools=(NOW,), choice=REQUIRED, max_tokens=100, temperature=0, stop=("{", "now"))

    assert text.turn.text == whole.partition(word)[0]
    assert [call.name for call in call.turn.calls] == ["now"]


async def test_a_seed_says_the_same_again(longcat: Engine) -> None:
    ask = Asking(longcat)

    said = [(await ask("Say something.", tools=(NOW,), max_tokens=16, temperature=1.5, seed=5)).turn for _ in range(2)]

    assert said[0] == said[1]


async def test_no_tool_is_called_where_the_caller_wants_none(longcat: Engine) -> None:
    done = await Asking(longcat)("What time is it?", tools=(NOW,), choice=ToolChoice("none"), max_tokens=20)

    assert not done.turn.calls
    assert done.turn.text


async def test_calls_and_results_of_before_are_worded_as_the_template_does(longcat: Engine) -> None:
    ask = Asking(longcat)
    turns: list[Turn] = [
        user("What time is it?"),
        AssistantTurn((ToolCall("c1", "now", "{}"),), "tool_calls"),
        ToolTurn((ToolResult("c1", "12:30"),)),
    ]

    done = await ask(turns, tools=(NOW,), max_tokens=20, temperature=0)

    flat = {"messages": write_flat(turns, (NOW,), ControlTokenEscaper(()))}
    hermes = await longcat.aside(lambda: longcat.tokenize(longcat.apply_template(flat)))
    assert done.usage.input < len(hermes) - 50


async def test_an_answer_in_a_format_beside_tools_keeps_to_it(longcat: Engine) -> None:
    """The engine's own path would forget the tools, so this is not left to it."""
    schema = Raw(
        b'{"type":"object","properties":{"hour":{"type":"integer"}},"required":["hour"],"additionalProperties":false}'
    )

    done = await Asking(longcat)(
        "What time is it?", tools=(NOW,), response_format=ResponseFormat("json_schema", "time", schema), max_tokens=60
    )

    assert done.turn.calls or list(msgspec.json.decode(done.turn.text)) == ["hour"]


async def test_a_schema_that_the_engine_cannot_use_is_no_reason_to_refuse(longcat: Engine) -> None:
    odd = ToolSpec("odd", "", Raw(b'{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}'))

    done = await Asking(longcat)("Hi", tools=(odd,), max_tokens=4)

    assert done.turn.text


async def test_a_pattern_that_counts_is_not_left_to_the_engine(longcat: Engine) -> None:
    """Such a one kept it busy until it was ended, and everybody else's answers with it."""
    properties = {"a": {"type": "string", "pattern": "^((a{0,1000}){0,1000}){0,1000}$"}}
    schema = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    odd = ToolSpec("odd", "", Raw(msgspec.json.encode(schema)))

    done = await Asking(longcat)("Hi", tools=(odd,), choice=REQUIRED, max_tokens=40, temperature=0)

    assert [call.name for call in done.turn.calls] == ["odd"]


@pytest.mark.parametrize("name", ["items", "nested", "strings", "recursive", "nothing", "elsewhere", "odd names"])
async def test_a_hostile_schema_gets_an_answer(longcat: Engine, name: str) -> None:
    """Whatever the engine makes of it, it goes on, and the call is a call of that tool."""
    whole = {"type": "integer"}
    parts: dict[str, object] = {
        "items": {"type": "array", "items": whole, "maxItems": 9999},
        "nested": {"type": "array", "items": {"type": "array", "items": whole, "maxItems": 300}, "maxItems": 300},
        "strings": {"type": "string", "minLength": 100_000_000},
        "recursive": {"$ref": "#"},
        "nothing": False,
        "elsewhere": {"$ref": "http://127.0.0.1:9/x.json"},
        "odd names": {"type": "object", "properties": {'a"\n::= <|im_end|>': whole}},
    }
    schema = msgspec.json.encode({"type": "object", "properties": {"a": parts[name]}, "required": ["a"]})
    odd = ToolSpec("odd", "", Raw(schema))

    auto = await Asking(longcat)("Hi", tools=(odd,), max_tokens=8, temperature=0)
    owed = await Asking(longcat)("Hi", tools=(odd,), choice=REQUIRED, max_tokens=60, temperature=0)

    assert auto.turn.text or auto.turn.calls
    assert [call.name for call in owed.turn.calls] == ["odd"]


@pytest.mark.parametrize("shape", [FOREIGN[0], FOREIGN[1], FOREIGN[3]], ids=lambda shape: shape.model)
async def test_a_template_that_begins_with_a_thought_calls_and_shows_no_thought_as_text(
    shape: Shape, model_file: ModelFile, engine: Engine
) -> None:
    ends = "assistant\\n' }}{% endif %}"
    assert shape.template.endswith(ends)
    made = Engine(model_file, SMALL, shape.template.removesuffix(ends) + ends.replace("\\n", "\\n<think>\\n"))
    ask = Asking(made)

    owed = await ask("How is it in Rome?", tools=(WEATHER, NOW), choice=REQUIRED, max_tokens=200, seed=1)
    auto = await ask("How is it in Rome?", tools=(WEATHER, NOW), max_tokens=24, seed=1, temperature=0)
    made.close()

    assert [call.name in ("get_weather", "now") for call in owed.turn.calls] == [True]
    assert "<think>" not in owed.turn.text + auto.turn.text
    assert auto.turn.reasoning or auto.turn.calls or "</think>" not in auto.turn.text


@pytest.mark.parametrize("shape", LEARNED, ids=[shape.model for shape in LEARNED])
async def test_calls_that_the_engine_cannot_read_are_learned_from_the_template(
    shape: Shape, model_file: ModelFile, engine: Engine
) -> None:
    made = Engine(model_file, SMALL, shape.template)
    ask = Asking(made)

    done, shown = await ask.watched("How is it in Rome?", tools=(WEATHER, NOW), choice=REQUIRED, max_tokens=200, seed=1)
    native = await made.aside(lambda: made.tokenize(_native_prompt(made)))
    made.close()

    (call,) = done.turn.calls
    assert call.name in ("get_weather", "now")
    assert call.name == "now" or 1 <= msgspec.json.decode(call.arguments)["days"] <= 9
    assert "".join([delta.arguments for delta in shown if type(delta) is CallDelta]) == call.arguments
    assert done.usage.input == len(native)  # no word of Hermes


@pytest.mark.parametrize("shape", UNREAD, ids=[shape.model for shape in UNREAD])
async def test_calls_that_neither_the_engine_nor_we_can_read_are_put_as_hermes_puts_them(
    shape: Shape, model_file: ModelFile, engine: Engine
) -> None:
    made = Engine(model_file, SMALL, shape.template)

    done = await Asking(made)("What time is it?", tools=(NOW,), choice=REQUIRED, max_tokens=100, temperature=0)
    made.close()

    assert [call.name for call in done.turn.calls] == ["now"]


CHUNKS = [
    {"role": "assistant", "content": None},
    {"reasoning_content": "hm – é"},
    {"content": "I "},
    {"content": "look."},
    {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "now", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '": "東"}'}}]},
    {"tool_calls": [{"index": 1, "id": "y", "type": "function", "function": {"name": "later", "arguments": "{}"}}]},
]
END = '{"choices":[{"finish_reason":"tool_calls","index":0,"delta":{}}]}', '{"choices":[],"timings":{"predicted_n":9}}'


def _read(parts: list[bytes]) -> AssistantTurn:
    answer, told = AnswerReader(), ToldParts()
    for part in parts:
        for piece in answer.feed(part, 200):
            told.read(piece)
    return told.finish(answer.finish().stop)


def test_what_the_engine_tells_is_the_same_turn_at_every_cut() -> None:
    lines = [msgspec.json.encode({"choices": [{"delta": chunk}]}).decode() for chunk in CHUNKS]
    text = "".join([f"data: {line}\n\n" for line in [*lines, *END, "[DONE]"]]).encode()

    turn = _read([text])

    assert (turn.reasoning, turn.text, turn.stop) == ("hm – é", "I look.", "tool_calls")
    assert [(call.name, call.arguments) for call in turn.calls] == [("now", '{"a": "東"}'), ("later", "{}")]
    for cut in range(1, len(text)):
        assert _read([text[:cut], text[cut:]]) == turn


@pytest.mark.parametrize(
    "calls", [[{"index": 0, "function": {"arguments": "{}"}}], [{"index": 0, "function": {"name": ""}}]]
)
def test_a_call_without_a_name_is_no_answer(calls: list[object]) -> None:
    line = msgspec.json.encode({"choices": [{"delta": {"tool_calls": calls}}]})

    with pytest.raises(UpstreamBroken, match="no name"):
        _read([b"data: " + line + b"\n\n"])


async def test_two_who_ask_at_once_learn_the_template_once(longcat: Engine) -> None:
    ask = Asking(longcat)

    done = await asyncio.gather(*[ask("Time?", tools=(NOW,), choice=REQUIRED, max_tokens=60) for _ in range(2)])

    assert [[call.name for call in one.turn.calls] for one in done] == [["now"], ["now"]]


class Dies:
    """An engine that dies of any answer of its chat path."""

    header = SimpleNamespace(ends=(2,))

    def __init__(self, shape: Shape) -> None:
        self._template = ImmutableSandboxedEnvironment().from_string(shape.template)
        self.answers = 0

    def apply_template(self, body: dict[str, Any]) -> str:
        return self._template.render(body)

    def answer(self, body: dict[str, Any]) -> bytes:
        self.answers += 1
        raise UpstreamBroken("the local engine does not answer")


def test_what_the_engine_dies_of_is_tried_once() -> None:
    """Else every request with tools would be its end, and after three of them it is not started for a while."""
    engine = Dies(FOREIGN[0])
    chat = ForeignChat(cast("Engine", engine), ControlTokenEscaper(()), None)
    with pytest.raises(UpstreamBroken):
        chat.learn()

    request = ModelRequest([user("?")], (NOW,), ToolChoice("auto"), NO_OPTIONS, False, "run", 0, 1, scratch={})
    assert chat.learn() is None
    assert not chat.takes(request)
    assert engine.answers == 1


async def test_a_trial_of_tools_leaves_the_model_nothing_to_read(longcat: Engine) -> None:
    """The grammar is made first; a large model would read for minutes, and the process is ended for that."""
    trial = ChatTrial({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True})
    (message,) = trial.body["messages"]

    assert await longcat.aside(lambda: len(longcat.tokenize(message["content"]))) > PROVER.cache
