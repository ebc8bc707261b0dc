"""A prompt, a model and a case → the agent, the inputs and the tools that `run_agent` is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ronda.agent import Agent
from ronda.agent.value import with_spec
from ronda.core.plan import ANY_OBJECT, ToolSpec
from ronda.drive import Provider, Tool, ToolContext, ToolOutput
from ronda.errors import BadConfig, ToolFailed
from ronda.evals.suite import SCRIPT, SCRIPT_EXECUTOR, Case, Mock, MockAnswer, ModelChoice, Prompt, digest
from ronda.prompty.components import register
from ronda.prompty.dotenv import with_dotenv
from ronda.prompty.load import load
from ronda.prompty.model import KeyConnection, Model, Prompty
from ronda.prompty.template import render
from ronda.providers.script_file import Script, ScriptFile
from ronda.tools.output import to_output

# A mock of a file → a tool that gives what the file says, and calls nothing.


class MockTool:
    """`real` is the tool in whose place it stands, if there is one: the model sees that one's declaration."""

    def __init__(self, mock: Mock, real: ToolSpec | None = None) -> None:
        self._mock = mock
        self._calls = 0
        parameters = ANY_OBJECT if mock.parameters is None else Raw(msgspec.json.encode(mock.parameters))
        declared = real or ToolSpec(mock.name, mock.description, parameters)
        # It has no effect, so that it may run again after a crash, and no person has to be asked.
        self.spec = msgspec.structs.replace(declared, name=mock.name, repeatable=True, kind="function")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        answer = self._answer(arguments)
        self._calls += 1
        if answer is None:
            raise ToolFailed(f"the mock of '{self._mock.name}' has no answer for these arguments")
        if answer.fails is not None:
            raise ToolFailed(answer.fails)
        return to_output(answer.returns, self._mock.name)

    def _answer(self, arguments: dict[str, Any]) -> MockAnswer | None:
        answers = self._mock.answers
        if self._mock.sequence:
            return answers[min(self._calls, len(answers) - 1)]
        for answer in answers:
            wanted = answer.arguments
            if wanted is None or all(arguments.get(name) == value for name, value in wanted.items()):
                return answer
        return None


class Subject(Struct, frozen=True):
    agent: Agent | Prompty
    inputs: Any
    tools: dict[str, Tool]


def open_subject(prompt: Prompt, model: ModelChoice | None, case: Case, real: Sequence[Tool]) -> Subject:
    """Raises what is wrong with any of them, before a model is called."""
    specs = {tool.spec.name: tool.spec for tool in real}
    tools: dict[str, Tool] = {tool.spec.name: tool for tool in real}
    tools |= {mock.name: MockTool(mock, specs.get(mock.name)) for mock in case.mocks}
    if prompt.file is not None:
        file = with_model(load_file(prompt.file), model, case)
        return Subject(file, list(case.messages) if case.messages else case.inputs, tools)
    if model is None:
        raise BadConfig("the prompt is a text, and no model is named: give 'models' in the file, or --model")
    return Subject(made_agent(model, case), list(case.messages) or _asked(prompt.text or "", case.inputs), tools)


def load_file(path: str) -> Prompty:
    """References of the file are looked up in a .env file next to it, too."""
    dotenv = Path(path).parent / ".env"
    return load(path, env=with_dotenv(os.environ, dotenv) if dotenv.is_file() else None)


def _asked(template: str, inputs: Mapping[str, Any]) -> Any:
    """One user message; or, as promptfoo has it, a conversation where the text is a JSON list of messages."""
    text = str(render(template, inputs))
    if text.lstrip().startswith("["):
        try:
            read = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
        if isinstance(read, list) and read and all(isinstance(one, dict) and "role" in one for one in read):
            return read
    return text


def made_agent(model: ModelChoice, case: Case | None) -> Agent:
    provider = scripted(model, case)
    if provider is not None:
        return with_spec(Agent(provider), model.spec)
    return Agent(model.spec, base_url=model.base_url)


def with_model(prompty: Prompty, model: ModelChoice | None, case: Case | None) -> Prompty:
    """The file, with another model in the place of its own."""
    if model is None:
        return prompty
    options = prompty.model.options if prompty.model is not None else None
    provider = scripted(model, case)
    if provider is not None:
        # Under a name of its own: an executor is found by name, and cases with other scripts may run at the same time.
        key = f"{SCRIPT_EXECUTOR}{digest(model.spec, case.script if case is not None and model.spec == SCRIPT else ())}"
        register("executor", key, lambda: provider)
        return msgspec.structs.replace(prompty, model=Model(id=model.spec, provider=key, options=options))
    where = None if model.base_url is None else KeyConnection(endpoint=model.base_url)
    return msgspec.structs.replace(prompty, model=Model(id=model.spec, connection=where, options=options))


def scripted(model: ModelChoice, case: Case | None) -> Provider | None:
    if model.spec == SCRIPT:
        if case is None or not case.script:
            name = "the judge" if case is None else f"the case '{case.name}'"
            raise BadConfig(f"the model is 'script', and {name} has no 'script' to play")
        return Script.of(list(case.script), f"the script of the case '{case.name}'")
    if model.spec.startswith("script:"):
        return _script_file(model.spec.removeprefix("script:"))
    return None


@cache
def _script_file(path: str) -> ScriptFile:
    return ScriptFile(path)
