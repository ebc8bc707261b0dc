"""A request in the original's words → ours. What Ronda cannot do is refused by name; a history without call ids is mended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import msgspec

from ronda.core.plan import Approval
from ronda.errors import BadRequest
from ronda.mistralrs import runner
from ronda.mistralrs.code import AgentPermission
from ronda.mistralrs.search import WebSearchOptions


@dataclass(frozen=True, kw_only=True)
class ChatCompletionRequest(runner.ChatCompletionRequest):
    """`ronda.ChatCompletionRequest`, with the fields that the original has besides."""

    grammar: str | Mapping[str, Any] | None = None
    grammar_type: Literal["regex", "lark", "json_schema", "llguidance"] | None = None
    ignore_eos: bool = False
    truncate_sequence: bool = False
    web_search_options: WebSearchOptions | Mapping[str, Any] | None = None  # type: ignore[assignment]  # and the original's own
    enable_code_execution: bool = False
    enable_shell: bool = False
    agent_permission: AgentPermission | Approval | None = None  # type: ignore[assignment]  # and the original's own
    code_execution_permission: AgentPermission | Approval | None = None  # the older name of agent_permission
    # Of these only the defaults can be honoured.
    tool_dispatch_url: str | None = None
    adapter: Any = None
    adapters: Any = None


_NOT_HERE = {
    "tool_dispatch_url": "the address is the operator's to choose: Runner(tool_dispatch_url=…) of ronda takes it",
    "adapter": "Ronda loads no adapters",
    "adapters": "Ronda loads no adapters",
}
_OURS = [field.name for field in fields(runner.ChatCompletionRequest) if field.name not in ("grammar", "extra")]


def as_ours(request: runner.ChatCompletionRequest, seed: int | None) -> runner.ChatCompletionRequest:
    if not isinstance(request, runner.ChatCompletionRequest):
        raise BadRequest(f"the request is {request!r:.200}; write ChatCompletionRequest(messages=…)")
    ours = {name: getattr(request, name) for name in _OURS}
    extra, grammar = dict(request.extra), request.grammar
    if isinstance(request, ChatCompletionRequest):
        for name, why in _NOT_HERE.items():
            if getattr(request, name) not in (None, False):
                raise BadRequest(f"{name}: {why}", param=name)
        extra |= {name: True for name in ("ignore_eos", "truncate_sequence") if getattr(request, name)}
        ours |= {name: getattr(request, name) or None for name in ("enable_code_execution", "enable_shell")}
        permission = request.agent_permission or request.code_execution_permission
        ours["agent_permission"] = None if permission is None else AgentPermission(permission).value
        grammar = _grammar(request)
        if isinstance(request.web_search_options, WebSearchOptions):
            ours["web_search_options"] = request.web_search_options.fields
    if ours["seed"] is None:
        ours["seed"] = seed
    if not isinstance(request.messages, str):
        ours["messages"] = repair_messages(request.messages)
    return runner.ChatCompletionRequest(**ours, grammar=grammar, extra=extra)


def _grammar(request: ChatCompletionRequest) -> Any:
    if request.grammar is None or not isinstance(request.grammar, str):
        return request.grammar
    if request.grammar_type is None:
        raise BadRequest(
            "a grammar needs its grammar_type: 'regex', 'lark', 'json_schema' or 'llguidance'", param="grammar"
        )
    value: Any = request.grammar
    if request.grammar_type == "json_schema":
        try:
            value = msgspec.json.decode(request.grammar)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequest(f"the grammar is no JSON Schema: {error}", param="grammar") from error
    return {"type": request.grammar_type, "value": value}


def repair_messages(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The original's examples answer a call with `{"role": "tool", "content": …}` only, behind an assistant's message that is
    the call as text. A provider wants ids: the two are made a call and its result; what cannot be paired is a user's text."""
    out: list[Mapping[str, Any]] = []
    waiting: list[str] = []  # ids of calls that have no result yet
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            before_result = index + 1 < len(messages) and _has_no_id(messages[index + 1])
            message = _with_call(message, f"call_{index}") if before_result else message
            waiting = [str(call.get("id") or "") for call in message.get("tool_calls") or ()]
        elif role == "tool" and message.get("tool_call_id") is not None:
            waiting = [call_id for call_id in waiting if call_id != message["tool_call_id"]]
        elif _has_no_id(message):
            message = {**message, "tool_call_id": waiting.pop(0)} if waiting else {**message, "role": "user"}
        out.append(message)
    return out


def _has_no_id(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "tool" and message.get("tool_call_id") is None


def _with_call(message: Mapping[str, Any], call_id: str) -> Mapping[str, Any]:
    content = message.get("content")
    if message.get("tool_calls") or not isinstance(content, str):
        return message
    try:
        call = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return message
    arguments = call.get("parameters", call.get("arguments", {}))
    if not isinstance(call.get("name"), str) or not isinstance(arguments, dict):
        return message
    function = {"name": call["name"], "arguments": msgspec.json.encode(arguments).decode()}
    return {**message, "content": None, "tool_calls": [{"id": call_id, "type": "function", "function": function}]}
