"""What the Chat door answers, with attributes: the members of Chat Completions, and ours."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, Self

from msgspec import Struct, field

from ronda.mistralrs.runner.files import File


class Function(Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class ToolCall(Struct, frozen=True):
    function: Function = Function()
    id: str = ""
    type: str = "function"
    index: int = 0

    @property
    def tp(self) -> str:
        """`type`, as mistral.rs names it."""
        return self.type


class Message(Struct, frozen=True):
    """A message, or a piece of one."""

    role: str = "assistant"
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)


class Choice(Struct, frozen=True):
    index: int
    finish_reason: str | None = None
    message: Message = Message()
    delta: Message = Message()
    logprobs: Any = None


class Usage(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    prompt_tokens_details: dict[str, int] = field(default_factory=dict)
    completion_tokens_details: dict[str, int] = field(default_factory=dict)
    avg_tok_per_sec: float = 0.0
    avg_prompt_tok_per_sec: float = 0.0
    avg_compl_tok_per_sec: float = 0.0
    total_time_sec: float = 0.0
    total_prompt_time_sec: float = 0.0
    total_completion_time_sec: float = 0.0


class AgenticToolCall(Struct, frozen=True):
    """A tool that the loop ran."""

    round: int
    name: str
    arguments: str
    result_content: str
    tool_call_id: str = ""
    result_images_base64: list[str] = field(default_factory=list)
    file_ids: list[str] = field(default_factory=list)
    failed: bool = False
    choice: int = 0


class Problem(Struct, frozen=True):
    message: str
    type: str = ""
    param: str | None = None
    code: str | None = None


class ChatCompletionResponse(Struct, frozen=True):
    id: str
    choices: list[Choice]
    created: int
    model: str
    object: str
    usage: Usage | None = None
    system_fingerprint: str = ""
    session_id: str | None = None
    agentic_tool_calls: list[AgenticToolCall] = field(default_factory=list)
    files: list[File] = field(default_factory=list)
    limit: str | None = None
    warnings: list[str] = field(default_factory=list)

    def __await__(self) -> Generator[None, None, Self]:
        """Programs of mistral.rs await what is there already."""
        return self
        yield  # so that this is a generator


class ChatCompletionChunk(ChatCompletionResponse, frozen=True):
    """A piece of an answer; or, with a `type`, news of a tool that the loop runs."""

    type: str | None = None
    round: int | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    phase: Literal["calling", "complete"] | None = None
    data: dict[str, Any] | None = None


class Failed(Struct, frozen=True):
    error: Problem
