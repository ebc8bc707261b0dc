"""A request that was read, and who is to answer it → what its runs get: the turns they start from, their tools, their plan.

It asks the agent, the server's features and the caller for tools, and puts them together in one order. It opens nothing: the
same is asked for requests whose tokens are only counted, and for agents that are tools of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Raw, Struct
from msgspec.structs import replace

from ronda.core.events import AgentFile
from ronda.core.limits import Limits
from ronda.core.parts import Turn, has_files
from ronda.core.permissions import strictest, would_ask
from ronda.core.plan import AUTO, PermissionRule, Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.taint import EGRESS, UNTRUSTED, may_leak, taint_labels
from ronda.core.transcript import repair, whole_results
from ronda.drive import Capabilities, Tool, capabilities_of
from ronda.drive.offload import aside, is_heavy, load
from ronda.drive.provider import takes_any
from ronda.errors import BadRequest, UpstreamError
from ronda.server.http.rights import RIGHTS, current_scopes
from ronda.server.services.asking import Ask
from ronda.server.services.disabled_tools import denying_rules, unknown_names, without_disabled
from ronda.server.services.key_limits import offer_under, rules_under
from ronda.server.services.models import Models, Target, TargetOpening, TargetTools, not_redeclared
from ronda.server.services.runs import Runs
from ronda.server.services.toolbox import Brought, Offer, Toolbox
from ronda.wire.anthropic.counting import estimate
from ronda.wire.shared.capabilities import Need, rename_choice
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.supplies import ANY_CONTAINER

if TYPE_CHECKING:
    from ronda.core.plan import Approval
    from ronda.server.config import ServerConfig
    from ronda.server.services.session_folders import SessionFolders
    from ronda.server.services.supplies import Supplier

# For requests with files, or with code: slow to import, and most servers see neither.
_SUPPLIES: Final = (
    "ronda.server.services.input_files",
    "ronda.server.services.supplies",
    "ronda.tools.files.documents",
    "ronda.tools.code.limits",
)


RUNS_CODE: Final = ("code_execution", "shell")  # types of tools that work in their session's folder


class Setup(Struct, frozen=True):
    """What runs get besides their turns."""

    plan: Plan
    offer: Offer
    agent: str = ""  # by the name that it was asked for
    inputs: Mapping[str, Raw] = {}
    file: AgentFile | None = None
    warnings: tuple[str, ...] = ()
    may_leak: bool = False  # some of its tools send data out


class EquippingFeature(Protocol):
    async def equip(self, ask: Ask, turns: tuple[Turn, ...], offer: Offer) -> tuple[tuple[Turn, ...], Offer]: ...


class SetupFeatures(Protocol):
    """What the set-up of runs asks of the server's features."""

    @property
    def is_steady(self) -> bool: ...

    @property
    def standing(self) -> Sequence[object]: ...

    @property
    def bringing(self) -> Sequence[object]: ...

    @property
    def extending(self) -> Sequence[object]: ...

    async def target_tools(self, target: Target, owner: str) -> TargetTools: ...

    @property
    def equipping(self) -> Sequence[EquippingFeature]: ...

    @property
    def folders(self) -> SessionFolders | None:
        """Of what runs code here, if anything does."""

    async def ready(self) -> None: ...

    async def bring(self, ask: Ask) -> list[Brought]: ...

    def others(self, needs: Sequence[Need]) -> Sequence[Need]: ...


class _Settled(Struct, frozen=True):
    """What the settings say of every request, worked out once."""

    rounds: int  # of requests that do not say how many
    context_characters: int | None


class Setups:
    """`supplier` is called for the first request with files or skills. `settings` are those of now: some are read again while the
    server runs."""

    def __init__(
        self,
        settings: Callable[[], ServerConfig],
        runs: Runs,
        models: Models,
        toolbox: Toolbox,
        features: SetupFeatures,
        supplier: Callable[[], Supplier],
    ) -> None:
        self.settings = settings
        self._runs = runs
        self._models = models
        self._toolbox = toolbox
        self._features = features
        self._supplier = supplier
        # What requests get that are usual, by whether they are streamed and what their caller's key may do; kept where nothing
        # else has a say in it.
        self.usual: dict[tuple[bool, frozenset[str] | None], Setup] = {}
        # Decided once, until the settings change. Nearly all requests get the same.
        self._settled: _Settled | None = None
        self._rules: dict[Approval, tuple[PermissionRule, ...]] = {}  # by what a request wants to be asked about
        self._limits: dict[tuple[int, bool], Limits] = {}  # by the rounds that are allowed, and whether runs are stored

    def forget(self) -> None:
        """What was decided once for all requests is decided anew: the settings have changed."""
        self.usual.clear()
        self._settled = None
        self._rules.clear()
        self._limits.clear()

    async def set_up(
        self, owner: str, request: DoorRequest, target: Target, turns: tuple[Turn, ...], may_have_files: bool
    ) -> tuple[tuple[Turn, ...], Setup]:
        """The turns that runs start from, and what they get besides."""
        rounds, warning = self._rounds_for(request.max_tool_rounds)
        opened, offer = await self.offer_for(target, request, turns, rounds, owner, may_have_files=may_have_files)
        plan = self._plan(request, target, capabilities_of(target.provider), offer, rounds)
        if request.session is not None or request.conversation:
            plan = await self._with_approved(request, plan, owner)
        warnings = opened.warnings
        if request.needs:
            warnings = (*warnings, *self._left_out(request, target))
        if warning is not None:
            warnings = (*warnings, warning)
        agent = request.model if target.is_agent else ""
        sends = plan.has_labels and may_leak(plan.tools)
        return opened.turns, Setup(plan, offer, agent, opened.inputs, opened.file, warnings, sends)

    async def offer_for(
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

        `may_have_files`: files in these turns were not looked for yet, or there are some.
        """
        features = self._features
        if features.standing and rounds > 0:
            await features.ready()
        if target.opener is None and not request.inputs:
            brought = target.tools
            warnings: tuple[str, ...] = ()
            if features.extending and rounds > 0:
                more = await features.target_tools(target, owner)
                brought, warnings = (*brought, *more.tools), more.warnings
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
            ask = Ask(owner, request, target, needs, turns, choice, opened.exclusive, RIGHTS.get())
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
            is_supplied or features.folders is not None or (may_have_files and has_files(opened.turns))
        ):  # most bring nothing
            await load(*_SUPPLIES)
            opened, offer = await self._supplier().supply(owner, target, request, opened, offer, rounds)
        if ask is not None:
            for feature in features.equipping:
                equipped, offer = await feature.equip(ask, opened.turns, offer)
                opened = replace(opened, turns=equipped)
        if RIGHTS.get() is not None:
            offer = offer_under(current_scopes(), offer, self.settings().sandbox.profile)
        if rounds > 0 and len(turns) > 1 and whole_results(turns):
            offer = self._with_reader(offer)
        if needs and any(need.confirmed for need in needs):
            offer = self._with_confirmation(offer, needs, tools)
        if request.disabled_tools and rounds > 0:
            opened = replace(opened, warnings=(*opened.warnings, *self._unknown_disabled(request, offer)))
            offer = without_disabled(offer, request.disabled_tools, self._toolbox.offered_tools)
        return opened, offer if rounds == 0 else self._toolbox.with_finder(offer, choice)

    def _unknown_disabled(self, request: DoorRequest, offer: Offer) -> tuple[str, ...]:
        requested = [spec.name for spec in (*offer.specs, *self._toolbox.requested_specs)]
        return unknown_names(
            request.disabled_tools, {*self._toolbox.names, *requested}, self._toolbox.server_names(offer)
        )

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

    def _with_reader(self, offer: Offer) -> Offer:
        """A conversation in which a result was too long is continued: the model may still want to read the rest."""
        assert self._runs.long_results is not None
        reader = self._runs.long_results().reader.spec
        if any(spec.name == reader.name for spec in offer.specs):
            return offer
        return Offer((*offer.specs, reader), offer.handlers, offer.stand_ins, offer.about)

    async def with_inputs(
        self, target: Target, request: DoorRequest, turns: tuple[Turn, ...], owner: str
    ) -> tuple[Turn, ...]:
        """With what the model is sent, or told, in the place of each file that the request brings."""
        if not has_files(turns):
            return turns
        await load(*_SUPPLIES)
        from ronda.server.services.supplies import asks_for_code

        folders = self._features.folders
        is_offered = folders is not None and folders.is_offered
        # An agent's file says itself what it has.
        runs_code = (is_offered and target.opener is None) or asks_for_code(request)
        inputs = self._supplier().inputs(owner, capabilities_of(target.provider), runs_code=runs_code)
        return await inputs.settle(self.settings(), turns)

    async def count(self, target: Target, request: DoorRequest, turns: tuple[Turn, ...], owner: str) -> int:
        """How many tokens the model would be sent first, if this were a request for an answer.

        No model is called: an engine of ours counts with its tokenizer, an upstream that can be asked is asked, and for the rest
        it is an estimate.
        """
        rounds, _ = self._rounds_for(request.max_tool_rounds)
        turns = await self.with_inputs(target, request, turns, owner)
        opened, offer = await self.offer_for(target, request, turns, rounds, owner)
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

    def _plan(self, request: DoorRequest, target: Target, able: Capabilities, offer: Offer, rounds: int) -> Plan:
        """What the runs are told to do. Raises what the provider cannot."""
        config = self.settings()
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
            stream=request.stream or request.lingers > 0,  # a client may come to follow it
            # A provider that decodes under the format says so; others are checked when they are done.
            format_is_enforced=able.enforces_format(options),
            format_is_wish=target.format_is_wish and options.response_format is target.options.response_format,
            tool_calls=config.tool_calls,
            truncates=request.truncates,
            context_budget=(self._settled or self._settle()).context_characters,
            guards=self._runs.guards,
            permissions=self._rules_for(request.permission) + (denying_rules(offer.denied) if offer.denied else ()),
        )
        able.check(plan)
        return plan

    async def _with_approved(self, request: DoorRequest, plan: Plan, owner: str) -> Plan:
        """With what people have approved for the session. Most plans ask no person."""
        session = request.conversation or (request.session.name if request.session is not None else "")
        approved = self._runs.approved_tools
        if approved is None:
            return plan
        if session and would_ask(plan) and (tools := await approved.find(owner, session, self._runs.clock())):
            plan = replace(plan, remembered=tools)
        may_send = session and plan.has_labels and may_leak(plan.tools)
        if may_send and (sends := await approved.sends.find(owner, session, self._runs.clock())):
            plan = replace(plan, sendable=sends)
        return plan

    def _rounds_for(self, wish: int | None) -> tuple[int, str | None]:
        """The rounds a request gets, and what to tell it when that is less than it wished for."""
        if wish is None:
            return (self._settled or self._settle()).rounds, None
        config = self.settings()
        return (wish, None) if wish <= config.max_tool_rounds_ceiling else config.rounds_for(wish)

    def _settle(self) -> _Settled:
        config = self.settings()
        self._settled = _Settled(config.rounds_for(None)[0], config.context_characters)
        return self._settled

    def _rules_for(self, wish: Approval) -> tuple[PermissionRule, ...]:
        """The operator's rules, what the request adds, and what the caller's key adds."""
        rules = self._rules.get(wish)
        if rules is None:
            rules = self._rules[wish] = self.settings().rules_for(wish)
        if RIGHTS.get() is not None:
            rules = rules_under(current_scopes(), rules, self.settings().sandbox.profile)
        return rules

    def _limits_for(self, rounds: int, tool_calls: int | None, *, is_stored: bool) -> Limits:
        """Nearly all runs have the same."""
        known = self._limits.get((rounds, is_stored))
        if known is None:
            config = self.settings()
            known = self._limits[rounds, is_stored] = Limits(
                rounds,
                seconds=config.max_run_seconds,
                repeats=config.max_identical_calls,
                answer_bytes=config.max_answer_bytes,
                result_chars=config.max_result_chars or None,
                # A run that is not stored cannot be found in order to answer: what it asks is a no at once.
                approval_seconds=config.approval_seconds if is_stored else 0.0,
            )
        return known if tool_calls is None else replace(known, tool_calls=tool_calls)

    async def labels_of(self, target: Target, owner: str) -> frozenset[str]:
        """What a target's tools may do, as far as that can be told before it is asked: MCP servers that it names are only
        connected to then."""
        needs = self._features.others(target.needs)
        ask = Ask(owner, DoorRequest(model=target.name, turns=()), target, needs, (), target.choice)
        brought = await self._features.bring(ask)
        offer = self._toolbox.offer(target.declared, 1, target.tools, needs=needs, brought=brought)
        far = () if len(needs) == len(target.needs) else (UNTRUSTED, EGRESS)
        return taint_labels(offer.specs) | set(far)

    def labels_but(self, tools: Sequence[ToolSpec]) -> Mapping[str, Sequence[str]]:
        """The labels of the tools that are known here, but for these."""
        return self._toolbox.labels_but([tool.name for tool in tools])

    def _left_out(self, request: DoorRequest, target: Target) -> list[str]:
        """Warnings about what is asked for, not to be had, and dispensable."""
        return [
            f"{need.reason}: the model is not offered '{need.path.removesuffix('.type')}'"
            for need in request.needs
            if need.is_optional and not self._toolbox.tools_for(need, target.tools)
        ]

    @property
    def is_steady(self) -> bool:
        """Whether a request of the usual kind always gets the same: no tools that come and go, none of one owner's only, and no
        model that may say no."""
        if not self._features.is_steady:
            return False
        if self._features.folders is not None and any(
            spec.tool_type in RUNS_CODE for spec in self._toolbox.fixed_specs
        ):
            return False  # each run has them in its session's folder
        return capabilities_of(self._models.default.provider).check is takes_any


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
