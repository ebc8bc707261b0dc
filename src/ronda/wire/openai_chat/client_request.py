"""Turns → request bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from ronda.core.parts import NULL
from ronda.core.plan import Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.codec.json import encode
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.names import NO_NAMES, wire_names
from ronda.wire.openai_chat.quirks import ANYONE, Quirks
from ronda.wire.openai_chat.turns import Messages
from ronda.wire.openai_chat.turns import write_turn as write_turn
from ronda.wire.upstream.projection import passed_on
from ronda.wire.upstream.request_body import RequestBody


class Body(RequestBody[Messages, bytes]):
    __slots__ = ("_api", "_quirks", "_tools", "names")

    def __init__(self, quirks: Quirks = ANYONE, api: str = API) -> None:
        super().__init__()
        self._quirks = quirks
        self._api = api
        self._tools: tuple[ToolSpec, ...] = ()
        self.names: Mapping[str, str] = NO_NAMES  # a tool's own name → what it is called here, where they differ

    def write(self, model: str, request: ModelRequest) -> bytes:
        if request.tools is not self._tools:
            self._tools = request.tools
            self.names = self._names_of(request.tools)
        messages = self._follow(request.turns, self.names, self._begin)
        tail_of = (model, request.tools, request.choice, request.options, request.stream)
        tail = self._behind(request.options, API, tail_of, lambda: self._write_tail(model, request))
        if not messages.buffer:  # of all that was to be said nothing is left
            self.changes.tell("message_added", "the user begins the conversation", "there must be a message")
        return b"".join((b'{"messages":[', messages.buffer or _BEGIN, tail))

    def _begin(self) -> Messages:
        return Messages(self.names, self._quirks, self._api, self.changes)

    def _write_tail(self, model: str, request: ModelRequest) -> bytes:
        tools, choice = self._offered(request)
        extra = passed_on(request.options.extra, _OWN, self.changes)
        return write_tail(model, tools, choice, request.options, request.stream, self.names, extra)

    def _offered(self, request: ModelRequest) -> tuple[tuple[ToolSpec, ...], ToolChoice]:
        """Only OpenAI knows `allowed_tools`: others refuse it, or pass over it. They are offered what is allowed."""
        choice = request.choice
        if not choice.names or choice.named or self._quirks.takes_allowed_tools:
            return request.tools, choice
        return tuple([tool for tool in request.tools if choice.allows(tool.name)]), ToolChoice(choice.mode)

    def _names_of(self, tools: tuple[ToolSpec, ...]) -> Mapping[str, str]:
        """A caller's own names go out as they are, for its server to judge; where that would refuse them, others."""
        if self._quirks.plain_names:
            return wire_names(tools)
        if not any(map(_is_named_here, tools)):
            return NO_NAMES
        named = wire_names(tools)
        return {tool.name: named[tool.name] for tool in tools if tool.name in named and _is_named_here(tool)}


# What stands in the request already, or would bring in tools that the loop does not know.
_OWN: Final = frozenset(
    ["messages", "model", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "stream",
     "stream_options", "temperature", "top_p", "stop", "seed", "reasoning_effort", "response_format"]
)  # fmt: skip
_BEGIN = b'{"role":"user","content":"(The conversation begins here.)"}'


def body_of(request: ModelRequest, quirks: Quirks = ANYONE, api: str = API) -> Body:
    """What an earlier round of the same run wrote is not written again."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body(quirks, api)
    return body


def write_request(model: str, request: ModelRequest) -> bytes:
    return body_of(request).write(model, request)


def write_tail(
    model: str,
    tools: tuple[ToolSpec, ...],
    choice: ToolChoice,
    options: Options,
    stream: bool,
    names: Mapping[str, str] = NO_NAMES,
    extra: Mapping[str, Raw] | None = None,  # if not all of the options'
) -> bytes:
    rest: dict[str, Any] = {"model": model}
    if tools:
        rest["tools"] = [write_tool(tool, names) for tool in tools]
        if choice.mode != "auto" or choice.names:
            rest["tool_choice"] = write_choice(choice, names)
        if options.parallel_tool_calls is not None:
            rest["parallel_tool_calls"] = options.parallel_tool_calls
    if stream:
        rest["stream"] = True
        rest["stream_options"] = {"include_usage": True}
    if options.max_tokens is not None and "max_completion_tokens" not in options.extra:
        rest["max_tokens"] = options.max_tokens
    if options.temperature is not None:
        rest["temperature"] = options.temperature
    if options.top_p is not None:
        rest["top_p"] = options.top_p
    if options.stop:
        rest["stop"] = options.stop
    if options.seed is not None:
        rest["seed"] = options.seed
    if options.reasoning_effort is not None:
        rest["reasoning_effort"] = options.reasoning_effort
    if options.response_format is not None:
        rest["response_format"] = _write_format(options.response_format)
    rest.update(options.extra if extra is None else extra)
    return b"]," + encode(rest)[1:]


def _is_named_here(tool: ToolSpec) -> bool:
    """Whether it is not the caller who chose this name for this API: that of a function in a namespace is made of both."""
    return tool.kind != "caller" or tool.native_api not in ("", API)


def write_tool(tool: ToolSpec, names: Mapping[str, str] = NO_NAMES) -> Raw | dict[str, Any]:
    if tool.native != NULL and tool.native_api in ("", API) and tool.name not in names:
        return tool.native
    function: dict[str, Any] = {"name": names.get(tool.name, tool.name)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    if tool.strict and tool.kind in ("builtin", "function", "mcp"):
        from ronda.schema.lower import lower_json
        from ronda.schema.lower_rules import OPENAI

        # A schema that does not qualify would fail the whole request; it is sent as it is, and checked by the loop.
        taken = lower_json(bytes(tool.parameters), OPENAI)
        if taken.strict:
            function["parameters"] = taken.schema
            function["strict"] = True
    elif tool.strict is not None:
        function["strict"] = tool.strict  # the caller's own word, which its upstream may judge
    return {"type": "function", "function": function}


def write_choice(choice: ToolChoice, names: Mapping[str, str] = NO_NAMES) -> str | dict[str, Any]:
    if choice.named:
        return {"type": "function", "function": {"name": names.get(choice.names[0], choice.names[0])}}
    if choice.names:
        tools = [{"type": "function", "function": {"name": names.get(name, name)}} for name in choice.names]
        return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}
    return choice.mode


def _write_format(answer_format: ResponseFormat) -> dict[str, Any]:
    if answer_format.type == "json_object":
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": answer_format.name}
    if answer_format.description is not None:
        schema["description"] = answer_format.description
    if answer_format.schema != NULL:
        schema["schema"] = answer_format.schema
    if answer_format.strict is not None:
        schema["strict"] = answer_format.strict
    return {"type": "json_schema", "json_schema": schema}
