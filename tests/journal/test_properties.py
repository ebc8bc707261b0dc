"""Whatever happens in a run, and however it is cut into batches: what comes back is what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from ronda.core.actions import CallModel, CallTool, Check, Finish
from ronda.core.events import (
    Checked,
    Compacted,
    Event,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunStarted,
    Steered,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.parts import (
    AssistantTurn,
    Image,
    Native,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Usage,
    UserTurn,
    user,
)
from ronda.core.plan import Options, Plan, ResponseFormat, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.core.state import RunState
from ronda.journal import Journal
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.journal.tally import Tally, figures_of

# Now and then a text that is long enough to be kept apart.
texts = st.text(max_size=10) | st.builds(
    lambda text, times: text * times, st.text(max_size=4), st.sampled_from([1000, 30_000])
)
times = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 2**70)
raws = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
).map(lambda value: Raw(json.dumps(value, ensure_ascii=False).encode()))
natives = st.none() | st.builds(Native, st.text(max_size=5), raws)


calls = st.builds(ToolCall, st.text(max_size=5), st.text(max_size=5), texts)
results = st.builds(ToolResult, st.text(max_size=5), texts, st.booleans(), native=natives)
answers = st.builds(
    AssistantTurn,
    st.lists(st.builds(Text, texts) | st.builds(Reasoning, texts) | calls, max_size=3).map(tuple),
    st.sampled_from(["stop", "tool_calls", "length"]),
    natives,
)
turns = st.one_of(
    st.builds(SystemTurn, texts),
    st.builds(UserTurn, st.lists(st.builds(Text, texts) | st.builds(Image, texts), max_size=2).map(tuple)),
    answers,
    st.builds(ToolTurn, st.lists(results, max_size=2).map(tuple)),
)
specs = st.builds(ToolSpec, st.text(max_size=5), texts, raws, repeatable=st.booleans())
starts = st.builds(
    RunStarted,
    st.text(max_size=5),
    st.builds(Plan, st.text(max_size=5), st.lists(specs, max_size=3).map(tuple)),
    st.lists(turns, max_size=6).map(tuple),
    times,
    st.none() | st.tuples(st.text(max_size=5), counts),
    owner=st.text(max_size=5),
)
facts = st.one_of(
    st.builds(ModelStarted, counts, st.booleans(), at=times),
    st.builds(ModelRetried, counts, counts, texts, wait=times, at=times),
    st.builds(
        ModelFinished,
        answers,
        st.builds(Usage, counts, counts),
        raws,
    ),
    st.builds(ModelInterrupted, answers, texts),
    st.builds(ModelFailed, texts, st.none() | counts),
    st.builds(ToolStarted, texts, at=times),
    st.builds(ToolFinished, results, at=times),
    st.builds(Checked, st.none() | texts, at=times),
    st.builds(Checked, st.none() | texts, times, st.just("tool"), st.booleans(), texts, st.none() | texts),
    st.builds(Steered, st.builds(user, texts), times),
    st.builds(Compacted, st.integers(0, 9), texts, st.just((1,)), st.none() | texts, times),
    st.builds(Warned, texts, at=times),
)
histories = st.builds(lambda start, rest: [start, *rest], starts, st.lists(facts, max_size=6))


async def append_in_batches(journal: Journal, run: str, events: Sequence[Event], batches: Sequence[int]) -> None:
    """`batches` says how many events go into each; a barrier follows every other one."""
    at = 0
    for number, size in enumerate(batches):
        journal.append(run, events[at : at + size])
        if number % 2:
            await journal.barrier(run)
        at += size
    journal.append(run, events[at:])
    await journal.barrier(run)
    journal.release(run)


@settings(max_examples=30)
@given(st.lists(histories, min_size=1, max_size=3), st.lists(st.integers(1, 3), max_size=4))
@example([[RunStarted("a", Plan("m"), ()), ModelStarted(2**70)]], [])  # more rounds than a column of SQLite holds
def test_events_come_back_equal(runs: list[list[Event]], batches: list[int]) -> None:
    async def check() -> None:
        journal = SqliteJournal(":memory:")
        names = [f"run {number}" for number in range(len(runs))]
        await asyncio.gather(
            *[append_in_batches(journal, name, run, batches) for name, run in zip(names, runs, strict=True)]
        )
        assert [await journal.read(name) for name in names] == runs
        await journal.close()

    asyncio.run(check())


TOOLS = (ToolSpec("again", repeatable=True), ToolSpec("once"), ToolSpec("theirs", kind="caller"))
short = st.text(max_size=8)
said = st.one_of(
    st.builds(lambda text: AssistantTurn((Text(text),)), short),
    st.builds(
        lambda names, stop: AssistantTurn(
            tuple([ToolCall(f"call_{n}", name, "{}") for n, name in enumerate(names)]), stop
        ),
        st.lists(st.sampled_from(["again", "once", "theirs", "nobody"]), min_size=1, max_size=3),
        st.sampled_from(["tool_calls", "tool_calls", "tool_calls", "length"]),
    ),
)


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """The facts of a run that could happen, up to some point."""
    options = Options(response_format=draw(st.sampled_from([None, ResponseFormat("json_object")])))
    begun = RunStarted("run", Plan("model", TOOLS, options=options), (UserTurn((Text(draw(short)),)),), at=1.0)
    run = Run(begun)
    events: list[Event] = [begun]

    def happen(event: Event) -> None:
        run.apply(event)
        events.append(event)

    for _ in range(draw(st.integers(0, 6))):
        match run.todo():
            case [CallModel(round=round_index, last=last, nudge=nudge)]:
                happen(ModelStarted(round_index, last=last, nudge=nudge, at=2.0))
                broken: list[Event] = [
                    ModelInterrupted(AssistantTurn((Text("hm"),), "interrupted"), "gone"),
                    ModelFailed("no"),
                ]
                happen(
                    draw(
                        st.one_of(
                            st.builds(ModelFinished, said),
                            st.builds(ModelFinished, said, st.builds(Usage, counts, counts, counts, counts)),
                            st.sampled_from(broken),
                        )
                    )
                )
            case [CallTool(), *_] as actions:
                ids = [action.call.id for action in actions if type(action) is CallTool]
                for run_id in ids:
                    happen(ToolStarted(run_id, at=3.0))
                for run_id in draw(st.permutations(ids)):
                    happen(ToolFinished(ToolResult(run_id, draw(short), draw(st.booleans())), at=4.0))
            case [Check()]:
                happen(Checked(draw(st.none() | short), at=4.0))
            case [Finish() as end]:
                happen(RunFinished(end.reason, end.limit, end.message, end.answer, 5.0, end.code))
                break
    return events


def state(run: Run) -> dict[str, object]:
    return {name: getattr(run, name) for name in RunState.__slots__}


@given(lives(), st.lists(st.integers(1, 3), max_size=4))
def test_a_journal_cut_after_any_event_gives_the_run_as_it_was_then(events: list[Event], batches: list[int]) -> None:
    async def check(journal: Journal) -> None:
        for cut in range(1, len(events) + 1):
            as_it_was = rebuild(events[:cut])
            await append_in_batches(journal, f"cut at {cut}", events[:cut], batches)
            again = rebuild(await journal.resume(f"cut at {cut}"))
            assert state(again) == state(as_it_was)
            assert again.recover() == as_it_was.recover()
            assert again.todo() == as_it_was.todo()
        await journal.close()

    asyncio.run(check(SqliteJournal(":memory:")))
    asyncio.run(check(MemoryJournal()))


@given(lives())
def test_a_run_counts_what_its_facts_add_up_to(events: list[Event]) -> None:
    tally = Tally()
    for cut in range(1, len(events) + 1):
        tally.add(events[cut - 1 : cut])
        assert figures_of(rebuild(events[:cut])) == tally.figures
