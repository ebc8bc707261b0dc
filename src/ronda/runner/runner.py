"""The Chat door without HTTP: a request in Python → the whole loop → an answer with attributes, plain or as a stream.

    runner = Runner(model="openai-chat:NAME", tool_callbacks={"search": search})
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "…"}], tool_schemas=[schema])
    print(runner.send_chat_completion_request(request).choices[0].message.content)

Nothing here knows the loop or the dialect: a request becomes the JSON a client would send, goes through the very door, and
what comes out is read back.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as member
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

from ronda.agent.blocking import wait_for
from ronda.agent.loop_thread import LoopThread
from ronda.agent.value import missing_key, where_is
from ronda.core.limits import RETRY, Retry, Timeouts
from ronda.core.plan import Approval, ToolChoice
from ronda.drive import Provider, Tool
from ronda.errors import BadConfig, BadRequest, NotFound, RunEnded
from ronda.host import session_documents
from ronda.host.sessions import SessionHost
from ronda.journal.memory import MemoryJournal
from ronda.runner_files import File, FileOrigin, InputFile, RequestedFile, ShellSkillMount, requested, with_inputs
from ronda.server.app import Server
from ronda.server.check_config import check_config
from ronda.server.config import ServerConfig
from ronda.server.detached.approval_callback import AgentToolApproval, deciding, find_approve
from ronda.server.doors.chat import chat_completions
from ronda.server.http.incoming import Incoming
from ronda.server.resources.code_settings import CodeExecutionConfig, ShellConfig, code_settings
from ronda.tools.function import as_tool
from ronda.wire.openai_chat.client_request import write_choice
from ronda.wire.sse import SseReader

if TYPE_CHECKING:
    from typing import Self

    from ronda.tools.mcp.config import McpServer


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


T = TypeVar("T")
_SESSIONS_AT_ONCE: Final = 1000
_RENAMED: Final = {"n_choices": "n", "stop_seqs": "stop", "tool_schemas": "tools"}


# ---- what comes back: the members of Chat Completions, with ours --------------------------------------------------------


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
    error: Problem | None = None


class _Failed(Struct, frozen=True):
    error: Problem


_read_response = msgspec.json.Decoder(ChatCompletionResponse).decode
_read_chunk = msgspec.json.Decoder(ChatCompletionChunk).decode
_read_file = msgspec.json.Decoder(File).decode
_read_failed = msgspec.json.Decoder(_Failed).decode


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
    ) -> None:
        if isinstance(model, str) and (key := missing_key(model, where_is(model, base_url))) is not None:
            raise BadConfig(f"{model} needs a key: set {key}, or give base_url=… of a server of your own")
        config = ServerConfig(
            model=model if isinstance(model, str) else f"script:{type(model).__name__}",
            base_url=base_url,
            max_tool_rounds=max_tool_rounds,
            tool_dispatch_url=tool_dispatch_url,
            tool_dispatch_secret=tool_dispatch_secret,
            retry=retry or RETRY,
            timeouts=timeouts or Timeouts(),
            aliases=tuple(aliases),
            enable_search=enable_search,
            search=dict(search or {}),
            search_mode=search_mode,
            search_embedding_model=search_embedding_model,
            fetch_allow=tuple(fetch_allow),
            **code_settings(code_execution_config, shell_config),
        )
        check_config(config)
        open_code = None
        if code_execution_config is not None or shell_config is not None:
            from ronda.server.resources.code_tools import code_opener  # for those alone who run code

            open_code = code_opener(config, None)
        # Its processes belong to the loop that has started them.
        self._loop = None if open_code is None else LoopThread()
        self._approval_callback = None if code_execution_config is None else code_execution_config.approval_callback
        self._server = Server(
            config,
            MemoryJournal(),
            provider=None if isinstance(model, str) else model,
            tools=[as_tool(tool) for tool in tools],
            tool_callbacks=tool_callbacks,
            search_callback=search_callback,
            mcp=_servers(mcp_servers),
            open_code=open_code,
        )
        self._server.runs.find_approve = find_approve

    def close(self) -> None:
        """Ends what waits for a session's next request."""
        if self._loop is not None and self._server.code is not None:
            self._loop.run(self._server.code.close())
            self._loop.close()
            self._loop = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return wait_for(call) if self._loop is None else self._loop.run(call)

    def send_chat_completion_request(self, request: ChatCompletionRequest) -> Any:
        """A `ChatCompletionResponse`; with `stream=True` a `ChatCompletionStream` of its pieces."""
        body = _write(request)
        with deciding(request.agent_approval_callback, self._approval_callback):
            return self._send(request, body)

    def _send(self, request: ChatCompletionRequest, body: bytes) -> Any:
        if request.stream:
            return ChatCompletionStream(self._server, body, asyncio.run if self._loop is None else self._loop.run)
        return _read_response(self._wait(_collect(self._server, body)))

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
            return self._wait(session_documents.export(self._server.runs.sessions, ("", session_id))).decode()
        except NotFound:
            return None

    def import_session(self, session_id: str, session_json: str, model_id: str | None = None) -> None:
        """Make an exported session the one of this name, in the place of one that there may be."""
        self._wait(session_documents.bring_in(self._server.runs.sessions, ("", session_id), session_json.encode()))

    def delete_session(self, session_id: str, model_id: str | None = None) -> bool:
        """Forget a session; False if there is none of this name."""
        return self._wait(session_documents.delete(self._server.runs.sessions, ("", session_id)))

    def fork_session(
        self,
        src: str,
        dest: str,
        num_turns: int | None = None,
        model_id: str | None = None,
        *,
        run: str | None = None,
        round: int | None = None,
    ) -> str:
        """Copy a session under another name: all of it, up to its `num_turns`-th answer, or up to a round of a run."""
        sessions = self._server.runs.sessions
        return self._wait(session_documents.fork(sessions, ("", src), dest, num_turns=num_turns, run=run, round=round))


async def _find_file(server: Server, id: str) -> File | None:
    try:
        stored = await server.files.find("", id)
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


def _write(request: ChatCompletionRequest) -> bytes:
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
            value = requested(value)
        elif name == "shell_skills":
            value = [mount.wish for mount in value]
        elif name == "tool_schemas":
            value = [_schema(text, at) for at, text in enumerate(value)]
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


# ---- through the door --------------------------------------------------------------------------------------------------


class _Call:
    """One request, as the door sees it: a body, nobody's key, and a client that stays until `leave`."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._left = asyncio.Event()
        self.status = 0

    @property
    def scope(self) -> dict[str, Any]:
        return {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._left.set()

    async def answer(self, server: Server, take: Callable[[bytes], None]) -> None:
        app = await chat_completions(server, Incoming(self.scope, self.receive))

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            take(message.get("body", b""))

        await app(self.scope, self.receive, send)


async def _collect(server: Server, body: bytes) -> bytes:
    call = _Call(body)
    pieces: list[bytes] = []
    await call.answer(server, pieces.append)
    text = b"".join(pieces)
    if call.status != 200:
        raise RunEnded(_read_failed(text).error.message)
    return text


class ChatCompletionStream:
    """The pieces of an answer, as they come. Closed early (or left, as a context), it ends the run.

    The run has a thread and a loop of its own; what it says comes through a queue.
    """

    def __init__(
        self, server: Server, body: bytes, run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run
    ) -> None:
        """`run` runs a coroutine to its end."""
        self._queue: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
        self._calls: list[tuple[asyncio.AbstractEventLoop, _Call]] = []  # one, once it has begun
        self._frames = SseReader()
        self._chunks: deque[ChatCompletionChunk] = deque()
        context = contextvars.copy_context()
        said, calls = self._queue, self._calls  # the thread must not hold on to `self`: nobody could let go of it

        async def answer() -> None:
            call = _Call(body)
            calls.append((asyncio.get_running_loop(), call))
            refusal: list[bytes] = []
            await call.answer(server, lambda data: said.put(data) if call.status == 200 else refusal.append(data))
            if call.status != 200:
                raise RunEnded(_read_failed(b"".join(refusal)).error.message)

        def work() -> None:
            try:
                context.run(run, answer())
            except BaseException as error:  # raised again in the thread that reads
                said.put(error)
            else:
                said.put(None)

        self._thread = threading.Thread(target=work, name="ronda-stream", daemon=True)
        self._thread.start()
        self._take()  # a request that makes no sense says so here, and not with the first piece

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatCompletionChunk:
        while not self._chunks:
            self._take()
        chunk = self._chunks.popleft()
        if chunk.error is not None:
            self.close()
            raise RunEnded(chunk.error.message)
        return chunk

    def _take(self) -> None:
        data = self._queue.get()
        if data is None:
            self._queue.put(None)  # for whoever asks again
            raise StopIteration
        if isinstance(data, BaseException):
            self._queue.put(None)
            raise data
        for frame in self._frames.feed(data):
            if frame.event == "file_produced":
                nothing_said = [Choice(0)]
                file = _read_file(frame.data)
                self._chunks.append(ChatCompletionChunk("", nothing_said, 0, "", "", type=frame.event, files=[file]))
            elif frame.data not in (b"", b"[DONE]"):
                self._chunks.append(_read_chunk(frame.data))

    def close(self) -> None:
        self._leave()
        self._thread.join()
        while not self._queue.empty():
            self._queue.get()
        self._chunks.clear()
        self._queue.put(None)

    def _leave(self) -> None:
        for loop, call in self._calls:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run is over
                loop.call_soon_threadsafe(call.leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._leave()
