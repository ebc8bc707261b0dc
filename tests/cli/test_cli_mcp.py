"""MCP servers of `ronda serve` and `ronda run`: from a file, the environment and the settings."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent
from tests.cli.commands import script, shown
from tests.cli.serving import Served, Started
from tests.timeouts import TIMEOUT
from tests.tools.mcp.serving import PROGRAM, TINY

from ronda.sandbox.processes import has_ended

SERVER = {"command": sys.executable, "args": [TINY]}
LISTED = {"name": "tiny", "source": {"type": "Process", **SERVER}, "tool_prefix": "small"}
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "mcpServers": ({"mcpServers": {"tiny": SERVER}}, "tiny_pid"),
    "mistral.rs": ({"servers": [LISTED], "auto_register_tools": True}, "small_pid"),
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(FORMS["mcpServers"][0]))
    return path


def get(served: Served, path: str) -> Any:
    with urllib.request.urlopen(f"{served.url}/v1/{path}", timeout=TIMEOUT) as answer:
        return json.load(answer)


def asks(served: Served) -> Any:
    answer = served.client.chat.completions.create(model="default", messages=[{"role": "user", "content": "go"}])
    return answer.to_dict()["agentic_tool_calls"]


@pytest.mark.parametrize("form", FORMS)
def test_a_served_model_calls_a_tool_and_the_program_ends_with_the_server(
    start: Started, tmp_path: Path, form: str
) -> None:
    settings, name = FORMS[form]
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps(settings))
    start.script.write_text(json.dumps([{"calls": [{"name": name, "arguments": {}}]}, {"text": "done"}]))
    with start.serving("--model", f"script:{start.script}", "--mcp-config", str(path)) as served:
        assert "MCP servers: tiny (stdio) (GET /v1/mcp shows the status of each)" in "".join(served.startup)
        [record] = asks(served)
        [status] = get(served, "mcp")["servers"]
        assert (record["name"], status["state"], status["tools"]) == (name, "connected", 2)
        code, errors = served.end()
    assert (code, errors) == (0, "")
    assert has_ended(int(record["result_content"]))


def test_the_environment_names_a_file(start: Started, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_CONFIG_PATH", str(config))
    with start.serving("--model", f"script:{start.script}") as served:
        assert [one["name"] for one in get(served, "mcp")["servers"]] == ["tiny"]


def test_tables_of_the_settings_name_servers_beside_the_file(start: Started, config: Path) -> None:
    settings = config.with_name("ronda.toml")
    settings.write_text(
        f"mcp_config = 'mcp.json'\nmodel = 'script:{start.script}'\n"
        f"[mcp.other]\ncommand = '{sys.executable}'\nargs = ['{TINY}']\nenabled = false\n"
    )
    with start.serving("--config", str(settings)) as served:
        found = {one["name"]: one["state"] for one in get(served, "mcp")["servers"]}
    assert found.keys() == {"tiny", "other"}
    assert found["other"] == "disabled"


def test_a_second_port_has_mcp_alone(start: Started) -> None:
    start.script.write_text(json.dumps(["hello"]))
    with start.serving("--model", f"script:{start.script}", "--mcp-port", "0") as served:
        [line] = [line for line in served.startup if "an MCP server, and nothing else" in line]
        port = int(line.split("on port ")[1].split()[0])
        url = f"http://127.0.0.1:{port}"
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/v1/models", timeout=TIMEOUT)
        assert refused.value.code == 404
        refused.value.close()
        assert asyncio.run(ask_chat(streamable_http_client(f"{url}/mcp"))) == "hello"
        assert asyncio.run(ask_chat(streamable_http_client(f"{served.url}/mcp"))) == "hello"
        assert served.end() == (0, "")


def test_a_program_is_an_mcp_server_over_its_pipes(start: Started) -> None:
    start.script.write_text(json.dumps(["hello"]))
    arguments = ["-m", "ronda", "mcp", "serve", "--model", f"script:{start.script}", "--data-dir", ":memory:"]
    program = StdioServerParameters(command=sys.executable, args=arguments, env=start.env, cwd=start.cwd)
    for mode in ("legacy", "auto"):
        assert asyncio.run(ask_chat(stdio_client(program), mode)) == "hello"


async def ask_chat(transport: Any, mode: Any = "auto") -> str:
    async with asyncio.timeout(TIMEOUT), Client(transport, mode=mode) as client:
        result = await client.call_tool("chat", {"messages": [{"role": "user", "content": "hi"}]})
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


MISTAKES = [
    ("{", "is not JSON"),
    ('{"mcpServers": {"a": {"command": 5}}}', "mcpServers.a.command must be a text"),
    ('{"mcpServers": {"a": {"url": "ftp://x"}}}', "needs a 'url' that begins with http:// or https://"),
    ('{"servers": [{"source": {"type": "Pipe"}}]}', "servers[0].source.type is 'Pipe'"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_a_file_that_is_wrong_is_told_before_the_server_is_up(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    code, _, errors = shown(capsys, "run", "--mcp-config", str(path), "--model", script(tmp_path, "hi"), "go")
    assert code == 2
    assert message in errors


def test_a_file_that_is_not_there_is_named(start: Started) -> None:
    code, errors = start.fails("--port", "0", "--model", f"script:{start.script}", "--mcp-config", "nowhere.json")
    assert code == 2
    assert "cannot read the MCP configuration 'nowhere.json'" in errors


def test_a_prompt_gets_the_tools(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path) -> None:
    model = script(tmp_path, {"calls": [{"name": "tiny_pid", "arguments": {}}]}, "done")
    code, out, errors = shown(capsys, "run", "--mcp-config", str(config), "--model", model, "go")
    assert (code, out) == (0, "done\n")
    assert "[tiny_pid" in errors


def test_a_file_gets_the_server_that_it_names(capsys: pytest.CaptureFixture[str], tmp_path: Path, config: Path) -> None:
    model = script(tmp_path, {"calls": [{"name": "tiny_pid", "arguments": {}}]}, "done")
    file = tmp_path / "agent.prompty"
    file.write_text("---\nname: a\ntools: [{name: t, kind: mcp, serverName: tiny}]\n---\nuser:\ngo\n")
    code, out, errors = shown(capsys, "run", "--mcp-config", str(config), "--model", model, str(file))
    assert (code, out) == (0, "done\n")
    assert "[tiny_pid" in errors


def test_a_server_without_mcp_imports_nothing_of_it() -> None:
    code = (
        "import sys, ronda.server.app, ronda.cli.serve, ronda.cli.settings, ronda.agent, ronda.prompty.tool_kinds\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'mcp_types', 'pydantic', 'httpx2')"
        " or name.startswith('ronda.tools.mcp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert done.stdout == "[]\n"


def test_the_tools_of_a_server_are_not_imported_before_it_is_called() -> None:
    """What only reads the configuration does not load the SDK, which takes half a second."""
    code = (
        "import sys, ronda.server.features.mcp.read_servers, ronda.tools.mcp.servers, ronda.tools.mcp.read\n"
        f"ronda.tools.mcp.servers.McpServers(ronda.tools.mcp.read.read_tables({{'a': {{'command': '{PROGRAM}'}}}}, {{}}))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mcp', 'pydantic', 'httpx2')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    assert done.stdout == "[]\n"
