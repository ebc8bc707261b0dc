"""What the operator decides. Nothing a request says widens it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from ronda.core.limits import ANSWER_BYTES, RESULT_CHARS, RETRY, SERVER_REPEATS, SERVER_ROUNDS, Retry, Timeouts
from ronda.core.plan import Approval, PermissionRule
from ronda.core.taint import EGRESS
from ronda.sandbox.policy import Policy

MAX_BODY = 50 * 1024 * 1024
MAX_BODY_MEMORY = 512 * 1024 * 1024
MAX_VARIANTS = 8  # of one page, or of any other group of runs


class ToolAddress(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the calls of one tool are sent. With `parameters` (a JSON Schema) the tool is the server's own, and every request
    has it; without, a request declares it."""

    url: str
    secret: str | None = None  # signs each call
    timeout: float | None = None  # None: as `tool_dispatch_timeout`
    repeatable: bool = False  # may be sent again, although it may have run
    description: str = ""
    parameters: dict[str, Any] | None = None
    approval: Approval = "auto"
    labels: tuple[str, ...] = (EGRESS,)

    def __repr__(self) -> str:
        """Without secrets: this may end up in logs and tracebacks."""
        return "ToolAddress(…)"


class AppModel(Struct, frozen=True, forbid_unknown_fields=True):
    """A model for variants of a page: PROVIDER:NAME, as --model, and where it is if not at its vendor's."""

    model: str
    base_url: str | None = None


class AppConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Of /generate-code: which models write pages, in turn, and how many variants of a new one there are."""

    models: tuple[AppModel | str, ...] = ()
    variants: int | None = None
    public_url: str | None = None  # where browsers reach this server, if not under the name that they ask for

    @property
    def named(self) -> list[AppModel]:
        return [AppModel(model) if isinstance(model, str) else model for model in self.models]


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `ronda serve`: from flags, or from the same names in a TOML file."""

    model: str = ""
    base_url: str | None = None
    api_version: str | None = None
    vision: bool | None = None  # None: as far as the model's name tells
    slots: int | None = None  # of a local model: requests at a time …
    context: int | None = None  # … and tokens of all of them together
    host: str = "127.0.0.1"
    port: int = 1234
    workers: int | Literal["auto"] = 1  # processes that share the port and the data folder; "auto": one for each core
    insecure: bool = False  # whether it may listen beyond this machine although there are no API keys
    allow_origins: tuple[str, ...] = ()  # of pages in a browser that may use the server; "*" is any
    allow_hosts: tuple[
        str, ...
    ] = ()  # what the server is called beside localhost, where it listens there alone; "*" is any
    aliases: tuple[str, ...] = ()  # other names of the model; "*" is any name that is not an agent's
    tools: tuple[str, ...] = ()
    agents: str | None = None  # a folder of .prompty files
    # The name of one of them, or "default" for the model → names of those that it may call, beside what its file says.
    agent_tools: dict[str, tuple[str, ...]] = {}
    tool_dispatch_url: str | None = None
    tool_dispatch_timeout: float = 30.0
    agent: bool = False  # whatever an agent works with is there for requests that ask for it
    enable_search: bool = False
    search_mode: Literal["always", "on-request"] = "always"  # who is offered it: every request, or those that ask
    search_embedding_model: str | None = None  # that ranks what is found
    search: dict[str, Any] = {}  # what is searched with: `tools.search.settings`
    fetch_allow: tuple[str, ...] = ()  # addresses beside public ones that models and requests may name
    tool_dispatch_secret: str | None = None  # signs the calls that are sent to `tool_dispatch_url`
    dispatch: Mapping[str, ToolAddress] = {}  # tools whose calls are sent to an address of their own, by their names
    mcp_config: str | None = None  # a JSON file that names MCP servers
    mcp: dict[str, Any] = {}  # more of them, by name
    mcp_allow_url: tuple[str, ...] = ()  # addresses of MCP servers that a request may name
    mcp_port: int | None = None  # a second port, on which there is /mcp alone
    max_offered_tools: int = 64  # that a model is shown; of more it gets those that it looks for
    max_tool_rounds: int | None = None
    max_tool_rounds_ceiling: int = SERVER_ROUNDS
    max_identical_calls: int = SERVER_REPEATS  # with the same result: then a run ends
    tool_calls: Literal["all", "first"] = "all"
    max_body: int = MAX_BODY
    max_body_memory: int = MAX_BODY_MEMORY  # bytes of all bodies together that are being read
    max_upload: int = 512 * 1024 * 1024  # bytes of a file that a client sends to be kept
    header_seconds: float = 20.0  # until a request's head must be there
    body_seconds: float = 60.0  # in which something of its body must come
    stall_seconds: float = 60.0  # in which something of its answer must be taken
    max_run_seconds: float | None = None
    shutdown_seconds: float = 3.0  # for runs that somebody waits for, when the server is to end
    max_detached: int = 100  # runs at a time that go on without their clients
    max_grace: float = 3600.0  # seconds that a request may ask for
    enable_code_execution: bool = False
    code_exec_python: str | None = None  # None: the one that the server runs on
    code_exec_timeout: float = 60.0
    code_exec_workdir: str | None = None  # the folder of all sessions; None: one for each
    code_exec_pool: int = 0  # Pythons that are started before there is a session for them
    enable_shell: bool = False
    shell_path: str = "/bin/sh"
    shell_timeout: float = 600.0
    skills_dir: str | None = None  # where the folders of skills are kept; None: with the files of clients
    shell_workdir: str | None = None  # where the sessions' folders are; None: in the data folder
    sandbox: Policy = Policy()  # of both
    agent_permission: Approval = "auto"  # of every call of a tool that runs here …
    permission: tuple[PermissionRule, ...] = ()  # … and of some of them; a request can only be stricter
    keep_previews: float = 3600.0  # seconds for which a stream can be had again as it was …
    keep_previews_bytes: int = 64 * 1024 * 1024  # … of so much of all runs together
    background_runs: int = 16  # that are driven at a time …
    background_per_owner: int = 16  # … of one owner …
    background_per_session: int = 1  # … and of one session
    background_queue: int = 1000  # that may wait
    approval_timeout: float = 300.0  # seconds that a stream waits for somebody to decide about a call …
    on_approval_timeout: Literal["pause", "deny"] = "pause"  # … and then: the run waits without it, or that is a no
    approval_days: float = 7.0  # that the question stays open, with nobody waiting; then it counts as a no
    context_budget: int | None = None  # characters of a conversation that a model is shown at the most
    max_result_chars: int = RESULT_CHARS  # of a tool's result that a model is shown; of more it reads a file. 0: all
    max_answer_bytes: int = ANSWER_BYTES  # of one answer of a model, as it arrives
    data_dir: str | None = None  # ":memory:" keeps nothing
    file_store: str | None = (
        None  # where the bytes of files are: a folder, or s3://BUCKET/PREFIX; None: in the data folder
    )
    database: str | None = (
        None  # postgresql://…, which several servers and workers share; files' bytes stay in the folder
    )
    queue: Literal["table", "dbos"] = "table"  # of runs that nobody waits for, in the database
    lease_seconds: float = 5.0  # after which a process that the database hears nothing of counts as gone
    journal_max_days: float = 30.0
    journal_max_bytes: int = 2 * 1024 * 1024 * 1024
    max_session_queue: int = 32  # requests that wait for one session
    session_max_days: float = 30.0  # that nobody used it for
    session_max_count: int | None = None
    session_max_bytes: int = 2 * 1024 * 1024 * 1024
    journal_sync: Literal["normal", "full"] = "normal"
    retry: Retry = RETRY
    timeouts: Timeouts = Timeouts()
    access_log: bool = False
    app: AppConfig = AppConfig()
    images: dict[str, Any] = {}  # the service that draws pictures for pages: `tools.page.images_api`
    page: dict[str, Any] = {}  # what pages are shown with: `tools.page.services`

    def __repr__(self) -> str:
        """Without secrets, as above."""
        return f"ServerConfig(model={self.model!r}, …)"

    @property
    def approval_seconds(self) -> float:
        """For how long a question stays open."""
        longest = self.approval_days * 86400
        return longest if self.on_approval_timeout == "pause" else min(longest, self.approval_timeout)

    def rounds_for(self, wish: int | None) -> tuple[int, str | None]:
        """The rounds a request gets, and what to tell it when that is less than it wished for."""
        most = self.max_tool_rounds_ceiling
        if wish is None:
            return min(SERVER_ROUNDS if self.max_tool_rounds is None else self.max_tool_rounds, most), None
        if wish > most:
            return most, f"max_tool_rounds was cut from {wish} to {most}, the most this server allows"
        return wish, None
