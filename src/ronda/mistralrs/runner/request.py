"""`ChatCompletionRequest`, a request in Python → the JSON that a client of the Chat door would send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from typing import Any, Final

import msgspec

from ronda.core.plan import Approval, ToolChoice
from ronda.errors import BadRequest
from ronda.mistralrs.runner.approvals import AgentToolApproval
from ronda.mistralrs.runner.files import InputFile, RequestedFile, ShellSkillMount, with_inputs, write_requested_files
from ronda.wire.openai_chat.client_request import write_choice

_RENAMED: Final = {"n_choices": "n", "stop_seqs": "stop", "tool_schemas": "tools"}


@dataclass(frozen=True, kw_only=True)
class ChatCompletionRequest:
    """What is asked. `tool_schemas` are declarations as JSON texts; any other field of Chat Completions goes into `extra`."""

    messages: str | Sequence[Mapping[str, Any]]
    model: str = "default"
    tool_schemas: Sequence[str] | None = None
    tool_choice: ToolChoice | Mapping[str, Any] | None = None
    max_tool_rounds: int | None = None
    session_id: str | None = None
    session_mode: str | None = None
    on_busy: str | None = None
    stream: bool = False
    n_choices: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop_seqs: Sequence[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: Mapping[str, float] | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    grammar: Any = None
    web_search_options: Mapping[str, Any] | None = None
    enable_code_execution: bool | None = None
    enable_shell: bool | None = None
    agent_permission: Approval | None = None
    agent_approval_callback: Callable[[AgentToolApproval], Any] | None = None
    files: Sequence[RequestedFile | Mapping[str, Any] | str] | None = None
    input_files: Sequence[InputFile] | None = None
    shell_skills: Sequence[ShellSkillMount] | None = None
    extra: Mapping[str, Any] = member(default_factory=dict)


def write_request(request: ChatCompletionRequest) -> bytes:
    fields: dict[str, Any] = {**request.extra}
    for name in ChatCompletionRequest.__dataclass_fields__:
        value = getattr(request, name)
        if name in ("extra", "agent_approval_callback") or value is None:
            continue
        if name == "input_files":
            continue  # among the messages
        if name == "messages" and request.input_files:
            value = with_inputs(value, request.input_files)
        elif name == "files":
            value = write_requested_files(value)
        elif name == "shell_skills":
            value = [mount.wish for mount in value]
        elif name == "tool_schemas":
            value = [_schema(text, index) for index, text in enumerate(value)]
        elif isinstance(value, ToolChoice):
            value = write_choice(value)
        fields[_RENAMED.get(name, name)] = value
    try:
        return msgspec.json.encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadRequest(f"the request cannot be said in JSON: {error}") from error


def _schema(text: str, at: int) -> msgspec.Raw:
    try:
        msgspec.json.decode(text, type=dict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"tool_schemas[{at}] is not a JSON object: {error}", param="tool_schemas") from error
    return msgspec.Raw(text.encode())
