"""What `turn` tells with `on_event(type, data)`."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ronda import Agent, Cancel, GuardrailResult, Guardrails, Steering, invoke_agent, turn
from ronda.core.events import Event
from ronda.core.parts import AssistantTurn, Text, Turn, user
from ronda.errors import ExecuteError, GuardrailError, LimitExceeded, RunCancelled, ToolMissing
from ronda.prompty.message_parts import Message, Part
from ronda.prompty.turn_events import TurnEvents
from ronda.testing import Call, ScriptedModel, calls, fails, says

NO = GuardrailResult(False, "no")


class Told:
    """Keeps what it is told; tokens are left out, since how text is cut into them is the model's affair."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, type: str, data: dict[str, Any]) -> None:
        if type != "token":
            self.all.append((type, data))

    @property
    def types(self) -> list[str]:
        return [kind for kind, _ in self.all]

    def data(self, type: str) -> list[dict[str, Any]]:
        return [data for one, data in self.all if one == type]


def said(role: str, text: str = "", **metadata: Any) -> Message:
    return Message(role, (Part("text", text),) if text else (), metadata)


def look(city: str = "Paris") -> str:
    return f"{city}: fine"


def test_one_tool_round_is_told_from_start_to_end() -> None:
    told = Told()
    model = ScriptedModel(calls(Call("look", {"city": "Rome"}, "c1")), says("It is fine."))

    assert turn(Agent(model, tools=[look]), "weather?", on_event=told) == "It is fine."

    asked = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Rome"}'}}
    messages = [
        said("user", "weather?"),
        said("assistant", tool_calls=[asked]),
        said("tool", "Rome: fine", tool_call_id="c1"),
    ]
    assert told.all == [
        ("status", {"message": "Starting agent loop"}),
        ("tool_call_start", {"id": "c1", "name": "look", "arguments": '{"city":"Rome"}'}),
        ("tool_result", {"id": "c1", "name": "look", "result": "Rome: fine"}),
        ("messages_updated", {"messages": messages, "message_count": 4, "reason": "tool_results"}),
        ("done", {"response": "It is fine.", "messages": [*messages, said("assistant", "It is fine.")]}),
    ]


def test_an_answer_at_once_is_done_and_nothing_else() -> None:
    told = Told()
    assert turn(Agent(ScriptedModel("hi")), "hello", on_event=told) == "hi"
    assert told.types == ["done"]


def test_tokens_and_thoughts_are_told_as_they_come() -> None:
    told: list[tuple[str, Any]] = []
    model = ScriptedModel(says("one two", reasoning="hm", chunks=("one ", "two")))
    turn(Agent(model), "go", on_event=lambda kind, data: told.append((kind, data.get("token"))))
    assert told[:3] == [("thinking", "hm"), ("token", "one "), ("token", "two")]


def test_a_tool_that_fails_is_a_result_like_any_other() -> None:
    told = Told()

    def broken() -> str:
        raise RuntimeError("no")

    turn(Agent(ScriptedModel(calls("broken"), says("sorry")), tools=[broken]), "go", on_event=told)
    assert told.types == ["status", "tool_call_start", "tool_result", "messages_updated", "done"]
    (result,) = told.data("tool_result")
    assert (result["result"], result["errorKind"]) == ("Error: Tool 'broken' failed: RuntimeError: no", "exception")


def test_calls_that_cannot_be_read_are_told_with_the_models_own_words() -> None:
    told = Told()
    model = ScriptedModel(calls(Call("look", "{oops", "c1")), says("sorry"))
    turn(Agent(model, tools=[look]), "go", on_event=told)
    assert told.types == ["status", "tool_call_start", "tool_result", "messages_updated", "done"]
    assert told.data("tool_call_start") == [{"id": "c1", "name": "look", "arguments": "{oops"}]
    assert told.data("tool_result")[0]["result"].startswith("Error: Invalid JSON in tool arguments")


def test_one_after_another_each_result_follows_its_start() -> None:
    told = Told()
    model = ScriptedModel(calls(Call("look", {"city": "A"}, "a"), Call("look", {"city": "B"}, "b")), says("ok"))
    turn(Agent(model, tools=[look]), "go", on_event=told)
    assert [(kind, data["id"]) for kind, data in told.all if "id" in data] == [
        ("tool_call_start", "a"),
        ("tool_result", "a"),
        ("tool_call_start", "b"),
        ("tool_result", "b"),
    ]


def test_side_by_side_both_are_told_to_have_started() -> None:
    told = Told()
    model = ScriptedModel(calls(Call("look", {}, "a"), Call("look", {}, "b")), says("ok"))
    turn(Agent(model, tools=[look]), "go", on_event=told, parallel_tool_calls=True)
    assert told.types[:5] == ["status", "tool_call_start", "tool_call_start", "tool_result", "tool_result"]


def test_a_denied_call_is_told_with_its_denial() -> None:
    told = Told()
    model = ScriptedModel(calls(Call("look", {}, "a"), Call("look", {}, "b")), says("ok"))
    guard = Guardrails(tool=lambda name, arguments: GuardrailResult(False, "never"))
    turn(Agent(model, tools=[look]), "go", on_event=told, guardrails=guard)
    assert told.types == ["status", *["tool_call_start", "tool_result"] * 2, "messages_updated", "done"]
    assert [(data["result"], data["errorKind"]) for data in told.data("tool_result")] == [
        ("Tool denied by guardrail: never", "permission_denied")
    ] * 2


def test_steering_is_told_once_for_all_that_was_said() -> None:
    told = Told()
    steering = Steering()

    def speak() -> str:
        steering.send("one")
        steering.send("two")
        return "ok"

    turn(Agent(ScriptedModel(calls("speak"), says("done")), tools=[speak]), "go", on_event=told, steering=steering)
    assert told.types[3:] == ["messages_updated", "status", "messages_updated", "done"]
    assert told.data("status")[1] == {"message": "Injecting steering message"}
    assert [data["message_count"] for data in told.data("messages_updated")] == [4, 6]
    assert told.data("messages_updated")[1]["messages"][-2:] == [said("user", "one"), said("user", "two")]


def test_tries_are_told_with_their_number() -> None:
    told = Told()
    model = ScriptedModel(fails("busy", 503, retry_after=0.0), fails("busy", 503, retry_after=0.0), says("ok"))
    assert turn(Agent(model), "go", on_event=told) == "ok"
    assert told.data("status") == [
        {"message": "LLM call failed, retrying (attempt 2/3)..."},
        {"message": "LLM call failed, retrying (attempt 3/3)..."},
    ]
    assert told.data("retry")[0] == {"operation": "llm", "attempt": 2, "maxAttempts": 3, "reason": "busy"}


def test_a_model_that_cannot_be_called_is_an_error_and_says_what_there_was() -> None:
    told = Told()
    model = ScriptedModel(*[fails("busy", 503, retry_after=0.0)] * 3)
    with pytest.raises(ExecuteError, match=r"^the model was asked 3 times, and failed each time: busy$") as raised:
        turn(Agent(model), "go", on_event=told)
    assert raised.value.messages == [user("go")]
    assert told.all[-1] == ("error", {"message": "busy", "errorKind": "llm", "phase": "during the model call"})


def test_compaction_is_told_with_what_it_took() -> None:
    told = Told()
    turns: list[Turn] = [user("long " * 50), AssistantTurn((Text("long " * 50),)), user("now?")]
    turn(Agent(ScriptedModel("ok")), turns, on_event=told, context_budget=100, compaction=lambda gone: "short")
    assert told.types == [
        "status",
        "compaction_start",
        "compaction_complete",
        "messages_updated",
        "done",
    ]
    assert told.data("compaction_start") == [{"droppedCount": 2}]
    assert told.data("compaction_complete") == [{"removed": 2, "remaining": 2, "summaryLength": 5}]


def test_a_compaction_that_fails_is_told_too() -> None:
    told = Told()
    turns: list[Turn] = [user("long " * 50), AssistantTurn((Text("long " * 50),)), user("now?")]
    turn(Agent(ScriptedModel("ok")), turns, on_event=told, context_budget=100, compaction=lambda gone: "")
    assert told.data("compaction_failed") == [{"message": "the summary has no text"}]


@pytest.mark.parametrize(
    ("options", "error", "message", "kind"),
    [
        ({"guardrails": {"input": lambda turns: NO}}, GuardrailError, "Input guardrail denied: no", "guardrail"),
        ({"guardrails": {"output": lambda turn: NO}}, GuardrailError, "Output guardrail denied: no", "guardrail"),
        ({"max_iterations": 1}, LimitExceeded, "Agent loop exceeded 1 iterations", "limit"),
        ({"tools": {}}, ToolMissing, "Tool not registered: nobody", "loop"),
    ],
)  # fmt: skip
def test_a_run_without_an_answer_ends_with_an_error(
    options: dict[str, Any], error: type[Exception], message: str, kind: str
) -> None:
    told = Told()
    asked = "nobody" if error is ToolMissing else "look"
    model = ScriptedModel(calls(asked, text="let me see"), calls("look"), says("x"))
    with pytest.raises(error):
        turn(Agent(model, tools=[look]), "go", on_event=told, **options)
    assert told.types[-1] == "error"
    assert (told.all[-1][1]["message"], told.all[-1][1]["errorKind"]) == (message, kind)


def test_a_turn_cancelled_before_it_began_says_so() -> None:
    told = Told()
    cancel = Cancel()
    cancel.cancel()
    model = ScriptedModel("never")
    with pytest.raises(RunCancelled) as raised:
        turn(Agent(model), "go", on_event=told, cancel=cancel)
    assert told.all == [("cancelled", {"reason": "Cancellation requested before first iteration"})]
    assert raised.value.messages == [user("go")]
    assert model.heard == []


@pytest.mark.parametrize(
    ("which", "reason", "ran"),
    [
        (0, "Cancellation requested after tool execution", ["a"]),
        (1, "Cancellation requested before iteration 2", ["a", "b"]),
    ],
)
def test_a_turn_cancelled_by_a_tool_runs_no_other(which: int, reason: str, ran: list[str]) -> None:
    told = Told()
    cancel = Cancel()
    seen: list[str] = []

    async def act(name: str) -> str:
        seen.append(name)
        if len(seen) > which:
            cancel.cancel()
        return name

    model = ScriptedModel(calls(Call("act", {"name": "a"}), Call("act", {"name": "b"})), says("never"))
    with pytest.raises(RunCancelled):
        turn(Agent(model, tools=[act]), "go", on_event=told, cancel=cancel)
    assert seen == ran
    assert [data["result"] for data in told.data("tool_result")] == ran
    assert told.all[-1] == ("cancelled", {"reason": reason})
    assert len(model.heard) == 1


def test_a_callback_that_raises_is_logged_and_the_turn_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def broken(type: str, data: dict[str, Any]) -> None:
        raise ValueError("not my day")

    with caplog.at_level(logging.ERROR, "ronda.turn"):
        assert turn(Agent(ScriptedModel(calls("look"), says("ok")), tools=[look]), "go", on_event=broken) == "ok"
    assert "on_event failed with a 'done' event" in caplog.text
    assert "not my day" in caplog.text


def test_a_journal_tells_the_same_as_the_run_did() -> None:
    events: list[Event] = []
    model = ScriptedModel(calls("look"), says("ok"))
    live, later = Told(), Told()
    follow = TurnEvents(live)

    def both(event: Event) -> None:
        events.append(event)
        follow(event)

    invoke_agent(Agent(model, tools=[look]), "go", on_event=both)
    again = TurnEvents(later)
    for event in events:
        again(event)
    assert later.all == live.all
