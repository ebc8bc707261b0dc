"""Tools of kind `mcp` in a file: which server is meant, which of its tools there are, and which of them ask."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.timeouts import soon
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import PROGRAM, TINY, listening

from ronda import Asked, Prompty, loads, register_connection, register_mcp_servers, run_agent, run_agent_async
from ronda.prompty.errors import BadPrompty
from ronda.prompty.mcp import clear_mcp_servers
from ronda.prompty.tool_kinds import tools_of
from ronda.sandbox.processes import has_ended
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.tools.loop_pools import close_shared


@pytest.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    yield
    clear_mcp_servers()
    await close_shared()


def file(tool: str, inputs: str = "{}") -> Prompty:
    front = f"model: {{id: m, connection: {{kind: reference, name: model}}}}\ninputs: {inputs}\ntools: [{tool}]"
    return loads(f"---\n{front}\n---\nuser:\ngo\n")


def register_programs() -> None:
    register_mcp_servers(
        {
            "every": {"command": sys.executable, "args": [PROGRAM]},
            "careful": {"command": sys.executable, "args": [PROGRAM], "approval": "ask", "auto_tools": ["add"]},
        }
    )


async def test_a_file_calls_a_server_by_its_name() -> None:
    register_programs()
    model = ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("done"))
    register_connection("model", model)
    async with soon():
        result = await run_agent_async(file("{name: t, kind: mcp, serverName: every, allowedTools: [add, count]}"))
    assert result.tool_calls[0].content == "3"
    assert [spec.name for spec in model.requests[0].tools] == ["every_add", "every_count"]


ALL_ASK = {"add": "ask", "count": "ask", "fail": "ask"}
MODES: list[tuple[str, dict[str, str]]] = [
    ("never", dict.fromkeys(ALL_ASK, "auto")),
    ("always", ALL_ASK),
    ("{kind: specify, alwaysRequireApprovalTools: [add]}", {"add": "ask", "count": "auto", "fail": "auto"}),
    ("{kind: specify, neverRequireApprovalTools: [add]}", {"add": "auto", "count": "ask", "fail": "ask"}),
    (
        "{kind: specify, alwaysRequireApprovalTools: [fail], neverRequireApprovalTools: [add]}",
        {"add": "auto", "count": "ask", "fail": "ask"},
    ),
    ("{kind: specify}", ALL_ASK),
]


@pytest.mark.parametrize(("mode", "approvals"), MODES)
async def test_the_approval_mode_acts(mode: str, approvals: dict[str, str]) -> None:
    register_programs()
    prompty = file(f"{{name: t, kind: mcp, serverName: every, allowedTools: [add, count, fail], approvalMode: {mode}}}")
    made = await tools_of(prompty)
    assert {name.removeprefix("every_"): tool.spec.approval for name, tool in made.items()} == approvals


async def test_a_file_cannot_loosen_what_the_host_says() -> None:
    register_programs()
    prompty = file("{name: t, kind: mcp, serverName: careful, allowedTools: [add, count], approvalMode: never}")
    made = await tools_of(prompty)
    assert {name: tool.spec.approval for name, tool in made.items()} == {"careful_add": "auto", "careful_count": "ask"}


async def test_somebody_is_asked_before_the_call() -> None:
    register_programs()
    register_connection("model", ScriptedModel(calls(Call("every_add", {"a": 1, "b": 2})), says("done")))
    asked: list[Asked] = []

    def approve(question: Asked) -> bool:
        asked.append(question)
        return False

    async with soon():
        result = await run_agent_async(
            file("{name: t, kind: mcp, serverName: every, approvalMode: always}"), approve=approve
        )
    assert [question.tool for question in asked] == ["every_add"]
    assert result.tool_calls[0].failed


class KeyNeeded:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != b"Bearer sesame":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


@pytest.mark.parametrize(("key", "is_let_in"), [("sesame", True), ("wrong", False)])
async def test_a_connection_has_the_address_and_the_key(key: str, is_let_in: bool) -> None:
    app = KeyNeeded(make_server().streamable_http_app())
    async with soon(), listening(app) as url:
        connection = f"{{kind: key, endpoint: '{url}/mcp', apiKey: {key}}}"
        name = "far_add" if is_let_in else "far"
        register_connection("model", ScriptedModel(calls(Call(name, {"a": 1, "b": 2})), says("done")))
        result = await run_agent_async(file(f"{{name: far, kind: mcp, connection: {connection}}}"))
        await close_shared()
    [answer] = result.tool_calls
    if is_let_in:
        assert (answer.content, answer.failed) == ("3", False)
    else:
        assert answer.failed
        assert "the MCP server 'far' cannot be used" in str(answer.content)
        assert "401" in str(answer.content)


async def test_a_bound_parameter_is_not_shown_and_is_filled_in() -> None:
    register_programs()
    model = ScriptedModel(calls(Call("every_add", {"a": 1})), says("done"))
    register_connection("model", model)
    prompty = file(
        "{name: t, kind: mcp, serverName: every, allowedTools: [add], bindings: {b: n}}",
        "{n: {kind: integer, default: 41}}",
    )
    async with soon():
        result = await run_agent_async(prompty)
    assert result.tool_calls[0].content == "42"
    assert b'"b"' not in bytes(model.requests[0].tools[0].parameters)


WRONG: list[tuple[str, str]] = [
    ("serverName: nobody", "names the MCP server 'nobody', which is not configured here; there is"),
    ("connection: {kind: anonymous, endpoint: 'file:///etc/passwd'}", "must begin with http"),
    ("connection: {kind: reference, name: model}", "is a model's provider"),
]


@pytest.mark.parametrize(("tool", "message"), WRONG)
async def test_what_is_wrong_with_a_file_is_said_before_a_model_is_called(tool: str, message: str) -> None:
    register_programs()
    model = ScriptedModel()
    register_connection("model", model)
    with pytest.raises(BadPrompty, match=message):
        await run_agent_async(file(f"{{name: t, kind: mcp, {tool}}}"))
    assert model.requests == []


def test_a_run_that_is_waited_for_leaves_no_process_behind() -> None:
    register_mcp_servers({"tiny": {"command": sys.executable, "args": [TINY]}})
    register_connection("model", ScriptedModel(calls("tiny_pid"), says("done")))
    result = run_agent(file("{name: t, kind: mcp, serverName: tiny}"))
    assert has_ended(int(str(result.tool_calls[0].content)))
