"""What is left out for plain words, and for tools without labels of data, would have found nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    are_words,
)
from ronda.core.plan import Plan, ToolSpec
from ronda.core.taint import CLEAN, marks_in, marks_of_hosted, may_leak
from ronda.core.transcript import repair, whole_results

words = st.sampled_from(["", "a", "b"])
asked = st.lists(st.builds(Text, words) | st.builds(Image, words) | st.builds(File, words), max_size=2).map(tuple)
said = st.lists(
    st.builds(Text, words) | st.builds(Reasoning, words) | st.builds(ToolCall, words, words, words), max_size=2
).map(tuple)
results = st.builds(ToolResult, words, words, marks=st.sampled_from([(), ("private",)]), whole=words)
turns = st.one_of(
    st.builds(SystemTurn, words),
    st.builds(UserTurn, asked),
    st.builds(AssistantTurn, said),
    st.builds(ToolTurn, st.lists(results, max_size=2).map(tuple)),
)
labels = st.lists(st.sampled_from(["egress", "private", "untrusted", "of an operator"]), max_size=2).map(tuple)
tools = st.builds(ToolSpec, words, labels=labels, is_hosted=st.booleans())


@given(st.lists(turns, max_size=4))
def test_words_alone_have_no_marks_no_large_results_and_nothing_to_repair(conversation: list[Turn]) -> None:
    if are_words(conversation):
        assert marks_in(conversation) == CLEAN
        assert whole_results(conversation) == frozenset()
        assert repair(conversation) is conversation


def test_a_conversation_is_words_until_something_else_is_in_it() -> None:
    plain: list[Turn] = [SystemTurn("s"), UserTurn((Text("a"),)), AssistantTurn((Reasoning("r"), Text("b")))]

    assert are_words(plain)
    assert not are_words([*plain, UserTurn((Image("x"),))])
    assert not are_words([*plain, AssistantTurn((ToolCall("1", "look", "{}"),))])
    assert not are_words([*plain, ToolTurn(())])


@given(st.lists(tools, max_size=3).map(tuple))
def test_tools_whose_labels_say_nothing_of_data_neither_mark_nor_send(offered: tuple[ToolSpec, ...]) -> None:
    plan = Plan("m", offered)

    if not plan.has_labels:
        assert not may_leak(offered)
        assert marks_of_hosted(offered) == CLEAN
    assert plan.has_labels is any(
        label in ("egress", "private", "untrusted") for tool in offered for label in tool.labels
    )


def test_what_is_worked_out_once_is_no_part_of_a_plan() -> None:
    plan, other = Plan("m", (ToolSpec("look"),)), Plan("m", (ToolSpec("look"),))

    assert plan.runs_tools is plan.runs_tools is True

    assert plan == other
