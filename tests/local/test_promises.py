"""What is promised of an answer, kept in decoding: calls that are owed, strict arguments, formats, grammars."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.local.conftest import Asking

from ronda.core.events import CallDelta, TextDelta
from ronda.core.parts import AssistantTurn, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import NONE, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.drive import capabilities_of
from ronda.errors import BadRequest
from ronda.local.engine import Engine

ADD = ToolSpec(
    "add",
    "Add two numbers.",
    Raw(
        b'{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},'
        b'"required":["a","b"],"additionalProperties":false}'
    ),
    strict=True,
)
NOW = ToolSpec("now", "The time.")
REQUIRED = ToolChoice("required")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_is_owed_comes_and_fits_its_schema(ask: Asking, stream: bool) -> None:
    finished, shown = await ask.watched(
        "What is 2 + 3?", tools=(ADD, NOW), choice=ToolChoice("required", ("add",), True), max_tokens=80, stream=stream
    )

    [call] = finished.turn.calls
    assert (call.name, finished.turn.stop) == ("add", "tool_calls")
    assert {name: type(value) for name, value in json.loads(call.arguments).items()} == {"a": int, "b": int}
    assert "".join([piece.arguments for piece in shown if isinstance(piece, CallDelta)]) == call.arguments * stream


async def test_a_model_may_say_what_it_wants_before_a_call_it_owes(roomy: Engine) -> None:
    """Of six tries one does: the first that has is enough."""
    text = ""
    ask = Asking(roomy)
    for seed in range(6):
        finished, shown = await ask.watched(
            "Do something useful.",
            tools=(NOW,),
            choice=REQUIRED,
            max_tokens=1060,
            temperature=1.0,
            seed=seed,
            stream=True,
        )
        assert [call.name for call in finished.turn.calls] == ["now"]
        assert "".join([piece.text for piece in shown if isinstance(piece, TextDelta)]) == finished.turn.text
        if text := finished.turn.text:
            break

    assert text


async def test_a_stop_text_does_not_cut_a_call_that_is_owed(ask: Asking) -> None:
    finished = await ask("What is 2 + 3?", tools=(ADD,), choice=REQUIRED, max_tokens=80, stop=("{", ",", "}"))

    assert [call.name for call in finished.turn.calls] == ["add"]


async def test_the_round_after_a_call_finds_the_call_worked_out(ask: Asking) -> None:
    asked = user("What is 20 + 30?")
    first = await ask([asked], tools=(ADD,), choice=REQUIRED, max_tokens=80)
    [call] = first.turn.calls
    turns: list[Turn] = [
        asked,
        AssistantTurn((ToolCall("call_1", call.name, call.arguments),), "tool_calls"),
        ToolTurn((ToolResult("call_1", "50"),)),
    ]
    second = await ask(turns, tools=(ADD,), max_tokens=4)

    # Up to where the same text is cut into tokens another way than it was written.
    assert second.usage.cached > first.usage.input + first.usage.output // 2


async def test_a_budget_no_call_fits_in_is_refused_with_the_number_needed(ask: Asking) -> None:
    with pytest.raises(BadRequest, match=r"'add' takes \d+ tokens at least"):
        await ask("What is 2 + 3?", tools=(ADD,), choice=REQUIRED, max_tokens=5)


async def test_where_no_call_is_wanted_there_is_none(ask: Asking) -> None:
    finished, shown = await ask.watched(
        'Write <tool_call>{"name": "now", "arguments": {}}</tool_call>.', tools=(NOW,), choice=NONE, max_tokens=24
    )

    assert finished.turn.calls == ()
    assert finished.turn.stop in ("stop", "length")
    assert not [piece for piece in shown if isinstance(piece, CallDelta)]


async def test_a_model_does_not_write_the_results_of_its_calls(ask: Asking) -> None:
    grammar = {"grammar": Raw(b'{"type": "regex", "value": "hello <tool_response>24 degrees"}')}

    finished = await ask("Say hello.", tools=(NOW,), choice=NONE, extra=grammar)

    assert (finished.turn.text.strip(), finished.turn.stop) == ("hello", "stop")


async def test_what_a_model_was_shown_it_may_say_again_without_the_marks(ask: Asking) -> None:
    grammar = {"grammar": Raw(b'{"type": "regex", "value": "It is <tool_response>5</tool_response>"}')}
    turns: list[Turn] = [
        user("What is 2 + 3?"),
        AssistantTurn((ToolCall("call_1", "add", '{"a": 2, "b": 3}'),), "tool_calls"),
        ToolTurn((ToolResult("call_1", "5"),)),
    ]

    finished = await ask(turns, tools=(ADD,), choice=NONE, extra=grammar)

    assert finished.turn.text == "It is 5"


async def test_a_format_binds_the_answer(ask: Asking) -> None:
    schema = Raw(
        b'{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"],"additionalProperties":false}'
    )

    finished = await ask(
        "How old is the cat?", max_tokens=40, response_format=ResponseFormat("json_schema", schema=schema)
    )

    answer = json.loads(finished.turn.text)
    assert (list(answer), type(answer["age"])) == (["age"], int)


async def test_a_callers_grammar_binds_the_answer(ask: Asking) -> None:
    finished = await ask("Red?", max_tokens=8, extra={"grammar": b'{"type": "regex", "value": "(yes|no)"}'})

    assert finished.turn.text in ("yes", "no")


@pytest.mark.parametrize(
    "grammar", [b'{"type": "lark", "value": "start: nowhere"}', b'{"type": "regex", "value": "(("}']
)
async def test_a_callers_grammar_that_is_not_sound_is_refused(ask: Asking, grammar: bytes) -> None:
    with pytest.raises(BadRequest, match="grammar"):
        await ask("Red?", max_tokens=8, extra={"grammar": grammar})


async def test_a_format_and_a_grammar_are_not_for_one_answer(ask: Asking) -> None:
    with pytest.raises(BadRequest, match="mutually exclusive"):
        await ask(
            "Red?",
            response_format=ResponseFormat("json_object"),
            extra={"grammar": b'{"type": "regex", "value": "(yes|no)"}'},
        )


@pytest.mark.parametrize(("more", "shown"), [({}, True), ({"not": {"required": ["b"]}}, False)])
async def test_an_answer_is_shown_as_it_comes_only_where_its_schema_is_kept_to_the_letter(
    ask: Asking, more: dict[str, Any], shown: bool
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], **more}
    answer_format = ResponseFormat("json_schema", schema=Raw(msgspec.json.encode(schema)))

    assert capabilities_of(ask.model).enforces_format(Options(response_format=answer_format)) is shown


async def test_a_grammar_that_would_only_be_approached_is_refused_with_the_way_out(ask: Asking) -> None:
    grammar = {"type": "json_schema", "value": {"oneOf": [{"type": "integer"}, {"minimum": 3}]}}

    with pytest.raises(BadRequest, match="send it as `response_format`"):
        await ask("Go", extra={"grammar": msgspec.json.encode(grammar)})


OPEN = ToolSpec(
    "store",
    "Store rows.",
    Raw(
        b'{"type":"object","properties":{"rows":{"type":"array"},"more":{"type":"object"}},"required":["rows","more"]}'
    ),
)


@pytest.mark.parametrize("tokens", [300, 900])
async def test_a_call_that_is_owed_is_made_though_nobody_described_its_arguments(roomy: Engine, tokens: int) -> None:
    finished = await Asking(roomy)("Store two rows.", tools=(OPEN,), choice=REQUIRED, max_tokens=tokens)

    [call] = finished.turn.calls
    arguments = json.loads(call.arguments)
    assert (type(arguments["rows"]), type(arguments["more"])) == (list, dict)


async def test_what_a_call_that_is_owed_has_no_room_for_is_told(ask: Asking) -> None:
    optional = ToolSpec("log", "Log.", Raw(b'{"type":"object","properties":{"note":{"type":"string"}}}'))

    finished = await ask("Log it.", tools=(optional,), choice=REQUIRED, max_tokens=40)

    assert [call.arguments for call in finished.turn.calls] == ["{}"]
    assert finished.warnings == ("max_tokens leaves no room for 'note' in a call of 'log'",)
