"""What the operator decides. Nothing a request says widens it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, cast

from msgspec import Struct

from ronda.core.limits import ANSWER_BYTES, RESULT_CHARS, RETRY, SERVER_REPEATS, SERVER_ROUNDS, Retry, Timeouts
from ronda.core.permissions import strictest
from ronda.core.plan import Approval, PermissionRule
from ronda.sandbox.policy import Policy
from ronda.server.setting import (
    ACCESS,
    AGENTS,
    APPROVALS,
    BACKGROUND,
    CODE,
    LISTENING,
    MODEL,
    NO_SETTING,
    REQUEST_LIMITS,
    RUN_LIMITS,
    SETTINGS,
    STORAGE,
    WEB,
    Setting,
)

if TYPE_CHECKING:
    from ronda.providers.http.transport import Routes, Transport

MAX_BODY = 50 * 1024 * 1024
JOURNAL_BYTES = 2 << 30  # of a journal in a data folder
MAX_BODY_MEMORY = 512 * 1024 * 1024
CHARACTERS_A_TOKEN: Final = 4  # of English text and of JSON, by the tokenizers of most vendors

S = TypeVar("S", bound=Struct)

_SHARE = "as many as are left for others"

_model = partial(Setting, MODEL)
_address = partial(Setting, LISTENING)
_access = partial(Setting, ACCESS)
_agents = partial(Setting, AGENTS)
_code = partial(Setting, CODE)
_web = partial(Setting, WEB)
_approvals = partial(Setting, APPROVALS)
_limits = partial(Setting, RUN_LIMITS)
_requests = partial(Setting, REQUEST_LIMITS)
_background = partial(Setting, BACKGROUND)
_storage = partial(Setting, STORAGE)
_settings = partial(Setting, SETTINGS)


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `ronda serve`. Each field is written once: see `setting`."""

    # ---- the model
    model: Annotated[
        str,
        _model(
            "-m, --model SPEC",
            "the model, as PROVIDER:NAME; given again: more models, which requests ask for by their names",
            default="local:smollm2",
        ),
    ] = ""
    base_url: Annotated[
        str | None, _model("--base-url URL", "where the model's server is, such as http://127.0.0.1:8000/v1")
    ] = None
    api_version: Annotated[
        str | None, _model("--api-version VERSION", "the version of the provider's API (Anthropic has several)")
    ] = None
    no_env_proxy: Annotated[
        bool,
        _model(
            "--no-env-proxy",
            "call models directly, whatever HTTPS_PROXY, HTTP_PROXY and ALL_PROXY say",
            details="See [behind a proxy](models.md#behind-a-proxy).",
        ),
    ] = False
    ca_file: Annotated[
        str | None,
        _model(
            "--ca-file FILE.pem",
            "certificates to trust besides the system's, such as those of a company's proxy",
            reads="path",
        ),
    ] = None
    vision: Annotated[
        bool | None,
        _model(
            "--vision",
            "whether the model can see images; one that cannot gets a note instead",
            default="as far as its name tells",
        ),
    ] = None
    tools: Annotated[
        tuple[str, ...],
        _model(
            "--tools FILE.py",
            "a Python file with functions made tools by @tool; may be repeated",
            details="A name without `.py` names the tools of an [installed package](plugins.md#tools).",
        ),
    ] = ()
    # ---- where it listens
    host: Annotated[str, _address("--host HOST", "the address to listen on")] = "127.0.0.1"
    port: Annotated[int, _address("-p, --port PORT", "the port to listen on")] = 1234
    workers: Annotated[
        int | Literal["auto"],
        _address(
            "--workers N",
            "how many processes serve, with one port and one data folder; 'auto' is one for each core",
            details="See [several processes](server.md#several-processes).",
        ),
    ] = 1

    tls_cert: Annotated[
        str | None,
        _address(
            "--tls-cert FILE.pem",
            "serve HTTPS with this certificate, followed by those that signed it",
            details="See [HTTPS](operate.md#https).",
            reads="path",
        ),
    ] = None
    tls_key: Annotated[
        str | None,
        _address("--tls-key FILE.pem", "the private key of --tls-cert, if it is in a file of its own", reads="path"),
    ] = None

    # ---- who may ask
    insecure: Annotated[
        bool,
        _access(
            "--insecure", "listen beyond this machine although there are no API keys ('ronda keys create' makes one)"
        ),
    ] = False
    allow_hosts: Annotated[
        tuple[str, ...],
        _access(
            "--allow-host NAME",
            "another name of this server than localhost, such as a proxy has for it, or '*' for any; may be repeated",
        ),
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...],
        _access(
            "--allow-origin ORIGIN",
            "let pages from here use the server, such as http://localhost:3000, or '*' for any; may be repeated",
        ),
    ] = ()
    no_ui: Annotated[bool, _access("--no-ui", "serve no web page at /ui")] = False
    mcp_port: Annotated[
        int | None, _access("--mcp-port N", "a second port, on which this server is an MCP server only (at /mcp)")
    ] = None

    # ---- agents and tools
    aliases: Annotated[
        tuple[str, ...],
        _agents(
            "--alias NAME",
            "another name for the model, for clients that insist on theirs, or '*' for any; may be repeated",
        ),
    ] = ()
    agent: Annotated[
        bool,
        _agents(
            "--agent, --agentic",
            "the same as --enable-search --enable-code-execution --enable-shell: web search, Python and a shell",
            stands_for=("enable_search", "enable_code_execution", "enable_shell"),
        ),
    ] = False
    max_offered_tools: Annotated[
        int,
        _agents(
            "--max-offered-tools N",
            "of more tools than this a model is shown those that it finds with the tool find_tools",
            least=1,
        ),
    ] = 64
    tool_calls: Annotated[
        Literal["all", "first"],
        _agents("--tool-calls", "run all calls of a turn, or only the first, with a warning"),
    ] = "all"
    # ---- code in a sandbox
    sandbox: Annotated[
        Policy,
        _code(
            "",
            "what code in the sandbox may do: see [the sandbox](sandbox.md)",
            members={
                "mode": _code("--sandbox", "whether code is isolated; where it cannot be, auto and on refuse"),
                "profile": _code("--sandbox-profile", "what code may read", choices=("restricted", "developer")),
                "network": _code("--sandbox-network NETWORK", "none, loopback, allow:HOST,… or full", default="none"),
                "max_memory_mb": _code("--sb-max-memory-mb N", "megabytes of memory that one session's code may use"),
                "max_cpu_secs": _code(
                    "--sb-max-cpu-secs N", "seconds of the processor that one session's code may use"
                ),
                "max_procs": _code("--sb-max-procs N", "processes that one session's code may have"),
            },
        ),
    ] = Policy()

    # ---- the web
    fetch_allow: Annotated[
        tuple[str, ...],
        _web(
            "--fetch-allow ADDRESS",
            "a private address that models and requests may name: 10.1.0.0/16, wiki.example:8080; may be repeated",
            details="See [what Ronda does not fetch](search.md#what-ronda-does-not-fetch).",
        ),
    ] = ()
    fetch_proxy: Annotated[
        str | None,
        _web(
            "--fetch-proxy PROXY",
            "the proxy for addresses that models and requests name (pages, files, MCP servers); 'env' is that of HTTPS_PROXY",
            default="none",
            details="The proxy resolves the names, and Ronda cannot see which addresses they lead to: keeping models away from "
            "private ones is then up to the proxy.",
            reads="secret",
        ),
    ] = None

    # ---- approvals
    agent_permission: Annotated[
        Approval,
        _approvals(
            "--agent-permission, --code-exec-permission",
            "whether tools of the server run, wait until a person has approved each call, or are refused",
        ),
    ] = "auto"
    permission: Annotated[
        tuple[PermissionRule, ...],
        _approvals("", "rules for some calls: see [which calls may run](server.md#which-calls-may-run)"),
    ] = ()
    approval_timeout: Annotated[
        float,
        _approvals(
            "--approval-timeout N",
            "seconds that a stream waits for a decision about a call; then it ends, and the run waits",
            unit="seconds",
            above=0,
        ),
    ] = 300.0
    on_approval_timeout: Annotated[
        Literal["pause", "deny"],
        _approvals(
            "--on-approval-timeout",
            "what then becomes of the call: the run waits without its client, or the call is denied",
        ),
    ] = "pause"
    approval_days: Annotated[
        float,
        _approvals(
            "--approval-days N", "days that a run's question stays open; then the call is denied", unit="days", above=0
        ),
    ] = 7.0

    # ---- limits of a run
    max_tool_rounds: Annotated[
        int | None,
        _limits("--max-tool-rounds N", "rounds a request gets unless it says", default=str(SERVER_ROUNDS), least=0),
    ] = None
    max_tool_rounds_ceiling: Annotated[
        int, _limits("--max-tool-rounds-ceiling N", "the most rounds a request may ask for", least=0)
    ] = SERVER_ROUNDS
    max_identical_calls: Annotated[
        int,
        _limits(
            "--max-identical-calls N",
            "end a run after so many calls with the same arguments and the same result",
            details="The model is told from the third on.",
            least=1,
        ),
    ] = SERVER_REPEATS
    max_run_seconds: Annotated[
        float | None, _limits("--max-run-seconds SECONDS", "the most time one run may take", unit="seconds", above=0)
    ] = None
    max_answer_bytes: Annotated[
        int,
        _limits(
            "--max-answer-bytes N",
            "how large one answer of a model may be",
            details="Counted as it arrives; a larger answer ends with an error.",
            unit="bytes",
            least=1,
        ),
    ] = ANSWER_BYTES
    max_result_chars: Annotated[
        int,
        _limits(
            "--max-result-chars N",
            "characters of a tool's result that a model is shown; it reads the rest from a file; 0 shows all",
            details="See [files for a model](files.md#files-for-a-model).",
        ),
    ] = RESULT_CHARS
    context_budget: Annotated[
        int | None,
        _limits(
            "--context-budget N",
            "show a model at most so many characters (or tokens) of a conversation, and a summary of the rest",
            details="See [guardrails and summaries](served-agents.md#guardrails-and-summaries).",
            least=1,
            because="it counts characters, or tokens with --context-budget-unit tokens",
        ),
    ] = None
    context_budget_unit: Annotated[
        Literal["characters", "tokens"],
        _limits(
            "--context-budget-unit",
            "what --context-budget counts; a token is taken for four characters, since each model has its own",
        ),
    ] = "characters"
    slots: Annotated[
        int | None, _limits("--slots N", "how many requests a local model answers at a time", default="8")
    ] = None
    context: Annotated[
        int | None,
        _limits(
            "--context TOKENS",
            "how many tokens a local model has room for, in all its requests together",
            default="8192",
        ),
    ] = None
    retry: Annotated[Retry, _limits("", "what is tried again at the model's server, and how often")] = RETRY
    timeouts: Annotated[Timeouts, _limits("", "how long the model's server may take for what")] = Timeouts()

    # ---- limits of a request
    header_seconds: Annotated[
        float,
        _requests(
            "--header-seconds N",
            "the most time a request's head may take to come",
            details="Then the answer is a 408.",
            unit="seconds",
            above=0,
        ),
    ] = 20.0
    body_seconds: Annotated[
        float,
        _requests(
            "--body-seconds N",
            "the most time in which nothing of a body comes",
            details="Then the answer is a 408.",
            unit="seconds",
            above=0,
        ),
    ] = 60.0
    body_rate: Annotated[
        int,
        _requests(
            "--body-rate N",
            "bytes a second at which a body must come, on average, after its first --body-seconds",
            details="A slower one is a 408, too. Time in which the server itself does not read does not count.",
            least=0,
        ),
    ] = 500
    max_body_seconds: Annotated[
        float,
        _requests(
            "--max-body-seconds N",
            "the most time that all of a body may take to come",
            details="Likewise.",
            unit="seconds",
            above=0,
        ),
    ] = 3600.0
    stall_seconds: Annotated[
        float,
        _requests(
            "--stall-seconds N",
            "a client that takes nothing of its answer for so long is treated as gone",
            details="Until then its model is not read further than about 1 MB ahead of it.",
            unit="seconds",
            above=0,
        ),
    ] = 60.0
    max_body: Annotated[int, _requests("", "bytes of one request's body", unit="bytes")] = MAX_BODY
    max_body_memory: Annotated[
        int,
        _requests(
            "--max-body-memory BYTES",
            "the most bytes that the bodies of all requests being read or answered may hold together; then 503",
            details="In one process. Bodies up to 256 KiB do not count. The 503 has `Retry-After`; for a message of a "
            "WebSocket the connection is closed with 1013.",
            unit="bytes",
        ),
    ] = MAX_BODY_MEMORY
    max_upload: Annotated[
        int,
        _requests(
            "--max-upload BYTES",
            "the most bytes of a file that a client may send to /v1/files",
            unit="bytes",
            least=1,
        ),
    ] = 512 * 1024 * 1024
    shutdown_seconds: Annotated[
        float,
        _requests(
            "--shutdown-seconds N",
            "how long runs with a connected client may take to end when the server is to end",
            details="Then they end `interrupted`. A run that outlives its connection is let go instead, and the next "
            "`ronda serve` on the same data continues it: what its model had said so far is shown as incomplete, and the "
            "model is asked again. Two seconds later, at the latest, the process has ended, whatever it waits for.",
            unit="seconds",
            least=0,
            most=3600,
            because="what ends a process does not wait for ever",
        ),
    ] = 3.0

    # ---- runs that outlive their request
    max_detached: Annotated[
        int,
        _background(
            "--max-detached N", "the most runs at a time that go on without their clients (on_disconnect)", least=0
        ),
    ] = 200
    max_detached_per_owner: Annotated[
        int | None,
        _background("--max-detached-per-owner N", "the same for the runs of one owner", default=_SHARE, least=1),
    ] = None
    max_grace: Annotated[
        float,
        _background(
            "--max-grace N",
            "the most seconds that a request may ask for with on_disconnect: grace:SECONDS",
            unit="seconds",
            least=0,
        ),
    ] = 3600.0
    background_runs: Annotated[
        int,
        _background(
            "--background-runs N", "the most runs with 'background' that are driven at a time; others wait", least=1
        ),
    ] = 32
    background_per_owner: Annotated[
        int | None,
        _background("--background-per-owner N", "the same for the runs of one owner", default=_SHARE, least=1),
    ] = None
    background_per_session: Annotated[
        int, _background("--background-per-session N", "the same for the runs of one session", least=1)
    ] = 1
    background_queue: Annotated[
        int,
        _background(
            "--background-queue N",
            "the most runs with 'background' that may wait; then clients are told to try again",
            details="That is a 429.",
            least=1,
        ),
    ] = 2000
    background_queue_per_owner: Annotated[
        int | None,
        _background("--background-queue-per-owner N", "the same for the runs of one owner", default=_SHARE, least=1),
    ] = None
    keep_previews: Annotated[
        float,
        _background(
            "--keep-previews SECONDS",
            "how long a finished stream can be replayed chunk by chunk",
            details="Of runs that end with their connection, the newest 32.",
            unit="seconds",
            least=0,
        ),
    ] = 3600.0
    keep_previews_bytes: Annotated[
        int,
        _background("--keep-previews-bytes N", "of how much, of all runs together", unit="bytes", least=0),
    ] = 64 * 1024 * 1024
    max_session_queue: Annotated[int, _background("", "requests that may wait for one session")] = 32

    # ---- what is kept, and where
    data_dir: Annotated[
        str | None,
        _storage(
            "--data-dir DIR",
            "where runs are journaled; ':memory:' keeps nothing",
            details="That is `~/.local/state/ronda`. Several servers may share a folder.",
            default="your state folder",
            reads="path",
        ),
    ] = None
    database: Annotated[
        str | None,
        _storage(
            "--database URL",
            "a PostgreSQL database that servers share, as postgresql://user@host/name",
            details="Needs `pip install 'ronda[postgres]'`; see [several machines](scaling.md). Runs are kept for 30 days, "
            "however many there are; files' bytes stay in `data_dir` or `file_store`. Set the variable instead of the flag, "
            "so that the password is not visible in `ps`.",
            reads="secret",
        ),
    ] = None
    database_patience: Annotated[
        float,
        _storage(
            "--database-patience SECONDS",
            "how long the database may be away until new requests get a 503",
            details="Runs that are under way wait longer: see [who does what](scaling.md#who-does-what).",
            unit="seconds",
            above=0,
        ),
    ] = 2.0
    lease_seconds: Annotated[
        float,
        _storage(
            "--lease-seconds N",
            "how long a process may be silent before others on the database take over its runs",
            unit="seconds",
            least=0.5,
            most=600,
        ),
    ] = 5.0
    queue: Annotated[
        Literal["table", "dbos"],
        _storage(
            "--queue",
            "with --database: what keeps runs that wait to be driven, a table of Ronda's or DBOS, whose tools show them",
            details="See [the queue with DBOS](scaling.md#the-queue-with-dbos). Needs `pip install 'ronda[dbos]'`.",
        ),
    ] = "table"
    file_store: Annotated[
        str | None,
        _storage(
            "--file-store PLACE",
            "where the bytes of files are kept: a folder, or s3://BUCKET/PREFIX",
            details="See [files in a bucket](files.md#files-in-a-bucket).",
            default="in the data folder",
        ),
    ] = None
    journal_max_days: Annotated[float, _storage("", "days that runs are kept", unit="days")] = 30.0
    journal_max_bytes: Annotated[
        int | None,
        _storage(
            "",
            "bytes of runs that are kept; the oldest of the owner who keeps the most go first",
            default="2048 MiB in a data folder, no bound in PostgreSQL",
            unit="bytes",
            least=1,
        ),
    ] = None
    journal_max_bytes_per_owner: Annotated[
        int | None, _storage("", "the same for the runs of one owner", unit="bytes", least=1)
    ] = None
    journal_sync: Annotated[
        Literal["normal", "full"], _storage("", "'full' keeps what was acknowledged after a power cut, too")
    ] = "normal"
    session_max_days: Annotated[float, _storage("", "days that a session is kept after its last use", unit="days")] = (
        30.0
    )
    session_max_count: Annotated[
        int | None,
        _storage("", "sessions that are kept; those unused for longest, of the owner who keeps the most, go first"),
    ] = None
    session_max_count_per_owner: Annotated[
        int | None, _storage("", "the same for the sessions of one owner", least=1)
    ] = None
    session_max_bytes: Annotated[int, _storage("", "bytes of sessions that are kept", unit="bytes")] = (
        2 * 1024 * 1024 * 1024
    )
    session_max_bytes_per_owner: Annotated[
        int | None, _storage("", "the same for the sessions of one owner", unit="bytes", least=1)
    ] = None

    # ---- settings
    features: Annotated[
        tuple[str, ...],
        _settings(
            "--feature NAME",
            "load a feature of an installed package; may be repeated",
            details="See [features](plugins.md#features).",
        ),
    ] = ()
    # The settings of features, each with the Struct that they stand in (`features/NAME/settings.py`).
    parts: Annotated[Mapping[Any, Any], NO_SETTING] = {}

    def __repr__(self) -> str:
        """Without secrets, as above."""
        return f"ServerConfig(model={self.model!r}, …)"

    @property
    def model_places(self) -> list[tuple[str, str | None]]:
        """The models that answer requests: PROVIDER:NAME, and the address of each that is not at its vendor's. Settings of a
        feature that names models have a `model_places`, too."""
        others = [place for part in self.parts.values() for place in getattr(part, "model_places", ())]
        return [(self.model, self.base_url), *others]

    @property
    def context_characters(self) -> int | None:
        """How much of a conversation a model is shown, as the loop counts it."""
        budget = self.context_budget
        return budget * CHARACTERS_A_TOKEN if budget is not None and self.context_budget_unit == "tokens" else budget

    def part(self, settings: type[S]) -> S:
        """The settings of a feature, by the Struct that they stand in."""
        found = self.parts.get(settings)
        return settings() if found is None else cast("S", found)

    @property
    def transport(self) -> Transport | None:
        """How servers of models are reached; None: as the process has it."""
        if not self.no_env_proxy and self.ca_file is None:
            return None
        from ronda.providers.http.transport import Transport

        return Transport(env_proxy=not self.no_env_proxy, ca_file=self.ca_file)

    @property
    def fetch_routes(self) -> Routes:
        """The way to addresses that models and requests name."""
        from ronda.providers.http.transport import web_routes

        return web_routes(self.fetch_proxy, self.ca_file, os.environ)

    @property
    def approval_seconds(self) -> float:
        """For how long a question stays open."""
        longest = self.approval_days * 86400
        return longest if self.on_approval_timeout == "pause" else min(longest, self.approval_timeout)

    def rules_for(self, wish: Approval) -> tuple[PermissionRule, ...]:
        """The operator's rules, and what a request adds: a rule only makes calls harder, so a wish widens nothing."""
        mode = strictest((self.agent_permission, wish))
        return self.permission if mode == "auto" else (*self.permission, PermissionRule(mode))

    def rounds_for(self, wish: int | None) -> tuple[int, str | None]:
        """The rounds a request gets, and what to tell it when that is less than it wished for."""
        most = self.max_tool_rounds_ceiling
        if wish is None:
            return min(SERVER_ROUNDS if self.max_tool_rounds is None else self.max_tool_rounds, most), None
        if wish > most:
            return most, f"max_tool_rounds was cut from {wish} to {most}, the most this server allows"
        return wish, None
