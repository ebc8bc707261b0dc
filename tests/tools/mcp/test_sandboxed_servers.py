"""MCP servers that run under a sandbox's profile: real programs, behind the walls that this machine has."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.tools.mcp.serving import call, config, opened

from ronda.errors import BadConfig, ToolFailed
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.tools.mcp.config import McpServer, Process
from ronda.tools.mcp.read import read_tables

SERVER = """
import json, os, socket, sys

def try_to(act):
    try:
        return str(act())
    except OSError as error:
        return f"{type(error).__name__}: {error.strerror}"

ACTS = {
    "read": lambda path: open(path).read(),
    "write": lambda path: open(path, "w").write("x"),
    "environment": lambda: json.dumps(dict(os.environ)),
    "connect": lambda port: socket.create_connection(("127.0.0.1", port), 1) and "connected",
    "die": lambda: os._exit(3),
}
for line in sys.stdin:
    message = json.loads(line)
    params, method = message.get("params") or {}, message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ACTS]}
    elif method == "tools/call":
        act, arguments = ACTS[params["name"]], params.get("arguments") or {}
        result = {"content": [{"type": "text", "text": try_to(lambda: act(**arguments))}]}
    else:
        result = None
    if "id" in message and result is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    elif "id" in message:
        error = {"code": -32601, "message": "unknown"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
"""


@pytest.fixture(scope="module")
def isolated() -> None:
    try:
        choose_layer(Policy(), find_layers())
    except BadConfig as error:
        pytest.skip(f"this machine cannot isolate: {error}")


def server(**sandbox: Any) -> McpServer:
    source = Process("/usr/bin/env", ("python3", "-c", SERVER), {"GIVEN": "to it"}, sandbox=Policy(**sandbox))
    return config(source, "box")


async def said(servers: Any, tool: str, **arguments: Any) -> str:
    return (await call(servers, f"box_{tool}", arguments)).content


@pytest.mark.usefixtures("isolated")
async def test_it_sees_nothing_of_this_machine_but_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, given = tmp_path / "secret", tmp_path / "given"
    for file in (secret, given):
        file.write_text(f"the text of {file.name}")
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with opened(server(extra_fs_read=(str(given),))) as servers:
            [status] = servers.status()
            assert (status.state, status.tools) == ("connected", 5), status
            assert await said(servers, "read", path=str(given)) == "the text of given"
            assert "Error" in await said(servers, "read", path=str(secret))
            assert "Error" in await said(servers, "write", path=str(given))
            assert "Error" in await said(servers, "connect", port=port)
            environment = json.loads(await said(servers, "environment"))
            assert await said(servers, "write", path="its own") == "1"
    assert environment["GIVEN"] == "to it"
    assert "sk-secret" not in environment.values()
    assert given.read_text() == "the text of given"


@pytest.mark.usefixtures("isolated")
async def test_one_that_dies_is_started_anew_and_nothing_is_left() -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with opened(server()) as servers:
        for _ in range(3):
            with pytest.raises(ToolFailed, match="lost while the call ran"):
                await said(servers, "die")
            assert await said(servers, "write", path="again") == "1"
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # what the watchdog holds


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("first", ["/usr/bin/env python3", sys.executable])
async def test_a_python_program_brings_its_python_along(tmp_path: Path, first: str) -> None:
    """As an installed server is: a script whose first line names a Python."""
    script = tmp_path / "served"
    script.write_text(f"#!{first}\n{SERVER}")
    script.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    policy = Policy(extra_fs_read=(str(script),))
    async with opened(config(Process(str(script), sandbox=policy), "box")) as servers:
        [status] = servers.status()
        if "its user may not enter" in (status.last_error or ""):
            pytest.skip(str(status.last_error))
        assert await said(servers, "write", path="x") == "1"


async def test_a_program_that_is_not_there_is_named() -> None:
    async with opened(config(Process("no-such-program", sandbox=Policy()), "box")) as servers:
        [status] = servers.status()
    assert status.state == "failed"
    assert "'no-such-program' cannot be started in a sandbox: there is no such program" in (status.last_error or "")


def test_the_settings_name_a_profile_or_say_all_of_it() -> None:
    tables = {
        "one": {"command": "a", "sandbox": "restricted"},
        "two": {"command": "a", "sandbox": {"profile": "developer", "network": "full", "max_procs": 8}},
        "three": {"command": "a"},
    }
    one, two, three = [server.source for server in read_tables(tables, {})]
    assert isinstance(one, Process)
    assert isinstance(two, Process)
    assert isinstance(three, Process)
    assert one.sandbox is not None
    assert (one.sandbox.profile, type(one.sandbox.network).__name__) == ("restricted", "NoNetwork")
    assert two.sandbox is not None
    assert (two.sandbox.profile, type(two.sandbox.network).__name__, two.sandbox.max_procs) == (
        "developer",
        "FullNetwork",
        8,
    )
    assert three.sandbox is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"sandbox": "strict"}, "sandbox"),
        ({"sandbox": 1}, "must be 'restricted', 'developer' or a table"),
        ({"sandbox": {"netwrok": "none"}}, "did you mean 'network'"),
        ({"sandbox": "restricted", "folder": "x"}, "which has one of its own"),
    ],
)
def test_what_cannot_be_meant_is_refused(entry: dict[str, Any], why: str) -> None:
    with pytest.raises(BadConfig, match=why):
        read_tables({"box": {"command": "a", **entry}}, {})
