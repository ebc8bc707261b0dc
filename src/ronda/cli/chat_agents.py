"""Who answers in `ronda chat`: a model, a prompty file, or an agent of a Python module (`module:agent`, `file.py:agent`)."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ronda.agent import Agent, Inputs, RunOptions, stream_agent
from ronda.cli.files import environment, is_file, load_file, read_inputs
from ronda.cli.model import check_file_model, check_model, choose_model, sampling_of
from ronda.core.parts import Turn
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.wire.shared.conversation import read_turns


class Answerer(Protocol):
    @property
    def name(self) -> str:
        """For people."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    def ask(self, question: Inputs, options: RunOptions) -> stream_agent:
        """`options` has what was said before, as `history`."""

    def with_model(self, spec: str) -> Answerer: ...


def find_answerer(what: str | None, arguments: argparse.Namespace, tools: Sequence[Tool]) -> Answerer:
    """What the command line, or `/agent`, names."""
    if what is None:
        return ModelAnswerer(arguments, None, tools)
    if is_file(what):
        return FileAnswerer(what, arguments, None, tools)
    if ":" in what:
        return CodeAnswerer(what, _load_agent(what), tools)
    raise BadConfig(f"{what!r} is no agent; name a .prompty file, or an Agent in Python as module:name or file.py:name")


class ModelAnswerer:
    """A model, with the flags' instructions and tools."""

    def __init__(self, arguments: argparse.Namespace, spec: str | None, tools: Sequence[Tool]) -> None:
        self._arguments = arguments
        given = (arguments.model, arguments.base_url) if spec is None else (spec, None)
        self.name, base_url = choose_model(*given)
        check_model(self.name, base_url)
        self.tools = tools
        self._agent = Agent(
            model=self.name,
            base_url=base_url,
            api_version=arguments.api_version,
            vision=arguments.vision,
            instructions=arguments.system or "",
            tools=tools,
            options=sampling_of(arguments),
        )

    def ask(self, question: Inputs, options: RunOptions) -> stream_agent:
        return stream_agent(self._agent, question, **options)

    def with_model(self, spec: str) -> Answerer:
        return ModelAnswerer(self._arguments, spec, self.tools)


class FileAnswerer:
    """A prompty file. What a person writes is its one open input, or follows what the file says."""

    def __init__(self, path: str, arguments: argparse.Namespace, spec: str | None, tools: Sequence[Tool]) -> None:
        self._path = path
        self._arguments = arguments
        self.tools = tools
        flag = None if arguments.model is None else str(arguments.model)
        self._prompty = load_file(
            path, spec or flag, arguments.base_url if spec is None else None, choose_model(None, None)
        )
        if not self._prompty.has_conversation:
            raise BadConfig(f"{path} is no conversation; 'ronda run {path}' runs it")
        self._inputs = read_inputs(self._prompty, arguments.inputs)
        check_file_model(self._prompty, environment(path))
        model = self._prompty.model
        self.name = path if model is None else f"{path} ({model.id})"

    def ask(self, question: Inputs, options: RunOptions) -> stream_agent:
        from ronda.server.services.agent_files import begin  # the server asks files in the same way

        history: Sequence[Turn] = read_turns(options.pop("history", None) or (), "history")
        asked = [{"role": "user", "content": question}] if isinstance(question, str) else question
        _, turns = begin(self._prompty, (*history, *read_turns(asked, "inputs")), self._inputs)
        return stream_agent(self._prompty, list(turns), list(self.tools) or None, **options)

    def with_model(self, spec: str) -> Answerer:
        return FileAnswerer(self._path, self._arguments, spec, self.tools)


class CodeAnswerer:
    """An `Agent` made in Python."""

    def __init__(self, name: str, agent: Agent, tools: Sequence[Tool]) -> None:
        self.name = name
        self._agent = agent
        self._more = tools
        self.tools = (*agent._tools.values(), *tools)

    def ask(self, question: Inputs, options: RunOptions) -> stream_agent:
        return stream_agent(self._agent, question, list(self._more) or None, **options)

    def with_model(self, spec: str) -> Answerer:
        check_model(spec, None)
        agent = dataclasses.replace(self._agent, model=spec, base_url=None, api_key=None)
        return CodeAnswerer(f"{self.name.partition(' ')[0]} ({spec})", agent, self._more)


def _load_agent(spec: str) -> Agent:
    """`module:name` is looked for in the current folder first, as `python -m` does."""
    place, _, name = spec.rpartition(":")
    try:
        module = _load_file(place) if place.endswith(".py") else _load_module(place)
    except BadConfig:
        raise
    except Exception as error:  # anything can be in a person's own file
        raise BadConfig(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not isinstance(found, Agent):
        agents = [one for one, value in vars(module).items() if isinstance(value, Agent)]
        there = f"there is {', '.join(agents)}" if agents else "there is none in it"
        raise BadConfig(f"{place} has no Agent '{name}'; {there}")
    return found


def _load_module(name: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _load_file(path: str) -> Any:
    found = importlib.util.spec_from_file_location(Path(path).stem, path)
    if found is None or found.loader is None or not os.path.isfile(path):
        raise BadConfig(f"there is no file {path}")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
