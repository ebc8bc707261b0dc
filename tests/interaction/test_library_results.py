"""A result that is too long for a model becomes a file in the library's own runs, too, and the model reads the rest of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interaction.long_results import LONG, MIDDLE, ReadsOn, check_reading, last_result, offered, report
from tests.prompty.child_files import write
from tests.timeouts import TIMEOUT

from ronda import Agent, invoke_agent, resume_agent, resume_agent_async, run_agent, stream_agent
from ronda.agent.cassettes.cassette import read_cassette
from ronda.agent.cassettes.replay import branch
from ronda.core.limits import RESULT_CHARS
from ronda.core.plan import PermissionRule
from ronda.errors import BadRequest
from ronda.files import local_files
from ronda.files.blobs import FolderBlobs
from ronda.journal import RunQuery
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.mistralrs.runner.door import collect
from ronda.prompty.connections import register_connection
from ronda.server.app import Server
from ronda.server.config import ServerConfig
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import ScriptedModel, calls, replay, says
from ronda.tools.files.reading import READ


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process and those that it starts have their temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(local_files, "_stores", {})
    return folder


def reads_on() -> ReadsOn:
    return ReadsOn(calls("report"), calls(READ), says("done"))


def was_read(model: ScriptedModel, call: int) -> bool:
    """Whether the model had the middle of the report in this call."""
    return bool(json.loads(last_result(model.heard[call])).get("text") == LONG[MIDDLE : MIDDLE + 40])


def test_a_plain_run() -> None:
    model = reads_on()
    assert invoke_agent(Agent(model, tools=[report]), "go") == "done"
    check_reading(model)


async def test_a_run_that_is_followed() -> None:
    model = reads_on()
    async with stream_agent(Agent(model, tools=[report]), "go") as events:
        async for _ in events:
            pass
    assert events.result == "done"
    check_reading(model)


def test_a_prompty_file(tmp_path: Path) -> None:
    model = reads_on()
    register_connection("reads-on", model)
    declared = "tools: [{name: report, kind: function, description: Write a report., parameters: []}]"
    file = write(tmp_path, "reporter.prompty", "reads-on", declared, "user:\ngo\n")
    assert invoke_agent(file, {}, {"report": lambda: LONG}) == "done"
    check_reading(model)


def test_an_agent_that_is_a_tool_reads_its_own() -> None:
    model = reads_on()
    reporter = Agent(model, name="reporter", tools=[report])
    assert (
        invoke_agent(Agent(ScriptedModel(calls("reporter", input="go"), says("all")), tools=[reporter]), "go") == "all"
    )
    check_reading(model)


def test_the_answer_of_an_agent_that_is_a_tool() -> None:
    reporter = Agent(ScriptedModel(says(LONG)), name="report", description="Write a report.")
    model = ReadsOn(calls("report", input="go"), calls(READ), says("done"))
    assert invoke_agent(Agent(model, tools=[reporter]), "go") == "done"
    check_reading(model)


def test_the_next_run_of_the_conversation_may_read_on_and_no_other() -> None:
    model = ReadsOn(calls("report"), says("done"), calls(READ), says("read"), says("else"))
    agent = Agent(model, tools=[report])
    first = run_agent(agent, "go")
    assert invoke_agent(agent, "more", history=first.messages) == "read"
    assert was_read(model, 3)
    invoke_agent(agent, "something else")
    assert offered(model) == [False, True, True, True, False]


def test_another_run_cannot_read_it() -> None:
    model = ScriptedModel(calls("report"), says("done"))
    first = run_agent(Agent(model, tools=[report]), "go")
    [run_id] = [result.whole for turn in first.messages for result in getattr(turn, "results", ())]
    other = ScriptedModel(calls("report"), calls(READ, file_id=run_id), says("done"))
    invoke_agent(Agent(other, tools=[report]), "go")
    assert "no file with the id" in last_result(other.heard[2])


def test_a_result_that_is_not_too_long_makes_no_folder(temporary: Path) -> None:
    model = ScriptedModel(calls("report", length=RESULT_CHARS), says("done"))
    invoke_agent(Agent(model, tools=[report]), "go")
    assert last_result(model.heard[1]) == LONG[:RESULT_CHARS]
    assert offered(model) == [False, False]
    assert os.listdir(temporary) == []


def test_the_length_can_be_chosen() -> None:
    model = reads_on()
    invoke_agent(Agent(model, tools=[report]), "go", max_result_chars=10_000)
    shown = last_result(model.heard[1])
    assert (shown[:5000], shown[-5000:], len(shown) < 10_400) == (LONG[:5000], LONG[-5000:], True)
    assert "such as 5000 to 15000." in shown  # as many as one call reads
    assert was_read(model, 2)
    [reader] = [spec for spec in model.requests[1].tools if spec.name == READ]
    assert "at most 10000 at a time" in reader.description


def test_the_length_of_agents_that_are_tools_is_the_same() -> None:
    model = reads_on()
    reporter = Agent(model, name="reporter", tools=[report])
    parent = Agent(ScriptedModel(calls("reporter", input="go"), says("all")), tools=[reporter])
    invoke_agent(parent, "go", max_result_chars=10_000)
    assert len(last_result(model.heard[1])) < 10_400


def test_none_shows_the_model_all(temporary: Path) -> None:
    model = ScriptedModel(calls("report"), says("done"))
    invoke_agent(Agent(model, tools=[report]), "go", max_result_chars=None)
    assert (last_result(model.heard[1]), offered(model)) == (LONG, [False, False])
    assert os.listdir(temporary) == []


def test_a_length_that_leaves_nothing_to_show_is_refused() -> None:
    with pytest.raises(BadRequest, match="max_result_chars is 10; it counts characters, from 1000 on; None shows"):
        invoke_agent(Agent(ScriptedModel(says("done"))), "go", max_result_chars=10)


def test_what_could_not_be_read_on_stays_whole() -> None:
    model = ScriptedModel(calls("report"), says("done"))
    invoke_agent(Agent(model, tools=[report]), "go", permissions=[PermissionRule("deny", tool=READ)])
    assert (last_result(model.heard[1]), offered(model)) == (LONG, [False, False])


def test_a_disk_that_takes_nothing_leaves_it_whole(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("a file where a folder should be")
    model = ScriptedModel(calls("report"), says("done"))
    invoke_agent(Agent(model, tools=[report]), "go", result_files=tmp_path / "full")
    assert last_result(model.heard[1]) == LONG


def test_a_cassette_is_played_and_branches_off(tmp_path: Path) -> None:
    path = tmp_path / "run.cassette"
    run_agent(Agent(reads_on(), tools=[report]), "go", record=path)
    assert replay(path).calls == 3
    model = ReadsOn(calls("report"), calls(READ), says("again"))
    asyncio.run(branch(read_cassette(path), 0, "script", model, {"report": report}))
    check_reading(model)


# ---- other processes -------------------------------------------------------------------------------------------------

_FIRST = """
import os, sys
from ronda import Agent, run_agent
from ronda.core.plan import PermissionRule
from ronda.journal.sqlite import SqliteJournal
from tests.interaction.long_results import READ, ReadsOn, report

from ronda.testing import calls, says

journal = SqliteJournal(sys.argv[1]) if len(sys.argv) > 1 else None
agent = Agent(ReadsOn(calls("report"), calls(READ), says("done")), tools=[report])
result = run_agent(agent, "go", journal=journal, permissions=[PermissionRule("ask", tool=READ)])
if (child := os.fork()) == 0:
    sys.exit()  # with all that a process does at its end
os.waitpid(child, 0)
print(result.run_id, result.questions[0].id, *os.listdir(os.environ["TMPDIR"]))
if "killed" in os.environ:
    sys.stdout.flush()
    os._exit(1)
"""


def run_elsewhere(*arguments: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", _FIRST, *arguments], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert ran.stdout, ran.stderr
    return ran.stdout.split()


def test_a_run_that_goes_on_in_another_process_reads_it_beside_its_journal(tmp_path: Path, temporary: Path) -> None:
    run, question, *folders = run_elsewhere(str(tmp_path / "runs.db"))
    assert folders == []
    model = ScriptedModel(says("done"))
    journal = SqliteJournal(tmp_path / "runs.db")
    result = resume_agent(run, {question: True}, journal=journal, agent=Agent(model, tools=[report]))
    asyncio.run(journal.close())
    assert result.output == "done"
    assert was_read(model, 0)


def test_a_program_may_change_its_folder_after_it_has_opened_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = SqliteJournal("runs.db")
    monkeypatch.chdir("/")
    model = reads_on()
    assert invoke_agent(Agent(model, tools=[report]), "go", journal=journal) == "done"
    asyncio.run(journal.close())
    check_reading(model)
    assert {"runs.db", "runs.db-files"} <= set(os.listdir(tmp_path))


async def test_a_run_of_a_server_that_goes_on_in_a_program_reads_the_files_of_the_server(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    catalog, blobs = SqliteCatalog(str(tmp_path / "catalog.db")), FolderBlobs(tmp_path / "files")
    config = ServerConfig(model="script:m", permission=(PermissionRule("ask", tool=READ),))
    server = Server(config, journal, provider=reads_on(), tools=[report], catalog=catalog, blobs=blobs)
    answer = json.loads(await collect(server, b'{"model": "default", "messages": [{"role": "user", "content": "go"}]}'))
    await server.close()

    journal = SqliteJournal(tmp_path / "journal.db")
    model = ScriptedModel(says("done"))
    [approval] = answer["approvals"]
    [waiting] = (await journal.list_runs(RunQuery("", states=("waiting",)))).runs
    agent = Agent(model, tools=[report])
    result = await resume_agent_async(waiting.run, {approval["approval_id"]: True}, journal=journal, agent=agent)
    await journal.close()
    assert result.output == "done"
    assert was_read(model, 0)


def test_the_temporary_folder_goes_with_its_process_and_not_with_a_fork(temporary: Path) -> None:
    _, _, *folders = run_elsewhere()
    assert len(folders) == 1
    assert os.listdir(temporary) == []


def test_that_of_a_process_that_was_killed_goes_with_the_next(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("killed", "yes")
    _, _, *left = run_elsewhere()
    assert os.listdir(temporary) == left
    invoke_agent(Agent(reads_on(), tools=[report]), "go")
    assert left[0] not in os.listdir(temporary)


def test_a_run_whose_file_is_gone_says_so_and_goes_on() -> None:
    journal = MemoryJournal()
    model = reads_on()
    agent = Agent(model, tools=[report])
    asks = [PermissionRule("ask", tool=READ)]
    waiting = run_agent(agent, "go", journal=journal, permissions=asks)
    local_files._stores.clear()  # as in another process
    result = resume_agent(waiting.run_id, {waiting.questions[0].id: True}, journal=journal, agent=agent)
    assert result.output == "done"
    assert "call the tool again" in json.loads(last_result(model.heard[2]))["error"]


def test_a_folder_that_is_named_is_nobody_elses_and_keeps_it(tmp_path: Path, temporary: Path) -> None:
    place = tmp_path / "kept"
    model = ReadsOn(calls("report"), says("done"), calls(READ), says("read"))
    agent = Agent(model, tools=[report])
    first = run_agent(agent, "go", result_files=place)
    assert invoke_agent(agent, "more", history=first.messages, result_files=place) == "read"
    assert was_read(model, 3)
    assert os.listdir(temporary) == []
    assert all((place / name).stat().st_mode & 0o077 == 0 for name in ("catalog.db", "files"))
