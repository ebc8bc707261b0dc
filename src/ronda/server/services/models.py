"""Names a request may give as `model` or `agent_id` → what answers to them.

The server's own model goes by its name, its spec, and "default". Agents come from sources that are asked in order: what
keeps some (a folder of files, a database) adds one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda._doctor import Line
from ronda.core.events import AgentFile
from ronda.core.parts import Turn
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.core.run import Run
from ronda.drive import Provider, Tool, capabilities_of
from ronda.errors import BadRequest, NotFound, quote_names
from ronda.providers import split_spec
from ronda.providers.output_limits import largest_limit, limited
from ronda.server.http.rights import RIGHTS, Forbidden, current_scopes
from ronda.store.values.scopes import Scopes
from ronda.wire.shared.capabilities import Need

# A note on the CancelledError of a model call that was still waiting for its place upstream: nothing of it was sent.
NEVER_SENT: Final = "the model call was waiting in line"


def _as_they_are(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return turns


class CoolingModels(Protocol):
    """Who knows which models have just failed."""

    def seconds_to_cool(self) -> Mapping[str, float]:
        """By their specs: for how long this process asks others in their place."""


class TargetTools(Struct, frozen=True):
    """What a model, or an agent that a client made, has besides its own tools; and what the caller is told about those left
    out."""

    tools: tuple[Tool, ...] = ()
    warnings: tuple[str, ...] = ()


class TargetOpening(Struct, frozen=True):
    """What an agent brings to one request: the conversation to start from, and its tools, which `exclusive` are all there are."""

    turns: tuple[Turn, ...]
    tools: tuple[Tool, ...] = ()
    declared: tuple[ToolSpec, ...] = ()
    exclusive: bool = False
    file: AgentFile | None = None  # what a run of it is opened again with, and …
    inputs: Mapping[str, Raw] = {}  # … what it was asked with
    warnings: tuple[str, ...] = ()  # for the caller: what the run goes without


# A request's conversation and inputs → what the agent makes of them.
Opener: TypeAlias = Callable[[tuple[Turn, ...], Mapping[str, Any]], Awaitable[TargetOpening]]


class Target(Struct, frozen=True):
    """Something that answers requests: a model, or an agent with what it brings along.

    `begin` puts an agent's own turns (its instructions) before the caller's. `tools` run here; `declared` ones go out to
    the caller. Options and choice hold where the request says nothing.
    """

    name: str
    spec: str
    provider: Provider
    begin: Callable[[tuple[Turn, ...]], tuple[Turn, ...]] = _as_they_are
    tools: tuple[Tool, ...] = ()
    declared: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = AUTO
    options: Options = NO_OPTIONS
    needs: tuple[Need, ...] = ()  # what the server must have for it
    opener: Opener | None = None  # of an agent whose turns and tools depend on the request
    max_tokens: int | None = None  # of one answer; a request may ask for less
    read_answer: Callable[[Run], Any] | None = None  # told in a span of its own, where a tracer is on
    format_is_wish: bool = False  # the format of its own options; that of a request is not
    version: int = 0  # of an agent that has several

    @property
    def is_agent(self) -> bool:
        """It brings something along: it is no model by itself."""
        return self.opener is not None or self.begin is not _as_they_are or bool(self.tools or self.declared)

    async def open(self, turns: tuple[Turn, ...], inputs: Mapping[str, Any]) -> TargetOpening:
        if self.opener is not None:
            return await self.opener(turns, inputs)
        if inputs:
            raise BadRequest(f"'inputs' are for agents that have some; '{self.name}' has none", param="inputs")
        return TargetOpening(self.begin(turns), self.tools, self.declared)

    def not_redeclared(self, requested: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """Its tools that are the caller's to run, without those the request declares anew."""
        return not_redeclared(self.declared, requested)

    def options_under(self, requested: Options) -> Options:
        if self.options is NO_OPTIONS:
            return requested
        fields = {
            name: value
            for name in Options.__struct_fields__
            if (value := getattr(requested, name)) != getattr(NO_OPTIONS, name)
        }
        if "extra" in fields:
            fields["extra"] = {**self.options.extra, **requested.extra}
        options = msgspec.structs.replace(self.options, **fields)
        wish = requested.max_tokens if requested.max_tokens is not None else largest_limit(requested)
        return options if wish is None else self._limited(options, wish)

    def _limited(self, options: Options, wish: int) -> Options:
        """With one limit, under whichever names it goes out: the request's, or the agent's if that is less."""
        most = self.max_tokens
        return limited(options, wish if most is None or 0 < wish < most else most)  # 0 is no limit to some clients


def not_redeclared(declared: tuple[ToolSpec, ...], requested: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """An agent's tools that are the caller's to run, without those the request declares anew."""
    if not declared:
        return ()
    names = {spec.name for spec in requested}
    return tuple([spec for spec in declared if spec.name not in names])


def examine_model(name: str, target: Target, key: str | None) -> Line:
    """What is known of a model without asking it. `key` is the variable that its key is looked for in, and is not."""
    if key is not None:
        return Line(name, "fails", f"{target.spec} needs a key", f"set {key}")
    if (problem := capabilities_of(target.provider).problem) is not None and (why := problem()):
        return Line(name, "fails", f"{target.spec}: {why}")
    return Line(name, "works", target.spec)


def check_target(target: Target, name: str) -> None:
    """Raises Forbidden for a model or an agent, by one of its names, that the key of the request is not for."""
    if RIGHTS.get() is None:
        return
    scopes = current_scopes()
    if not target.is_agent:
        if not scopes.allows_model((name, target.name, target.spec)):
            raise _forbidden("model", name)
    elif not scopes.allows_agent((name, name.partition("@")[0], target.name)):
        raise _forbidden("agent", name)
    elif scopes.agents is None and not scopes.allows_model((target.spec, target.spec.partition(":")[2])):
        raise _forbidden("model", target.spec)


def check_model_names(names: Sequence[str]) -> None:
    """Raises Forbidden for a model, by all of its names, that the key of the request is not for."""
    if RIGHTS.get() is not None and not current_scopes().allows_model(names):
        raise _forbidden("model", names[0])


def _forbidden(kind: str, name: str) -> Forbidden:
    scope = f"{kind}:{name[:200]}"
    return Forbidden(
        f"this API key is not for the {kind} '{name[:200]}': it lacks the scope '{scope}'",
        param="model",
        code=f"{kind}_not_allowed",
    )


class Source(Protocol):
    """Keeps agents, or more models: one set for all owners, or each of one owner's."""

    async def find(self, name: str, owner: str) -> Target | None: ...

    def names(self) -> Iterable[str]: ...

    def names_open_to(self, scopes: Scopes) -> Iterable[str]:
        """Those of `names` that a key may ask for."""


class Models:
    def __init__(self, spec: str, provider: Provider, aliases: Sequence[str] = ()) -> None:
        """`aliases` are other names of the server's model: clients have theirs written into them. "*" is any."""
        name = split_spec(spec)[1]
        self.default = Target(name, spec, provider)
        self._aliases = [alias for alias in aliases if alias != "*"]
        self._takes_any = "*" in aliases
        self._names = dict.fromkeys(("default", "", name, spec, *self._aliases), self.default)
        self._sources: list[Source] = []
        self.missing_key: str | None = None  # the variable that the key of the server's model would be in

    def add(self, source: Source) -> None:
        self._sources.append(source)

    async def find_named(self, name: str, owner: str = "") -> Target | None:
        """What goes by this very name."""
        found = self._names.get(name)
        if found is not None:
            if RIGHTS.get() is not None:  # else the request may ask for any
                self._check_default()
            return found
        for source in self._sources:
            if (found := await source.find(name, owner)) is not None:
                check_target(found, name)
                return found
        return None

    async def find(self, name: str, owner: str = "") -> Target:
        found = self._names.get(name)  # nearly always
        if found is not None:
            if RIGHTS.get() is not None:  # else the request may ask for any
                self._check_default()
            return found
        if (found := await self.find_named(name, owner)) is not None:
            return found
        if self._takes_any:
            if RIGHTS.get() is not None:
                self._check_default()
            return self.default
        there_is = quote_names(self.names)
        raise NotFound(
            f"the model '{name[:200]}' does not exist here; there is {there_is}", param="model", code="model_not_found"
        )

    def _check_default(self) -> None:
        if not current_scopes().allows_model(self._names):
            raise _forbidden("model", self.default.name)

    def names_open_to(self, scopes: Scopes) -> list[str]:
        """Those of `names` that a key may ask for. An agent's own model is looked at when the agent is asked."""
        own = ["default", self.default.name, *self._aliases] if scopes.allows_model(self._names) else []
        return [*own, *[name for source in self._sources for name in source.names_open_to(scopes)]]

    async def load(self) -> list[str]:
        """Load what runs on this machine ahead of its first request; lines that say what was chosen for it."""
        load = capabilities_of(self.default.provider).load
        return [] if load is None else [await load()]

    @property
    def names(self) -> list[str]:
        return [
            "default",
            self.default.name,
            *self._aliases,
            *[name for source in self._sources for name in source.names()],
        ]
