"""The names of mistral.rs's Python module, so that a program written for it runs after changing one import.

    from ronda.mistralrs import ChatCompletionRequest, Runner, ToolChoice, Which

A request goes through `ronda.Runner`, and so through the Chat door and the loop. What Ronda has no use for (how a model is
loaded) is taken with a warning; what it cannot do is refused by name. Nothing is ever downloaded: see `which`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ronda.core.plan import ToolChoice
from ronda.errors import BadConfig
from ronda.mistralrs import runner
from ronda.mistralrs.code import (
    AgentPermission,
    AgentToolApprovalDecision,
    AgentToolApprovalDecisionKind,
    CodeExecutionConfig,
    CodeExecutionPermission,
    NetworkMode,
    SandboxPolicy,
    ShellConfig,
    read_config,
)
from ronda.mistralrs.mcp import McpClientConfigPy, McpServerConfigPy, McpServerSourcePy, servers_of
from ronda.mistralrs.request import ChatCompletionRequest, as_ours
from ronda.mistralrs.runner import (
    ChatCompletionChunk,
    ChatCompletionResponse,
    ChatCompletionStream,
    File,
    InputFile,
    RequestedFile,
    ShellSkillMount,
)
from ronda.mistralrs.runner.approvals import AgentToolApproval, AgentToolKind, AgentToolSource
from ronda.mistralrs.search import ApproximateUserLocation, SearchContextSize, WebSearchOptions, WebSearchUserLocation
from ronda.mistralrs.which import Architecture, Which, WhichModel

__all__ = [
    "AgentPermission",
    "AgentToolApproval",
    "AgentToolApprovalDecision",
    "AgentToolApprovalDecisionKind",
    "AgentToolKind",
    "AgentToolSource",
    "ApproximateUserLocation",
    "Architecture",
    "ChatCompletionChunk",
    "ChatCompletionRequest",
    "ChatCompletionResponse",
    "CodeExecutionConfig",
    "CodeExecutionPermission",
    "File",
    "InputFile",
    "McpClientConfigPy",
    "McpServerConfigPy",
    "McpServerSourcePy",
    "NetworkMode",
    "RequestedFile",
    "Runner",
    "SandboxPolicy",
    "SearchContextSize",
    "ShellConfig",
    "ShellSkillMount",
    "ToolChoice",
    "WebSearchOptions",
    "WebSearchUserLocation",
    "Which",
]


class Runner(runner.Runner):
    """A model and the loop, in this process: `ronda.Runner` under the original's arguments.

    `tool_callbacks` are called as `callback(name, arguments)`. Arguments about loading a model (`in_situ_quant`, `max_seqs`, …)
    have no meaning here: a local model is a GGUF file, which is quantized already.
    """

    def __init__(
        self,
        which: WhichModel,
        *,
        tool_callbacks: Mapping[str, Callable[[str, dict[str, Any]], Any]] | None = None,
        mcp_client_config: McpClientConfigPy | None = None,
        seed: int | None = None,
        enable_search: bool = False,
        search_callback: Callable[[str], Any] | None = None,
        search_embedding_model: str | None = None,
        code_execution_config: CodeExecutionConfig | None = None,
        shell_config: ShellConfig | None = None,
        **more: Any,
    ) -> None:
        if not isinstance(which, WhichModel):
            raise BadConfig(f"which is {which!r:.200}; write Which.GGUF(…) or Which.Plain(…)")
        extras = {name: value for name, value in more.items() if value not in (None, False)}
        if extras:
            names = ", ".join(extras)
            warnings.warn(f"Ronda has no use for {names}: a local model is loaded as its file is", stacklevel=2)
        self._seed = seed
        super().__init__(
            which.spec(),
            tool_callbacks={name: _callback(function) for name, function in (tool_callbacks or {}).items()},
            aliases=("*",),  # requests name models as they like: the original has one
            mcp_servers=servers_of(mcp_client_config) if mcp_client_config is not None else None,
            enable_search=enable_search,
            search_callback=search_callback,
            search_mode="on-request",
            search_embedding_model=search_embedding_model,
            code_execution_config=read_config("code_execution_config", code_execution_config, CodeExecutionConfig),
            shell_config=read_config("shell_config", shell_config, ShellConfig),
        )

    def send_chat_completion_request(self, request: runner.ChatCompletionRequest, model_id: str | None = None) -> Any:
        """A `ChatCompletionResponse`; with `stream=True` an iterator over the chunks of its text."""
        answer = super().send_chat_completion_request(as_ours(request, self._seed))
        return _pieces(answer) if isinstance(answer, ChatCompletionStream) else answer


def _callback(function: Callable[[str, dict[str, Any]], Any]) -> Callable[[str, dict[str, Any]], Any]:
    """Called by position, whatever its parameters are named."""

    def call(name: str, arguments: dict[str, Any]) -> Any:
        return function(name, arguments)

    return call


def _pieces(stream: ChatCompletionStream) -> Iterator[ChatCompletionChunk]:
    """Without news of tools, which the original's stream does not have; and a text where there is none to show."""
    with stream:
        for chunk in stream:
            if chunk.type is None:
                choices = [
                    replace(choice, delta=replace(choice.delta, content=choice.delta.content or ""))
                    for choice in chunk.choices
                ]
                yield replace(chunk, choices=choices)
