"""`Runner`: a model, tools and the loop in this process, asked as the Chat door is.

    runner = Runner(model="openai-chat:NAME", tool_callbacks={"search": search})
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "…"}], tool_schemas=[schema])
    print(runner.send_chat_completion_request(request).choices[0].message.content)

Nothing here knows the loop or the dialect: a request becomes the JSON a client would send, goes through the very door, and
what comes out is read back.
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from ronda._extras import check_extra
from ronda.agent.blocking import wait_for
from ronda.agent.value import missing_key, where_is
from ronda.core.limits import RESULT_CHARS, RETRY, Retry, Timeouts
from ronda.drive import Provider, Tool
from ronda.errors import BadConfig, NotFound
from ronda.host.sessions import SessionHost
from ronda.journal.memory import MemoryJournal
from ronda.mistralrs.runner.approvals import deciding, find_approve
from ronda.mistralrs.runner.code_settings import CodeExecutionConfig, ShellConfig, code_settings
from ronda.mistralrs.runner.door import collect
from ronda.mistralrs.runner.files import File, FileOrigin
from ronda.mistralrs.runner.loop_thread import LoopThread
from ronda.mistralrs.runner.request import ChatCompletionRequest, write_request
from ronda.mistralrs.runner.response import ChatCompletionResponse
from ronda.mistralrs.runner.stream import ChatCompletionStream
from ronda.server.features.table import make_config
from ronda.tools.function import as_tool
from ronda.wire.own.sessions import read_document

if TYPE_CHECKING:
    from typing import Self

    from ronda.server.app import Server
    from ronda.tools.mcp.config import McpServer

T = TypeVar("T")
_SESSIONS_AT_ONCE: Final = 1000

_read_response = msgspec.json.Decoder(ChatCompletionResponse).decode


class Runner:
    """A model, tools, and the loop, in this process. May be shared by threads.

    `model` is a spec such as `"openai-chat:NAME"`, or anything with a `call` (a `ScriptedModel`). A tool that a request
    declares is run here if `tool_callbacks` has its name, called as `callback(name, arguments)` or with the arguments as
    keywords; without one its calls are handed back. `tools` are offered to the model in every request, and those of
    `mcp_servers` (name → command and args, or url), which are connected to anew for each request: a request has an event loop
    of its own. `aliases` are other names that requests may give the model; "*" is any.

    With `enable_search` a model may search the web: with `search_callback(query)`, which gives a list of results, or else with
    what `search` says, the table `[search]` of a server's settings.

    With `code_execution_config` or `shell_config` requests may ask for Python or a shell, in a sandbox for each session. Its
    processes wait for the session's next request, until `close`, or until the runner is left as a context.

    Where a call needs a person's consent (`agent_permission="ask"`), `agent_approval_callback(approval)` of the request decides,
    or `approval_callback` of the configuration: it returns True, False, `approval.approve(…)` or `approval.deny(…)`.

    Of a tool's result a model is shown `max_result_chars`, and reads the rest of a longer one from a file; None shows it all.
    """

    def __init__(
        self,
        model: str | Provider,
        *,
        tool_callbacks: Mapping[str, Callable[..., Any]] | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        base_url: str | None = None,
        max_tool_rounds: int | None = None,
        tool_dispatch_url: str | None = None,
        tool_dispatch_secret: str | None = None,
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        aliases: Sequence[str] = (),
        enable_search: bool = False,
        search_callback: Callable[[str], Any] | None = None,
        search: Mapping[str, Any] | None = None,
        search_mode: Literal["always", "on-request"] = "always",
        search_embedding_model: str | None = None,
        fetch_allow: Sequence[str] = (),
        mcp_servers: Mapping[str, Any] | Sequence[McpServer] | None = None,
        code_execution_config: CodeExecutionConfig | None = None,
        shell_config: ShellConfig | None = None,
        max_result_chars: int | None = RESULT_CHARS,
    ) -> None:
        check_extra("server", "Runner")
        from ronda.server.app import Server
        from ronda.server.check_config import check_config

        if isinstance(model, str) and (key := missing_key(model, where_is(model, base_url))) is not None:
            raise BadConfig(f"{model} needs a key: set {key}, or give base_url=… of a server of your own")
        config = make_config(
            {
                "model": model if isinstance(model, str) else f"script:{type(model).__name__}",
                "base_url": base_url,
                "max_tool_rounds": max_tool_rounds,
                "tool_dispatch_url": tool_dispatch_url,
                "tool_dispatch_secret": tool_dispatch_secret,
                "retry": retry or RETRY,
                "timeouts": timeouts or Timeouts(),
                "aliases": tuple(aliases),
                "enable_search": enable_search,
                "search": dict(search or {}),
                "search_mode": search_mode,
                "search_embedding_model": search_embedding_model,
                "fetch_allow": tuple(fetch_allow),
                "max_result_chars": max_result_chars or 0,
                **code_settings(code_execution_config, shell_config),
            }
        )
        check_config(config)
        self._loop: LoopThread | None = None  # its processes belong to the loop that has started them
        self._lock = threading.Lock()
        self._approval_callback = None if code_execution_config is None else code_execution_config.approval_callback
        self._server = Server(
            config,
            MemoryJournal(),
            provider=None if isinstance(model, str) else model,
            tools=[as_tool(tool) for tool in tools],
            tool_callbacks=tool_callbacks,
            given={
                **({} if search_callback is None else {"web": search_callback}),
                **({"mcp": servers} if (servers := _servers(mcp_servers)) else {}),
            },
        )
        self._server.runs.find_approve = find_approve
        # Single files cannot be deleted here: the oldest go as soon as there are too many.
        self._server.files.limits = replace(self._server.files.limits, made_seconds=0.0)

    def close(self) -> None:
        """Ends what waits for a session's next request, and removes the sessions' folders. A later request begins anew."""
        with self._lock:
            loop, self._loop = self._loop, None
        if self._server.code is None:
            return
        if loop is None:  # nothing was started
            wait_for(self._server.code.close())
        else:
            loop.run(self._server.code.close())
            loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return wait_for(call) if self._server.code is None else self._code_loop().run(call)

    def _code_loop(self) -> LoopThread:
        with self._lock:
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    def send_chat_completion_request(self, request: ChatCompletionRequest) -> Any:
        """A `ChatCompletionResponse`; with `stream=True` a `ChatCompletionStream` of its pieces."""
        body = write_request(request)
        with deciding(request.agent_approval_callback, self._approval_callback):
            return self._send(request, body)

    def _send(self, request: ChatCompletionRequest, body: bytes) -> Any:
        if request.stream:
            run = asyncio.run if self._server.code is None else self._code_loop().run
            return ChatCompletionStream(self._server, body, run)
        return _read_response(self._wait(collect(self._server, body)))

    def find_file(self, file_id: str, model_id: str | None = None) -> File | None:
        """A file that tools made, with all of its content; None if there is none of this id."""
        return self._wait(_find_file(self._server, file_id))

    # ---- sessions: `model_id` is taken, since the original's methods have it, and there is one model ----------------

    def list_session_ids(self, model_id: str | None = None) -> list[str]:
        """The sessions that requests named with `session_id`, those that were used last first."""
        return self._wait(_session_ids(self._server.runs.sessions))

    def export_session(self, session_id: str, model_id: str | None = None) -> str | None:
        """A session as JSON text, to be kept and imported anywhere; None if there is none of this name."""
        try:
            return self._wait(self._server.sessions.export(("", session_id))).decode()
        except NotFound:
            return None

    def import_session(self, session_id: str, session_json: str, model_id: str | None = None) -> None:
        """Make an exported session the one of this name, in the place of one that there may be."""
        document = read_document(session_json.encode())
        self._wait(self._server.sessions.put(("", session_id), document))

    def delete_session(self, session_id: str, model_id: str | None = None) -> bool:
        """Forget a session; False if there is none of this name."""
        return self._wait(self._server.sessions.delete(("", session_id)))

    def fork_session(
        self,
        src: str,
        dest: str,
        num_turns: int | None = None,
        model_id: str | None = None,
        *,
        run: str | None = None,
        round: int | None = None,  # noqa: A002  # as in the request's field
    ) -> str:
        """Copy a session under another name: all of it, up to its `num_turns`-th answer, or up to a round of a run."""
        copy = self._server.sessions.fork(("", src), dest, num_turns=num_turns, run=run, round_index=round)
        return self._wait(copy)


async def _find_file(server: Server, file_id: str) -> File | None:
    try:
        stored = await server.files.find("", file_id)
        data = await server.files.read(stored)
    except NotFound:
        return None
    text = data.decode("utf-8", "replace") if stored.is_text else None
    body = None if text is not None else base64.b64encode(data).decode()
    origin = FileOrigin(stored.source.tool, stored.source.round, stored.source.turn)
    created, purpose = int(stored.created), stored.purpose
    return File(
        stored.id, stored.name, stored.size, stored.format, stored.mime_type, created, purpose, origin, text, body
    )


async def _session_ids(sessions: SessionHost) -> list[str]:
    names: list[str] = []
    page = await sessions.store.page("", _SESSIONS_AT_ONCE)
    while True:
        names += [row.name for row in page.sessions]
        if page.before is None:
            return names
        page = await sessions.store.page("", _SESSIONS_AT_ONCE, page.before)


def _servers(servers: Mapping[str, Any] | Sequence[McpServer] | None) -> Sequence[McpServer]:
    if not isinstance(servers, Mapping):
        return servers or ()
    from ronda.tools.mcp.read import read_config

    return read_config(msgspec.json.encode({"mcpServers": servers}), {}, "mcp_servers")
