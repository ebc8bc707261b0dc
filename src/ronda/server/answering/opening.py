"""A request that was read, and who is to answer it → runs that are journaled and wait to be driven, one per choice.

It finds the turns the caller does not send, the tools the runs get and the plan they follow. It knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import AgentFile, RunStarted
from ronda.core.known_turns import known_of
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, ToolTurn, Turn, UserTurn
from ronda.core.permissions import strictest, would_ask
from ronda.core.plan import AUTO, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.core.taint import may_leak
from ronda.core.transcript import repair, whole_results
from ronda.drive import Capabilities, Provider, Tool, capabilities_of
from ronda.drive.contracts import takes_any
from ronda.drive.offload import LIGHT_TURNS, aside, is_heavy, load
from ronda.errors import BadRequest, UpstreamError
from ronda.host.run import LiveRun
from ronda.host.sessions import Visit
from ronda.providers.shared_call import SharedCall
from ronda.server.answering.relay import Next
from ronda.server.http.rights import about_rights, current_rights, current_scopes
from ronda.server.services.asking import CALLER_KEY, Ask
from ronda.server.services.file_addresses import has_files
from ronda.server.services.key_limits import offer_under, rules_under
from ronda.server.services.models import Models, Target, TargetOpening, not_redeclared
from ronda.server.services.runs import Runs, new_id
from ronda.server.services.siblings import about_siblings
from ronda.server.services.toolbox import Brought, Offer, Toolbox
from ronda.trace.spans import OpenSpan, begin_span, inside
from ronda.wire.anthropic.counting import estimate
from ronda.wire.call_ids import about_ids, all_renamed
from ronda.wire.capabilities import Need, rename_choice
from ronda.wire.door_request import AnswerOptions, DoorRequest
from ronda.wire.supplies import ANY_CONTAINER
from ronda.wire.told_calls import with_marks

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.services.container_host import ContainerHost
    from ronda.server.services.marks import RunMarks
    from ronda.server.services.session_folders import SessionFolders
    from ronda.server.services.supplies import Supplier
    from ronda.store.approvals import ApprovedTools
    from ronda.tools.files.long_result import LongResultFiles

# The conversation, the same with what an agent says around it, and the options of the answer → what is kept with the run.
About: TypeAlias = Callable[[tuple[Turn, ...], tuple[Turn, ...], AnswerOptions], dict[str, Raw]]


# For requests with files, or with code: slow to import, and most servers see neither.
_SUPPLIES: Final = (
    "ronda.server.services.input_files",
    "ronda.server.services.supplies",
    "ronda.tools.files.documents",
    "ronda.tools.code.limits",
)


RUNS_CODE: Final = ("code_execution", "shell")  # types of tools that work in their session's folder


def answer_alone(turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
    return answer.about


# Told of a run before it is driven; what it raises keeps that from happening.
OnOpened: TypeAlias = Callable[[Run], Awaitable[None]]


class Job(Struct, frozen=True):
    """What is asked of whom, and what follows."""

    request: DoorRequest
    target: Target
    about: About = answer_alone
    next: Next | None = None  # who goes on when a run of it has ended
    added: OnOpened | None = None
    waits: bool = False  # for people, although nothing is streamed


class Setup(Struct, frozen=True):
    """What runs get beside their turns."""

    plan: Plan
    offer: Offer
    agent: str = ""  # by the name that it was asked for
    inputs: Mapping[str, Raw] = {}
    file: AgentFile | None = None
    warnings: tuple[str, ...] = ()


class EquippingFeature(Protocol):
    async def equip(self, ask: Ask, turns: tuple[Turn, ...], offer: Offer) -> tuple[tuple[Turn, ...], Offer]: ...


class OpeningFeatures(Protocol):
    """What the set-up of runs asks of the server's features."""

    @property
    def is_steady(self) -> bool: ...

    @property
    def standing(self) -> Sequence[object]: ...

    @property
    def bringing(self) -> Sequence[object]: ...

    @property
    def equipping(self) -> Sequence[EquippingFeature]: ...

    @property
    def opening(self) -> Sequence[object]: ...

    async def ready(self) -> None: ...

    async def bring(self, ask: Ask) -> list[Brought]: ...

    def others(self, needs: Sequence[Need]) -> Sequence[Need]: ...

    def opened(self, start: RunStarted, tools: Mapping[str, Tool]) -> None: ...

    @property
    def noting(self) -> Sequence[object]: ...

    def run_state(self) -> Mapping[str, Raw]: ...


class Opening:
    """`supplier` is called for the first request with files or skills; `folders` are of what runs
    code here, if anything does. `settings` are those of now: some are read again while the server runs."""

    def __init__(
        self,
        settings: Callable[[], ServerConfig],
        runs: Runs,
        models: Models,
        toolbox: Toolbox,
        features: OpeningFeatures,
        supplier: Callable[[], Supplier],
        folders: Callable[[], SessionFolders | None],
        containers: ContainerHost,
        approved: ApprovedTools,
        marks: RunMarks,
        long_results: Callable[[], LongResultFiles],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._models = models
        self._toolbox = toolbox
        self._features = features
        self._supplier = supplier
        self._folders = folders
        self._containers = containers
        self._approved = approved
        self._marks = marks
        self._long_results = long_results
        # What requests get that are usual, by whether they are streamed and what their caller's key may do; kept where nothing
        # else has a say in it.
        self.usual_setups: dict[tuple[bool, frozenset[str] | None], Setup] = {}
        self._limits: dict[tuple[int, bool], Limits] = {}  # by the rounds that are allowed, and whether runs are stored

    def open_runs(self, owner: str, job: Job, name: str = "", visit: Visit | None = None) -> Awaitable[list[LiveRun]]:
        """`name` is that of the first run, where it has one; `visit` is of the session that they go on with."""
        begun = begin_span("invoke_agent", signature="ronda.invoke_agent")
        opening = self._open_runs(owner, job, name, visit)
        return opening if begun is None else _open_inside(begun, opening)

    async def _open_runs(self, owner: str, job: Job, name: str, visit: Visit | None) -> list[LiveRun]:
        request, target = job.request, job.target
        turns, parent, ids = request.turns, request.parent, request.ids
        may_have_files = has_files(turns)
        if may_have_files:
            turns = await self._with_inputs(target, request, turns, owner)
        if (
            visit is not None or len(turns) != 1 or type(turns[0]) is not UserTurn
        ):  # a lone question has nothing before it
            turns, parent, ids = await self._conversation(owner, request, turns, visit)
            may_have_files = has_files(turns)
        # Nearly all requests say no more than whom they ask what, and get the same.
        is_usual = request.is_usual and target is self._models.default and not may_have_files
        is_usual = is_usual and (len(turns) == 1 or not whole_results(turns))
        rights = current_rights()
        kind = (request.stream, rights)
        setup = self.usual_setups.get(kind) if is_usual else None
        opened = turns
        if setup is None:
            opened, setup = await self._set_up(owner, job, turns, may_have_files)
            if is_usual and self._is_steady:
                self.usual_setups[kind] = setup
        answer = replace(request.answer, model=target.name, warnings=(*request.answer.warnings, *setup.warnings))
        about = job.about(turns, opened, answer)
        if ids or request.about or setup.offer.about:
            about = {**request.about, **setup.offer.about, **about_ids(ids), **about}
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
        if setup.plan.tools and may_leak(setup.plan.tools):
            before = session if request.session or request.conversation or request.container.id else ""
            labels = self._toolbox.labels_but([tool.name for tool in request.tools])
            marks = await self._marks.inherited(owner, request, opened, parent, before, labels)
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
            for sibling, provider in enumerate(_providers_for(target, setup.plan, request.n))
        ]

    async def _set_up(
        self, owner: str, job: Job, turns: tuple[Turn, ...], may_have_files: bool
    ) -> tuple[tuple[Turn, ...], Setup]:
        """The turns that runs start from, and what they get beside."""
        request, target = job.request, job.target
        rounds, warning = self._config.rounds_for(request.max_tool_rounds)
        opened, offer = await self.open_for(target, request, turns, rounds, owner, may_have_files=may_have_files)
        plan = self._plan(job, capabilities_of(target.provider), offer, rounds)
        if request.session is not None or request.conversation:
            plan = await self._with_approved(request, plan, owner)
        warnings = opened.warnings
        if request.needs:
            warnings = (*warnings, *self._left_out(job))
        if warning is not None:
            warnings = (*warnings, warning)
        agent = request.model if target.is_agent else ""
        return opened.turns, Setup(plan, offer, agent, opened.inputs, opened.file, warnings)

    async def _conversation(
        self, owner: str, request: DoorRequest, turns: tuple[Turn, ...], visit: Visit | None
    ) -> tuple[tuple[Turn, ...], tuple[str, int] | None, dict[str, str]]:
        """The turns, with what the caller does not send of them; the run that they go on from; and the ids of calls here."""
        parent, ids = request.parent, request.ids
        if parent is None:  # where the dialect names it, the door has put the turns together
            turns = with_marks(turns)
            found = await self._runs.rejoin(turns, owner)
            turns, parent, ids = found.turns, found.parent, {**ids, **found.ids}
        turns = all_renamed(turns, request.ids)  # what no run was found of, but came with the model's own JSON
        if visit is not None and request.session is not None:
            turns = await visit.splice(turns, request.session.mode)
        _check_pairs(turns, known_of(turns))
        if len(turns) > LIGHT_TURNS:
            await asyncio.sleep(0)  # others have their turn
        return turns, parent, ids

    def _plan(self, job: Job, able: Capabilities, offer: Offer, rounds: int) -> Plan:
        """What the runs are told to do. Raises what the provider cannot."""
        request, target, config = job.request, job.target, self._config
        choice = _choice(request, target)
        if choice is not AUTO:
            choice = rename_choice(choice, offer.stand_ins)
            check_choice(choice, offer.specs)
        options = target.options_under(request.options)
        plan = Plan(
            model=target.spec,
            tools=offer.specs,
            choice=choice,
            options=options,
            limits=self._limits_for(rounds, request.max_tool_calls, is_stored=request.keep == "stored"),
            retry=config.retry,
            parallel=options.parallel_tool_calls is not False,
            stream=request.stream or request.lingers > 0,  # somebody may come to follow it
            # A provider that decodes under the format says so; others are checked when they are done.
            format_is_enforced=able.enforces_format(options),
            format_is_wish=target.format_is_wish and options.response_format is target.options.response_format,
            tool_calls=config.tool_calls,
            truncates=request.truncates,
            context_budget=config.context_budget,
            guards=self._runs.guards,
            permissions=rules_under(current_scopes(), config.rules_for(request.permission), config.sandbox.profile),
        )
        able.check(plan)
        return plan

    def _left_out(self, job: Job) -> list[str]:
        """Warnings about what is asked for, not to be had, and dispensable."""
        return [
            f"{need.reason}: the model is not offered '{need.path.removesuffix('.type')}'"
            for need in job.request.needs
            if need.is_optional and not self._toolbox.tools_for(need, job.target.tools)
        ]

    def _live_run(self, job: Job, start: RunStarted, provider: Provider, offer: Offer) -> LiveRun:
        """A run that is journaled, and waits to be driven."""
        journal = self._runs.journal if job.request.keep == "stored" else self._runs.memory
        live = self._runs.new(start, provider, offer.handlers, journal, waits=bool(offer.specs) and _waits(job))
        if self._features.opening:
            self._features.opened(start, offer.handlers)
        if job.target.read_answer is not None:
            live.read_answer = job.target.read_answer
        return live

    async def _container_session(self, owner: str, request: DoorRequest) -> str:
        wish = request.container
        session = (await self._containers.use(owner, wish.id)).session
        if request.session is not None and request.session.name != session:
            raise BadRequest(
                f"'{wish.path}' is not the container of the session '{request.session.name}'", param=wish.path
            )
        return session

    async def _with_inputs(
        self, target: Target, request: DoorRequest, turns: tuple[Turn, ...], owner: str
    ) -> tuple[Turn, ...]:
        """With what the model is sent, or told, in the place of each file that the request brings."""
        if not has_files(turns):
            return turns
        await load(*_SUPPLIES)
        from ronda.server.services.supplies import asks_for_code

        is_offered = bool(self._config.offer) and target.opener is None  # an agent's file says itself what it has
        runs_code = is_offered or asks_for_code(request)
        inputs = self._supplier().inputs(owner, capabilities_of(target.provider), runs_code=runs_code)
        return await inputs.settle(self._config, turns)

    async def open_for(
        self,
        target: Target,
        request: DoorRequest,
        turns: tuple[Turn, ...],
        rounds: int,
        owner: str,
        *,
        may_have_files: bool = True,
    ) -> tuple[TargetOpening, Offer]:
        """The conversation a run starts from, and the tools it gets: the agent's, the server's and the caller's.

        `may_have_files`: nobody has looked for files in these turns yet, or there are some.
        """
        features = self._features
        if features.standing and rounds > 0:
            await features.ready()
        if target.opener is None and not request.inputs:
            brought = target.tools
            warnings: tuple[str, ...] = ()
            if self._config.agent_tools and rounds > 0:
                await load("ronda.server.services.target_tools")
                from ronda.server.services.target_tools import tools_of_target  # for those alone who have such agents

                agents, warnings = await tools_of_target(self._config.agent_tools, self._toolbox.lent_to(owner), target)
                brought = (*brought, *agents)
            opened = TargetOpening(target.begin(turns), brought, target.declared, warnings=warnings)
        else:
            opened = await target.open(turns, request.inputs)
        declared, needs = request.tools, request.needs
        if opened.declared:
            declared = (*not_redeclared(opened.declared, request.tools), *request.tools)
        if target.needs:
            needs = (*target.needs, *request.needs)
        choice = _choice(request, target)
        ask: Ask | None = None
        found: Sequence[Brought] = ()
        if rounds > 0 and (features.bringing or features.equipping):
            ask = Ask(owner, request, target, needs, turns, choice, opened.exclusive, current_rights())
            found = await features.bring(ask)
        if needs:
            needs = tuple(features.others(needs))
        offer = self._toolbox.offer(
            declared, rounds, opened.tools, exclusive=opened.exclusive, needs=needs, brought=found
        )
        tools = (*opened.tools, *[tool for one in found if not one.is_own for tool in one.tools])
        may_have_files = may_have_files or target.opener is not None  # which may bring some
        is_supplied = request.container is not ANY_CONTAINER or bool(request.outputs)
        if (
            is_supplied or self._folders() is not None or (may_have_files and has_files(opened.turns))
        ):  # most bring nothing
            await load(*_SUPPLIES)
            opened, offer = await self._supplier().supply(owner, target, request, opened, offer, rounds)
        if ask is not None:
            for feature in features.equipping:
                equipped, offer = await feature.equip(ask, opened.turns, offer)
                opened = replace(opened, turns=equipped)
        if current_rights() is not None:
            offer = offer_under(current_scopes(), offer, self._config.sandbox.profile)
        if rounds > 0 and len(turns) > 1 and whole_results(turns):
            offer = _with_reader(offer, self._long_results().reader.spec)
        if needs and any(need.confirmed for need in needs):
            offer = self._with_confirmation(offer, needs, tools)
        return opened, offer if rounds == 0 else self._toolbox.with_finder(offer, choice)

    def _with_confirmation(self, offer: Offer, needs: Sequence[Need], agents: tuple[Tool, ...]) -> Offer:
        """Calls that the request wants a person to confirm: of what it names, or of a tool that does it here."""
        confirmed: set[str] = set()
        for need in needs:
            names = self._toolbox.tools_for(need, agents)
            confirmed |= set(names) if need.name in need.confirmed else set(names) & set(need.confirmed)
        specs = [
            replace(spec, approval=strictest((spec.approval, "ask"))) if spec.name in confirmed else spec
            for spec in offer.specs
        ]
        return Offer(tuple(specs), offer.handlers, offer.stand_ins, offer.about)

    async def start_of(self, owner: str, job: Job) -> RunStarted:
        """What a run of this job would begin with. Nothing is started and nothing is kept."""
        request = job.request
        turns = await self._with_inputs(job.target, request, request.turns, owner)
        turns, parent, _ = await self._conversation(owner, request, turns, None)
        opened, setup = await self._set_up(owner, job, turns, has_files(turns))
        return RunStarted("", setup.plan, opened, parent=parent, owner=owner, agent=setup.agent, inputs=setup.inputs)

    async def count(self, target: Target, request: DoorRequest, turns: tuple[Turn, ...], owner: str) -> int:
        """How many tokens the model would be sent first, if this were a request for an answer.

        No model is called: an engine of ours counts with its tokenizer, an upstream that can be asked is asked, and for the rest
        it is an estimate.
        """
        rounds, _ = self._config.rounds_for(request.max_tool_rounds)
        turns = await self._with_inputs(target, request, turns, owner)
        opened, offer = await self.open_for(target, request, turns, rounds, owner)
        options = target.options_under(request.options)
        heavy = is_heavy(opened.turns, offer.specs)
        repaired = await aside(repair, opened.turns) if heavy else repair(opened.turns)
        first = ModelRequest(
            repaired,
            offer.specs,
            rename_choice(_choice(request, target), offer.stand_ins),
            options,
            False,
            "",
            0,
            1,
            {},
        )
        count_tokens = capabilities_of(target.provider).count_tokens
        if count_tokens is not None:
            try:
                return await count_tokens(first)
            except UpstreamError:  # it cannot say today, or its address knows no counting
                pass
        return await aside(estimate, repaired, first.tools) if heavy else estimate(repaired, first.tools)

    async def _with_approved(self, request: DoorRequest, plan: Plan, owner: str) -> Plan:
        """With what people have approved for the session. Most plans ask nobody."""
        session = request.conversation or (request.session.name if request.session is not None else "")
        approved = self._approved
        if session and would_ask(plan) and (tools := await approved.find(owner, session, self._runs.clock())):
            plan = replace(plan, remembered=tools)
        if (
            session
            and may_leak(plan.tools)
            and (sends := await approved.sends.find(owner, session, self._runs.clock()))
        ):
            plan = replace(plan, sendable=sends)
        return plan

    @property
    def _config(self) -> ServerConfig:
        return self._settings()

    def forget_setups(self) -> None:
        """What was decided once for all requests is decided anew: the settings have changed."""
        self.usual_setups.clear()
        self._limits.clear()

    @property
    def _is_steady(self) -> bool:
        """Whether a request of the usual kind always gets the same: no tools that come and go, none of somebody's own, and no
        model that may say no."""
        if self._config.agent_tools or not self._features.is_steady:
            return False
        if self._folders() is not None and any(spec.tool_type in RUNS_CODE for spec in self._toolbox.fixed_specs):
            return False  # each run has them in its session's folder
        return capabilities_of(self._models.default.provider).check is takes_any

    def _limits_for(self, rounds: int, tool_calls: int | None, *, is_stored: bool) -> Limits:
        """Nearly all runs have the same."""
        known = self._limits.get((rounds, is_stored))
        if known is None:
            config = self._config
            known = self._limits[rounds, is_stored] = Limits(
                rounds,
                seconds=config.max_run_seconds,
                repeats=config.max_identical_calls,
                answer_bytes=config.max_answer_bytes,
                result_chars=config.max_result_chars or None,
                # Nobody can find a run that is not stored in order to answer: what it asks is a no at once.
                approval_seconds=config.approval_seconds if is_stored else 0.0,
            )
        return known if tool_calls is None else replace(known, tool_calls=tool_calls)


def _providers_for(target: Target, plan: Plan, n: int) -> Sequence[Provider]:
    """One provider per choice. Where each choice is one model call, and the upstream can, one call serves them all."""
    if n > 1 and not plan.runs_tools and (call_many := capabilities_of(target.provider).call_many) is not None:
        return SharedCall(call_many, n).choices()
    return [target.provider] * n


async def _open_inside(begun: OpenSpan, opening: Awaitable[list[LiveRun]]) -> list[LiveRun]:
    """What happens before a run is driven is part of its span."""
    with inside(begun):
        lives = await opening
    lives[0].span = begun
    return lives


def _waits(job: Job) -> bool:
    """Whether somebody stays with a run that asks people. Who asks for approvals in the words of a dialect reads the answer to
    its end, and decides in the next request."""
    request = job.request
    if job.waits or not request.stream or request.background:
        return job.waits
    return not any(need.confirms for need in (*job.target.needs, *request.needs))


def _with_reader(offer: Offer, reader: ToolSpec) -> Offer:
    """A conversation in which a result was too long is gone on with: the model may still want to read the rest."""
    if any(spec.name == reader.name for spec in offer.specs):
        return offer
    return Offer((*offer.specs, reader), offer.handlers, offer.stand_ins, offer.about)


def _choice(request: DoorRequest, target: Target) -> ToolChoice:
    return request.choice if request.choice != AUTO else target.choice


def check_choice(choice: ToolChoice, tools: tuple[ToolSpec, ...]) -> None:
    """Whatever is chosen must be there: among the caller's tools or the server's."""
    if choice.mode != "required" and not choice.names:
        return
    names = {tool.name for tool in tools}
    if choice.mode == "required" and not names:
        raise BadRequest('tool_choice="required" requires at least one tool.', param="tool_choice")
    for name in choice.names:
        if name not in names:
            raise BadRequest(f"tool_choice references unknown function tool `{name}`.", param="tool_choice")


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
