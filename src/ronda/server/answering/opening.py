"""A request that was read, and who is to answer it → runs that are journaled and wait to be driven, one per choice.

It finds the turns the caller does not send; what else the runs get is said by `setups`. It knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantTurn, SystemTurn, ToolTurn, Turn, UserTurn, has_files, known_of
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.core.transcript import whole_results
from ronda.drive import Provider, Tool, capabilities_of
from ronda.drive.offload import LIGHT_TURNS
from ronda.errors import BadRequest
from ronda.host.run import LiveRun
from ronda.host.sessions import Visit
from ronda.journal.siblings import about_siblings
from ronda.providers.shared_call import SharedCall
from ronda.server.answering.chain import OpenNext
from ronda.server.answering.setups import Setups
from ronda.server.http.rights import RIGHTS, about_rights
from ronda.server.services.asking import CALLER_KEY
from ronda.server.services.models import Models, Target
from ronda.server.services.runs import Runs, new_id
from ronda.server.services.toolbox import Offer
from ronda.trace.spans import OpenSpan, Tracer, current_span, inside
from ronda.wire.shared.call_ids import about_ids, all_renamed
from ronda.wire.shared.door_request import AnswerOptions, DoorRequest
from ronda.wire.shared.told_calls import with_marks

if TYPE_CHECKING:
    from ronda.server.services.container_host import ContainerHost

# The conversation, the same with what an agent says around it, and the options of the answer → what is kept with the run.
About: TypeAlias = Callable[[tuple[Turn, ...], tuple[Turn, ...], AnswerOptions], dict[str, Raw]]


# Before a question that has no answer yet nothing is to be joined, named anew or paired.
_QUESTION: Final = frozenset({SystemTurn, UserTurn})


def answer_alone(turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
    return answer.about


# Called with a run before it is driven; if it raises, the run is not driven.
OnOpened: TypeAlias = Callable[[Run], Awaitable[None]]


class Job(Struct, frozen=True):
    """What is asked of whom, and what follows."""

    request: DoorRequest
    target: Target
    about: About = answer_alone
    open_next: OpenNext | None = None  # who goes on when a run of it has ended
    added: OnOpened | None = None
    waits: bool = False  # for people, although nothing is streamed


class Group(Struct, frozen=True):
    """Variants of one answer: a job for each, and the names of their runs. Each is followed, cancelled and continued by itself.

    A group is named after its first run: `group_ab12` is that of `run_ab12`, and each of its runs knows the names of all."""

    jobs: Sequence[Job]
    names: Sequence[str]


class OpeningFeatures(Protocol):
    """What is told to the server's features of runs that begin, and asked of them."""

    @property
    def opening(self) -> Sequence[object]: ...

    def run_began(self, start: RunStarted, tools: Mapping[str, Tool]) -> None: ...

    @property
    def noting(self) -> Sequence[object]: ...

    def run_state(self) -> Mapping[str, Raw]: ...

    @property
    def counts_calls(self) -> bool: ...


class Opening:
    def __init__(
        self, setups: Setups, runs: Runs, models: Models, features: OpeningFeatures, containers: ContainerHost
    ) -> None:
        self.setups = setups
        self.runs = runs
        self._models = models
        self._features = features
        self._containers = containers

    def open_runs(self, owner: str, job: Job, name: str = "", visit: Visit | None = None) -> Awaitable[list[LiveRun]]:
        """`name` is that of the first run, where it has one; `visit` is of the session that they continue."""
        opening = self._open_runs(owner, job, name, visit)
        return _open_inside(opening) if Tracer.backends else opening

    async def open_group(self, owner: str, group: Group) -> list[LiveRun]:
        """One run for each job; all of them, or none."""
        lives: list[LiveRun] = []
        for name, job in zip(group.names, group.jobs, strict=True):
            if len(group.names) > 1:
                about = {**job.request.about, **about_siblings(group.names)}
                job = replace(job, request=replace(job.request, about=about))
            try:
                lives += await self.open_runs(owner, job, name)
            except BaseException:
                for live in lives:
                    live.discard("a sibling could not be opened")
                raise
        return lives

    async def _open_runs(self, owner: str, job: Job, name: str, visit: Visit | None) -> list[LiveRun]:
        request, target, setups = job.request, job.target, self.setups
        turns, parent, ids = request.turns, request.parent, request.ids
        may_have_files = has_files(turns)
        if may_have_files:
            turns = await setups.with_inputs(target, request, turns, owner)
        if visit is not None or not _QUESTION.issuperset(map(type, turns)):
            turns, parent, ids = await self._conversation(owner, request, turns, visit)
            may_have_files = has_files(turns)
        # Nearly all requests say no more than whom they ask what, and get the same.
        is_usual = request.is_usual and target is self._models.default and not may_have_files
        is_usual = is_usual and (len(turns) == 1 or not whole_results(turns))
        rights = RIGHTS.get()
        kind = (request.stream, rights)
        setup = setups.usual.get(kind) if is_usual else None
        opened = turns
        if setup is None:
            opened, setup = await setups.set_up(owner, request, target, turns, may_have_files)
            if is_usual and setups.is_steady:
                setups.usual[kind] = setup
        answer = replace(request.answer, model=target.name, warnings=(*request.answer.warnings, *setup.warnings))
        about = job.about(turns, opened, answer)
        if ids or request.about or setup.offer.about:
            about = {**request.about, **setup.offer.about, **(about_ids(ids) if ids else {}), **about}
        if visit is not None:
            about = {**about, **visit.about(turns, opened)}
        if rights is not None:
            about = {**about, **about_rights(rights)}
        if self._features.noting:
            about = {**about, **self._features.run_state()}
        name = name or new_id("run")
        if request.container.id:
            session = await self._container_session(owner, request)
        else:
            session = request.conversation or (
                f"sess_{name.removeprefix('run_')}" if request.session is None else request.session.name
            )
        marks: tuple[str, ...] = ()
        if setup.may_leak and self.runs.marks is not None:
            before = session if request.session or request.conversation or request.container.id else ""
            marks = await self.runs.marks.inherited(
                owner, request, opened, parent, before, setups.labels_but(request.tools)
            )
        start = RunStarted(
            name,
            setup.plan,
            opened,
            time.time(),
            parent=parent,
            session=session,
            owner=owner,
            about=about,
            agent=setup.agent,
            inputs=setup.inputs,
            outlives=request.lingers > 0,
            file=setup.file,
            version=target.version,
            marks=marks,
            key=CALLER_KEY.get(),
        )
        if request.n == 1:
            live = self._live_run(job, start, target.provider, setup.offer)
            if visit is not None:
                live.scratch = visit.scratch(target.provider)
            return [live]
        names = [name, *[new_id("run") for _ in range(request.n - 1)]]
        start = replace(start, about={**about, **about_siblings(names)})
        return [
            self._live_run(job, replace(start, run=names[sibling], sibling=sibling), provider, setup.offer)
            for sibling, provider in enumerate(self._providers_for(target, setup.plan, request.n))
        ]

    async def _conversation(
        self, owner: str, request: DoorRequest, turns: tuple[Turn, ...], visit: Visit | None
    ) -> tuple[tuple[Turn, ...], tuple[str, int] | None, dict[str, str]]:
        """The turns, with what the caller does not send of them; the run that they go on from; and the ids of calls here."""
        parent, ids = request.parent, request.ids
        if parent is None:  # where the dialect names it, the door has put the turns together
            if ToolTurn in map(type, turns):
                turns = with_marks(turns)
            found = await self.runs.rejoin(turns, owner)
            turns, parent, ids = found.turns, found.parent, {**ids, **found.ids}
        if request.ids:
            turns = all_renamed(turns, request.ids)  # what no run was found of, but came with the model's own JSON
        if visit is not None and request.session is not None:
            turns = await visit.splice(turns, request.session.mode)
        _check_pairs(turns, known_of(turns))
        if len(turns) > LIGHT_TURNS:
            await asyncio.sleep(0)  # others have their turn
        return turns, parent, ids

    def _live_run(self, job: Job, start: RunStarted, provider: Provider, offer: Offer) -> LiveRun:
        """A run that is journaled, and waits to be driven."""
        journal = self.runs.journal if job.request.keep == "stored" else self.runs.memory
        live = self.runs.new(start, provider, offer.handlers, journal, waits=bool(offer.specs) and _waits(job))
        if self._features.opening:
            self._features.run_began(start, offer.handlers)
        if job.target.read_answer is not None:
            live.read_answer = job.target.read_answer
        return live

    def _providers_for(self, target: Target, plan: Plan, n: int) -> Sequence[Provider]:
        """One provider per choice. Where each choice is one model call, and the upstream can, one call serves them all."""
        able = capabilities_of(target.provider)
        if able.call_many is None or plan.runs_tools or self._features.counts_calls:
            return [target.provider] * n
        return SharedCall(able.call_many, able, n).choices()

    async def _container_session(self, owner: str, request: DoorRequest) -> str:
        wish = request.container
        session = (await self._containers.use(owner, wish.id)).session
        if request.session is not None and request.session.name != session:
            raise BadRequest(
                f"'{wish.path}' is not the container of the session '{request.session.name}'", param=wish.path
            )
        return session

    async def start_of(self, owner: str, job: Job) -> RunStarted:
        """What a run of this job would begin with. Nothing is started and nothing is kept."""
        request = job.request
        turns = await self.setups.with_inputs(job.target, request, request.turns, owner)
        turns, parent, _ = await self._conversation(owner, request, turns, None)
        opened, setup = await self.setups.set_up(owner, request, job.target, turns, has_files(turns))
        return RunStarted("", setup.plan, opened, parent=parent, owner=owner, agent=setup.agent, inputs=setup.inputs)


async def _open_inside(opening: Awaitable[list[LiveRun]]) -> list[LiveRun]:
    """What happens before a run is driven is part of its span."""
    begun = OpenSpan("invoke_agent", current_span())
    begun.emit("signature", "ronda.invoke_agent")
    with inside(begun):
        lives = await opening
    lives[0].span = begun
    return lives


def _waits(job: Job) -> bool:
    """Whether a client stays with a run that asks people. Who asks for approvals in the words of a dialect reads the answer to
    its end, and decides in the next request."""
    request = job.request
    if job.waits or not request.stream or request.background:
        return job.waits
    return not any(need.confirms for need in (*job.target.needs, *request.needs))


def _check_pairs(turns: tuple[Turn, ...], known: int) -> None:
    """A result whose call is nowhere is the caller's mistake; a call without a result is repaired further in."""
    waiting: set[str] = set()
    for turn in turns[known:]:
        if type(turn) is ToolTurn:
            for result in turn.results:
                if result.call_id not in waiting:
                    raise BadRequest(
                        f"a tool result answers the call {result.call_id[:100]!r}, which no assistant message "
                        "just before it makes and no run waits for",
                        param="messages",
                    )
        else:
            waiting = {call.id for call in turn.calls} if type(turn) is AssistantTurn else set()
