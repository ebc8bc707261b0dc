"""A run that goes on where its agent is no longer at hand: the journal has the file, as it was when the run began."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ronda import Agent, resume_agent, run_agent, tool
from ronda.core.events import RunStarted
from ronda.errors import BadRequest
from ronda.journal import Journal
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.prompty import load
from ronda.prompty.registry import clear_tools, register_tool
from ronda.testing import Call, ScriptedModel, calls, says

FILE = """---
name: mailer
model: {id: script.json, provider: script}
inputs: {who: string, tone: {kind: string, default: kind}}
metadata: {note: "${env:REOPEN_NOTE}"}
tools: "${file:tools.yaml}"
---
user:
Mail {{who}}.
"""
TOOLS = """
- name: send_mail
  kind: function
  description: Send a mail.
  parameters: [{name: to, kind: string, required: true}, {name: sender, kind: string}]
  bindings: {sender: {input: who}}
"""


class Mailbox:
    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.handler = tool(approval="ask")(self.send_mail)

    def send_mail(self, to: str, sender: str = "") -> str:
        self.sent.append((to, sender))
        return "sent"


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "runs.db")
    yield made
    asyncio.run(made.close())
    clear_tools()


def mailer(tmp_path: Path, *answers: Any) -> Path:
    folder = tmp_path / "agents"
    folder.mkdir()
    asked = {"calls": [{"name": "send_mail", "arguments": {"to": "ada"}}]}
    (folder / "script.json").write_text(json.dumps([asked, *(answers or ("done",))]))
    (folder / "tools.yaml").write_text(TOOLS)
    file = folder / "mailer.prompty"
    file.write_text(FILE)
    return file


def test_a_run_of_a_file_goes_on_without_it(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "s3cret")
    file, box = mailer(tmp_path), Mailbox()
    register_tool("send_mail", box.handler)
    waits = run_agent(file, {"who": "eve"}, journal=journal)
    file.unlink()
    (file.parent / "tools.yaml").write_text("nothing that could be read: [")

    result = resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal)

    assert (result.output, box.sent) == ("done", [("ada", "eve")])


def test_a_file_that_changed_is_opened_as_it_was(journal: Journal, tmp_path: Path) -> None:
    file, box = mailer(tmp_path), Mailbox()
    file.write_text(FILE.replace("${env:REOPEN_NOTE}", "none"))
    register_tool("send_mail", box.handler)
    waits = run_agent(file, {"who": "eve"}, journal=journal)
    (file.parent / "tools.yaml").write_text("[{name: other, kind: function, parameters: []}]")

    assert resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal).output == "done"
    assert box.sent == [("ada", "eve")]


def test_a_reference_to_the_environment_is_kept_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "s3cret")
    file, box, path = mailer(tmp_path), Mailbox(), tmp_path / "runs.db"
    register_tool("send_mail", box.handler)
    journal = SqliteJournal(path)
    waits = run_agent(file, {"who": "eve"}, journal=journal)
    asyncio.run(journal.close())
    clear_tools()

    with closing(sqlite3.connect(path)) as db:
        dump = "\n".join(
            str(bytes(row[0])) for row in db.execute("SELECT body FROM value UNION SELECT body FROM event")
        )
    assert waits.questions
    assert "${env:REOPEN_NOTE}" in dump
    assert "s3cret" not in dump


def test_a_files_content_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    file, path = mailer(tmp_path), tmp_path / "runs.db"
    journal = SqliteJournal(path)
    for _ in range(3):
        run_agent(file, {"who": "eve"}, [Mailbox().handler], journal=journal)
    asyncio.run(journal.close())

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM value WHERE CAST(body AS TEXT) LIKE '%REOPEN_NOTE%'").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM run").fetchone() == (3,)


def test_what_only_the_gone_process_could_run_is_a_call_that_fails(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    file = mailer(tmp_path, "could not")
    waits = run_agent(file, {"who": "eve"}, [Mailbox().handler], journal=journal)

    result = resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal)

    assert result.output == "could not"
    [called] = result.tool_calls
    assert called.failed
    assert "cannot be called any more" in str(called.content)


def test_an_agent_made_in_code_must_be_given_again(journal: Journal) -> None:
    box = Mailbox()
    agent = Agent(ScriptedModel(calls(Call("send_mail", {"to": "ada"}))), tools=[box.handler])
    waits = run_agent(agent, "go", journal=journal)
    answers = {waits.questions[0].id: True}

    with pytest.raises(BadRequest, match=r"made in code, which no journal can hold; give agent=…"):
        resume_agent(waits.run_id, answers, journal=journal)
    agent = Agent(ScriptedModel(says("done")), tools=[box.handler])
    assert resume_agent(waits.run_id, answers, journal=journal, agent=agent).output == "done"


def test_a_file_that_was_changed_in_code_counts_as_made_in_code(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    changed = replace(load(mailer(tmp_path)), instructions="user:\nMail nobody.")
    waits = run_agent(changed, {"who": "eve"}, [Mailbox().handler], journal=journal)

    with pytest.raises(BadRequest, match="made in code"):
        resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal)


def test_a_child_is_opened_as_it_was_too(journal: Journal, tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    (folder / "parts").mkdir(parents=True)
    child = "---\nmodel: {id: child.json, provider: script}\n---\nuser:\n${file:words.txt}"
    (folder / "parts" / "child.json").write_text('["from the child"]')
    (folder / "parts" / "child.prompty").write_text(child)
    (folder / "parts" / "words.txt").write_text("user:\nSpeak.")
    first = {"calls": [{"name": "send_mail", "arguments": {"to": "ada"}}]}
    (folder / "top.json").write_text(json.dumps([first, {"calls": [{"name": "ask"}]}, "done"]))
    tools = "[{name: ask, kind: prompty, path: parts/child.prompty}, {name: send_mail, kind: function, parameters: {to: string}}]"
    (folder / "top.prompty").write_text(
        f"---\nmodel: {{id: top.json, provider: script}}\ntools: {tools}\n---\nuser:\nGo."
    )
    box = Mailbox()
    waits = run_agent(folder / "top.prompty", {}, [box.handler], journal=journal)
    (folder / "parts" / "child.prompty").unlink()
    (folder / "parts" / "words.txt").unlink()
    (folder / "top.prompty").unlink()

    result = resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal, tools=[box.handler])

    assert [called.content for called in result.tool_calls] == ["sent", "from the child"]


def test_a_file_behind_links_is_opened_again(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    file, box = mailer(tmp_path), Mailbox()
    (tmp_path / "linked").symlink_to(file.parent)
    (file.parent / "real.yaml").write_text(TOOLS)
    (file.parent / "tools.yaml").unlink()
    (file.parent / "tools.yaml").symlink_to(file.parent / "real.yaml")
    register_tool("send_mail", box.handler)
    waits = run_agent(tmp_path / "linked" / "mailer.prompty", {"who": "eve"}, journal=journal)
    for name in ("tools.yaml", "real.yaml", "mailer.prompty"):
        (file.parent / name).unlink()

    assert resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal).output == "done"


async def test_a_run_that_is_not_journaled_keeps_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    seen: list[Any] = []
    await asyncio.to_thread(run_agent, mailer(tmp_path), {"who": "eve"}, [Mailbox().handler], on_event=seen.append)
    assert isinstance(seen[0], RunStarted)
    assert seen[0].file is None


def test_the_rest_of_the_folder_may_be_gone(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REOPEN_NOTE", "x")
    file, box = mailer(tmp_path), Mailbox()
    register_tool("send_mail", box.handler)
    waits = run_agent(file, {"who": "eve"}, journal=journal)
    script = (file.parent / "script.json").read_text()
    shutil.rmtree(file.parent)
    file.parent.mkdir()
    (file.parent / "script.json").write_text(script)  # the model is no part of the file

    assert resume_agent(waits.run_id, {waits.questions[0].id: True}, journal=journal).output == "done"
