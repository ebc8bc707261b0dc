"""Files and tables that name MCP servers → `McpServer` values. Three forms of the same thing:

    {"servers": [{"name", "source": {"type", …}, "tool_prefix", …}], "auto_register_tools"}   mistral.rs
    {"mcpServers": {NAME: {"command", "args", "env"} | {"type", "url", "headers"}}}           most programs (`servers`: VS Code)
    [mcp.NAME]  command = …                                                                   Ronda's own settings

Every text may hold `${NAME}`, `${NAME:-default}` or `${env:NAME}`: secrets stay out of the file. An explicit null is a missing
key. What is wrong is said with its place; other programs' own keys are passed over, unknown keys of Ronda's tables are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec.structs import replace

from ronda._suggest import closest, did_you_mean
from ronda.core.plan import Approval
from ronda.errors import BadConfig
from ronda.providers.grants import Grant
from ronda.sandbox.policy import Policy, read_policy
from ronda.tools.mcp.config import (
    AUTO,
    CALL_SECONDS,
    CONNECT_SECONDS,
    MAX_CALLS,
    Approvals,
    Era,
    Http,
    McpServer,
    Process,
    Source,
    Sse,
    WebSocket,
    slug,
)
from ronda.wire.codec.json import UNREADABLE

_T = TypeVar("_T")

MAX_CONFIG: Final = 1024 * 1024
SANDBOX_CPU_SECONDS: Final = 86_400  # a server stays for long, unlike code that a model runs
_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_SOURCES: Final = {"Process": "stdio", "Http": "http", "WebSocket": "websocket"}  # mistral.rs's words
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "process": "stdio",
    "local": "stdio",
    "http": "http",
    "streamable-http": "http",
    "streamable_http": "http",
    "streamablehttp": "http",
    "remote": "http",
    "sse": "sse",
    "ws": "websocket",
    "websocket": "websocket",
}
_APPROVALS: Final[dict[str, Approval]] = {
    "auto": "auto",
    "ask": "ask",
    "deny": "deny",
    "never": "auto",
    "always": "ask",
}
_ERAS: Final[dict[str, Era]] = {"auto": "auto", "legacy": "legacy", "modern": "modern"}
_TABLE_KEYS: Final = {
    *("transport", "type", "command", "args", "env", "folder", "cwd", "work_dir", "sandbox", "url", "headers"),
    *("bearer_token", "client_id", "client_secret", "token_url", "scopes"),
    *("enabled", "prefix", "description", "allowed_tools", "approval", "ask_tools", "auto_tools", "labels"),
    *("resources", "prompts", "sampling"),
    *("call_seconds", "connect_seconds", "max_calls", "era"),
}


_WHERE_KEYS: Final = ("command", "url")


def read_config(data: bytes, environment: Mapping[str, str], file: str = "the MCP configuration") -> list[McpServer]:
    """A JSON file in either form. Raises BadConfig."""
    if len(data) > MAX_CONFIG:
        raise BadConfig(f"{file} is larger than {MAX_CONFIG} bytes")
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise BadConfig(f"{file} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadConfig(f"{file} must be a JSON object with 'servers' or 'mcpServers'")
    reader = _Reader(file, environment)
    servers = value.get("mcpServers", value.get("servers"))
    if isinstance(servers, dict):
        found = [reader.entry(name, entry, f"mcpServers.{name}") for name, entry in servers.items()]
    elif isinstance(servers, list):
        found = [reader.read_entry(entry, index, value) for index, entry in enumerate(servers)]
    else:
        raise BadConfig(f"{file} has neither a list 'servers' nor an object 'mcpServers'")
    return check_distinct(found, file)


def read_tables(tables: Mapping[str, Any], environment: Mapping[str, str], file: str = "ronda.toml") -> list[McpServer]:
    """What stands under `[mcp]` in Ronda's settings: a table per server. Raises BadConfig."""
    reader = _Reader(file, environment)
    found = []
    for name, entry in tables.items():
        place = f"mcp.{name}"
        if isinstance(entry, dict) and (unknown := entry.keys() - _TABLE_KEYS):
            has = f"it may have {', '.join(sorted(_TABLE_KEYS))}"
            reader.refuse(place, f"has an unknown key {min(unknown)!r}; {did_you_mean(min(unknown), _TABLE_KEYS, has)}")
        found.append(reader.entry(name, entry, place))
    return check_distinct(found, file)


def check_distinct(servers: list[McpServer], file: str) -> list[McpServer]:
    names = [server.name for server in servers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadConfig(f"{file} names two MCP servers {twice!r}; give each a name of its own")
    return servers


class _Reader:
    """Reads within one file: its name stands before every complaint."""

    def __init__(self, file: str, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment

    def refuse(self, place: str, why: str) -> NoReturn:
        raise BadConfig(f"{self._file}: {place} {why}")

    # ---- the list form ------------------------------------------------------------------------------------------------

    def read_entry(self, entry: object, index: int, top: dict[str, Any]) -> McpServer:
        place = f"servers[{index}]"
        table = self._table(entry, place)
        name = self._text(table, "name", place) or self._text(table, "id", place) or f"server-{index + 1}"
        enabled = self._flag(table, "enabled", place, default=True)
        # A disabled entry may hold anything: it is never contacted.
        source = self._listed_source(table, place) if enabled else _unused_source(table.get("source"))
        prefix = self._text(table, "tool_prefix", place) if "tool_prefix" in table else slug(name)
        seconds = self._seconds(top, "tool_timeout_secs", "it", CALL_SECONDS)
        inner = table.get("source")
        if isinstance(inner, dict):
            seconds = self._seconds(inner, "timeout_secs", f"{place}.source", seconds)
        return McpServer(
            name=name,
            source=source,
            enabled=enabled,
            offered=self._flag(top, "auto_register_tools", "it", default=True),
            prefix=prefix or None,
            bearer_token=self._text(table, "bearer_token", place) if enabled else None,
            resources=self._texts(table, "resources", place) or (),
            call_seconds=seconds,
            max_calls=self._count(top, "max_concurrent_calls", "it", MAX_CALLS),
        )

    def _listed_source(self, table: dict[str, Any], place: str) -> Source:
        source = self._table(table.get("source"), f"{place}.source")
        transport = _SOURCES.get(str(source.get("type")))
        if transport is None:
            self.refuse(
                f"{place}.source.type", f"is {source.get('type')!r}; it must be {', '.join(map(repr, _SOURCES))}"
            )
        return self._source(transport, source, f"{place}.source")

    # ---- a table under a name -----------------------------------------------------------------------------------------

    def entry(self, name: str, entry: object, place: str) -> McpServer:
        table = self._table(entry, place)
        enabled = self._flag(table, "enabled", place, default=not self._flag(table, "disabled", place, default=False))
        prefix = self._text(table, "prefix", place) if "prefix" in table else slug(name)
        server = McpServer(name=name, source=_unused_source(table), enabled=enabled, prefix=prefix or None)
        if not enabled:
            return server
        transport = self._text(table, "transport", place) or self._text(table, "type", place)
        if transport is None:
            transport = "stdio" if table.get("command") else "http"
            if str(table.get("url", "")).startswith(("ws://", "wss://")):
                transport = "websocket"
        if transport.lower() not in _TRANSPORTS:
            self.refuse(place, f"has the transport {transport!r}; it may be 'stdio', 'http', 'sse' or 'websocket'")
        return replace(
            server,
            source=self._source(_TRANSPORTS[transport.lower()], table, place),
            description=self._text(table, "description", place) or "",
            bearer_token=self._text(table, "bearer_token", place),
            grant=self._grant(table, place),
            **self._login_client(table, place),
            allowed_tools=self._texts(table, "allowed_tools", place),
            approvals=self._approvals(table, place),
            labels=self._texts(table, "labels", place) or (),
            resources=self._texts(table, "resources", place) or (),
            prompts=self._texts(table, "prompts", place) or (),
            sampling=self._flag(table, "sampling", place, default=False),
            call_seconds=self._seconds(table, "call_seconds", place, CALL_SECONDS),
            connect_seconds=self._seconds(table, "connect_seconds", place, CONNECT_SECONDS),
            max_calls=self._count(table, "max_calls", place, MAX_CALLS),
            era=self._choice(table, "era", place, _ERAS, "auto"),
        )

    def _approvals(self, table: dict[str, Any], place: str) -> Approvals:
        default = self._choice(table, "approval", place, _APPROVALS, AUTO.default)
        always, never = self._texts(table, "ask_tools", place), self._texts(table, "auto_tools", place)
        return Approvals(default, always or (), never or ())

    def _grant(self, table: dict[str, Any], place: str) -> Grant | None:
        keys = ("token_url", "client_id", "client_secret")
        url, client, secret = [self._text(table, key, place) for key in keys]
        if url is None and (client is not None or secret is None):
            return None  # a client that a person logs in with, or none at all
        if url is None or client is None or secret is None:
            self.refuse(place, f"needs {', '.join(keys)} together; 'client_id' by itself is for 'ronda mcp login'")
        return Grant(url, client, secret, self._texts(table, "scopes", place) or ())

    def _login_client(self, table: dict[str, Any], place: str) -> dict[str, str | None]:
        """The client that a person logs in with, where the operator has registered one."""
        if table.get("token_url") is not None:
            return {}
        return {key: self._text(table, key, place) for key in ("client_id", "client_secret")}

    def _source(self, transport: str, table: dict[str, Any], place: str) -> Source:
        if transport == "stdio":
            command = self._text(table, "command", place)
            if not command:
                self.refuse(place, f"needs a 'command', the program to start{_misspelt(table)}")
            folders = [self._text(table, key, place) for key in ("folder", "cwd", "work_dir")]
            args, folder = self._texts(table, "args", place) or (), next(filter(None, folders), None)
            sandbox = self._sandbox(table, place)
            if sandbox is not None and folder is not None:
                self.refuse(place, "has a folder and a sandbox, which has one of its own; see extra_fs_read and _write")
            return Process(command, args, self._pairs(table, "env", place), folder, sandbox)
        url = self._text(table, "url", place)
        schemes = ("ws://", "wss://") if transport == "websocket" else ("http://", "https://")
        if not url or not url.startswith(schemes):
            needs = f"needs a 'url' that begins with {' or '.join(schemes)}"
            if not url and transport == "http":
                needs += ", or a 'command', the program to start"
            self.refuse(place, needs + _misspelt(table))
        headers = self._pairs(table, "headers", place)
        if transport == "websocket":
            return WebSocket(url, headers)
        return Sse(url, headers) if transport == "sse" else Http(url, headers)

    def _sandbox(self, table: dict[str, Any], place: str) -> Policy | None:
        """The name of a profile, or the settings of `[sandbox]` for this server only."""
        value = table.get("sandbox")
        if value is None or value is False:
            return None
        settings = {"profile": value} if isinstance(value, str) else value
        if not isinstance(settings, dict):
            self.refuse(f"{place}.sandbox", "must be 'restricted', 'developer' or a table of settings")
        try:
            return read_policy({"max_cpu_secs": SANDBOX_CPU_SECONDS, **settings})
        except BadConfig as error:
            self.refuse(f"{place}.sandbox", f"cannot be used: {error}")

    # ---- values -------------------------------------------------------------------------------------------------------

    def _table(self, value: object, place: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(place, "must be a table of settings")
        return value

    def _filled(self, text: str, place: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            found = self._environment.get(name, default)
            if found is None:
                self.refuse(place, f"refers to the environment variable {name}, which is not set")
            return found

        return _REFERENCE.sub(value, text)

    def _text(self, table: dict[str, Any], key: str, place: str) -> str | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.refuse(f"{place}.{key}", "must be a text")
        return self._filled(value, f"{place}.{key}")

    def _texts(self, table: dict[str, Any], key: str, place: str) -> tuple[str, ...] | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(f"{place}.{key}", "must be a list of texts")
        return tuple([self._filled(one, f"{place}.{key}") for one in value])

    def _pairs(self, table: dict[str, Any], key: str, place: str) -> dict[str, str]:
        value = table.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self.refuse(f"{place}.{key}", "must be a table of texts")
        return {name: self._filled(one, f"{place}.{key}.{name}") for name, one in value.items()}

    def _flag(self, table: dict[str, Any], key: str, place: str, *, default: bool) -> bool:
        value = table.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(f"{place}.{key}", "must be true or false")
        return value

    def _seconds(self, table: dict[str, Any], key: str, place: str, default: float) -> float:
        value = table.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            self.refuse(f"{place}.{key}", "must be a number of seconds above 0, at most 86400")
        return float(value)

    def _count(self, table: dict[str, Any], key: str, place: str, default: int) -> int:
        value = table.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 10_000:
            self.refuse(f"{place}.{key}", "must be a whole number from 1 to 10000")
        return value

    def _choice(self, table: dict[str, Any], key: str, place: str, words: Mapping[str, _T], default: _T) -> _T:
        value = table.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in words:
            self.refuse(f"{place}.{key}", f"is {value!r}; it may be {', '.join(map(repr, words))}")
        return words[value]


def _misspelt(table: dict[str, Any]) -> str:
    """A key that may have been meant as one of those that say where the server is: others may be another program's."""
    for key in table:
        if key not in _TABLE_KEYS and (meant := closest(key, _WHERE_KEYS)) is not None:
            return f"; it has {key!r}: did you mean {meant!r}?"
    return ""


def _unused_source(table: object) -> Source:
    """Of a server that is never contacted: what it would be, as far as that can be told."""
    settings = table if isinstance(table, dict) else {}
    kind = str(settings.get("type") or settings.get("transport") or ("stdio" if settings.get("command") else "http"))
    match _TRANSPORTS.get(kind.lower()):
        case "stdio":
            return Process("")
        case "sse":
            return Sse("")
        case "websocket":
            return WebSocket("")
        case _:
            return Http("")
