"""Runs that a server continues: what they are driven with is what their first event says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Json, Pauses, Remembering, Served, soon
from tests.server.runs_door import HI, Deleting, Follower, asked_of, get, post

from ronda import tool
from ronda.core.events import Asked, Event, RunFinished, RunStarted, ToolFinished, ToolStarted
from ronda.errors import RondaError
from ronda.journal import UnfinishedRun
from ronda.testing import ScriptedModel, says

FILE = """---
model: script:deleter.json
inputs: {where: {kind: string, default: here}}
tools: "${file:tools.json}"
---
system:
Delete what is asked.
"""
TOOLS = [{"name": "delete", "kind": "function", "parameters": [{"name": "path", "kind": "string", "required": True}]}]


async def ask_quietly(served: Served, model: str) -> None:
    body = {"model": model, "messages": HI}
    async with served.http.post(f"{served.url}/chat/completions", json=body, headers=KEY) as answer:
        await answer.read()


KEY = {"authorization": "Bearer test"}


async def left_waiting(served: Served, model: str) -> tuple[str, Json, Remembering]:
    """A run that waits, its question, and a journal in which no process drives it."""
    asking = asyncio.create_task(ask_quietly(served, model))
    run, question = await asked_of(served)
    events: list[list[Event]] = await served.events
    await post(served, f"/runs/{run}/cancel")
    await asking
    left = Remembering()
    for one in events:
        left.append(one[0].run, one)  # type: ignore[union-attr]  # the first is a RunStarted
        left.release(one[0].run, waiting=True)  # type: ignore[union-attr]
    return run, question, left


async def go_on(served: Served, run: str, question: Json) -> Any:
    status, said = await post(served, f"/runs/{run}/answer", {"id": question["id"], "decision": "approve"})
    assert status == 200, said
    await Follower(served, run).read()
    return (await get(served, f"/runs/{run}"))[1]


async def test_a_file_is_opened_as_it_was_when_its_run_began(door: Door, tmp_path: Path) -> None:
    calls = [{"name": "delete", "arguments": {"path": "/a"}}]
    (tmp_path / "deleter.json").write_text(json.dumps([{"calls": calls}, "Done."]))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "deleter.prompty").write_text(FILE)
    files, model = Deleting(), ScriptedModel(says("never"))
    async with door.serving(model, files.tool, agents=str(tmp_path)) as served, soon():
        run, question, left = await left_waiting(served, "deleter")
    (tmp_path / "deleter.prompty").unlink()
    (tmp_path / "tools.json").write_text("[]")

    async with door.serving(model, files.tool, agents=str(tmp_path), journal=left) as served, soon():
        ended = await go_on(served, run, question)

    assert (ended["state"], ended["result"]["text"], files.deleted) == ("finished", "Done.", ["/a"])


async def test_a_tool_that_is_gone_is_a_call_that_fails(door: Door, tmp_path: Path) -> None:
    calls = [{"name": "delete", "arguments": {"path": "/a"}}]
    (tmp_path / "deleter.json").write_text(json.dumps([{"calls": calls}, "Could not."]))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "deleter.prompty").write_text(FILE)
    files, model = Deleting(), ScriptedModel(says("never"))
    async with door.serving(model, files.tool, agents=str(tmp_path)) as served, soon():
        run, question, left = await left_waiting(served, "deleter")

    async with door.serving(model, agents=str(tmp_path), journal=left) as served, soon():
        ended = await go_on(served, run, question)
        body = (await Follower(served, run).read()).body

    assert (ended["state"], ended["result"]["text"], files.deleted) == ("finished", "Could not.", [])
    assert b"cannot be called any more" in body
    assert b"tools.json" not in body  # what the operator wrote is not for the client that asks


# ---- agents that are tools of others ----------------------------------------------------------------------------------

PARENT = """---
model: script:boss.json
tools: [{name: helper, kind: prompty, path: deleter.prompty, mode: agentic}]
---
system:
Ask your helper.
"""


def family(folder: Path) -> None:
    calls = [{"name": "delete", "arguments": {"path": "/a"}}]
    (folder / "deleter.json").write_text(json.dumps([{"calls": calls}, "It is gone."]))
    (folder / "tools.json").write_text(json.dumps(TOOLS))
    (folder / "deleter.prompty").write_text(FILE)
    (folder / "boss.json").write_text(json.dumps([{"calls": [{"name": "helper", "arguments": {}}]}, "Done."]))
    (folder / "boss.prompty").write_text(PARENT)


async def asked_in_parent(served: Served) -> tuple[str, Json]:
    """The parent that waits, and the question that is its child's."""
    journal = served.server.runs.journal
    assert isinstance(journal, Remembering)
    await journal.until(Asked)
    run = journal.runs[0]
    while not (found := (await get(served, f"/runs/{run}"))[1])["questions"]:
        pass
    return run, found["questions"][0]


async def test_a_childs_question_is_its_parents_and_is_answered_there(door: Door, tmp_path: Path) -> None:
    family(tmp_path)
    files, model = Deleting(), ScriptedModel(says("never"))
    async with door.serving(model, files.tool, agents=str(tmp_path)) as served, soon():
        asking = asyncio.create_task(ask_quietly(served, "boss"))
        run, question = await asked_in_parent(served)
        child = question["child"]
        _, shown = await get(served, f"/runs/{run}")
        answer = {"id": question["id"], "decision": "approve", "arguments": {"path": "/b"}}
        elsewhere, said = await post(served, f"/runs/{child}/answer", answer)
        unfit, _ = await post(served, f"/runs/{run}/answer", {**answer, "arguments": {"path": 1}})
        status, _ = await post(served, f"/runs/{run}/answer", answer)
        await asking
        again, _ = await post(served, f"/runs/{run}/answer", answer)
        _, ended = await get(served, f"/runs/{run}")
        _, childs = await get(served, f"/runs/{child}")

    assert (shown["state"], question["tool"], question["arguments"]) == ("waiting", "delete", '{"path":"/a"}')
    assert (elsewhere, unfit, status, again) == (409, 400, 200, 409)
    assert "answer there" in said["error"]["message"]
    assert (ended["state"], ended["result"]["text"], files.deleted) == ("finished", "Done.", ["/b"])
    assert (childs["state"], childs["result"]["text"]) == ("finished", "It is gone.")


async def test_a_childs_question_is_answered_in_another_process(door: Door, tmp_path: Path) -> None:
    family(tmp_path)
    files, model = Deleting(), ScriptedModel(says("never"))
    async with door.serving(model, files.tool, agents=str(tmp_path)) as served, soon():
        asking = asyncio.create_task(ask_quietly(served, "boss"))
        run, question = await asked_in_parent(served)
        events = await served.events
        await post(served, f"/runs/{run}/cancel")
        await asking
    for name in ("boss.prompty", "deleter.prompty"):
        (tmp_path / name).unlink()
    left = Remembering()
    for one in events:
        assert isinstance(one[0], RunStarted)
        left.append(one[0].run, one)
        left.release(one[0].run, waiting=True)

    async with door.serving(model, files.tool, agents=str(tmp_path), journal=left) as served, soon():
        await served.server.recovery.recover_all()  # which leaves both as they are
        ended = await go_on(served, run, question)

    assert (ended["state"], ended["result"]["text"], files.deleted) == ("finished", "Done.", ["/a"])


@pytest.mark.parametrize("outlives", [True, False])
async def test_a_child_goes_on_with_its_parent_or_ends_with_it(door: Door, tmp_path: Path, outlives: bool) -> None:
    family(tmp_path)
    (tmp_path / "boss.prompty").write_text(PARENT.replace("path: deleter", "path: counter"))
    (tmp_path / "counter.prompty").write_text(FILE.replace("deleter.json", "counter.json"))
    calls = [{"name": "delete", "arguments": {"path": "/a"}}]
    (tmp_path / "counter.json").write_text(json.dumps([{"calls": calls}, "Counted."]))
    deleted: list[str] = []

    @tool
    async def delete(path: str) -> str:
        """Delete a file."""
        deleted.append(path)
        return "gone"

    model = ScriptedModel(says("never"))
    async with door.serving(model, delete, agents=str(tmp_path)) as served, soon():
        await ask_quietly(served, "boss")
        parent, child = await served.events
    left, start = Remembering(), parent[0]
    assert isinstance(start, RunStarted)
    at = next(n for n, event in enumerate(parent) if isinstance(event, ToolStarted))
    left.append(start.run, [replace(start, outlives=outlives), *parent[1 : at + 1]])
    left.append(child[0].run, child[:-3])  # type: ignore[union-attr]  # its last answer is missing
    left.release(start.run)
    left.release(child[0].run)  # type: ignore[union-attr]
    deleted.clear()

    async with door.serving(model, delete, agents=str(tmp_path), journal=left) as served, soon():
        await served.server.recovery.recover_all()
        await served.all_over()
        parents, childs = await served.events

    assert deleted == []  # it had run
    ends = [one[-1].reason for one in (parents, childs) if isinstance(one[-1], RunFinished)]
    assert ends == (["stop", "stop"] if outlives else ["interrupted", "interrupted"])
    if outlives:
        [finished] = [event for event in parents if isinstance(event, ToolFinished)]
        assert finished.result.content == "Counted."


@pytest.mark.parametrize("is_driven", [True, False])
async def test_a_child_that_waits_ends_with_its_parent(door: Door, tmp_path: Path, is_driven: bool) -> None:
    family(tmp_path)
    files, model = Deleting(), ScriptedModel(says("never"))
    async with door.serving(model, files.tool, agents=str(tmp_path)) as served, soon():
        asking = asyncio.create_task(ask_quietly(served, "boss"))
        run, question = await asked_in_parent(served)
        events = await served.events
        _, cancelled = await post(served, f"/runs/{run}/cancel")
        await asking
        _, child = await get(served, f"/runs/{question['child']}")
    if not is_driven:
        left = Remembering()
        for one in events:
            assert isinstance(one[0], RunStarted)
            left.append(one[0].run, one)
            left.release(one[0].run, waiting=True)
        async with door.serving(model, files.tool, agents=str(tmp_path), journal=left) as served, soon():
            _, cancelled = await post(served, f"/runs/{run}/cancel")
            _, child = await get(served, f"/runs/{question['child']}")

    assert (cancelled["state"], child["state"], files.deleted) == ("cancelled", "cancelled", [])


class Locked(Remembering):
    """A journal that cannot be read the first time."""

    is_locked = True

    async def unfinished_runs(self) -> list[UnfinishedRun]:
        if self.is_locked:
            self.is_locked = False
            raise RondaError("the database is locked")
        return await super().unfinished_runs()


async def test_a_journal_that_cannot_be_read_at_the_start_is_read_a_little_later(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    async with door.serving(ScriptedModel(says("Hello."))) as served, soon():
        await ask_quietly(served, "default")
        [[start, *_]] = await served.events
    assert isinstance(start, RunStarted)
    left = Locked()
    left.append(start.run, [replace(start, outlives=True)])
    left.release(start.run)

    pauses = Pauses()
    async with door.serving(ScriptedModel(says("Hello again.")), journal=left, sleep=pauses) as served, soon():
        served.server.open()
        await pauses.until(1.0)
        await Follower(served, start.run).read()
        _, ended = await get(served, f"/runs/{start.run}")

    assert (ended["state"], ended["result"]["text"]) == ("finished", "Hello again.")
    assert "the recovery of runs ended, and is started again in 1 s: the database is locked" in caplog.text
