"""When a small model calls a tool: decided by the words of the question and of the tools."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.local.conftest import SMALL, Asking

from ronda.core.events import CallDelta
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import NONE, ToolChoice, ToolSpec
from ronda.local.engine import Engine
from ronda.local.files import ModelFile
from ronda.local.guide import tools_to_call
from ronda.local.provider import LocalModel


def tool(name: str, description: str, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return ToolSpec(name, description, Raw(msgspec.json.encode(schema)))


CITY = {"type": "string", "description": "The city and state, e.g. Portland, OR"}
WEATHER = tool("get_weather", "Get the current weather for a location", location=CITY)
LOAN = tool("calculateLoanPayment", "What a loan costs each month.", amount={"type": "number"}, rate={"type": "number"})
MAIL = tool("send_email", "Send an email to somebody.", to={"type": "string"}, text={"type": "string"})
LIGHT = tool("set_light", "Switch a lamp.", room={"enum": ["kitchen", "bathroom"]}, on={"type": "boolean"})
ALL = (WEATHER, LOAN, MAIL, LIGHT)


@pytest.mark.parametrize(
    ("question", "called"),
    [
        ("How is the weather in San Francisco?", ("get_weather",)),
        ("What would a loan of 20,000 at 4 percent be?", ("calculateLoanPayment",)),
        ("Email bob@example.com that I am late.", ("send_email",)),
        ("Turn the light in the kitchen off.", ("set_light",)),
        ("Wie ist das Wetter in Bern?", ()),  # in another language than the tools
        ("What is the capital of France?", ()),
        ("Who invented email?", ()),
        ("Write a poem about the weather.", ()),
        ("Thank you!", ()),
        ("", ()),
    ],
)
def test_a_question_that_shares_words_with_a_tool_and_has_something_to_give_it_is_for_that_tool(
    question: str, called: tuple[str, ...]
) -> None:
    assert tools_to_call([SystemTurn("Be brief about the weather in Bern."), user(question)], ALL) == called


def test_in_a_long_text_a_word_that_is_shared_by_chance_counts_for_little() -> None:
    story = " ".join(f"chapter{n} about wonderful{chr(97 + n)} castle{chr(97 + n)}s" for n in range(20))

    assert tools_to_call([user(f"Sum up: {story} It rained in Oslo, and the weather was bad.")], ALL) == ()


def test_only_a_question_is_looked_at() -> None:
    asked = user("How is the weather in Oslo?")
    call = AssistantTurn((ToolCall("c1", "get_weather", '{"location": "Oslo"}'),), "tool_calls")
    result = ToolTurn((ToolResult("c1", "The weather in Oslo is fine."),))
    turns: list[Turn] = [asked, call, result]

    assert tools_to_call(turns, ALL) == ()
    assert tools_to_call([*turns, AssistantTurn((Text("Fine."),))], ALL) == ()
    assert tools_to_call([*turns, AssistantTurn((Text("Fine."),)), user("Nice, thanks!")], ALL) == ()
    assert tools_to_call([], ALL) == tools_to_call([asked], ()) == ()


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("properties", "items", "enum", "a")), inner)
    ),
)


@given(st.text(max_size=60), st.text(max_size=30), _ANY)
def test_whatever_a_schema_is_only_offered_tools_are_called(question: str, description: str, schema: Any) -> None:
    odd = ToolSpec("odd_one", description, Raw(msgspec.json.encode(schema)))

    assert set(tools_to_call([user(question)], (odd, WEATHER))) <= {"odd_one", "get_weather"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_small_model_calls_the_tool_that_a_question_is_for(ask: Asking, stream: bool) -> None:
    finished, shown = await ask.watched(
        "How is the weather in San Francisco?", tools=(MAIL, WEATHER), stream=stream, stop=("{",)
    )

    [call] = finished.turn.calls
    assert (call.name, finished.turn.stop, finished.turn.text) == ("get_weather", "tool_calls", "")
    assert isinstance(json.loads(call.arguments)["location"], str)
    assert "".join([piece.arguments for piece in shown if isinstance(piece, CallDelta)]) == call.arguments * stream


@pytest.mark.parametrize(
    "how",
    [
        {"extra": {"guide_calls": b"false"}},
        {"choice": NONE},
        {"choice": ToolChoice("auto", ("send_email",))},
        {"max_tokens": 3},  # too few for a call
    ],
    ids=["told not to", "no call", "another tool", "no room"],
)
async def test_a_call_is_not_forced_where_the_caller_wants_otherwise(ask: Asking, how: dict[str, Any]) -> None:
    finished = await ask("How is the weather in San Francisco?", **{"tools": (MAIL, WEATHER), "max_tokens": 20, **how})

    assert finished.turn.calls == ()


def test_a_model_whose_template_knows_tools_decides_by_itself(model_file: ModelFile) -> None:
    template = (
        "{% if tools %}<tool_call>{{ tools }}</tool_call>{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
    )

    assert LocalModel(Engine(model_file, SMALL)).guides_calls
    assert not LocalModel(Engine(model_file, SMALL, template)).guides_calls
