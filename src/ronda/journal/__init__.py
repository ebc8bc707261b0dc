"""The numbered, append-only events of runs: what makes a crash an interruption and nothing more.

`append` takes events at once; `barrier` waits until they are kept. Between the two a store may gather as much as it likes, so
all runs that reach a barrier in one tick share a commit. A store numbers a run's events from 0; the pair (run, number) is
unique, so of two drivers of one run one wins and the other is told.

The driver of a run holds it: from the append of its RunStarted, or from `resume`, until `release`. Looking at one (`read`) needs
no hold. A `resume` that returns is followed by a `release`, whatever happens in between (`holds.release_on_error`). When
something goes wrong with keeping a run's events, every `barrier` of that run says so until it is released; other runs are not
disturbed.

Every store passes `ronda.testing.journals`. Choosing one is the caller's: `memory.MemoryJournal` or `sqlite.SqliteJournal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from ronda.core.events import Asked, EndReason, Event, Preview, RunFinished, RunStarted
from ronda.core.plan import ToolSpec
from ronda.errors import RondaError

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.journal.tally import Beginning, Figures


class JournalConflict(RondaError):
    """Another driver has this run, or has written its next event. The driver that hears this must stop."""

    status_hint = 409


class WrittenByNewer(JournalConflict):
    """A newer Ronda began or drove the run, and this one does not know all that it means: it may be read here, not driven."""


class DrivenHere(JournalConflict):
    """This process holds the run: it drives it, or another task is just resuming or releasing it. The run is not lost to another
    process, so a task that wants to drive it looks again."""


def driven_here(run: str) -> DrivenHere:
    return DrivenHere(f"run {run!r} is being driven here already")


def driven_elsewhere(run: str) -> JournalConflict:
    return JournalConflict(f"run {run!r} is being driven by another process")


RunState: TypeAlias = Literal["running", "waiting", "finished", "failed", "cancelled", "interrupted"]
# What lists say, too: no driver has begun with it yet. A journal does not know that by itself.
ListedState: TypeAlias = RunState | Literal["queued"]


class UnfinishedRun(Struct, frozen=True):
    """A run that has no RunFinished, with how many events it has. One that waits has nothing to do until an answer comes."""

    run: str
    events: int
    start: RunStarted
    is_waiting: bool = False


class OpenQuestion(Struct, frozen=True, omit_defaults=True):
    """A question that waits for a person, with what a list shows of it: of its tool no more than what it is, and in which round
    the call was made."""

    question: Asked
    tool: ToolSpec | None = None
    round: int = 0


class RunSummary(Struct, frozen=True):
    """What is known about a run without reading its events. One that has no end and does not wait is under way, or will be
    again: it is driven, or will be when it is picked up. `beginning` and `figures` are None in a run of a Ronda that did not
    note them; `questions` are those that are open."""

    run: str
    session: str
    agent: str
    state: ListedState
    started: float
    ended: float | None
    beginning: Beginning | None = None
    figures: Figures | None = None
    questions: tuple[OpenQuestion, ...] = ()
    owner: str = ""
    kept: bool = False  # its owner has marked it


class RunQuery(Struct, frozen=True):
    """Which of an owner's runs to list, or of all owners' (None): all that fit each member that is given. `before` is what the
    page before said; `queued` are the runs that no driver has begun with. `since` and `until` are of their beginning; `root` is a
    run, for itself and all that go on from it. A run of which the journal did not note what is asked for does not fit."""

    owner: str | None
    states: tuple[ListedState, ...] = ()
    session: str | None = None
    agents: tuple[str, ...] = ()
    before: int | None = None
    limit: int = 20
    queued: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    words: str = ""  # in its first words, its model, its agent, or its name
    since: float | None = None
    until: float | None = None
    min_cost: float | None = None
    children: bool = True  # those that are calls of others, too
    parent: str | None = None
    root: str | None = None
    group: str | None = None
    names: tuple[str, ...] | None = None  # these only
    kept: bool | None = None  # those that are marked so, or those that are not


class RunCounts(Struct, frozen=True):
    """How many runs stand how, and how many of them began in each of equal pieces of time."""

    states: dict[ListedState, int]
    pieces: list[dict[ListedState, int]]


class RunStep(Struct, frozen=True):
    """What began and what ended in a piece of time, of all owners. What a run used counts where it ended; `cost` is None where no
    price is known of any."""

    started: int = 0
    ended: int = 0
    failed: int = 0
    input: int = 0
    output: int = 0
    cost: float | None = None


class RunErrors(Struct, frozen=True):
    """Runs that failed in the same way. "" is "none"."""

    code: str
    model: str
    agent: str
    count: int
    last: float


class RunModel(Struct, frozen=True):
    """What was asked of a model, in runs that ended: `calls` are their rounds. `cost` as in `RunStep`."""

    model: str
    runs: int
    calls: int
    failed: int
    cost: float | None


class RunSurvey(Struct, frozen=True):
    """`errors` and `models` are the most frequent first, and no more than `MOST_ERRORS` and `MOST_MODELS`."""

    steps: list[RunStep]
    errors: list[RunErrors]
    models: list[RunModel]


MOST_ERRORS: Final = 100  # kinds: as many as a person reads
MOST_MODELS: Final = 50  # likewise
# Seconds before a span that runs which ended in it may have begun: no index is by end.
LONGEST_LOOK_BACK: Final = 86400.0


class RunPage(Struct, frozen=True):
    """The newest first. `before` is where the next page begins; None where this is the last."""

    runs: list[RunSummary]
    before: int | None = None


class RunQuestions(Struct, frozen=True):
    """What a run asks. None: only its events tell, since no Ronda that notes questions has driven it."""

    run: str
    session: str
    questions: tuple[OpenQuestion, ...] | None


# Called with what is appended to a run, before it is kept: a reader of what is kept comes later.
Watcher: TypeAlias = Callable[[str, Sequence[Event]], object]


class Journal(Protocol):
    watchers: tuple[Watcher, ...]

    def append(self, run: str, events: Sequence[Event], size: int | None = None) -> None:
        """Take a run's next events: all facts, or all previews. Never waits. The first of a run is its RunStarted.

        Previews of a run that outlives its process are kept for a while; those of others are not.

        `size` is how large they are as `core.sizes` counts, if the caller knows.
        """

    def count(self, run: Run) -> None:
        """This run is driven here, and appended to: its rounds, calls and tokens may be read off it, and need not be counted."""

    async def barrier(self, run: str) -> None:
        """Return once everything appended to this run is kept. Raises what went wrong with keeping it; also of a run that was
        released since it was appended to, for a caller that waits at once."""

    async def read(self, run: str) -> list[Event]:
        """All events of a run, in order; empty for a run that is not known. A torn tail is dropped."""

    async def previews(self, run: str, after: int = 0) -> dict[int, list[Preview]]:
        """What is kept of a run's previews, by the number of the fact that they came after; those before the fact `after` may be
        left out."""

    async def extent(self, run: str) -> tuple[int, int]:
        """Two numbers, for a caller that looks often: the first changes when a fact is added to the run, the second when previews
        are."""

    async def wait_for_change(self, run: str) -> None:
        """Return when the run may have grown: as soon as another process says so, where they can; else after a moment."""

    async def resume(self, run: str) -> list[Event]:
        """Read a run in order to drive it: the next append goes right after what this returns. Of several tasks that resume a
        run one gets it, and not before a release of that run is kept.

        Raises DrivenHere if it is held here, and JournalConflict if another process that is alive drives it.
        """

    def expect(self, owner: str, call_ids: Sequence[str], run: str) -> None:
        """The run, which is driven here, waits for the caller's results of these calls. Kept with its events; the newest run
        wins."""

    def note_questions(self, run: str, questions: tuple[OpenQuestion, ...], *, waits: bool = False) -> None:
        """These, and no others, are open in the run, which is driven here. Kept with its events, for `open_questions`. `waits`:
        nothing happens until one is answered, although a tool of the run may be running; so it is listed as waiting."""

    async def open_questions(self, owner: str, limit: int) -> list[RunQuestions]:
        """Of the owner's runs without an end those that ask something, or may: first those under way, then those that wait, of
        both the newest first. Reads no run's events."""

    async def runs_of_calls(self, owner: str, call_ids: Sequence[str]) -> dict[str, str]:
        """Which of these calls runs of this owner have handed out, and which run each."""

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        """Runs without end and driver: what a crash cut off, and what was released before its end, whether or not the
        release could be kept."""

    async def list_runs(self, query: RunQuery) -> RunPage:
        """One page of an owner's runs, the newest first. Reads no run's events."""

    async def count_runs(self, query: RunQuery, since: float, until: float, pieces: int) -> RunCounts:
        """How many of an owner's runs began in that time, or have no end yet, and how each stands; and how many began in each of
        so many pieces of it. `limit` and `before` of the query count for nothing."""

    async def survey_runs(self, since: float, until: float, pieces: int) -> RunSurvey:
        """What began and ended in that time, of all owners, in so many pieces of it, and what failed. A call of another run is
        part of that one, and does not count; nor does the end of a run that began more than `LONGEST_LOOK_BACK` before."""

    async def size(self) -> int:
        """Bytes that are in use for all runs."""

    def pause(self, run: str) -> None:
        """The run, which is driven here, has nothing to do until an answer comes: it is listed as waiting until its next event is
        appended."""

    def release(self, run: str, *, waiting: bool = False) -> None:
        """This run is not driven here any more: forget what was held of it in memory (a kept run stays kept).

        `waiting`: paused, too. The answer resumes it.
        """

    async def mark_kept(self, run: str, owner: str, *, kept: bool) -> bool:
        """Note for lists that the owner of a run wants to keep it, or not any more. It changes nothing else: neither the run nor
        when it is forgotten. False for a run that is not known, or another owner's."""

    async def forget(self, run: str) -> bool:
        """Forget a run for good: its events, and the calls it handed out. False for one that is not known.

        Raises JournalConflict if it is driven: here, or in another process that is alive.
        """

    async def close(self) -> None:
        """Keep everything, then let go of the store. Raises what went wrong with keeping it."""


def is_text(name: str) -> bool:
    """What is none (a lone surrogate) cannot have been kept."""
    try:
        name.encode()
    except UnicodeError:
        return False
    return True


_STATES: Final[dict[EndReason, RunState]] = {
    "failed": "failed",
    "cancelled": "cancelled",
    "interrupted": "interrupted",
    "stop": "finished",
    "length": "finished",
    "content_filter": "finished",
    "tool_calls": "finished",
    "limit": "finished",
}


def state_at(end: RunFinished) -> RunState:
    """How a run that ended so is listed."""
    return _STATES[end.reason]
