"""`run_agent`: the answer with what it took to get there, and the next question of the conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pipeline.files import scripted
from tests.wire.any_history import plain_turns, system_turns, user_turns

from ronda import (
    Agent,
    GuardrailResult,
    Guardrails,
    Result,
    ToolChoice,
    invoke_agent,
    run_agent,
    run_agent_async,
    stream_agent,
    tool,
)
from ronda.core.events import ModelFinished
from ronda.core.parts import (
    AssistantTurn,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    user,
)
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadRequest, LimitExceeded
from ronda.journal.memory import MemoryJournal
from ronda.prompty import Prompty
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.wire.openai_chat.client_answer import read_plain
from ronda.wire.shared.conversation import read_turns


@tool
def weather(city: str) -> str:
    """Look the weather up."""
    if city == "Atlantis":
        raise KeyError(city)
    return f"sunny in {city}"


def said(text: str) -> AssistantTurn:
    return AssistantTurn((Text(text),))


# ---- what comes back ---------------------------------------------------------------------------------------------------


async def test_the_result_has_what_the_run_did() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(
        calls(Call("weather", {"city": "Paris"}, "a"), Call("weather", {"city": "Atlantis"}, "b")),
        calls(Call("weather", {"city": "Rome"}, "c")),
        says("Sunny, mostly."),
    )

    result = await run_agent_async(Agent(model, tools=[weather]), "How is it?", journal=journal)

    assert isinstance(result, Result)
    assert result.output == "Sunny, mostly."
    assert result.usage == Usage(30, 15)
    assert result.cost is None
    assert result.limit is None
    assert [event.run for event in await journal.read(result.run_id) if hasattr(event, "run")] == [result.run_id]
    assert [type(turn) for turn in result.messages] == [
        UserTurn, AssistantTurn, ToolTurn, AssistantTurn, ToolTurn, AssistantTurn,
    ]  # fmt: skip
    assert [
        (call.round, call.id, call.name, call.arguments, call.content, call.failed) for call in result.tool_calls
    ] == [
        (0, "a", "weather", {"city": "Paris"}, "sunny in Paris", False),
        (0, "b", "weather", {"city": "Atlantis"}, "Error: Tool 'weather' failed: KeyError: 'Atlantis'", True),
        (1, "c", "weather", {"city": "Rome"}, "sunny in Rome", False),
    ]


def test_the_output_may_be_structured_and_is_what_invoke_agent_returns() -> None:
    class City(msgspec.Struct):
        name: str

    def agent() -> Agent:
        return Agent(ScriptedModel(says('{"name": "Paris"}')), output=City)

    assert run_agent(agent(), "Which?").output == City("Paris") == invoke_agent(agent(), "Which?")


def test_a_limit_that_was_reached_is_named() -> None:
    def agent() -> Agent:
        return Agent(ScriptedModel(calls("weather", city="Paris"), says("I stopped.")), tools=[weather])

    result = run_agent(agent(), "go", max_iterations=1, on_limit="answer")
    assert (result.output, result.limit) == ("I stopped.", "max_tool_rounds")
    with pytest.raises(LimitExceeded):
        run_agent(agent(), "go", max_iterations=1)


class Priced:
    """Answers as OpenRouter does, which says what a call cost."""

    def __init__(self, *answers: tuple[dict[str, Any], Any]) -> None:
        self._answers = list(answers)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        message, cost = self._answers.pop(0)
        said = {"choices": [{"message": {"role": "assistant", **message}}], "usage": {"prompt_tokens": 1, "cost": cost}}
        return read_plain(json.dumps(said).encode())


@pytest.mark.parametrize(("last", "total"), [(0.5, 0.75), (None, None), ({"total_cost": 1.0}, None)])
def test_the_cost_is_what_the_provider_says_of_all_calls_or_is_not_known(last: Any, total: float | None) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    model = Priced(({"tool_calls": [call]}, 0.25), ({"content": "Sunny."}, last))
    result = run_agent(Agent(model, tools=[weather]), "go")
    assert (result.output, result.cost) == ("Sunny.", total)


def file(model: ScriptedModel, body: str, **inputs: str) -> Prompty:
    declared = [{"name": name, "kind": kind, "required": kind == "string"} for name, kind in inputs.items()]
    return scripted(model, body, inputs=declared)


def test_a_file_has_a_result_too() -> None:
    result = run_agent(file(ScriptedModel("Hello, Ada."), "user:\nI am {{name}}.", name="string"), {"name": "Ada"})
    assert result.output == "Hello, Ada."
    assert result.messages == [user("I am Ada."), said("Hello, Ada.")]


# ---- the next question -------------------------------------------------------------------------------------------------


def test_the_next_question_goes_on_from_the_messages() -> None:
    model = ScriptedModel(calls(Call("weather", {"city": "Rome"}, "a")), says("Sunny."), says("Because of the sun."))
    agent = Agent(model, instructions="Be brief.", tools=[weather])

    first = run_agent(agent, "How is Rome?")
    second = run_agent(agent, "Why?", history=first.messages)

    assert second.output == "Because of the sun."
    assert model.heard[2] == [
        SystemTurn("Be brief."),
        user("How is Rome?"),
        AssistantTurn((ToolCall("a", "weather", '{"city":"Rome"}'),), "tool_calls"),
        ToolTurn((ToolResult("a", "sunny in Rome"),)),
        said("Sunny."),
        user("Why?"),
    ]
    assert second.messages == [*model.heard[2], said("Because of the sun.")]
    assert second.tool_calls == []  # of this run


OPENAI: list[dict[str, Any]] = [
    {"role": "user", "content": "How is Rome?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "sunny in Rome"},
    {"role": "assistant", "content": "Sunny."},
]
TURNS: list[Turn] = [
    user("How is Rome?"),
    AssistantTurn((ToolCall("a", "weather", '{"city":"Rome"}'),), "tool_calls"),
    ToolTurn((ToolResult("a", "sunny in Rome"),)),
    said("Sunny."),
]
FORMS: dict[str, list[Any]] = {
    "OpenAI's": OPENAI,
    "turns": TURNS,
    "turns as JSON": json.loads(msgspec.json.encode(TURNS)),
    "mixed": [*TURNS[:3], OPENAI[3]],
}


@pytest.mark.parametrize("history", FORMS.values(), ids=FORMS.keys())
def test_a_history_may_be_written_in_any_form(history: list[Any]) -> None:
    model = ScriptedModel(says("Because of the sun."))
    run_agent(Agent(model, instructions="Be brief.", tools=[weather]), "Why?", history=history)
    assert model.heard == [[SystemTurn("Be brief."), *TURNS, user("Why?")]]


@pytest.mark.parametrize("conversation", FORMS.values(), ids=FORMS.keys())
async def test_messages_are_taken_where_turns_are(conversation: list[Any]) -> None:
    given = [*conversation, {"role": "user", "content": "Why?"}]
    for ask in ("invoke", "stream"):
        model = ScriptedModel(says("Because of the sun."))
        agent = Agent(model, tools=[weather])
        if ask == "invoke":
            assert (await run_agent_async(agent, given)).output == "Because of the sun."
        else:
            async with stream_agent(agent, given) as events:
                assert [event async for event in events]
        assert model.heard == [[*TURNS, user("Why?")]]


def test_the_agent_that_is_asked_brings_its_own_instructions() -> None:
    other = run_agent(Agent(ScriptedModel(says("Sunny.")), instructions="Speak French."), "How is Rome?")
    model = ScriptedModel(says("Because."), says("Because."))

    run_agent(Agent(model, instructions="Be brief."), "Why?", history=other.messages)
    run_agent(Agent(model), "Why?", history=other.messages)

    assert [heard[0] for heard in model.heard] == [SystemTurn("Be brief."), SystemTurn("Speak French.")]


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([{"role": "usr", "content": "hi"}], "messages[0].role"),
        ([3], "history is a list of messages, {'role': …, 'content': …}, or of turns; 3 is neither"),
        ("How is Rome?", "history is a list of messages, {'role': …, 'content': …}, or of turns"),
        ([{"role": "user", "content": object()}], "history"),
    ],
)
def test_a_history_that_is_none_is_refused(history: Any, problem: str) -> None:
    with pytest.raises(BadRequest) as caught:
        run_agent(Agent(ScriptedModel()), "Why?", history=history)
    assert problem in str(caught.value)


# ---- the next question to a file ---------------------------------------------------------------------------------------


def test_the_next_question_to_a_file_comes_after_the_history() -> None:
    body = "system:\nBe brief.\n\nuser:\nAn example?\n\nassistant:\nYes.\n\nuser:\n{{question}}"
    path = file(ScriptedModel("One.", "Two.", "Three."), body, question="string")
    example = [SystemTurn("Be brief."), user("An example?"), said("Yes.")]

    first = run_agent(path, {"question": "First?"})
    second = run_agent(path, {"question": "Second?"}, history=first.messages)
    third = run_agent(path, "Third?", history=second.messages)

    assert first.messages[:-1] == [*example, user("First?")]
    assert second.messages[:-1] == [*first.messages, user("Second?")]
    assert third.messages[:-1] == [*second.messages, user("Third?")]


def test_a_history_takes_the_place_of_a_files_thread() -> None:
    body = "system:\nBe brief.\n\n{{thread}}\n\nuser:\n{{question}}"
    path = file(ScriptedModel("Yes."), body, question="string", thread="thread")

    result = run_agent(path, {"question": "Sure?"}, history=OPENAI)

    assert result.messages[:-1] == [SystemTurn("Be brief."), *TURNS, user("Sure?")]


def test_the_choice_of_the_package_is_the_agents() -> None:
    for choice in (ToolChoice.Required, ToolChoice("required"), "required"):
        model = ScriptedModel(calls("weather", city="Rome"), says("Sunny."))
        run_agent(Agent(model, tools=[weather], tool_choice=choice), "go")
        assert model.requests[0].choice == ToolChoice("required")


@given(st.lists(system_turns | user_turns | plain_turns(), min_size=1, max_size=6))
def test_a_conversation_that_was_saved_as_json_is_the_same_history(turns: list[Turn]) -> None:
    assert list(read_turns(json.loads(msgspec.json.encode(turns)), "history")) == turns


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_guardrail_may_write_the_turns_to_show_as_messages(kind: str) -> None:
    def judge(turns: Sequence[Turn]) -> GuardrailResult:
        return GuardrailResult(True, rewrite=OPENAI)

    async def judge_later(turns: Sequence[Turn]) -> GuardrailResult:
        return judge(turns)

    model = ScriptedModel(says("Sunny."))
    run_agent(Agent(model), "go", guardrails=Guardrails(input=judge if kind == "plain" else judge_later))
    assert model.heard == [TURNS]


def test_an_option_that_is_misspelt_is_an_error_for_type_checkers_too() -> None:
    agent = Agent(ScriptedModel(says("hi")))
    with pytest.raises(TypeError, match="unknown option 'max_iteration'; did you mean 'max_iterations'\\?"):
        run_agent(agent, "go", max_iteration=3)  # type: ignore[call-arg]  # mypy would say if it were none
    with pytest.raises(BadRequest, match="max_iterations is 'three'"):
        invoke_agent(agent, "go", max_iterations="three")  # type: ignore[arg-type]
