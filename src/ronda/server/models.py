"""Names a request may give as `model` or `agent_id` → what answers to them.

The server's own model goes by its name, its spec, and "default". Agents come from sources that are asked in order: whoever
keeps some (a folder of files, a database) adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
from msgspec import Struct

from ronda.core.parts import Turn
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.drive import Provider, Tool
from ronda.errors import NotFound
from ronda.providers import split_spec


def _as_they_are(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return turns


class Served(Struct, frozen=True):
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

    def declared_beside(self, asked: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """Its tools that are the caller's to run, without those the request declares anew."""
        if not self.declared:
            return ()
        names = {spec.name for spec in asked}
        return tuple([spec for spec in self.declared if spec.name not in names])

    def options_under(self, asked: Options) -> Options:
        if self.options is NO_OPTIONS:
            return asked
        said = {
            name: value
            for name in Options.__struct_fields__
            if (value := getattr(asked, name)) != getattr(NO_OPTIONS, name)
        }
        if "extra" in said:
            said["extra"] = {**self.options.extra, **asked.extra}
        return msgspec.structs.replace(self.options, **said)


class Source(Protocol):
    """Keeps agents."""

    def find(self, name: str) -> Served | None: ...

    def names(self) -> Iterable[str]: ...


class Models:
    def __init__(self, spec: str, provider: Provider) -> None:
        name = split_spec(spec)[1]
        self._default = Served(name, spec, provider)
        self._names = dict.fromkeys(("default", "", name, spec), self._default)
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        self._sources.append(source)

    def find(self, name: str) -> Served:
        found = self._names.get(name)
        if found is not None:
            return found
        for source in self._sources:
            if (found := source.find(name)) is not None:
                return found
        there_is = ", ".join(f"'{model}'" for model in self.listed)
        raise NotFound(
            f"the model '{name[:200]}' does not exist here; there is {there_is}", param="model", code="model_not_found"
        )

    async def load(self) -> list[str]:
        """Load what runs in this process ahead of its first request; lines that say what was chosen for it."""
        load = getattr(self._default.provider, "load", None)
        return [] if load is None else [await load()]

    @property
    def listed(self) -> list[str]:
        return ["default", self._default.name, *[name for source in self._sources for name in source.names()]]
