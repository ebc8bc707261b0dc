"""Where a conversation may be cut, how long it is said to be, and what an excerpt says of what is gone."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from ronda.core.actions import Compact
from ronda.core.context import SUMMARY, compact, cut, dropped_turns, estimate, groups, leading, summary_turn
from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    user,
)
from ronda.core.summary import excerpt, room_for, written_out


def asks(id: str) -> AssistantTurn:
    return AssistantTurn((ToolCall(id, "look", "{}"),), "tool_calls")


def gets(id: str) -> ToolTurn:
    return ToolTurn((ToolResult(id, "x" * 50),))


def test_a_conversation_is_as_long_as_the_specification_counts() -> None:
    call = ToolCall("c1", "look", '{"city": "Paris"}')
    turns: list[Turn] = [
        SystemTurn("Help."),
        UserTurn((Text("See"), Image("data:image/png;base64,AAAA"), File(id="f"))),
        AssistantTurn((Text("Well"), call), "tool_calls"),
        ToolTurn((ToolResult("c1", "fine"), ToolResult("c2", "ok", attachments=(Image("https://a"),)))),
    ]
    written = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Paris"}'}}]
    system, said, assistant = 6 + 4 + 5, 4 + 4 + 3 + 200 + 200, 9 + 4 + 4 + len(json.dumps(written))
    results = (4 + 4 + 4) + (4 + 4 + 2 + 200)
    assert estimate(turns) == system + said + assistant + results


def test_calls_stay_with_their_results_and_reasoning_with_its_call() -> None:
    thought = AssistantTurn((Reasoning("hm"),), native=Native("openai", Raw(b"{}")))
    turns: list[Turn] = [
        SystemTurn("s"),
        user("a"),
        thought,
        asks("1"),
        gets("1"),
        asks("2"),
        gets("2"),
        user("b"),
        user("c"),
    ]
    assert [list(group) for group in groups(turns, 1)] == [[1], [2, 3, 4], [5, 6], [7], [8]]


def test_what_was_sent_in_pieces_is_one_group() -> None:
    turns: list[Turn] = [asks("1"), gets("1"), gets("2"), user("a")]
    assert [list(group) for group in groups(turns, 0)] == [[0, 1, 2], [3]]


def test_the_oldest_goes_first_and_no_more_than_has_to() -> None:
    turns: list[Turn] = [SystemTurn("s"), *[user("x" * 92) for _ in range(5)]]  # a hundred each
    assert cut(turns, 1, 1, 511) is None
    assert cut(turns, 1, 1, 500) == Compact(2)
    assert cut(turns, 1, 1, 250) == Compact(4)
    assert cut(turns, 1, 1, 1) == Compact(5)


def test_in_a_tool_loop_the_question_stays_and_old_rounds_go() -> None:
    turns: list[Turn] = [user("the question"), asks("1"), gets("1"), asks("2"), gets("2"), asks("3"), gets("3")]
    assert cut(turns, 0, 0, 300) == Compact(5, (0,))
    assert compact(turns, 0, 5, (0,), "sum") == [summary_turn("sum"), turns[0], turns[5], turns[6]]
    assert dropped_turns(turns, 0, 5, (0,)) == tuple(turns[1:5])


def test_an_answer_goes_with_its_question_and_the_next_question_keeps_its_own() -> None:
    answer = AssistantTurn((Text("a" * 10),))
    turns: list[Turn] = [user("x" * 192), asks("1"), gets("1"), answer, user("y"), answer, user("last")]
    size = estimate(turns)
    assert cut(turns, 0, 0, size - 1) == Compact(4)
    middle: list[Turn] = [user("x" * 192), SystemTurn("in French"), answer, user("y"), answer, user("last")]
    assert cut(middle, 0, 0, estimate(middle) - 1) == Compact(3, (1,))


def test_instructions_in_the_middle_stay_too() -> None:
    turns: list[Turn] = [user("x" * 100), SystemTurn("from now on in French"), user("y" * 100), user("last")]
    assert cut(turns, 0, 0, 60) == Compact(3, (1,))


def test_what_is_all_instructions_is_never_cut() -> None:
    turns: list[Turn] = [SystemTurn("x" * 100), SystemTurn("y" * 100)]
    assert leading(turns) == 2
    assert cut(turns, 2, 2, 10) is None


def test_an_earlier_summary_is_part_of_the_next() -> None:
    turns: list[Turn] = [SystemTurn("s"), summary_turn("User asked: about Egypt"), user("and Greece?"), user("now?")]
    assert cut(turns, 1, 2, 20) == Compact(3)
    gone = dropped_turns(turns, 1, 3, ())
    assert excerpt(gone, 1000) == "User asked: about Egypt\nUser asked: and Greece?"
    assert compact(turns, 1, 3, (), "both") == [turns[0], summary_turn("both"), turns[3]]


def test_an_excerpt_says_who_asked_what_and_which_tools_were_called() -> None:
    turns: list[Turn] = [
        UserTurn((Text("What is this?"), Image("data:image/png;base64," + "A" * 999))),
        AssistantTurn((Text("Let me look. " * 30), ToolCall("1", "look", "{}"), ToolCall("2", "see", "{}"))),
        gets("1"),
        AssistantTurn((Text("A cat."),)),
    ]
    look = ("Let me look. " * 30)[:200]
    assert excerpt(turns, 4000).split("\n") == [
        "User asked: What is this?",
        f"Assistant: {look}…",
        "  Called tools: look, see",
        "Assistant: A cat.",
    ]


def test_where_there_is_no_room_for_all_the_questions_stay() -> None:
    turns: list[Turn] = []
    for n in range(9):
        turns += [user(f"question {n}"), AssistantTurn((Text(f"answer {n} " * 20),))]
    lines = excerpt(turns, 500).split("\n")
    assert lines[0] == "... (older messages omitted)"
    assert [line for line in lines if line.startswith("User")] == [f"User asked: question {n}" for n in range(9)]
    assert sum(map(len, lines[1:])) <= 500
    again = excerpt([summary_turn("\n".join(lines))], 5000)
    assert "omitted" not in again  # said once, where it is true


def test_a_summary_never_fills_the_budget() -> None:
    assert [room_for(budget) for budget in (10, 4_000, 1_000_000)] == [1000, 2000, 4000]


def test_turns_are_written_out_for_whoever_sums_up() -> None:
    turns: list[Turn] = [
        summary_turn("before"),
        user("a?"),
        AssistantTurn((Text("hm"), ToolCall("1", "look", "{}"))),
        gets("1"),
    ]
    assert written_out(turns).split("\n") == [
        "[summary]: before",
        "[user]: a?",
        "[assistant]: hm",
        "Called: look({})",
        f"[tool]: {'x' * 50}",
    ]
    assert SUMMARY not in written_out(turns)


some_turns = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=80)),
        st.builds(lambda text: AssistantTurn((Text(text),)), st.text(max_size=80)),
        st.builds(SystemTurn, st.text(max_size=30)),
        st.sampled_from(["1", "2"]).map(lambda call_id: (asks(call_id), gets(call_id))),  # turns of their own each time
    ),
    max_size=10,
).map(lambda items: [turn for item in items for turn in (item if isinstance(item, tuple) else (item,))])


@given(some_turns, st.integers(1, 400))
def test_whatever_is_cut_is_whole_and_the_rest_is_in_order(turns: list[Turn], budget: int) -> None:
    head = leading(turns)
    found = cut(turns, head, head, budget)
    if found is None:
        return
    gone = dropped_turns(turns, head, found.upto, found.kept)
    left = compact(turns, head, found.upto, found.kept, "")
    assert gone
    assert len(gone) + len(left) == len(turns)
    assert not any(type(turn) is SystemTurn for turn in gone)
    assert sum(type(turn) is ToolTurn for turn in gone) == sum(type(t) is AssistantTurn and bool(t.calls) for t in gone)
    assert left[-1] is turns[-1]
    rest = iter(turns)
    assert all(any(turn is one for one in rest) for turn in left)
    spoken = [turn for turn in turns[head:] if type(turn) is not SystemTurn]
    orphans = [
        answer for question, answer in itertools.pairwise(spoken)
        if type(question) is UserTurn and type(answer) is AssistantTurn
        and any(question is one for one in gone) and any(answer is one for one in left)
    ]  # fmt: skip
    assert not orphans
    questions = [turn for turn in turns if type(turn) is UserTurn]
    if questions:
        assert any(turn is questions[-1] for turn in left)
