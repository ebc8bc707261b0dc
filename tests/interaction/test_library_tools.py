"""An agent made in code has Python, a shell, MCP servers, pages and folders as tools, each in one line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.server.coding import require_isolation

from ronda import (
    Agent,
    fetch,
    folder,
    invoke_agent,
    mcp,
    python,
    resume_agent,
    run_agent,
    run_agent_async,
    shell,
    stream_agent,
    web_search,
)
from ronda.agent.toolsets import AnyTool
from ronda.core.parts import ToolResult, ToolTurn, Turn
from ronda.errors import BadConfig
from ronda.journal.sqlite import SqliteJournal
from ronda.sandbox.policy import Policy
from ronda.testing import Call, ScriptedModel, calls, says


@pytest.fixture(autouse=True, scope="module")
def isolated() -> None:
    require_isolation(Policy())


TIME_SERVER = (sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC")


def results(turns: Sequence[Turn]) -> list[ToolResult]:
    return [result for turn in turns if isinstance(turn, ToolTurn) for result in turn.results]


def output(result: ToolResult) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(result.content.partition("\nFiles:")[0])
    return value


def test_an_agent_runs_python_whose_variables_stay_and_a_shell_in_the_same_folder() -> None:
    model = ScriptedModel(
        calls("python", code="x = 6\nopen('note.txt', 'w').write('from python')"),
        calls("python", code="x * 7"),
        calls("shell", commands=["cat note.txt"]),
        says("42"),
    )

    result = run_agent(Agent(model, tools=[python(), shell()]), "go")

    written, counted, read = results(result.messages)
    assert (output(written)["status"], output(counted)["result"], output(read)["stdout"]) == (
        "success",
        "42",
        "from python",
    )


def test_runs_of_one_session_share_a_folder_and_other_runs_do_not() -> None:
    agent_tools = [shell()]

    def see(session: str) -> str:
        model = ScriptedModel(calls("shell", commands=["ls; touch seen"]), says("done"))
        run = run_agent(Agent(model, tools=agent_tools), "go", session=session)
        return str(output(results(run.messages)[0])["stdout"])

    assert [see("tea"), see("tea"), see("salt"), see(""), see("")] == ["", "seen\n", "", "", ""]


def test_code_that_a_person_must_approve_waits_and_is_resumed_from_the_journal(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "runs.db")
    model = ScriptedModel(calls("python", code="1 + 1"), says("two"))
    agent = Agent(model, tools=[python(approval="ask")])

    asked = run_agent(agent, "go", journal=journal)
    [question] = asked.questions
    result = resume_agent(asked.run_id, {question.id: True}, journal=journal, agent=agent)
    asyncio.run(journal.close())

    assert result.output == "two"
    assert output(results(result.messages)[0])["result"] == "2"


def test_code_has_no_network_and_reads_no_files_of_the_program(tmp_path: Path) -> None:
    """Without bubblewrap it may be told that a file is there, and no more."""
    (tmp_path / "secret.txt").write_text("mine")
    code = (
        f"import socket\ntry:\n    print(open({str(tmp_path / 'secret.txt')!r}).read())\nexcept OSError:\n    print('no file')\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError as error:\n    print('refused')"
    )
    model = ScriptedModel(calls("python", code=code), says("done"))

    result = run_agent(Agent(model, tools=[python()]), "go")

    assert output(results(result.messages)[0])["stdout"] == "no file\nrefused\n"


async def test_the_processes_of_code_end_with_the_event_loop_that_ran_them() -> None:
    model = ScriptedModel(calls("python", code="import os; os.getpid(); open('pid', 'w').write('x')"), says("done"))
    agent = Agent(model, tools=[python()])
    sessions = agent._tools["python"]._sessions  # type: ignore[attr-defined]  # to see what is left

    def run() -> object:
        async def main() -> object:
            await run_agent_async(agent, "go")
            return (await sessions.here()).workbench

        return asyncio.run(main())

    workbench = await asyncio.to_thread(run)

    assert workbench._sessions == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: python(sandbox={"netwrok": "full"}), "did you mean 'network'?"),
        (lambda: python(interpreter="no-such-python"), "there is no Python 'no-such-python'"),
        (lambda: shell(path="/no/such/shell"), "there is no shell '/no/such/shell'"),
        (lambda: shell(folder="/no/such/folder"), "there is no such folder"),
        (
            lambda: python(approval="perhaps"),  # type: ignore[arg-type]  # that is the mistake
            "it can be 'auto', 'ask' or 'deny'",
        ),
        (lambda: folder("/no/such/folder"), "is not there"),
        (lambda: mcp("https://mcp.example.com", "--flag"), "is an address, which takes no arguments"),
        (lambda: mcp("uvx", "x", headers={"a": "b"}), "headers are for addresses"),
        (lambda: mcp({"comand": "x"}), "the server is {'comand': 'x'}; write mcp('https://…')"),  # type: ignore[arg-type]  # a mistake
        (lambda: mcp("uvx", "x", comand="y"), "unknown key 'comand'"),
    ],
)
def test_what_cannot_be_is_said_when_the_tool_is_made(make: Any, problem: str) -> None:
    with pytest.raises(BadConfig) as refused:
        make()

    assert problem in str(refused.value)


def test_an_agent_calls_the_tools_of_an_mcp_server() -> None:
    model = ScriptedModel(calls("get_current_time", timezone="UTC"), says("now"))

    result = run_agent(Agent(model, tools=[mcp(*TIME_SERVER)]), "what time is it?")

    assert '"timezone": "UTC"' in results(result.messages)[0].content


def test_an_mcp_server_has_a_name_and_only_the_tools_that_are_allowed() -> None:
    model = ScriptedModel(says("hello"))
    server = mcp(*TIME_SERVER, name="clock", allowed_tools=["convert_time"])

    result = run_agent(Agent(model, tools=[server]), "hi")

    assert result._run is not None
    assert [tool.name for tool in result._run.plan.tools] == ["clock_convert_time"]


def test_a_call_of_an_mcp_server_waits_for_a_person() -> None:
    model = ScriptedModel(calls("get_current_time", timezone="UTC"), says("now"))
    asked: list[str] = []

    def approve(question: Any) -> bool:
        asked.append(question.tool)
        return False

    run_agent(Agent(model, tools=[mcp(*TIME_SERVER, approval="ask")]), "go", approve=approve)

    assert asked == ["get_current_time"]


def test_a_server_that_cannot_be_started_is_named() -> None:
    agent = Agent(ScriptedModel(says("hello")), tools=[mcp("/no/such/program", "serve")])

    with pytest.raises(BadConfig, match=r"the MCP server 'serve' cannot be used: .*no/such/program"):
        run_agent(agent, "go")


async def test_streams_and_children_and_tools_of_one_run_have_mcp_servers_too() -> None:
    clock = mcp(*TIME_SERVER)
    now = calls("get_current_time", timezone="UTC")

    async with stream_agent(Agent(ScriptedModel(now, says("streamed")), tools=[clock]), "go") as events:
        async for _ in events:
            pass
    assert events.result == "streamed"

    child = Agent(ScriptedModel(now, says("child")), tools=[clock], name="teller", description="Tells the time.")
    parent = Agent(ScriptedModel(calls(Call("teller", {"input": "now?"})), says("parent")), tools=[child])
    result = await run_agent_async(parent, "go")
    assert (result.output, results(result.messages)[0].content) == ("parent", "child")

    given = await run_agent_async(Agent(ScriptedModel(now, says("given"))), "go", [clock])
    assert '"timezone": "UTC"' in results(given.messages)[0].content


def test_a_plain_stream_of_an_agent_with_an_mcp_server_begins_when_it_is_read() -> None:
    agent = Agent(ScriptedModel(says("hello there")), tools=[mcp(*TIME_SERVER)])

    assert "".join(invoke_agent(agent, "go", stream=True)) == "hello there"


def test_an_agent_has_all_of_them_at_once(tmp_path: Path) -> None:
    (tmp_path / "tea.md").write_text("# Tea\n\nWater at eighty degrees for green tea.\n")
    handbook = tmp_path / "handbook"
    handbook.mkdir()
    (handbook / "salt.md").write_text("# Salt\n\nIt comes from the sea.\n")
    model = ScriptedModel(calls("search_handbook", query="salt"), says("From the sea [1]."))
    tools: list[AnyTool] = [mcp(*TIME_SERVER), python(), shell(), web_search(), fetch(), folder(handbook)]

    result = run_agent(Agent(model, tools=tools), "where from?")

    assert "It comes from the sea." in results(result.messages)[0].content
    assert result._run is not None
    assert [tool.name for tool in result._run.plan.tools] == [
        "python",
        "reset_python",
        "shell",
        "mistralrs_search_the_web",
        "mistralrs_website_content_extractor",
        "fetch",
        "search_handbook",
        "convert_time",
        "get_current_time",
    ]
