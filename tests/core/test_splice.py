"""What a request brings, and what its session has: which conversation is meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.parts import (
    AssistantTurn,
    Image,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    user,
)
from ronda.core.splice import SessionMode, splice


def answer(text: str) -> AssistantTurn:
    return AssistantTurn((Text(text),))


def call(id: str, text: str = "", name: str = "look") -> AssistantTurn:
    parts = (Text(text),) if text else ()
    return AssistantTurn((*parts, ToolCall(id, name, '{"a": 1}')), "tool_calls")


def result(id: str) -> ToolTurn:
    return ToolTurn((ToolResult(id, f"of {id}"),))


U1, U2, U3 = user("one"), user("two"), user("three")
A1, A2 = answer("First."), answer("Second.")
BE_KIND, BE_SHORT = SystemTurn("be kind"), SystemTurn("be short")
STORED: tuple[Turn, ...] = (U1, call("c1", "Let me see."), result("c1"), A1, U2, A2)


@pytest.mark.parametrize(
    ("incoming", "turns", "kept", "new"),
    [
        pytest.param(
            [U1, answer("Let me see. First."), U2, A2, U3], [*STORED, U3], 6, 1, id="it begins with all of them"
        ),
        pytest.param([U1, A1, U2, A2, U3], [*STORED, U3], 6, 1, id="the same, of an answer only the last words"),
        pytest.param([U1, answer("Let me see."), A1, U2, A2, U3], [*STORED, U3], 6, 1, id="an answer in two pieces"),
        pytest.param([U1, A1, U3], [*STORED[:4], U3], 4, 1, id="it differs after a beginning"),
        pytest.param([U1, A1, U2], [*STORED[:5]], 5, 0, id="it is a beginning"),
        pytest.param([U1, A2, U2], [U1, A2, U2], 1, 2, id="another answer than was given"),
        pytest.param([U3], [*STORED, U3], 6, 1, id="nothing shared, unanswered"),
        pytest.param([U2, U3], [*STORED, U2, U3], 6, 2, id="nothing shared, two at once"),
        pytest.param([U2, A2, U3], [U2, A2, U3], 0, 3, id="nothing shared, with an answer between"),
        pytest.param([BE_KIND, U3], [BE_KIND, *STORED, U3], 6, 1, id="instructions stand first"),
        pytest.param(
            [BE_KIND, U1, A1, BE_SHORT, U2, A2, U3],
            [BE_KIND, *STORED[:4], BE_SHORT, *STORED[4:], U3],
            6,
            1,
            id="instructions stay where the request has them",
        ),
        pytest.param([U1, A1, U2, A2, BE_SHORT, U3], [*STORED, BE_SHORT, U3], 6, 2, id="also behind what is shared"),
        pytest.param([user(" one\n"), A1, U2, A2, U3], [*STORED, U3], 6, 1, id="space is no difference"),
    ],
)
def test_auto(incoming: list[Turn], turns: list[Turn], kept: int, new: int) -> None:
    spliced = splice(STORED, incoming)
    assert (list(spliced.turns), spliced.kept, spliced.new) == (turns, kept, new)


@pytest.mark.parametrize(
    ("mode", "turns", "kept", "new"),
    [("append", [BE_KIND, *STORED, U1, A1], 6, 2), ("replace", [BE_KIND, U1, A1], 0, 3)],
)
def test_a_mode_compares_nothing(mode: SessionMode, turns: list[Turn], kept: int, new: int) -> None:
    spliced = splice(STORED, [BE_KIND, U1, A1], mode)
    assert (list(spliced.turns), spliced.kept, spliced.new) == (turns, kept, new)


def test_an_image_is_part_of_what_was_said() -> None:
    seen = UserTurn((Text("one"), Image("data:a")))
    assert splice([seen, A1], [seen, A1, U2]).kept == 2
    assert splice([seen, A1], [UserTurn((Text("one"), Image("data:b"))), A1, U2]).kept == 0


def test_results_that_the_session_waits_for_are_new() -> None:
    stored: list[Turn] = [U1, call("c1"), result("c1"), call("c2")]
    spliced = splice(stored, [U1, call("c2"), result("c2")])
    assert (list(spliced.turns), spliced.kept, spliced.new) == ([*stored, result("c2")], 4, 1)


def test_a_call_that_the_session_never_made_is_a_difference() -> None:
    spliced = splice([U1, call("c1")], [U1, call("c9", name="other"), result("c9")])
    assert (spliced.kept, spliced.new) == (1, 2)


def test_what_was_said_to_a_run_under_way_is_not_looked_for() -> None:
    stored: list[Turn] = [U1, call("c1"), result("c1"), user("hurry"), A1]
    spliced = splice(stored, [U1, A1, U2], own={3})
    assert (list(spliced.turns), spliced.kept) == ([*stored, U2], 5)


TEXTS = st.sampled_from(["a", "b"])
ROUNDS = st.lists(TEXTS, max_size=2)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Turn], list[Turn]]:
    """A session, and what its client saw of it."""
    stored: list[Turn] = []
    seen: list[Turn] = []
    for at in range(draw(st.integers(0, 4))):
        question, rounds = user(draw(TEXTS)), draw(ROUNDS)
        last = answer(draw(TEXTS))
        stored.append(question)
        for round_index, text in enumerate(rounds):
            stored += [call(f"c{at}{round_index}", text), result(f"c{at}{round_index}")]
        stored.append(last)
        seen += [question, answer("".join([*rounds, last.text]))]
    return stored, seen


@given(sessions(), TEXTS)
def test_who_sends_back_all_it_saw_goes_on(session: tuple[list[Turn], list[Turn]], text: str) -> None:
    stored, seen = session
    spliced = splice(stored, [*seen, user(text)])
    assert (list(spliced.turns), spliced.kept, spliced.new) == ([*stored, user(text)], len(stored), 1)


@given(sessions(), sessions())
def test_nothing_the_request_brings_is_lost(
    session: tuple[list[Turn], list[Turn]], other: tuple[list[Turn], list[Turn]]
) -> None:
    stored, incoming = session[0], other[1]
    spliced = splice(stored, incoming)
    assert list(spliced.turns[: len(spliced.turns) - spliced.new]) == stored[: spliced.kept]
    people = [turn for turn in spliced.turns if type(turn) is UserTurn]
    wanted = [turn for turn in incoming if type(turn) is UserTurn]
    assert people[len(people) - len(wanted) :] == wanted
