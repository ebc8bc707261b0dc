"""Data that must not leave: a run that has read both what is private and what strangers wrote asks before it sends anything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.actions import Ask, CallTool
from ronda.core.asked_round import request_at
from ronda.core.events import (
    Answered,
    Asked,
    Event,
    ModelFinished,
    ModelStarted,
    RunStarted,
    Steered,
    ToolFinished,
    ToolStarted,
)
from ronda.core.limits import Limits
from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
    user,
)
from ronda.core.plan import Plan, ToolChoice, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.core.taint import EGRESS, LONGEST_KEY, PRIVATE, UNTRUSTED, send_key

LABELS = (UNTRUSTED, PRIVATE, EGRESS, "other")
TOOLS = st.lists(st.frozensets(st.sampled_from(LABELS)), min_size=1, max_size=5)
# Rounds of calls, by the place of their tool; and whether the person who is asked says yes.
ROUNDS = st.lists(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=3), max_size=5)


class Played:
    """A run that is driven by hand: every fact is applied, and kept."""

    def __init__(self, specs: tuple[ToolSpec, ...], *turns: Turn, marks: tuple[str, ...] = ()) -> None:
        plan = Plan("m", specs, limits=Limits(rounds=100, repeats=100))
        self.run = Run(RunStarted("run_1", plan, (user("go"), *turns), marks=marks))
        self.facts: list[Event] = [self.run.start]
        self.round = 0
        self.asked: list[str] = []  # calls that people were asked about

    def take(self, event: Any) -> None:
        self.run.apply(event)
        self.facts.append(event)

    def play(self, *calls: tuple[str, bool]) -> list[str]:
        """One round; the calls that ran."""
        made = tuple([ToolCall(f"c{self.round}_{at}", name, "{}") for at, (name, _) in enumerate(calls)])
        answers = {call.id: yes for call, (_, yes) in zip(made, calls, strict=True)}
        self.take(ModelStarted(self.round))
        self.take(ModelFinished(AssistantTurn(made, "tool_calls")))
        self.round += 1
        ran: list[str] = []
        while actions := [one for one in self.run.todo() if isinstance(one, Ask | CallTool)]:
            for action in actions:
                call_id = action.call.id
                if isinstance(action, Ask):
                    self.asked.append(call_id)
                    self.take(Asked(f"q_{call_id}", call_id, tool=action.call.name))
                    self.take(Answered(f"q_{call_id}", "approve" if answers[call_id] else "deny"))
                else:
                    self.take(ToolStarted(call_id))
                    self.take(ToolFinished(ToolResult(call_id, "x")))
                    ran.append(call_id)
        return ran


def specs_of(tools: list[frozenset[str]]) -> tuple[ToolSpec, ...]:
    return tuple([ToolSpec(f"t{at}", labels=tuple(sorted(labels))) for at, labels in enumerate(tools)])


@given(TOOLS, ROUNDS)
def test_nothing_is_sent_out_unasked_once_both_kinds_were_read(
    tools: list[frozenset[str]], rounds: list[list[tuple[int, bool]]]
) -> None:
    """And no person is asked before."""
    played = Played(specs_of(tools))
    read: set[str] = set()
    for calls in rounds:
        named = [(f"t{place % len(tools)}", yes) for place, yes in calls]
        before = len(played.asked)
        ran = played.play(*named)
        for at, (name, yes) in enumerate(named):
            call_id, labels = f"c{played.round - 1}_{at}", tools[int(name[1:])]
            must_ask = EGRESS in labels and {UNTRUSTED, PRIVATE} <= read
            assert (call_id in played.asked[before:]) is must_ask
            assert (call_id in ran) is (yes or not must_ask)
        read |= {label for call_id in ran for label in tools[int(named[int(call_id.partition("_")[2])][0][1:])]}


@given(TOOLS, ROUNDS, st.integers(0, 60))
def test_a_run_that_is_read_again_has_read_the_same(
    tools: list[frozenset[str]], rounds: list[list[tuple[int, bool]]], cut: int
) -> None:
    played = Played(specs_of(tools))
    for calls in rounds:
        played.play(*[(f"t{place % len(tools)}", yes) for place, yes in calls])
    facts = played.facts[: 1 + cut]
    first, again = rebuild(facts), rebuild(facts)
    assert (first.marks, first.todo()) == (again.marks, again.todo())


READ = ToolSpec("read", labels=(PRIVATE,))
FETCH = ToolSpec("fetch", labels=(UNTRUSTED,))
SEND = ToolSpec("send", labels=(EGRESS,))


def test_a_call_is_judged_by_what_the_model_had_read_when_it_asked() -> None:
    played = Played((READ, FETCH, SEND))
    played.play(("read", True), ("fetch", True), ("send", True))
    assert played.asked == []
    played.play(("send", True))
    assert played.asked == ["c1_0"]


def test_what_a_tool_of_the_models_own_service_may_have_given_counts_from_the_first_answer_on() -> None:
    search = ToolSpec("web_search", kind="caller", labels=(UNTRUSTED,), is_hosted=True)
    notes = ToolSpec("notes", labels=(PRIVATE,))
    played = Played((search, notes, SEND))
    before = played.run.marks
    played.play(("notes", True))
    played.play(("send", False))

    assert before == set()
    assert played.run.marks == {PRIVATE, UNTRUSTED}
    assert played.asked == ["c1_0"]


HOSTED = ToolSpec("web_search", kind="caller", labels=(UNTRUSTED, EGRESS), is_hosted=True)


def test_what_no_person_can_be_asked_about_is_not_offered_once_both_kinds_were_read() -> None:
    played = Played((READ, HOSTED, SEND))
    offered = []
    for _ in range(3):
        played.play(("read", True))
        offered.append(([spec.name for spec in played.run.shown_tools], set(played.run.left_out)))

    both, left = ["read", "web_search", "send"], ["read", "send"]
    assert offered == [(both, set()), (left, {"web_search"}), (left, {"web_search"})]
    again = rebuild(played.facts)
    assert (again.shown_tools, again.left_out) == (played.run.shown_tools, played.run.left_out)


def test_a_run_inherits_what_it_may_not_be_offered() -> None:
    played = Played((HOSTED, READ), marks=(PRIVATE, UNTRUSTED))
    played.play(("read", True))
    assert [spec.name for spec in played.run.shown_tools] == ["read"]
    assert request_at(played.run, ModelStarted(1)).left_out == {"web_search"}


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (ToolChoice("required"), ToolChoice("required")),
        (ToolChoice("required", ("web_search",), named=True), ToolChoice("none")),
        (ToolChoice("auto", ("web_search", "read")), ToolChoice("auto", ("read",))),
        (ToolChoice("auto", ("web_search",)), ToolChoice("none")),
        (ToolChoice("auto", ("read",)), ToolChoice("auto", ("read",))),
    ],
)
def test_a_choice_of_what_is_not_offered_any_more_offers_nothing_else(choice: ToolChoice, left: ToolChoice) -> None:
    assert choice.without({"web_search"}) == left


def test_what_a_conversation_brings_along_counts() -> None:
    before = (
        AssistantTurn((ToolCall("a", "read", "{}"), ToolCall("b", "fetch", "{}")), "tool_calls"),
        ToolTurn((ToolResult("a", "x"), ToolResult("b", "y"))),
        user("and now?"),
    )
    played = Played((READ, FETCH, SEND), *before)
    assert played.play(("send", False)) == []
    assert played.asked == ["c0_0"]


def test_a_call_that_did_not_run_has_read_nothing() -> None:
    asks = ToolSpec("read", labels=(PRIVATE,), approval="ask")
    played = Played((asks, FETCH, SEND))
    played.play(("read", False), ("fetch", True))
    assert played.play(("send", True)) == ["c1_0"]
    assert played.asked == ["c0_0"]


def test_a_yes_that_is_remembered_holds_for_the_run() -> None:
    played = Played((READ, FETCH, SEND))
    played.play(("read", True), ("fetch", True))
    played.take(ModelStarted(1))
    played.take(ModelFinished(AssistantTurn((ToolCall("x", "send", "{}"),), "tool_calls")))
    played.take(Asked("q", "x", tool="send", cause="taint"))
    played.take(Answered("q", "approve", remember=True))
    played.take(ToolStarted("x"))
    played.take(ToolFinished(ToolResult("x", "sent")))
    played.round = 2
    assert played.play(("send", True)) == ["c2_0"]
    assert played.asked == []


def test_a_run_that_goes_on_without_the_tools_has_read_what_they_gave() -> None:
    before = Played((READ, FETCH))
    before.play(("read", True), ("fetch", True))
    played = Played((SEND,), *before.run.turns, user("and now?"))
    assert played.play(("send", False)) == []
    assert played.asked == ["c0_0"]


def test_what_a_tool_says_of_its_result_counts_as_its_labels_do() -> None:
    plain = ToolSpec("plain")
    played = Played((plain, SEND))
    played.take(ModelStarted(0))
    played.take(ModelFinished(AssistantTurn((ToolCall("x", "plain", "{}"),), "tool_calls")))
    played.take(ToolStarted("x"))
    played.take(ToolFinished(ToolResult("x", "secrets of others", marks=(PRIVATE, UNTRUSTED))))
    played.round = 1
    assert (played.play(("send", False)), played.asked) == ([], ["c1_0"])


def test_what_a_run_inherits_counts() -> None:
    played = Played((FETCH, SEND), marks=(PRIVATE,))
    played.play(("fetch", True))
    assert (played.play(("send", False)), played.asked) == ([], ["c1_0"])


@pytest.mark.parametrize(
    ("part", "marks"),
    [
        (File("data:text/plain;base64,YQ==", "a.txt"), {PRIVATE}),
        (File(id="file-1"), {PRIVATE}),
        (Image("data:image/png;base64,YQ=="), {PRIVATE}),
        (Image("https://example.org/a.png"), {UNTRUSTED}),
        (File("HTTPS://example.org/a.pdf"), {UNTRUSTED}),
        (File("data:text/plain;base64,YQ==", "a.txt", marks=(UNTRUSTED,)), {UNTRUSTED}),
        (Audio("YQ==", "wav"), {PRIVATE}),
        (Video("https://example.org/a.mp4"), {UNTRUSTED}),
        (Text("a"), set()),
    ],
)
def test_a_file_marks_as_private_and_one_that_was_fetched_as_untrusted(part: UserPart, marks: set[str]) -> None:
    assert Played((), UserTurn((part,))).run.marks == marks
    steered = Played(())
    steered.take(Steered(UserTurn((part,))))
    assert steered.run.marks == marks


def test_a_result_that_is_repeated_keeps_its_marks() -> None:
    played = Played((READ,))
    for _ in range(5):
        played.play(("read", True))
    results = [result for turn in played.run.turns if type(turn) is ToolTurn for result in turn.results]
    assert {result.marks for result in results} == {(PRIVATE,)}
    assert len({result.content for result in results}) > 1  # the model was told that it goes round in circles


def test_a_call_is_known_again_by_its_tool_and_its_arguments() -> None:
    key = send_key("send", '{"to": "ann", "words": "hello"}')
    assert key == send_key("send", '{"words":"hello","to":"ann"}')
    others = [("post", '{"to":"ann","words":"hello"}'), ("send", '{"to":"bob","words":"hello"}'), ("send", "{}")]
    assert key not in [send_key(*other) for other in others]
    too_long = '{"words": "' + LONGEST_KEY * "x" + '"}'
    assert [send_key("send", text) for text in (too_long, "{", 5000 * "[")] == ["", "", ""]
