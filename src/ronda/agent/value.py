"""An agent as a value, made in code, and where its model is found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypedDict, Unpack

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.agent.checks import AGENT_FIELDS, misfit, unknown_name
from ronda.agent.result import Result, T
from ronda.agent.toolsets import AnyTool, Toolset, split_tools
from ronda.core.limits import Retry, Timeouts
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.core.taint import taint_labels
from ronda.drive import Provider, Tool
from ronda.errors import BadConfig, BadRequest
from ronda.wire.shared.conversation import Messages

if TYPE_CHECKING:
    from ronda.agent.invoke import stream_agent
    from ronda.agent.start import RunOptions
    from ronda.agent.toolsets import Tools
    from ronda.prompty.model import Prompty
    from ronda.providers import Where
    from ronda.providers.http.transport import Routes, Transport


# How a model is to sample, and whether it calls tools: what people write → `Options` and `ToolChoice`, refused by name.


class ModelOptions(TypedDict, total=False):
    """How the model is to sample. Fields that only one provider knows go into `extra`."""

    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Sequence[str]
    seed: int | None
    parallel_tool_calls: bool | None
    reasoning_effort: str | None
    extra: Mapping[str, Any]


AnyOptions: TypeAlias = Options | ModelOptions
AnyToolChoice: TypeAlias = ToolChoice | str | Mapping[str, Any]


def read_options(options: AnyOptions, under: Options) -> Options:
    """What is given, laid over what there was."""
    if isinstance(options, Options):
        return options
    if not isinstance(options, Mapping):
        raise BadConfig(f"options is {options!r:.200}; write options={{'temperature': 0}}")
    known = ModelOptions.__annotations__
    for name in options:
        if name not in known:
            from ronda._suggest import did_you_mean  # for mistakes only

            hint = did_you_mean(str(name), known, f"there is {', '.join(known)}.")
            raise BadConfig(f"options has {name!r}; {hint} What only one provider knows goes into 'extra'")
    fields: dict[str, Any] = {**options}
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    extra = fields.pop("extra", {})
    try:
        checked = msgspec.convert(fields, Options)
        more = {name: Raw(msgspec.json.encode(value)) for name, value in dict(extra).items()}
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise BadConfig(f"options do not fit: {error}") from error
    changed = {name: getattr(checked, name) for name in fields}
    return msgspec.structs.replace(under, **changed, extra={**under.extra, **more})


def read_tool_choice(choice: AnyToolChoice) -> ToolChoice:
    """A `ToolChoice`; or "auto", "none", "required"; or one of OpenAI's forms for a function by its name."""
    if isinstance(choice, ToolChoice):
        return choice
    from ronda.wire.openai_chat.declarations import read_choice  # most agents leave the choice to the model

    try:
        return read_choice(Raw(msgspec.json.encode(choice)))
    except (BadRequest, TypeError) as error:
        raise BadConfig(str(error)) from error


MAX_NAME = 64  # characters of a tool's name that every provider takes, and none but these:
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
MAX_DESCRIPTION = 300
_QUESTION = Raw(
    msgspec.json.encode(
        {
            "type": "object",
            "properties": {"input": {"type": "string", "description": "What to ask, with all the agent has to know."}},
            "required": ["input"],
            "additionalProperties": False,
        }
    )
)

AnyAgent: TypeAlias = "Agent | Prompty | str | os.PathLike[str]"
Inputs: TypeAlias = str | Mapping[str, Any] | Messages


@dataclass(frozen=True, eq=False)
class Agent(Generic[T]):
    """Instructions, a model, tools and limits: a value, made in code. Sharing one between threads and loops is fine.

    `model` is a spec such as `"openai-chat:NAME"`, or anything with a `call` (a `ScriptedModel`). `output` asks for
    JSON: a JSON Schema (the result is the decoded value) or a type msgspec or pydantic can read (the result is an instance
    of it). Another agent may be one of the `tools`; `description` is what its caller's model reads of it then.
    """

    model: str | Provider
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    instructions: str = ""
    tools: Sequence[AnyTool] = ()
    options: AnyOptions = NO_OPTIONS
    tool_choice: AnyToolChoice = AUTO
    output: type[T] | UnionType | Mapping[str, Any] | None = None  # a type, a union of types, or a JSON Schema
    retry: Retry | None = None
    timeouts: Timeouts | None = None
    api_version: str | None = None  # where a provider's API has several: Anthropic's, "2023-06-01"
    vision: bool | None = None  # can the model see images? None: as far as its name tells
    # How its server is reached: a proxy, certificates; None: as the environment says.
    transport: Transport | None = None
    name: str = "agent"
    description: str = ""
    _provider: Provider = field(init=False, repr=False)
    _tools: dict[str, Tool] = field(init=False, repr=False)
    _toolsets: tuple[Toolset, ...] = field(init=False, repr=False)  # opened when a run begins
    _options: Options = field(init=False, repr=False)
    _choice: ToolChoice = field(init=False, repr=False)

    if not TYPE_CHECKING:  # which says it anyway

        def __new__(cls, *args: object, **given: object) -> Agent:
            if (unknown := unknown_name(given, _fields())) is not None:
                raise TypeError(f"Agent has no field {unknown[0]!r}; {_place_of(*unknown)}")
            return object.__new__(cls)

        def __getattr__(self, name: str) -> object:
            from ronda.agent.other_names import no_attribute  # for mistakes only

            raise no_attribute("an Agent", name, [*_fields(), "run", "run_async", "stream", "as_tool"])

    def __post_init__(self) -> None:
        keep = object.__setattr__
        check_is_model(self.model)
        if (wrong := misfit({name: getattr(self, name) for name in AGENT_FIELDS}, AGENT_FIELDS)) is not None:
            raise BadConfig(wrong[1])
        table, toolsets = ({}, ()) if self.tools == () else split_tools(self.tools)
        keep(self, "_tools", table)
        keep(self, "_toolsets", toolsets)
        keep(self, "_provider", self._open(self.model) if isinstance(self.model, str) else self.model)
        options = read_options(self.options, NO_OPTIONS)
        if self.output not in (None, str):  # most agents answer with text
            from ronda.schema.output import output_format

            options = replace(options, response_format=output_format(self.output))
        keep(self, "_options", options)
        keep(self, "_choice", read_tool_choice(self.tool_choice))

    @property
    def provider(self) -> Provider:
        """What its model is called through."""
        return self._provider

    def run(self, inputs: Inputs | None = None, tools: Tools | None = None, **options: Unpack[RunOptions]) -> Result[T]:
        """`run_agent(agent, inputs, tools, …)`: the answer as `output`, and what it took to get there."""
        from ronda.agent.invoke import run_agent  # which imports this

        return run_agent(self, inputs, tools, **options)

    async def run_async(
        self, inputs: Inputs | None = None, tools: Tools | None = None, **options: Unpack[RunOptions]
    ) -> Result[T]:
        """`run_agent_async(agent, inputs, tools, …)`."""
        from ronda.agent.invoke import run_agent_async

        return await run_agent_async(self, inputs, tools, **options)

    def stream(
        self, inputs: Inputs | None = None, tools: Tools | None = None, **options: Unpack[RunOptions]
    ) -> stream_agent[T]:
        """`stream_agent(agent, inputs, tools, …)`: `async with agent.stream("…") as events:`."""
        from ronda.agent.invoke import stream_agent

        return stream_agent(self, inputs, tools, **options)

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> Tool:
        """This agent as a tool of another one: a call of it is a run of its own, within what its caller has left."""
        from ronda.tools.agent import AgentTool  # for agents that are tools only

        text = self.description or self.instructions.strip().partition("\n")[0][:MAX_DESCRIPTION]
        called = _NO_NAME.sub("_", self.name)[:MAX_NAME] if name is None else name
        labels = taint_labels(tool.spec for tool in self._tools.values())
        labels |= {label for toolset in self._toolsets for label in toolset.labels}
        return AgentTool(asked_with_text(called, description or text or f"Ask the agent '{self.name}'.", labels), self)

    def _open(self, spec: str) -> Provider:
        where = where_is(
            spec, self.base_url, self.api_key, self.timeouts, self.api_version, self.vision, self.transport
        )
        if (key := missing_key(spec, where)) is not None:
            raise BadConfig(f"{spec} needs a key: set {key}, or give api_key=…, or base_url=… of a server of your own")
        from ronda.providers import open_provider  # a model that is an object needs none of the table

        return open_provider(spec, where)


def _fields() -> list[str]:
    return [field.name for field in fields(Agent) if field.init]


def _place_of(name: str, hint: str) -> str:
    """Where to write what is no field of an agent: how a model samples, and what a run may do, have places of their own."""
    from ronda.agent.other_names import meant  # for mistakes only
    from ronda.agent.start import RunOptions

    if meant(name, _fields()) is not None:
        return hint
    if name in ModelOptions.__annotations__:
        return f"write options={{{name!r}: …}}"
    if (option := meant(name, RunOptions.__annotations__)) is not None:
        return f"give it to the run: run_agent(agent, …, {option}=…)"
    if (option := meant(name, ModelOptions.__annotations__)) is not None:
        return f"write options={{{option!r}: …}}"
    return hint


def asked_with_text(name: str, description: str, labels: Iterable[str]) -> ToolSpec:
    """An agent as a tool, whose caller's model asks it in its own words."""
    from ronda.tools.agent import STARTED

    return ToolSpec(
        name=name,
        description=description,
        parameters=_QUESTION,
        timeout=None,  # it has what its caller has left
        declared=STARTED,
        is_agent=True,
        labels=tuple(sorted(labels)),
    )


def with_spec(agent: Agent, spec: str) -> Agent:
    """An agent of a provider that is open already, under the name that its model has: runs are told it."""
    object.__setattr__(agent, "model", spec)
    return agent


def check_is_model(model: object) -> None:
    if not isinstance(model, str) and not hasattr(model, "call"):
        raise BadConfig(
            f"{model!r} is no model; give a spec such as 'openai-chat:NAME', or an object with "
            "`async def call(request, show)`"
        )


def where_is(
    spec: str,
    base_url: str | None = None,
    key: str | None = None,
    timeouts: Timeouts | None = None,
    version: str | None = None,
    vision: bool | None = None,
    transport: Transport | None = None,
) -> Where:
    """How to reach a model: what is not said comes from the environment, under the names its vendor's SDK reads.

    An empty key is none at all, wherever it goes.
    """
    from ronda.providers import Where, key_names, split_spec, url_name
    from ronda.providers.services import SERVICES

    provider = split_spec(spec)[0]
    environ = os.environ
    if not base_url and (service := SERVICES.get(provider)) is not None:
        base_url = service.address_in(environ)
    return Where(
        base_url or environ.get(url_name(provider) or ""),
        next((environ[name] for name in key_names(provider) or () if environ.get(name)), None)
        if key is None
        else key or None,
        timeouts,
        version,
        vision,
        routes=routes_of(transport),
    )


_default: Transport | None = None


def use_transport(transport: Transport | None) -> None:
    """How the servers of models are reached where nothing else is said, from now on and for the whole process; None: as the
    environment says. For agents of files, which cannot say it themselves; `Agent(transport=…)` goes before it."""
    global _default
    if (wrong := misfit({"transport": transport}, AGENT_FIELDS)) is not None:
        raise BadConfig(wrong[1])
    _default = transport


def routes_of(transport: Transport | None) -> Routes | None:
    """Which way calls of models take in this environment; None: directly."""
    transport = transport or _default
    if transport is None:
        from ronda.providers import PROXY_NAMES

        environ = os.environ
        if not any(environ.get(name) or environ.get(name.lower()) for name in PROXY_NAMES):
            return None  # nearly always, and then nothing has to be imported
        from ronda.providers.http.transport import Transport

        transport = Transport()
    return transport.routes(os.environ)


def missing_key(spec: str, where: Where) -> str | None:
    """The variable that a key is looked for in, if the model cannot be called without one: a vendor's own address."""
    from ronda.providers import key_names, split_spec
    from ronda.providers.services import SERVICES

    provider = split_spec(spec)[0]
    names = key_names(provider)
    if not names or where.key is not None:
        return None
    if (service := SERVICES.get(provider)) is not None:
        return names[0] if service.wants_key(where.base_url, os.environ) else None
    return names[0] if where.base_url is None else None
