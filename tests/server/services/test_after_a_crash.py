"""A server that starts after another was killed: what was said before is there, and what was cut off is told as such."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from pathlib import Path

import pytest
from tests.interaction.doors import Door, Remembering, soon
from tests.server.mistral_doors import MINE, Behind, serving
from tests.server.responses_door import events_of, post, schemas, send

from ronda import tool
from ronda.core.events import ModelFinished, ModelStarted, RunFinished, RunStarted, ToolStarted
from ronda.core.parts import AssistantTurn, ToolCall
from ronda.journal.sqlite import SqliteJournal
from ronda.server.services.runs import BROKEN_OFF
from ronda.store import StoreError
from ronda.store.conversations import RunRow
from ronda.testing import ScriptedModel, calls, says

MESSAGE = {"model": "default", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


async def left_by_a_crash(path: Path, like: str) -> str:
    """A run as one that a killed server leaves: a tool of its second round was running."""
    journal = SqliteJournal(path)
    start, *_ = await journal.read(like)
    assert type(start) is RunStarted
    run = "run_" + "c" * 24
    asked = ModelFinished(AssistantTurn((ToolCall("call_9", "lookup", '{"q":"Rome"}'),), "tool_calls"), at=start.at + 2)
    cut = [RunStarted(run, start.plan, start.turns, start.at, owner=start.owner, about=start.about)]
    journal.append(run, [*cut, ModelStarted(0, at=start.at + 1), asked, ToolStarted("call_9", at=start.at + 3)])
    await journal.barrier(run)
    journal._db.close()  # without a word, as a process ends that is killed
    assert journal._presence is not None
    journal._presence.leave()
    return run


async def test_a_response_that_a_crash_cut_off_has_failed_and_says_so(door: Door, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with door.serving(ScriptedModel(says("one")), lookup, journal=SqliteJournal(path)) as served:
        first = (await post(served, {"input": "go"})).json
    run = await left_by_a_crash(path, f"run_{first['id'].removeprefix('resp_')}")
    response_id = f"resp_{run.removeprefix('run_')}"

    model = ScriptedModel(says("on we go"))
    async with door.serving(model, lookup, journal=SqliteJournal(path)) as served:
        found = (await send(served, "GET", f"/responses/{response_id}")).json
        again = (await send(served, "GET", f"/responses/{response_id}")).json
        streamed = events_of(await send(served, "GET", f"/responses/{response_id}?stream=true"))
        cancelled = await send(served, "POST", f"/responses/{response_id}/cancel")
        child = (await post(served, {"input": "go on", "previous_response_id": response_id})).json
        deleted = await send(served, "DELETE", f"/responses/{response_id}")
        missing = await send(served, "GET", f"/responses/{response_id}")

    schemas().check(found, "ResponseResource")
    assert (found["status"], found["error"]) == (
        "failed",
        {"type": "server_error", "code": "server_error", "message": BROKEN_OFF},
    )
    assert again == found
    assert (streamed[-1]["type"], streamed[-1]["response"]["status"]) == ("response.failed", "failed")
    assert cancelled.error["message"] == f"the response '{response_id}' is finished already; it cannot be cancelled"
    assert child["output"][0]["content"][0]["text"] == "on we go"
    assert (deleted.status, missing.status) == (200, 404)


async def test_a_response_that_another_server_works_on_is_in_progress(door: Door, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with door.serving(ScriptedModel(says("one")), journal=SqliteJournal(path)) as served:
        first = (await post(served, {"input": "go"})).json
    other = SqliteJournal(path)
    start, *_ = await other.read(f"run_{first['id'].removeprefix('resp_')}")
    assert type(start) is RunStarted
    other.append("run_other", [RunStarted("run_other", start.plan, start.turns, owner=start.owner, about=start.about)])
    await other.barrier("run_other")

    async with door.serving(ScriptedModel(), journal=SqliteJournal(path)) as served:
        found = (await send(served, "GET", "/responses/resp_other")).json
        cancelled = await send(served, "POST", "/responses/resp_other/cancel")
    await other.close()

    assert found["status"] == "in_progress"
    assert "is driven by another process" in cancelled.error["message"]


async def outputs(behind: Behind, id: str) -> list[str]:
    status, body = await behind.ask("GET", f"/v1/conversations/{id}/messages")
    assert status == 200, body
    return [entry["content"] for entry in body["messages"] if entry["type"] == "message.output"]


async def test_a_conversation_outlives_a_run_that_was_never_kept(door: Door, tmp_path: Path) -> None:
    """A conversation is told about a run before the run's first event is kept: a crash may come in between."""
    model = ScriptedModel(says("one"), says("two"))
    catalog = str(tmp_path / "catalog.db")
    async with serving(door, model, journal=SqliteJournal(tmp_path / "journal.db"), catalog=catalog) as behind:
        _, begun = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "go"})
        conversation_id = begun["conversation_id"]
        await behind.server.catalog.conversations.add_run(MINE, conversation_id, 1, "run_never_kept", time.time())

    async with serving(door, model, journal=SqliteJournal(tmp_path / "journal.db"), catalog=catalog) as behind:
        before = await outputs(behind, conversation_id)
        status, _ = await behind.ask("POST", f"/v1/conversations/{conversation_id}", {"inputs": "and now?"})
        after = await outputs(behind, conversation_id)

    assert (before, status, after) == (["one"], 200, ["one", "two"])


async def test_a_conversation_goes_on_after_a_run_that_a_crash_cut_off(door: Door, tmp_path: Path) -> None:
    path, catalog = tmp_path / "journal.db", str(tmp_path / "catalog.db")
    model = ScriptedModel(calls("lookup", q="Rome"), says("one"), says("two"))
    async with serving(door, model, lookup, journal=SqliteJournal(path), catalog=catalog) as behind:
        _, begun = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "go"})
        conversation_id = begun["conversation_id"]
        rows = await behind.server.catalog.conversations.runs(MINE, conversation_id)
    cut = await left_by_a_crash(path, rows[0].run)

    async with serving(door, model, lookup, journal=SqliteJournal(path), catalog=catalog) as behind:
        await behind.server.catalog.conversations.add_run(MINE, conversation_id, 1, cut, time.time())
        status, _ = await behind.ask("POST", f"/v1/conversations/{conversation_id}", {"inputs": "and now?"})
        after = await outputs(behind, conversation_id)

    assert (status, after) == (200, ["one", "two"])


async def test_one_server_waits_while_another_answers_in_a_conversation(door: Door, tmp_path: Path) -> None:
    path, catalog = tmp_path / "journal.db", str(tmp_path / "catalog.db")
    model = ScriptedModel(says("one"), says("two"))
    async with serving(door, model, journal=SqliteJournal(path), catalog=catalog) as behind:
        _, begun = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "go"})
        conversation_id = begun["conversation_id"]
        (row,) = await behind.server.catalog.conversations.runs(MINE, conversation_id)
        other = SqliteJournal(path)
        start, *_ = await other.read(row.run)
        assert type(start) is RunStarted
        other.append("run_other", [RunStarted("run_other", start.plan, start.turns, owner=start.owner)])
        await other.barrier("run_other")
        await behind.server.catalog.conversations.add_run(MINE, conversation_id, 1, "run_other", time.time())
        status, body = await behind.ask("POST", f"/v1/conversations/{conversation_id}", {"inputs": "and now?"})
        await other.close()

    assert (status, body["code"]) == (409, "conversation_busy")


async def test_a_run_that_no_conversation_could_be_told_of_is_not_left_open(door: Door, tmp_path: Path) -> None:
    catalog = str(tmp_path / "catalog.db")
    model = ScriptedModel(says("one"), says("two"))
    async with soon(), serving(door, model, catalog=catalog, catalog_timeout=0.1) as behind:
        _, begun = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "go"})
        blocker = sqlite3.connect(catalog, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        path = f"/v1/conversations/{begun['conversation_id']}"
        status, body = await behind.ask("POST", path, {"inputs": "and now?"})
        blocker.close()
        unfinished = [run for run in behind.journal.runs if behind.journal._runs[run].is_driven]
        rows = await behind.server.catalog.conversations.runs(MINE, begun["conversation_id"])

    assert (status, "another program holds a lock" in body["message"]) == (503, True)
    assert unfinished == []
    assert rows == [RunRow(behind.journal.runs[0])]


async def test_a_catalog_that_is_locked_does_not_hold_up_the_others(door: Door, tmp_path: Path) -> None:
    """A request that writes to it waits; one that does not is answered meanwhile."""
    catalog = str(tmp_path / "catalog.db")
    async with soon(), serving(door, ScriptedModel(says("one"), says("two"), says("three")), catalog=catalog) as behind:
        _, begun = await behind.ask("POST", "/v1/conversations", {"model": "default", "inputs": "go"})
        blocker = sqlite3.connect(catalog, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        path = f"/v1/conversations/{begun['conversation_id']}"
        waiting = asyncio.create_task(behind.ask("POST", path, {"inputs": "and now?"}))
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        status, _ = await behind.ask("POST", "/v1/chat/completions", chat)
        was_waiting = not waiting.done()
        blocker.execute("ROLLBACK")
        blocker.close()
        then, _ = await waiting

    assert (status, was_waiting, then) == (200, True, 200)


# ---- a journal that does not take it --------------------------------------------------------------------------------------


class Full(Remembering):
    """A journal on a disk that is full when a run ends."""

    async def barrier(self, run: str) -> None:
        if type((await self.read(run))[-1]) is RunFinished:
            raise StoreError("journal.db", "database or disk is full; make room on this disk")


async def test_a_stream_whose_end_cannot_be_kept_does_not_say_that_all_is_well(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    async with soon(), door.serving(ScriptedModel(*[says("Hello.")] * 4), journal=Full()) as served:
        chat = await served.post({"messages": [{"role": "user", "content": "hi"}], "stream": True})
        response = await post(served, {"input": "hi", "stream": True})
        message = await post(served, {**MESSAGE, "stream": True}, "/messages")
        talk = await post(served, {"model": "default", "inputs": "hi", "stream": True}, "/conversations")

    assert [frame for frame in chat.frames if '"finish_reason":"stop"' in frame] == chat.frames[-3:-2]
    assert json.loads(chat.frames[-2])["error"]["message"] == "the run broke down; the server's log says why"
    assert chat.frames[-1] == "[DONE]"
    assert b"response.completed" not in response.body
    assert response.status == 503 or b"response.failed" in response.body  # its id is shown only if it could be kept
    assert b"conversation.response.done" not in talk.body
    assert talk.status == 503 or b"conversation.response.error" in talk.body
    assert (b"message_stop" in message.body, b"event: error" in message.body) == (False, True)
    records = [record for record in caplog.records if record.name.startswith("ronda")]
    assert {record.exc_info for record in records} == {None}  # what it says is enough
    assert records[0].message.endswith("broke down: journal.db: database or disk is full; make room on this disk")
