"""`script:FILE.json`: a model that says what a file says. The format is the one its module documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ronda import Agent, Retry, invoke_agent, stream_agent, tool
from ronda.core.events import CallDelta, ModelFinished, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantTurn, Reasoning, Text, ToolCall, Turn, Usage
from ronda.core.parts import user as says_user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.errors import BadConfig, ExecuteError, UpstreamError
from ronda.providers import Where, open_provider
from ronda.providers.script import Line, ScriptedModel, calls, fails, says

QUICK = Retry(initial_interval=0.0)


@tool
async def lookup(q: str = "") -> str:
    """Look something up."""
    return f"found {q}"


def write(folder: Path, script: Any) -> str:
    file = folder / "script.json"
    file.write_text(script if isinstance(script, str) else json.dumps(script))
    return f"script:{file}"


def ask(folder: Path, script: Any, inputs: Any = "go") -> Any:
    return invoke_agent(Agent(model=write(folder, script), tools=[lookup], retry=QUICK), inputs)


async def said(folder: Path, line: Any, turns: tuple[Turn, ...] = (), stream: bool = False) -> ModelFinished:
    provider = open_provider(write(folder, [line]), Where())
    request = ModelRequest(turns or (says_user("go"),), (), AUTO, NO_OPTIONS, stream, "run_1", 0, 1, {})
    return await provider.call(request, lambda batch: None)


# ---- a turn ----------------------------------------------------------------------------------------------------------


async def test_a_string_is_what_the_model_says(tmp_path: Path) -> None:
    assert await said(tmp_path, "Hello.") == ModelFinished(AssistantTurn((Text("Hello."),)), Usage(10, 5))


async def test_an_object_says_all_there_is_to_say(tmp_path: Path) -> None:
    line = {
        "text": "Let me see.",
        "reasoning": "Hm.",
        "calls": [{"name": "lookup", "arguments": {"q": "x"}, "id": "c7"}, {"name": "lookup", "arguments": "as it is"}],
        "usage": {"input": 9, "output": 3},
    }

    assert await said(tmp_path, line) == ModelFinished(
        AssistantTurn(
            (
                Reasoning("Hm."),
                Text("Let me see."),
                ToolCall("c7", "lookup", '{"q":"x"}'),
                ToolCall("call_0_1", "lookup", "as it is"),
            ),
            "tool_calls",
        ),
        Usage(9, 3),
    )


async def test_a_stop_is_the_one_that_is_given(tmp_path: Path) -> None:
    assert (await said(tmp_path, {"text": "Once", "stop": "length"})).turn.stop == "length"


async def test_chunks_are_the_text_in_pieces(tmp_path: Path) -> None:
    assert (await said(tmp_path, {"chunks": ["Hel", "lo"]})).turn.text == "Hello"


async def test_an_error_is_raised_as_an_http_answer_would_be(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError, match="slow down") as raised:
        await said(tmp_path, {"error": "slow down", "status": 429, "retry_after": 1})

    error = raised.value
    assert (error.status, error.retryable, error.retry_after) == (429, True, 1.0)


async def test_a_cut_breaks_off_after_the_text(tmp_path: Path) -> None:
    with pytest.raises(UpstreamError):
        await said(tmp_path, {"text": "Hel", "cut": True}, stream=True)


async def test_a_stream_comes_in_words_and_calls_in_two_pieces(tmp_path: Path) -> None:
    line = {"text": "Let me see.", "reasoning": "Hm.", "calls": [{"name": "lookup", "arguments": "abcd", "id": "c"}]}
    shown: list[Any] = []
    provider = open_provider(write(tmp_path, [line]), Where())
    request = ModelRequest((says_user("go"),), (), AUTO, NO_OPTIONS, True, "run_1", 0, 1, {})

    await provider.call(request, lambda batch: shown.extend(batch))

    assert shown == [
        ReasoningDelta("Hm."),
        TextDelta("Let "),
        TextDelta("me "),
        TextDelta("see."),
        CallDelta(0, "c", "lookup", "ab"),
        CallDelta(0, "c", "lookup", "cd"),
    ]


# ---- a script --------------------------------------------------------------------------------------------------------


def test_turns_come_one_after_the_other(tmp_path: Path) -> None:
    script = [{"calls": [{"name": "lookup"}]}, {"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, "done"]

    assert ask(tmp_path, script) == "done"


def test_an_error_ends_a_run_and_says_why(tmp_path: Path) -> None:
    with pytest.raises(ExecuteError, match="never"):
        ask(tmp_path, [{"error": "never", "status": 400}])


def test_every_user_message_is_answered_from_the_first_turn_on(tmp_path: Path) -> None:
    conversation = [says_user("one"), AssistantTurn((Text("first"),)), says_user("two")]

    assert ask(tmp_path, ["first", "second"], conversation) == "first"


def test_a_list_of_lists_has_one_script_per_user_message(tmp_path: Path) -> None:
    script = [["one"], [{"calls": [{"name": "lookup"}]}, "two"]]
    first = [says_user("1")]
    second: list[Turn] = [*first, AssistantTurn((Text("one"),)), says_user("2")]
    third: list[Turn] = [*second, AssistantTurn((Text("two"),)), says_user("3")]

    assert [ask(tmp_path, script, turns) for turns in (first, second, third)] == ["one", "two", "one"]


def test_any_number_of_runs_can_share_one(tmp_path: Path) -> None:
    agent = Agent(model=write(tmp_path, [{"calls": [{"name": "lookup"}]}, "done"]), tools=[lookup])

    assert [invoke_agent(agent, "go") for _ in range(3)] == ["done", "done", "done"]


# ---- files that are none ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("not json", "not JSON"),
        ({}, "not a list of turns"),
        ([5], "not a list of turns"),
        ([{"txt": "typo"}], "txt"),
        ([{"text": 5}], "text"),
        ([], "no turns"),
        ([[]], "no turns"),
        (["one", ["two"]], "mixes"),
    ],
)
def test_a_file_that_is_no_script_is_a_clear_error(tmp_path: Path, script: Any, reason: str) -> None:
    with pytest.raises(BadConfig, match=reason) as raised:
        open_provider(write(tmp_path, script), Where())

    assert "script.json" in str(raised.value)


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"nowhere\.json"):
        open_provider(f"script:{tmp_path}/nowhere.json", Where())


@pytest.mark.parametrize("spec", ["script", "script:", "gpt-5", "nobody:gpt-5", ""])
def test_a_spec_that_names_no_model_is_a_clear_error(spec: str) -> None:
    with pytest.raises(BadConfig, match=f"no model can be found under '{spec}'; "):
        open_provider(spec, Where())


# ---- in Python -------------------------------------------------------------------------------------------------------


def test_a_scripted_model_remembers_what_it_heard() -> None:
    model = ScriptedModel(calls("lookup", q="x"), "done")

    assert invoke_agent(Agent(model=model, tools=[lookup], instructions="Be brief."), "go") == "done"
    assert [len(turns) for turns in model.heard] == [2, 4]


def test_a_scripted_model_that_is_asked_too_often_says_so() -> None:
    with pytest.raises(ExecuteError, match="the script is over: it has 1 turns"):
        invoke_agent(Agent(model=ScriptedModel(calls("lookup")), tools=[lookup]), "go")


def test_failures_can_be_scripted() -> None:
    assert invoke_agent(Agent(model=ScriptedModel(fails("busy", 503), says("now")), retry=QUICK), "go") == "now"


def test_testing_has_it_for_users_too() -> None:
    import ronda.testing

    assert ronda.testing.ScriptedModel is ScriptedModel


async def test_a_script_is_streamed_like_any_model(tmp_path: Path) -> None:
    async with stream_agent(Agent(model=write(tmp_path, ["Hello there."])), "go") as events:
        shown = [event.text async for event in events if isinstance(event, TextDelta)]

    assert shown == ["Hello ", "there."]
    assert events.result == "Hello there."


UNPLAYABLE: dict[str, tuple[Any, str]] = {
    "nothing": (None, "Expected `object`, got `null`"),
    "a number": (3, "Expected `object`, got `int`"),
    "a list": (["hi"], "Expected `object`, got `array`"),
    "a field that no turn has": ({"txt": "hi"}, "Object contains unknown field `txt`"),
    "a text that is none": (says(3), "Expected `str`, got `int` - at `$.text`"),  # type: ignore[arg-type]
    "a call without a name": ({"calls": [{"arguments": {}}]}, "Object missing required field `name`"),
    "a misspelt field of a call": ({"calls": [{"name": "a", "args": {}}]}, "Object contains unknown field `args`"),
    "arguments that are no JSON": (calls("a", what=object()), "Encoding objects of type object is unsupported"),
    "an error and a text": (Line(text="hi", error="busy"), "a turn with an 'error' says nothing else, and has 'text'"),
    "a status without an error": ({"status": 429}, "'status' belongs to an 'error', and there is none"),
    "two texts": ({"text": "hello", "chunks": ["hi"]}, "'chunks' are the pieces of 'text', and say something else"),
}


@pytest.mark.parametrize(("line", "reason"), UNPLAYABLE.values(), ids=UNPLAYABLE.keys())
def test_a_scripted_model_refuses_what_it_cannot_play(line: Any, reason: str) -> None:
    with pytest.raises(BadConfig) as caught:
        ScriptedModel("hi", line)
    assert str(caught.value).startswith("a scripted model cannot play its turn 1: ")
    assert reason in str(caught.value)


def test_a_script_file_refuses_what_it_cannot_play(tmp_path: Path) -> None:
    for line, reason in UNPLAYABLE.values():
        if isinstance(line, dict):
            with pytest.raises(BadConfig) as caught:
                Agent(write(tmp_path, ["hi", line]))
            assert reason in str(caught.value)


def test_a_scripted_model_takes_turns_as_a_script_file_has_them() -> None:
    model = ScriptedModel({"calls": [{"name": "lookup", "arguments": {"q": "x"}}]}, {"text": "done"})
    assert invoke_agent(Agent(model=model, tools=[lookup]), "go") == "done"


@pytest.mark.parametrize("text", ['{"a":1', '["one", ', "", "nope", '["one"] more'])
def test_a_file_that_is_cut_off_is_no_json(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConfig, match=r"^the script '.*script.json' is not JSON: "):
        ask(tmp_path, text)


def test_json_that_is_no_script_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"^the script '.*script.json' is not a list of turns: Expected `array`"):
        ask(tmp_path, '{"a": 1}')
