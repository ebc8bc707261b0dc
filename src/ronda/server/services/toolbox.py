"""Which tools a request gets, and who runs each: function, callback, a feature, or the caller itself, in that order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw

from ronda.core.events import RunStarted
from ronda.core.found_tools import FIND_TOOLS
from ronda.core.plan import ToolChoice, ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig, BadRequest, NotFound
from ronda.server.services.hosted_tools import OperatorServers
from ronda.server.services.marks import USUAL_LABELS
from ronda.tools.callback import CallbackTool
from ronda.tools.deps import wanted_deps
from ronda.wire.shared.capabilities import Capability, Need, NotHere

if TYPE_CHECKING:
    from ronda.prompty.registry import Lent


class Offer(msgspec.Struct, frozen=True):
    """What the model sees, and the handlers of what runs here."""

    specs: tuple[ToolSpec, ...]
    handlers: Mapping[str, Tool]
    # What a request calls something of a service's → the tools that do it here.
    stand_ins: Mapping[str, tuple[str, ...]] = {}
    about: dict[str, Raw] = {}  # kept with the run, for the process that resumes it
    # Names, with `*` and `?`, of tools that neither the run nor one that it starts may call.
    denied: tuple[str, ...] = ()

    def without(self, gone: Collection[str]) -> Offer:
        """The same without the tools of these names."""
        if not gone:
            return self
        return Offer(
            tuple([spec for spec in self.specs if spec.name not in gone]),
            {name: tool for name, tool in self.handlers.items() if name not in gone},
            {called: tuple([one for one in names if one not in gone]) for called, names in self.stand_ins.items()},
            self.about,
            self.denied,
        )


class Brought(msgspec.Struct, frozen=True):
    """What a feature brings to one request: tools; names of tools that the request is not to see; what a choice may call them;
    and what is kept with the run."""

    tools: tuple[Tool, ...] = ()
    hidden: frozenset[str] = frozenset()
    stand_ins: Mapping[str, tuple[str, ...]] = {}
    about: dict[str, Raw] = {}
    # They count as the server's own: no request may declare their names, and they come before the target's.
    is_own: bool = False


DECLARED_KINDS = ("callback", "dispatch")  # kinds of tools that a request declares, and this server runs


def server_of(tool: Tool) -> str:
    """The MCP server that a tool is of; empty: of none."""
    origin = tool.spec.origin
    server: str = getattr(tool, "server", "") if origin is None else origin.server  # as `tools.mcp.offers` has it
    return server


class StandingTools(Protocol):
    def standing_tools(self) -> Sequence[Tool]: ...


class ToolFeatures(Protocol):
    """What a toolbox asks of the server's features."""

    @property
    def standing(self) -> Sequence[StandingTools]: ...

    @property
    def tool_names(self) -> Sequence[str]: ...

    def names_for(self, need: Need) -> tuple[str, ...]: ...

    @property
    def running(self) -> Sequence[object]:
        """Those that may run a tool that a request declares."""

    def run_declared(self, spec: ToolSpec) -> Tool | None: ...

    def declared_tools(self) -> Sequence[Tool]: ...

    def lend(self, lent: Lent, owner: str) -> None: ...

    def provided(self, kind: type) -> Any:
        """What a feature provides as such a thing; None if none does."""


class _NoFeatures:
    """Of a toolbox that stands by itself."""

    standing = tool_names = running = ()

    def names_for(self, need: Need) -> tuple[str, ...]:
        return ()

    def run_declared(self, spec: ToolSpec) -> Tool | None:
        return None

    def declared_tools(self) -> Sequence[Tool]:
        return ()

    def lend(self, lent: Lent, owner: str) -> None:
        pass

    def provided(self, kind: type) -> Any:
        return None


class Toolbox:
    def __init__(
        self,
        tools: Sequence[Tool] = (),
        callbacks: Mapping[str, Callable[..., Any]] | None = None,
        capabilities: Mapping[Capability, Sequence[Tool]] | None = None,
        features: ToolFeatures | None = None,
        max_offered: int = 64,
    ) -> None:
        """`tools` and the standing ones of features are offered to every request, those of `capabilities` to those that ask for
        them."""
        self._features = features or _NoFeatures()
        self._capabilities = {name: tuple(found) for name, found in (capabilities or {}).items()}
        self._most = max_offered
        self.replace(tools, callbacks or {})

    def replace(self, tools: Sequence[Tool], callbacks: Mapping[str, Callable[..., Any]]) -> None:
        """These instead of those that the operator gave before; runs that have begun keep theirs. Raises BadConfig, with nothing
        changed."""
        fixed: dict[str, Tool] = {}
        taken = {tool.spec.name for one in self._features.standing for tool in one.standing_tools()}
        for tool in tools:
            if tool.spec.name in fixed or tool.spec.name in taken:
                raise BadConfig(f"two tools of this server are named '{tool.spec.name}'")
            if (wanted := wanted_deps(tool)) is not None:
                raise BadConfig(
                    f"the tool '{tool.spec.name}' takes a ToolContext[{wanted.written}], which only run_agent(…, deps=…) "
                    "can give it; a tool of a server takes a ToolContext"
                )
            fixed[tool.spec.name] = tool
        self._callbacks = dict(callbacks)
        self._fixed = Offer(tuple([tool.spec for tool in fixed.values()]), fixed)
        self._with_finder: tuple[Sequence[ToolSpec], Offer] = ((), self._fixed)
        self._with_standing: tuple[list[Sequence[Tool]], Offer] = ([], self._fixed)

    def add_capabilities(self, found: Mapping[Capability, Sequence[Tool]]) -> None:
        """Those of features, which are made after this. What the operator has given goes before them."""
        self._capabilities = {**{name: tuple(tools) for name, tools in found.items()}, **self._capabilities}

    def _own(self) -> Offer:
        """What every request is offered: the same value until a standing tool comes or goes."""
        if not (standing := self._features.standing):
            return self._fixed
        found = [feature.standing_tools() for feature in standing]
        known, offer = self._with_standing
        if len(found) != len(known) or any(now is not before for now, before in zip(found, known, strict=True)):
            tools = [tool for tools in found for tool in tools]
            handlers = {**self._fixed.handlers, **{tool.spec.name: tool for tool in tools}}
            offer = Offer((*self._fixed.specs, *[tool.spec for tool in tools]), handlers)
            self._with_standing = (found, offer)
        return offer

    @property
    def fixed_specs(self) -> Sequence[ToolSpec]:
        """Of the tools that every request has, without those of features."""
        return self._fixed.specs

    @property
    def offered_specs(self) -> Sequence[ToolSpec]:
        """Of all tools that every request is offered."""
        return self._own().specs

    def server_names(self, offer: Offer) -> set[str]:
        """Of the operator's MCP servers, connected or not, and of those whose tools are offered."""
        servers: OperatorServers | None = self._features.provided(OperatorServers)
        own = set() if servers is None else {one.name for one in servers.here().status()}
        return own | {server_of(tool) for tool in offer.handlers.values()} - {""}

    @property
    def offered_tools(self) -> Mapping[str, Tool]:
        """The tools that every request is offered, by name."""
        return self._own().handlers

    @property
    def requested_specs(self) -> Sequence[ToolSpec]:
        """Of those that a request has to ask for: what runs code, searches, and the like."""
        return [tool.spec for tools in self._capabilities.values() for tool in tools]

    @property
    def names(self) -> list[str]:
        return [*self._own().handlers, *self._callbacks, *self._features.tool_names]

    @property
    def operator_names(self) -> set[str]:
        """Of what the operator has given: tools and callbacks."""
        return {*self._fixed.handlers, *self._callbacks}

    def labels_but(self, declared: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Of every tool that this server may have run, whether it is offered or not; but for those that a request declares."""
        tools = [*self._own().handlers.values(), *[tool for tools in self._capabilities.values() for tool in tools]]
        found = {tool.spec.name: tool.spec.labels for tool in (*tools, *self._features.declared_tools())}
        return {name: labels for name, labels in {**USUAL_LABELS, **found}.items() if name not in declared}

    def lent_to(self, owner: str) -> Lent:
        """Who here runs what an agent declares, and what the agents that it starts do."""
        from ronda.prompty.registry import Lent  # most servers have no files

        callbacks = {name: self._called_back(ToolSpec(name), function) for name, function in self._callbacks.items()}
        declared = {tool.spec.name: tool for tool in self._features.declared_tools()}
        lent = Lent({**declared, **callbacks, **self._own().handlers})
        self._features.lend(lent, owner)
        return lent

    def _called_back(self, spec: ToolSpec, function: Callable[..., Any]) -> Tool:
        return CallbackTool(msgspec.structs.replace(spec, kind="callback", timeout=300.0), function)

    def tools_for(self, need: Need, agents: tuple[Tool, ...] = ()) -> tuple[str, ...]:
        """The names of the tools that do what a request asks for; none where that is not to be had."""
        if need.hosted.tool == FIND_TOOLS:  # every server has it, for tools that are deferred
            return (FIND_TOOLS,)
        if capable := self._capable(need):
            return tuple(capable)
        if names := self._features.names_for(need):
            return names
        own = {*self.names, *[tool.spec.name for tool in agents]}
        found = next((name for name in (need.hosted.tool, need.called) if name in own), None)
        if found is not None and need.settings:
            field = need.settings[0]
            raise BadRequest(
                f"'{field}' cannot be kept to: '{found}' of this server runs in the place of {need.name}", param=field
            )
        return () if found is None else (found,)

    def _capable(self, need: Need) -> dict[str, Tool]:
        tools = [tool for name in need.capabilities for tool in self._capabilities.get(name, ())]
        return {tool.spec.name: tool for tool in tools}

    def check_capability(self, name: Capability) -> None:
        if name not in self._capabilities:
            raise NotFound(f"this server has no '{name}'; its operator can switch it on", code="capability_missing")

    def lacks(self, needs: Sequence[Need]) -> list[Need]:
        return [need for need in needs if not self.tools_for(need, ())]

    def _meet(self, needs: Sequence[Need], agents: tuple[Tool, ...]) -> dict[str, Tool]:
        """The tools of the capabilities that are asked for and had; what is neither had nor dispensable is refused."""
        found: dict[str, Tool] = {}
        for need in needs:
            if not self.tools_for(need, agents) and not need.is_optional:
                raise NotHere(need)
            found |= self._capable(need)
        return found

    def handlers_for(self, start: RunStarted) -> dict[str, Tool]:
        """Who runs the tools of a run that was begun before, as far as they are this server's."""
        capable = {tool.spec.name: tool for tools in self._capabilities.values() for tool in tools}
        found: dict[str, Tool] = {}
        own = self._own().handlers
        for spec in start.plan.tools:
            tool = self._runs_declared(spec) if spec.kind in DECLARED_KINDS else own.get(spec.name)
            if (tool := tool or capable.get(spec.name)) is not None:
                found[spec.name] = tool
            elif spec.kind == "builtin" and spec.name == FIND_TOOLS:
                from ronda.tools.tool_search import FindTools

                found[spec.name] = FindTools([one for one in start.plan.tools if one.deferred])
        return found

    def with_finder(self, offer: Offer, choice: ToolChoice) -> Offer:
        """Of many tools the model is shown those that it finds."""
        specs = offer.specs
        if len(specs) <= self._most and not (specs and any(spec.deferred for spec in specs)):
            return offer
        known, made = self._with_finder
        if known is specs and not choice.names:  # what every request is offered
            return made
        from ronda.tools.tool_search import with_finder

        names = {name for called in choice.names for name in offer.stand_ins.get(called, (called,))}
        found, finder = with_finder(specs, self._most, names)
        if finder is None:
            return offer
        made = Offer(found, {**offer.handlers, finder.spec.name: finder}, offer.stand_ins, offer.about, offer.denied)
        if offer is self._own() and not names:
            self._with_finder = (specs, made)
        return made

    def _runs_declared(self, spec: ToolSpec) -> Tool | None:
        """Who runs a tool that a request declares, if a feature here does."""
        if (callback := self._callbacks.get(spec.name)) is not None:
            return self._called_back(spec, callback)
        return self._features.run_declared(spec) if self._features.running else None

    def offer(
        self,
        declared: tuple[ToolSpec, ...],
        rounds: int,
        agents: tuple[Tool, ...] = (),
        *,
        exclusive: bool = False,
        needs: Sequence[Need] = (),
        brought: Sequence[Brought] = (),
    ) -> Offer:
        """`rounds` of 0 offers and runs nothing of ours: the ordinary client-side flow.

        `agents` are the tools of the agent that answers, `exclusive` without the server's. One the caller declares under the
        same name is the caller's. `brought` is what features have for this request.
        """
        own = self._own()
        others = [one for one in brought if not one.is_own]
        agents = (*agents, *[tool for one in others for tool in one.tools]) if others else agents
        asked_for = self._meet(needs, agents) if needs else {}
        about: dict[str, Raw] = {}
        for one in brought:
            if one.is_own:
                asked_for |= {tool.spec.name: tool for tool in one.tools}
                about |= one.about
        for spec in declared:
            if spec.name in asked_for or (spec.name in own.handlers and not exclusive):
                raise BadRequest(
                    f"Tool '{spec.name}' conflicts with a registered internal tool. Internal tool names cannot be overridden.",
                    param="tools",
                )
        if rounds == 0:
            return Offer(declared, {})
        if not declared and not agents and not exclusive and not needs and not asked_for:
            return _with_brought(own, others) if others else own
        specs: list[ToolSpec] = [tool.spec for tool in asked_for.values()]
        handlers: dict[str, Tool] = asked_for if exclusive else {**own.handlers, **asked_for}
        names = {spec.name for spec in declared} | handlers.keys()
        for tool in agents:
            if tool.spec.name not in names:
                specs.append(tool.spec)
                handlers[tool.spec.name] = tool
        for spec in declared:
            if (runs := self._runs_declared(spec)) is not None:
                handlers[spec.name], spec = runs, runs.spec
            specs.append(spec)
        # The server's first, always in the same order, so that prompt caches hold.
        stand_ins = {
            need.called: tuple([name for name in found if name in handlers])
            for need in needs
            if (found := self.tools_for(need, agents))
        }
        offer = Offer((*(() if exclusive else own.specs), *specs), handlers, stand_ins, about)
        return _with_brought(offer, others) if others else offer


def _with_brought(offer: Offer, brought: Sequence[Brought]) -> Offer:
    """What a request names is offered as it says, also where the server offers it in every request."""
    for one in brought:
        handlers = {**offer.handlers, **{tool.spec.name: tool for tool in one.tools}}
        specs = [
            handlers[spec.name].spec if spec.name in handlers else spec
            for spec in offer.specs
            if spec.name not in one.hidden
        ]
        stand_ins = {**offer.stand_ins, **one.stand_ins}
        offer = Offer(tuple(specs), handlers, stand_ins, {**offer.about, **one.about})
    return offer
