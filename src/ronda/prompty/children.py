"""A tool of kind `prompty`, or the name of an agent → the file it means, loaded, and a tool that starts it.

The path is relative to the file that declares the tool, and may not lead out of the allowed folders. All files below one are
looked at when it starts: one that would start itself, at any distance, is refused before a model is called.

Agents that know each other by name may well ask each other: only how deep they go is bounded, by the code that starts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.core.taint import CLEAN, EGRESS, UNTRUSTED, taint_labels
from ronda.prompty.errors import BadPrompty, PromptyNotFound
from ronda.prompty.load import load
from ronda.prompty.model import FunctionTool, Host, McpTool, Prompty, PromptyTool, Property, Tool
from ronda.prompty.parameters import parameters_of
from ronda.prompty.references import Roots
from ronda.prompty.registry import Lent, get_tool
from ronda.tools.agent import STARTED, AgentTool

MAX_DEPTH: Final = 8  # files, one the tool of another
MAX_FILES: Final = 100  # below one file
INPUT: Final = "input"  # what an agent is asked that has no inputs of its own


class Child(Struct, frozen=True):
    """A file to start, and the handlers that its parent was given: they run what the file declares under their names.

    `asks`: the file has no inputs, and what it is called with is a message to it."""

    prompty: Prompty
    tools: Lent
    asks: bool = False


class Children:
    """The files below one file. What is loaded stays for as long as this does: a run."""

    def __init__(self, host: Host, lent: Lent) -> None:
        self._host = host
        self._lent = lent
        self._loaded: dict[Path, Prompty] = {}
        self._sound: set[Path] = set()

    async def tool(self, declared: PromptyTool, parent: Prompty) -> AgentTool:
        child, labels = await asyncio.to_thread(self._checked, declared, parent)
        return AgentTool(_spec(declared, child, labels), Child(child, self._lent), declared.mode)

    async def agent(self, name: str, parent: Prompty) -> AgentTool:
        """The agent of this name: the server's (a file, or one that a client made), or the file next to this one."""
        folder = Path(parent.path).parent if parent.path is not None else None
        try:
            return await asyncio.to_thread(self._agent, name, folder)
        except PromptyNotFound as error:
            if self._lent.agents is not None and (found := await self._lent.agents.stored(name)) is not None:
                return found
            raise BadPrompty(f"there is no agent '{name[:200]}'", path=parent.path, field="agents") from error

    def _agent(self, name: str, folder: Path | None) -> AgentTool:
        found = self._file_of(name, folder)
        child = self._read(found)
        for one in child.tools:
            if isinstance(one, PromptyTool):
                self._walk(one, child, [found])
        return agent_tool(name, child, self._lent, self._labels(child, set()))

    def _file_of(self, name: str, folder: Path | None) -> Path:
        roots, path = list(self._host.roots), f"{name}.prompty"
        if self._lent.agents is not None:
            if (place := self._lent.agents.path(name)) is None:
                raise PromptyNotFound(f"there is no file of the agent '{name[:200]}'")
            path = place
            roots.append(str(Path(path).parent))
        return Roots(folder, roots, self._host.files).find(path)

    def _checked(self, declared: PromptyTool, parent: Prompty) -> tuple[Prompty, frozenset[str]]:
        child = self._walk(declared, parent, [Path(parent.path)] if parent.path is not None else [])
        return child, self._labels(child, set())

    def _labels(self, child: Prompty, seen: set[str | None]) -> frozenset[str]:
        """What a file's tools, and those of the agents below it, may do with data: what it says comes to its parent."""
        if child.path in seen:
            return CLEAN
        if len(seen) >= MAX_FILES:
            return frozenset({UNTRUSTED, EGRESS})
        seen.add(child.path)
        folder = None if child.path is None else Path(child.path).parent
        labels = taint_labels([spec for one in child.tools if (spec := self._known_spec(one)) is not None])
        for one in child.tools:
            if isinstance(one, PromptyTool):
                labels |= self._labels(self._read(self._find(one, child)), seen)
        for name in child.agents:
            try:
                labels |= self._labels(self._read(self._file_of(name, folder)), seen)
            except (
                BadPrompty
            ):  # one that a client made, of whom nothing is known here; or none, which is told when it is called
                labels |= {UNTRUSTED, EGRESS}
        return labels

    def _known_spec(self, declared: Tool) -> ToolSpec | None:
        """Of a tool that runs here; of an MCP server, one of all its tools."""
        if isinstance(declared, McpTool):
            server = None if self._lent.mcp is None else self._lent.mcp.connection(declared.server_name)
            return None if server is None else ToolSpec(declared.name, labels=server.server.labels)
        handler = self._lent.get(declared.name) or get_tool(declared.name)
        if handler is None and isinstance(declared, FunctionTool) and self._lent.otherwise is not None:
            handler = self._lent.otherwise(declared.name)
        spec: ToolSpec | None = getattr(handler, "spec", None)
        return spec

    def _walk(self, declared: PromptyTool, parent: Prompty, chain: list[Path]) -> Prompty:
        path = self._find(declared, parent)
        if path in chain:
            names = " → ".join(one.name for one in (*chain[chain.index(path) :], path))
            raise _bad(f"the tool '{declared.name}' goes round in a circle: {names}", declared, parent)
        if len(chain) >= MAX_DEPTH:
            names = " → ".join(one.name for one in (*chain, path))
            raise _bad(f"agents may start each other {MAX_DEPTH} deep at the most: {names}", declared, parent)
        child = self._load(path, declared, parent)
        if path not in self._sound:
            for one in child.tools:
                if isinstance(one, PromptyTool):
                    self._walk(one, child, [*chain, path])
            self._sound.add(path)
        return child

    def _find(self, declared: PromptyTool, parent: Prompty) -> Path:
        folder = Path(parent.path).parent if parent.path is not None else None
        try:
            return Roots(folder, self._host.roots, self._host.files).find(declared.path)
        except BadPrompty as error:
            kind = PromptyNotFound if isinstance(error, PromptyNotFound) else BadPrompty
            raise _bad(str(error), declared, parent, kind) from error

    def _load(self, path: Path, declared: PromptyTool, parent: Prompty) -> Prompty:
        if path not in self._loaded and len(self._loaded) >= MAX_FILES:
            raise _bad(f"more than {MAX_FILES} files are tools of each other", declared, parent)
        return self._read(path)

    def _read(self, path: Path) -> Prompty:
        if path not in self._loaded:
            host = self._host
            self._loaded[path] = load(path, allowed_file_roots=host.roots, env=host.env, files=host.files)
        return self._loaded[path]


def agent_tool(name: str, child: Prompty, lent: Lent, labels: Iterable[str] = ()) -> AgentTool:
    """An agent as a tool under its name: its parameters are its inputs, or what it is to be asked."""
    from ronda.tools.mcp.names import offered_name  # only files with such agents need it

    declared = PromptyTool(
        name=offered_name(None, name.replace("/", "_")), description=child.description or f"The agent {name}."
    )
    asks = all(one.kind == "thread" for one in child.inputs)
    if not asks:
        return AgentTool(_spec(declared, child, labels), Child(child, lent), "agentic")
    about = Property(name=INPUT, kind="string", required=True, description="What to ask the agent.")
    spec = _spec(declared, msgspec.structs.replace(child, inputs=(about,)), labels)
    return AgentTool(spec, Child(child, lent, asks=True), "agentic")


def _bad(message: str, declared: PromptyTool, parent: Prompty, kind: type[BadPrompty] = BadPrompty) -> BadPrompty:
    return kind(message, path=parent.path, field=f"tools.{declared.name}.path")


def _spec(declared: PromptyTool, child: Prompty, labels: Iterable[str]) -> ToolSpec:
    """A child's inputs are the tool's parameters. One that has a default need not be given; a thread no model can write."""
    shown = [_parameter(one) for one in child.inputs if one.kind != "thread"]
    schema = parameters_of(shown, without=declared.bindings)
    return ToolSpec(
        name=declared.name,
        description=declared.description or child.description or child.display_name,
        parameters=Raw(msgspec.json.encode(schema)),
        timeout=None,  # it has what its parent has left
        bound=tuple(declared.bindings),
        declared=STARTED,
        is_agent=True,
        no_arguments_needed=not schema.get("required"),
        labels=tuple(sorted(labels)),
    )


def _parameter(one: Property) -> Property:
    changed: dict[str, Any] = {"required": False} if one.default is not None else {}
    return msgspec.structs.replace(one, **changed)
