"""Configurations that name MCP servers, in the forms in which people have them."""

from __future__ import annotations

import contextlib
import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadConfig
from ronda.providers.grants import Grant
from ronda.tools.mcp.config import Approvals, Http, McpServer, Process, Sse, WebSocket
from ronda.tools.mcp.read import read_config, read_tables


def read(value: object, **environment: str) -> list[McpServer]:
    return read_config(json.dumps(value).encode(), environment, "mcp.json")


def test_the_list_form_with_only_what_it_needs() -> None:
    [server] = read(
        {
            "servers": [
                {"name": "Filesystem Tools", "source": {"type": "Process", "command": "npx", "args": ["fs", "."]}}
            ],
            "auto_register_tools": True,
        }
    )
    assert server == McpServer(name="Filesystem Tools", source=Process("npx", ("fs", ".")), prefix="filesystem_tools")


def test_the_list_form_with_everything_and_explicit_nulls() -> None:
    servers = read(
        {
            "servers": [
                {
                    "id": "a",
                    "name": "files",
                    "source": {"type": "Process", "command": "fs", "args": [], "work_dir": None, "env": {"LEVEL": "1"}},
                    "enabled": True,
                    "tool_prefix": "fs",
                    "resources": ["file://**"],
                    "bearer_token": None,
                },
                {
                    "id": "b",
                    "name": "hub",
                    "source": {"type": "Http", "url": "https://a.example/mcp", "timeout_secs": 60, "headers": None},
                    "tool_prefix": None,
                    "bearer_token": "${TOKEN}",
                },
                {
                    "id": "c",
                    "name": "off",
                    "enabled": False,
                    "source": {"type": "WebSocket", "url": "${NOT_SET}", "headers": {}},
                    "bearer_token": "${NOT_SET}",
                },
                {"name": "live", "source": {"type": "WebSocket", "url": "wss://a.example/ws"}},
            ],
            "auto_register_tools": False,
            "tool_timeout_secs": 5,
            "max_concurrent_calls": 3,
        },
        TOKEN="secret",
    )
    shared: dict[str, Any] = {"offered": False, "max_calls": 3}
    assert servers == [
        McpServer(
            name="files",
            source=Process("fs", (), {"LEVEL": "1"}),
            prefix="fs",
            resources=("file://**",),
            call_seconds=5,
            **shared,
        ),
        McpServer(name="hub", source=Http("https://a.example/mcp"), bearer_token="secret", call_seconds=60, **shared),
        McpServer(name="off", source=WebSocket(""), enabled=False, prefix="off", call_seconds=5, **shared),
        McpServer(name="live", source=WebSocket("wss://a.example/ws"), prefix="live", call_seconds=5, **shared),
    ]


@pytest.mark.parametrize("key", ["mcpServers", "servers"])
def test_the_form_of_most_programs(key: str) -> None:
    servers = read(
        {
            key: {
                "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"KEY": "${env:KEY}"}, "alwaysAllow": []},
                "hub": {"type": "http", "url": "https://a.example/mcp", "headers": {"X-Key": "${KEY}"}},
                "old": {"type": "sse", "url": "https://a.example/sse"},
                "bare": {"url": "https://${HOST:-b.example}/mcp"},
                "socket": {"url": "ws://127.0.0.1:1/ws"},
                "off": {"command": "x", "disabled": True},
            }
        },
        KEY="k",
    )
    assert servers == [
        McpServer(name="git", source=Process("uvx", ("mcp-server-git",), {"KEY": "k"}), prefix="git"),
        McpServer(name="hub", source=Http("https://a.example/mcp", {"X-Key": "k"}), prefix="hub"),
        McpServer(name="old", source=Sse("https://a.example/sse"), prefix="old"),
        McpServer(name="bare", source=Http("https://b.example/mcp"), prefix="bare"),
        McpServer(name="socket", source=WebSocket("ws://127.0.0.1:1/ws"), prefix="socket"),
        McpServer(name="off", source=Process(""), enabled=False, prefix="off"),
    ]


def test_tables_of_the_settings() -> None:
    table = tomllib.loads(
        """
        [mcp.notes]
        url = "https://a.example/mcp"
        token_url = "https://a.example/token"
        client_id = "me"
        client_secret = "${SECRET}"
        scopes = ["read"]
        prefix = "n"
        approval = "ask"
        auto_tools = ["list"]
        allowed_tools = ["list", "read_*"]
        call_seconds = 2.5
        connect_seconds = 3
        max_calls = 1
        era = "legacy"
        """
    )
    [server] = read_tables(table["mcp"], {"SECRET": "s"})
    assert server == McpServer(
        name="notes",
        source=Http("https://a.example/mcp"),
        grant=Grant("https://a.example/token", "me", "s", ("read",)),
        prefix="n",
        approvals=Approvals("ask", never=("list",)),
        allowed_tools=("list", "read_*"),
        call_seconds=2.5,
        connect_seconds=3,
        max_calls=1,
        era="legacy",
    )
    assert [server.allows(tool) for tool in ("list", "read_one", "write")] == [True, True, False]
    assert [server.approvals.of(tool, is_read_only=False) for tool in ("list", "read_one")] == ["auto", "ask"]


def test_nothing_secret_is_shown() -> None:
    [server] = read(
        {"mcpServers": {"a": {"url": "https://h/", "headers": {"X": "secret1"}, "bearer_token": "secret2"}}}
    )
    assert repr(server) == "McpServer('a', http)"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ([], "mcp.json must be a JSON object with 'servers' or 'mcpServers'"),
        ({}, "mcp.json has neither a list 'servers' nor an object 'mcpServers'"),
        ({"servers": [1]}, "mcp.json: servers[0] must be a table of settings"),
        ({"servers": [{"name": "a"}]}, "mcp.json: servers[0].source must be a table of settings"),
        (
            {"servers": [{"source": {"type": "process"}}]},
            "mcp.json: servers[0].source.type is 'process'; it must be 'Process', 'Http', 'WebSocket'",
        ),
        (
            {"servers": [{"source": {"type": "Process"}}]},
            "mcp.json: servers[0].source needs a 'command', the program to start",
        ),
        ({"mcpServers": {"a": {"command": 3}}}, "mcp.json: mcpServers.a.command must be a text"),
        (
            {"mcpServers": {"a": {"command": "x", "args": "y"}}},
            "mcp.json: mcpServers.a.args must be a list of texts",
        ),
        (
            {"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}},
            "mcp.json: mcpServers.a.env must be a table of texts",
        ),
        (
            {"mcpServers": {"a": {"url": "ftp://x"}}},
            "mcp.json: mcpServers.a needs a 'url' that begins with http:// or https://",
        ),
        (
            {"mcpServers": {"a": {"url": "http://x", "type": "pigeon"}}},
            "mcp.json: mcpServers.a has the transport 'pigeon'; it may be 'stdio', 'http', 'sse' or 'websocket'",
        ),
        (
            {"mcpServers": {"a": {"url": "http://x", "headers": {"K": "${NO_KEY}"}}}},
            "mcp.json: mcpServers.a.headers.K refers to the environment variable NO_KEY, which is not set",
        ),
        (
            {"servers": [{"name": "a", "source": {"type": "Process", "command": "x"}}] * 2},
            "mcp.json names two MCP servers 'a'; give each a name of its own",
        ),
        (
            {"servers": [], "auto_register_tools": True} | {"servers": [{"enabled": "yes"}]},
            "mcp.json: servers[0].enabled must be true or false",
        ),
        (
            {"mcpServers": {"a": {"url": "http://x", "call_seconds": 0}}},
            "mcp.json: mcpServers.a.call_seconds must be a number of seconds above 0, at most 86400",
        ),
        (
            {"mcpServers": {"a": {"url": "http://x", "token_url": "http://y", "client_id": "me"}}},
            "mcp.json: mcpServers.a needs token_url, client_id, client_secret together; "
            "'client_id' by itself is for 'ronda mcp login'",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(value: object, complaint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read(value)
    assert str(refused.value) == complaint


def test_a_key_that_nobody_knows_is_refused_in_our_own_settings() -> None:
    with pytest.raises(BadConfig, match=r"ronda.toml: mcp\.a has an unknown key 'comand'; did you mean 'command'\?"):
        read_tables({"a": {"comand": "x"}}, {})
    with pytest.raises(BadConfig, match=r"ronda.toml: mcp\.a has an unknown key 'colour'; it may have allowed_tools, "):
        read_tables({"a": {"colour": "x"}}, {})


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (
            {"comand": "npx"},
            "mcpServers.a needs a 'url' that begins with http:// or https://, or a 'command', the program to start; "
            "it has 'comand': did you mean 'command'?",
        ),
        (
            {"type": "stdio", "cmmand": "npx"},
            "mcpServers.a needs a 'command', the program to start; it has 'cmmand': did you mean 'command'?",
        ),
        (
            {"type": "http", "URL": "http://x"},
            "mcpServers.a needs a 'url' that begins with http:// or https://, or a 'command', the program to start; "
            "it has 'URL': did you mean 'url'?",
        ),
        (
            {"colour": "red"},
            "mcpServers.a needs a 'url' that begins with http:// or https://, or a 'command', the program to start",
        ),
    ],
)
def test_a_misspelt_key_of_anybodys_file_is_named(entry: object, complaint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        read({"mcpServers": {"a": entry}})
    assert str(refused.value) == f"mcp.json: {complaint}"


def test_a_file_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"mcp\.json is not JSON"):
        read_config(b"{", {}, "mcp.json")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
)
_KEYS = st.sampled_from(
    [
        "name",
        "source",
        "enabled",
        "command",
        "args",
        "env",
        "url",
        "type",
        "tool_prefix",
        "prefix",
        "call_seconds",
        "era",
    ]
)


@given(st.sampled_from(["servers", "mcpServers"]), st.dictionaries(_KEYS, _JSON) | _JSON)
def test_any_file_is_read_or_refused(key: str, entry: object) -> None:
    for servers in ([entry], {"a": entry}, entry):
        with contextlib.suppress(BadConfig):
            assert all(isinstance(server, McpServer) for server in read({key: servers}))
