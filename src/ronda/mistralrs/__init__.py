"""The names of mistral.rs's Python module, so that a program written for it runs after changing one import.

    from ronda.mistralrs import ChatCompletionRequest, Runner, ToolChoice, Which

A request goes through `ronda.Runner`, and so through the Chat door and the loop. What Ronda has no use for (how a model is
loaded) is taken with a warning; what it cannot do is refused by name. Nothing is ever downloaded: see `which`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from msgspec.structs import replace

from ronda import runner
from ronda.core.plan import ToolChoice
from ronda.errors import BadConfig
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
from ronda.mistralrs.search import ApproximateUserLocation, SearchContextSize, WebSearchOptions, WebSearchUserLocation
from ronda.mistralrs.which import Architecture, Which, WhichModel
from ronda.runner import (
    ChatCompletionChunk,
    ChatCompletionResponse,
    ChatCompletionStream,
    File,
    InputFile,
    RequestedFile,
    ShellSkillMount,
)
from ronda.runner.approvals import AgentToolApproval, AgentToolKind, AgentToolSource

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


class Runner:
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
        callbacks = {name: _callback(function) for name, function in (tool_callbacks or {}).items()}
        # Requests name models as they like: the original has one.
        servers = servers_of(mcp_client_config) if mcp_client_config is not None else None
        code = read_config("code_execution_config", code_execution_config, CodeExecutionConfig)
        shell = read_config("shell_config", shell_config, ShellConfig)
        self._runner = runner.Runner(
            which.spec(),
            tool_callbacks=callbacks,
            aliases=("*",),
            mcp_servers=servers,
            enable_search=enable_search,
            search_callback=search_callback,
            search_mode="on-request",
            search_embedding_model=search_embedding_model,
            code_execution_config=code,
            shell_config=shell,
        )

    def send_chat_completion_request(self, request: ChatCompletionRequest, model_id: str | None = None) -> Any:
        """A `ChatCompletionResponse`; with `stream=True` an iterator over the chunks of its text."""
        answer = self._runner.send_chat_completion_request(as_ours(request, self._seed))
        return _pieces(answer) if isinstance(answer, ChatCompletionStream) else answer

    def close(self) -> None:
        """Ends the processes that wait for a session's next request."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def find_file(self, file_id: str, model_id: str | None = None) -> File | None:
        """A file that tools made, with all of its content."""
        return self._runner.find_file(file_id)

    def list_session_ids(self, model_id: str | None = None) -> list[str]:
        return self._runner.list_session_ids()

    def export_session(self, session_id: str, model_id: str | None = None) -> str | None:
        """JSON text; None if there is no session of this name."""
        return self._runner.export_session(session_id)

    def import_session(self, session_id: str, session_json: str, model_id: str | None = None) -> None:
        self._runner.import_session(session_id, session_json)

    def delete_session(self, session_id: str, model_id: str | None = None) -> bool:
        return self._runner.delete_session(session_id)

    def fork_session(self, src: str, dest: str, num_turns: int | None = None, model_id: str | None = None) -> None:
        """As the original has it in Rust."""
        self._runner.fork_session(src, dest, num_turns)


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
