"""What must hold for every run, whatever the model does: checked on runs made up by Hypothesis."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.driving import drive

from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.events import (
    PREVIEWS,
    CallDelta,
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from ronda.core.limits import Limits, Retry
from ronda.core.live_calls import LiveCalls
from ronda.core.output import was_shown
from ronda.core.parts import (
    AssistantTurn,
    Image,
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
from ronda.core.plan import NO_OPTIONS, Options, Plan, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run, rebuild
from ronda.core.transcript import repair
from ronda.drive import Show, ToolContext, ToolOutput
from ronda.providers.script import Call, Line, ScriptedModel
from ronda.wire.openai_chat.client_answer import Reader, read_plain
from ronda.wire.openai_chat.client_request import write_request
from ronda.wire.openai_chat.server_answer import ChatAnswer
from ronda.wire.openai_chat.server_request import read_request

NAMES = ("once", "again", "boom", "theirs", "nobody")


class CountingTool:
    """Runs when it is let, and counts how often."""

    def __init__(self, name: str, repeatable: bool, turns_to_wait: int = 0) -> None:
        self.spec = ToolSpec(name, repeatable=repeatable)
        self.ran: Counter[str] = Counter()
        self._wait = turns_to_wait

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        self.ran[f"{context.round}/{context.call_id}"] += 1
        for _ in range(self._wait):
            await asyncio.sleep(0)
        if self.spec.name == "boom":
            raise RuntimeError("it broke")
        return ToolOutput(f"{self.spec.name} of {context.call_id}")


class Replayed:
    """Says the line that follows from the conversation, so that a resumed run hears what it would have heard."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        said = sum(type(turn) is AssistantTurn for turn in request.turns)
        line = self._lines[min(said, len(self._lines) - 1)]
        numbered = [Call(call.name, call.arguments, f"c{said}_{n}") for n, call in enumerate(line.calls)]
        return await ScriptedModel(msgspec.structs.replace(line, calls=tuple(numbered))).call(request, show)


texts = st.text(st.characters(codec="utf-8"), max_size=12)
arguments = st.sampled_from(["{}", '{"a":1}', '```json\n{"a":2}\n```', '{"a":3,}', '{"a":', "", "nonsense"])
some_calls = st.lists(st.builds(Call, st.sampled_from(NAMES), arguments), max_size=3).map(tuple)
some_lines = st.builds(
    Line,
    text=texts,
    reasoning=texts,
    calls=some_calls,
    stop=st.sampled_from([None, None, None, "length", "content_filter"]),
)
scripts = st.lists(some_lines, max_size=5).map(lambda lines: [*lines, Line(text="done")])


def tools(waits: Sequence[int] = (0, 0, 0)) -> dict[str, CountingTool]:
    return {
        "once": CountingTool("once", False, waits[0]),
        "again": CountingTool("again", True, waits[1]),
        "boom": CountingTool("boom", False, waits[2]),
    }


def started(stream: bool = True, **plan: Any) -> RunStarted:
    specs = (*[tool.spec for tool in tools().values()], ToolSpec("theirs", kind="caller"))
    return RunStarted("run_1", Plan("m", specs, stream=stream, retry=Retry(tries=1), **plan), (user("go"),), at=5.0)


async def driven(run: Run, lines: Sequence[Line], handlers: dict[str, CountingTool]) -> list[Event]:
    clock = itertools.count(10)
    events: list[Event] = []
    await drive(run, provider=Replayed(lines), tools=handlers, emit=events.extend, now=lambda: float(next(clock)))
    return events


def played(lines: Sequence[Line], waits: Sequence[int] = (0, 0, 0), **plan: Any) -> tuple[Run, list[Event]]:
    start = started(**plan)
    run = Run(start)
    events = asyncio.run(driven(run, lines, tools(waits)))
    return run, [start, *events]


def facts(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if type(event) not in PREVIEWS]


def state(run: Run) -> tuple[object, ...]:
    return run.turns, run.usage, run.ended, run.round, run.tool_rounds, run.open_calls, run.results


def assert_paired(turns: Sequence[Turn], but: frozenset[str] = frozenset()) -> None:
    """Every call has exactly one result, right behind it and in its order; every result has a call."""
    for turn, after in itertools.zip_longest(turns, turns[1:]):
        if type(turn) is AssistantTurn and turn.calls:
            asked = [call.id for call in turn.calls]
            if set(asked) & but and after is None:
                continue
            assert type(after) is ToolTurn
            assert [result.call_id for result in after.results] == asked
        elif type(after) is ToolTurn:
            pytest.fail(f"results without a call: {after}")


@given(scripts)
def test_dropping_previews_changes_no_state(lines: list[Line]) -> None:
    run, events = played(lines)
    assert state(rebuild(facts(events))) == state(rebuild(events)) == state(run)


def timeless(events: list[Event]) -> list[Event]:
    """A driver that shows something looks at its clock more often, and says when it showed the first of an answer."""
    without_first = [
        msgspec.structs.replace(event, first_at=0.0) if type(event) is ModelFinished else event for event in events
    ]
    return [msgspec.structs.replace(event, at=0.0) for event in without_first]


@given(scripts)
def test_a_run_nobody_watches_has_the_same_facts(lines: list[Line]) -> None:
    watched = facts(played(lines, stream=True)[1])
    alone = played(lines, stream=False)[1]
    assert timeless(alone[1:]) == timeless(watched[1:])
    assert facts(alone) == alone


@given(scripts)
def test_events_survive_json(lines: list[Line]) -> None:
    events = played(lines)[1]
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[Event]) == events


@settings(max_examples=25)
@given(scripts)
def test_a_journal_cut_anywhere_and_resumed_answers_every_call_once(lines: list[Line]) -> None:
    kept = facts(played(lines)[1])
    for cut in range(1, len(kept) + 1):
        before = kept[:cut]
        run = rebuild(list(before))
        unfinished = {event.call_id for event in before if type(event) is ToolStarted} - {
            event.result.call_id for event in before if type(event) is ToolFinished
        }
        recovered = run.recover()
        handlers = tools()
        if run.ended is None:
            after = [*recovered, *asyncio.run(driven(run, lines, handlers))]
        else:
            after = list(recovered)
        assert run.ended is not None
        assert_paired(run.turns, frozenset(call.id for call in run.open_calls))
        # What had finished is not run again; what was under way is run again only if it may be.
        ran_again = Counter(call_id.partition("/")[2] for tool in handlers.values() for call_id in tool.ran.elements())
        finished = {event.result.call_id for event in before if type(event) is ToolFinished}
        assert not finished & ran_again.keys()
        for call_id in unfinished:
            results = [e.result for e in after if type(e) is ToolFinished and e.result.call_id == call_id]
            if ran_again[call_id] == 0 and results:
                assert [result.content for result in results] == [OUTCOME_UNKNOWN]
        assert max(ran_again.values(), default=1) == 1
        # And the rebuilt journal tells the same story.
        assert state(rebuild([*before, *facts(after)])) == state(run)


@given(scripts, st.tuples(*[st.integers(0, 3)] * 3))
def test_results_go_back_in_the_order_the_model_asked(lines: list[Line], waits: tuple[int, ...]) -> None:
    run, _ = played(lines, waits)
    assert_paired(run.turns, frozenset(call.id for call in run.open_calls))
    assert run.turns == played(lines)[0].turns


@given(scripts)
def test_a_turn_that_was_cut_or_cannot_be_read_runs_no_tool(lines: list[Line]) -> None:
    _, events = played(lines)
    refused = False
    for event in events:
        if type(event) is ModelFinished:
            turn = event.turn
            refused = turn.stop != "tool_calls" or any(call.problem for call in turn.calls)
        elif type(event) is ToolStarted:
            assert not refused


@given(scripts, st.integers(1, 3))
def test_no_run_goes_on_past_its_rounds(lines: list[Line], rounds: int) -> None:
    run, events = played(lines, limits=Limits(rounds=rounds))
    assert run.tool_rounds <= rounds
    assert sum(type(event) is ModelFinished for event in events) <= rounds + 1


# ---- what was shown ----------------------------------------------------------------------------------------------------

broken_lines = st.builds(
    lambda line, cut: msgspec.structs.replace(line, cut=cut, stop=None) if cut else line, some_lines, st.booleans()
)
broken_scripts = st.lists(broken_lines, min_size=1, max_size=5).map(lambda lines: [*lines, Line(text="done")])
choices = st.sampled_from(
    [
        ToolChoice(),
        ToolChoice("required"),
        ToolChoice("required", ("theirs",), named=True),
        ToolChoice("required", ("again", "theirs")),
        ToolChoice("auto", ("once", "theirs")),
    ]
)


async def driven_in_order(run: Run, lines: Sequence[Line]) -> list[Event]:
    """One line after the other, so that a try that failed is not heard again."""
    events: list[Event] = []
    clock = itertools.count(10)
    await drive(
        run,
        provider=ScriptedModel(*lines),
        tools=tools(),
        emit=events.extend,
        now=lambda: float(next(clock)),
        sleep=lambda seconds: asyncio.sleep(0),
    )
    return events


def played_in_order(lines: Sequence[Line], retry: Retry, **plan: Any) -> tuple[Run, list[Event]]:
    start = started(**plan)
    start = msgspec.structs.replace(start, plan=msgspec.structs.replace(start.plan, retry=retry))
    run = Run(start)
    return run, [start, *asyncio.run(driven_in_order(run, lines))]


def attempts(events: Sequence[Event]) -> list[tuple[ModelStarted, list[Event]]]:
    """The previews of every model call that was made, tries apart."""
    found: list[tuple[ModelStarted, list[Event]]] = []
    for event in events:
        if type(event) is ModelStarted:
            found.append((event, []))
        elif type(event) is ModelRetried:
            found.append((found[-1][0], []))
        elif type(event) in PREVIEWS:
            found[-1][1].append(event)
    return found


@given(broken_scripts, choices, st.booleans())
def test_what_was_shown_is_never_asked_for_again(lines: list[Line], choice: ToolChoice, held: bool) -> None:
    options = Options(response_format=ResponseFormat("json_object")) if held else NO_OPTIONS
    run, events = played_in_order(lines, Retry(tries=2), choice=choice, options=options)
    made = attempts(events)
    broken = [event for event in events if type(event) is ModelInterrupted]
    assert len(broken) <= 1  # it ends the run …
    assert not broken or (run.ended is not None and run.ended.code == "model_interrupted")
    for at, event in enumerate(events):
        if type(event) is ModelRetried:  # … and what is tried again has shown nothing
            before = attempts(events[: at + 1])[-2]
            assert not was_shown(before[1], run.plan, before[0])  # type: ignore[arg-type]  # previews are events
    assert len(made) >= 1


@given(broken_scripts, choices)
def test_a_call_that_was_announced_goes_out_or_the_run_failed(lines: list[Line], choice: ToolChoice) -> None:
    run, events = played_in_order(lines, Retry(tries=2, on_interrupt="again"), choice=choice)
    announced: list[str] = []
    for start, previews in attempts(events):
        live = LiveCalls(run.plan, start)
        announced += [
            piece.id for event in previews if type(event) is CallDelta for piece in live.add(event) if piece.is_first
        ]
    assert run.ended is not None
    if run.ended.code != "model_interrupted":
        assert announced == [call.id for call in run.open_calls][: len(announced)]
    assert rebuild(facts(events)).ended == run.ended


@given(scripts, choices)
def test_an_obligation_is_met_or_the_run_failed(lines: list[Line], choice: ToolChoice) -> None:
    run, events = played_in_order([*lines, lines[-1]], Retry(tries=1), choice=choice, limits=Limits(rounds=99))
    turns = [event.turn for event in events if type(event) is ModelFinished]
    if choice.mode != "required" or any(turn.stop not in ("stop", "tool_calls") for turn in turns):
        return
    assert run.ended is not None
    met = any(call.name in ("once", "again", "boom", "theirs") and choice.allows(call.name, is_owed=True)
              for turn in turns for call in turn.calls)  # fmt: skip
    assert met or run.ended.code == "no_call"
    if not met:
        assert run.open_calls == ()
        assert not [event for event in events if type(event) is ToolStarted]


calls = st.builds(ToolCall, st.sampled_from("abcdef"), st.sampled_from(NAMES), st.just("{}"))
results = st.builds(ToolResult, st.sampled_from("abcdefgh"), texts)
histories = st.lists(
    st.one_of(
        st.builds(user, texts),
        st.builds(
            lambda parts: AssistantTurn(tuple(parts)), st.lists(calls, max_size=3, unique_by=lambda call: call.id)
        ),
        st.builds(lambda items: ToolTurn(tuple(items)), st.lists(results, min_size=1, max_size=4)),
    ),
    max_size=8,
)


@given(histories)
def test_repair_pairs_every_call_with_one_result(turns: list[Turn]) -> None:
    before = list(turns)
    fixed = repair(turns)
    assert_paired(fixed)
    assert repair(fixed) is fixed
    assert turns == before
    kept = [turn for turn in turns if type(turn) is not ToolTurn]
    assert [turn for turn in fixed if type(turn) is not ToolTurn] == kept


@given(histories)
def test_repair_returns_the_very_same_history_when_nothing_is_wrong(turns: list[Turn]) -> None:
    fixed = list(repair(turns))
    assert repair(fixed) is fixed


# ---- the dialect, both roles against each other ------------------------------------------------------------------------


def answer_of(run: Run, events: Sequence[Event]) -> bytes:
    plain = ChatAnswer([run])
    plain.fold(0, facts(events)[1:])
    return plain.body()


def stream_of(run: Run, batches: Sequence[Sequence[Event]]) -> bytes:
    writer = ChatAnswer([run])
    return b"".join([writer.feed(0, batch) for batch in batches])


@given(scripts, st.data())
def test_the_fold_of_a_stream_is_the_plain_answer(lines: list[Line], data: st.DataObject) -> None:
    run, events = played(lines)
    whole = stream_of(run, [events[1:]])
    assert stream_of(run, [[event] for event in events[1:]]) == whole
    size = data.draw(st.integers(1, max(1, len(whole))))
    reader = Reader()
    for at in range(0, len(whole), size):
        reader.feed(whole[at : at + size])
    streamed = reader.finish()
    plain = read_plain(answer_of(run, events))
    assert (streamed.turn.text, streamed.turn.reasoning, streamed.turn.calls, streamed.turn.stop, streamed.usage) == (
        plain.turn.text,
        plain.turn.reasoning,
        plain.turn.calls,
        plain.turn.stop,
        plain.usage,
    )


@given(scripts)
def test_a_stream_without_previews_says_the_same(lines: list[Line]) -> None:
    run, events = played(lines)
    readers = []
    for shown in (events, facts(events)):
        reader = Reader()
        reader.feed(stream_of(run, [shown[1:]]))
        readers.append(reader.finish().turn)
    assert (readers[0].text, readers[0].reasoning, readers[0].calls) == (
        readers[1].text,
        readers[1].reasoning,
        readers[1].calls,
    )


client_turns = st.lists(
    st.one_of(
        st.builds(SystemTurn, texts),
        st.builds(user, texts),
        st.builds(lambda text, url: UserTurn((Text(text), Image(url))), texts, st.just("data:image/png;base64,AA==")),
        st.builds(lambda text: AssistantTurn((Text(text),)), texts.filter(bool)),
    ),
    min_size=1,
    max_size=5,
).map(tuple)
tool_rounds = st.builds(
    lambda text, results: (
        AssistantTurn(
            (*((Text(text),) if text else ()), *[ToolCall(f"c{n}", "once", "{}") for n in range(len(results))]),
            "tool_calls",
        ),
        ToolTurn(tuple([ToolResult(f"c{n}", content) for n, content in enumerate(results)])),
    ),
    texts,
    st.lists(texts, min_size=1, max_size=3),
)


@given(client_turns, st.lists(tool_rounds, max_size=2))
def test_our_server_reads_what_our_client_writes(
    turns: tuple[Turn, ...], rounds: list[tuple[AssistantTurn, ToolTurn]]
) -> None:
    whole: tuple[Turn, ...] = turns + tuple([turn for pair in rounds for turn in pair])
    options = Options(max_tokens=7, temperature=0.5, stop=("x",), seed=3)
    spec = ToolSpec("once", "does it", kind="caller", no_arguments_needed=True)
    request = ModelRequest(whole, (spec,), ToolChoice("required", ("once",), named=True), options, True, "r", 0, 1, {})
    asked = read_request(write_request("m", request))
    assert (asked.turns, asked.tools, asked.choice, asked.options) == (whole, (spec,), request.choice, options)


def test_an_interrupted_turn_with_nothing_in_it_is_not_written() -> None:
    turns = (user("a"), AssistantTurn((Reasoning("hm"),), "interrupted"), user("b"))
    request = ModelRequest(turns, (), ToolChoice(), NO_OPTIONS, False, "r", 0, 1, {})
    assert read_request(write_request("m", request)).turns == (user("a"), user("b"))


def test_a_run_that_ended_takes_no_more_events() -> None:
    run, events = played([Line(text="done")])
    assert type(events[-1]) is RunFinished
    with pytest.raises(Exception, match="has ended"):
        run.apply(events[-1])
