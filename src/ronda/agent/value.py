"""An agent as a value, made in code, and where its model is found."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.agent.options import AnyOptions, AnyToolChoice, read_options, read_tool_choice
from ronda.core.limits import Retry, Timeouts
from ronda.core.plan import AUTO, NO_OPTIONS, Options, ToolChoice, ToolSpec
from ronda.core.taint import taint_labels
from ronda.drive import Provider, Tool
from ronda.errors import BadConfig
from ronda.providers import Where, key_names, open_provider, split_spec, url_name
from ronda.schema.output import output_format
from ronda.tools.agent import STARTED, AgentTool
from ronda.tools.function import as_tool
from ronda.wire.conversation import Messages

if TYPE_CHECKING:
    from ronda.prompty.model import Prompty

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
AnyTool: TypeAlias = "Tool | Callable[..., Any] | Agent"
Tools: TypeAlias = Sequence[AnyTool] | Mapping[str, AnyTool]


@dataclass(frozen=True, eq=False)
class Agent:
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
    output: Any = None
    retry: Retry | None = None
    timeouts: Timeouts | None = None
    api_version: str | None = None  # where a provider's API has several: Anthropic's, "2023-06-01"
    vision: bool | None = None  # can the model see images? None: as far as its name tells
    name: str = "agent"
    description: str = ""
    _provider: Provider = field(init=False, repr=False)
    _tools: dict[str, Tool] = field(init=False, repr=False)
    _options: Options = field(init=False, repr=False)
    _choice: ToolChoice = field(init=False, repr=False)

    def __post_init__(self) -> None:
        keep = object.__setattr__
        check_is_model(self.model)
        keep(self, "_tools", tool_table(self.tools))
        keep(self, "_provider", self._open(self.model) if isinstance(self.model, str) else self.model)
        options = read_options(self.options, NO_OPTIONS)
        if self.output is not None:
            options = replace(options, response_format=output_format(self.output))
        keep(self, "_options", options)
        keep(self, "_choice", read_tool_choice(self.tool_choice))

    @property
    def provider(self) -> Provider:
        """What its model is called through."""
        return self._provider

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> Tool:
        """This agent as a tool of another one: a call of it is a run of its own, within what its caller has left."""
        text = self.description or self.instructions.strip().partition("\n")[0][:MAX_DESCRIPTION]
        called = _NO_NAME.sub("_", self.name)[:MAX_NAME] if name is None else name
        labels = taint_labels(tool.spec for tool in self._tools.values())
        return AgentTool(asked_with_text(called, description or text or f"Ask the agent '{self.name}'.", labels), self)

    def _open(self, spec: str) -> Provider:
        where = where_is(spec, self.base_url, self.api_key, self.timeouts, self.api_version, self.vision)
        if (key := missing_key(spec, where)) is not None:
            raise BadConfig(f"{spec} needs a key: set {key}, or give api_key=…, or base_url=… of a server of your own")
        return open_provider(spec, where)


def asked_with_text(name: str, description: str, labels: Iterable[str]) -> ToolSpec:
    """An agent as a tool, whose caller's model asks it in its own words."""
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
) -> Where:
    """How to reach a model: what is not said comes from the environment, under the names its vendor's SDK reads.

    An empty key is none at all, wherever it goes.
    """
    provider = split_spec(spec)[0]
    environ = os.environ
    return Where(
        base_url or environ.get(url_name(provider) or ""),
        next((environ[name] for name in key_names(provider) or () if environ.get(name)), None)
        if key is None
        else key or None,
        timeouts,
        version,
        vision,
    )


def missing_key(spec: str, where: Where) -> str | None:
    """The variable that a key is looked for in, if the model cannot be called without one: a vendor's own address."""
    names = key_names(split_spec(spec)[0])
    return names[0] if names and where.key is None and where.base_url is None else None


def tool_table(tools: Sequence[AnyTool]) -> dict[str, Tool]:
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        name = getattr(tools, "__name__", None)
        raise BadConfig(f"tools are a list of functions{f'; write tools=[{name}]' if name else f', not {tools!r}'}")
    table: dict[str, Tool] = {}
    for item in tools:
        tool = as_tool(item)
        if tool.spec.name in table:
            raise BadConfig(f"two tools are named '{tool.spec.name}'; give one of them another name")
        table[tool.spec.name] = tool
    return table
