"""What an MCP server is, and how it is to be treated. Values only: nothing here connects, and nothing reads a file."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from ronda.core.plan import Approval
from ronda.providers.grants import Grant
from ronda.sandbox.policy import Policy

CALL_SECONDS: Final = 30.0  # mistral.rs's `tool_timeout_secs`, where its file does not say
CONNECT_SECONDS: Final = 30.0  # a first `npx` downloads what it runs
MAX_CALLS: Final = 10  # mistral.rs's `max_concurrent_calls`

Era: TypeAlias = Literal["auto", "legacy", "modern"]


class Process(Struct, frozen=True, tag="process"):
    """A program of the operator's that speaks over its standard input and output. None as its `sandbox`: it may do what the
    operator may."""

    command: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    folder: str | None = None
    sandbox: Policy | None = None


class Http(Struct, frozen=True, tag="http"):
    url: str
    headers: dict[str, str] = field(default_factory=dict)


class Sse(Struct, frozen=True, tag="sse"):
    """The transport of 2024-11-05: events come over one stream, messages go to an address that it names."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)


class WebSocket(Struct, frozen=True, tag="websocket"):
    url: str
    headers: dict[str, str] = field(default_factory=dict)


Source: TypeAlias = Process | Http | Sse | WebSocket


class Approvals(Struct, frozen=True):
    """Which tools wait for a person. A name decides before `read_only`, and `always` before `never`."""

    default: Approval = "auto"
    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    read_only: Approval | None = None  # of tools that say that they change nothing

    def of(self, tool: str, *, is_read_only: bool) -> Approval:
        if tool in self.always:
            return "ask"
        if tool in self.never:
            return "auto"
        if is_read_only and self.read_only is not None:
            return self.read_only
        return self.default


AUTO: Final = Approvals()


class McpServer(Struct, frozen=True, kw_only=True):
    """`prefix` of None puts nothing before its tools' names. `allowed_tools` of None are all of them."""

    name: str
    source: Source
    enabled: bool = True
    offered: bool = True  # False: connected, but no model is told about its tools
    prefix: str | None = None
    description: str = ""
    bearer_token: str | None = None
    grant: Grant | None = None  # OAuth client credentials, instead of a bearer token
    login: str | None = None  # the file with the token that a person has got in a browser, if there is one …
    client_id: str | None = None  # … as this client; None: as one that registers itself
    client_secret: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    approvals: Approvals = AUTO
    labels: tuple[str, ...] = ()  # of all its tools
    resources: tuple[str, ...] = ()  # patterns of addresses that may be read: none, unless one fits
    prompts: tuple[str, ...] = ()  # patterns of names of prompts that may be read: none, unless one fits
    sampling: bool = False  # it may ask the model of the run that calls it, in the older protocol
    call_seconds: float = CALL_SECONDS
    connect_seconds: float = CONNECT_SECONDS
    max_calls: int = MAX_CALLS
    era: Era = "auto"
    public_only: bool = False  # a stranger named it: addresses that are not public are refused …
    exceptions: tuple[str, ...] = ()  # … but for these, which the operator has listed
    proxy: str | None = None  # the way to it, as --fetch-proxy has it
    ca_file: str | None = None  # certificates that are trusted besides the system's

    def __repr__(self) -> str:
        """Without its headers, environment and token: this ends up in logs and tracebacks."""
        return f"McpServer({self.name!r}, {self.transport})"

    @property
    def transport(self) -> str:
        return TRANSPORTS[type(self.source)]

    def allows(self, tool: str) -> bool:
        return self.allowed_tools is None or any(fnmatchcase(tool, pattern) for pattern in self.allowed_tools)

    def may_read(self, uri: str) -> bool:
        return any(fnmatchcase(uri, pattern) for pattern in self.resources)

    def may_prompt(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.prompts)


TRANSPORTS: Final[dict[type[Source], str]] = {Process: "stdio", Http: "http", Sse: "sse", WebSocket: "websocket"}


def through_proxy(server: McpServer, proxy: str | None, ca_file: str | None) -> McpServer:
    return replace(server, proxy=proxy, ca_file=ca_file) if proxy or ca_file else server


def way_in(name: str) -> str:
    return f"a person has to log in: ronda mcp login {name}"


def with_login(server: McpServer, folder: Path) -> McpServer:
    """A server elsewhere with the place where what a person's login brought is kept: for this name at this address only."""
    if isinstance(server.source, Process | WebSocket) or not server.enabled:
        return server
    mark = blake2b(f"{server.name}\0{server.source.url}".encode(), digest_size=8).hexdigest()
    return replace(server, login=str(folder / "mcp-logins" / f"{slug(server.name)[:40]}-{mark}.json"))


def slug(name: str) -> str:
    """A name as it may stand in a tool's: letters, digits, `_` and `-`."""
    return re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_-")
