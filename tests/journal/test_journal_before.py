"""A journal and a catalog that an earlier version wrote are read, and gone on from, by this one."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.interaction.golden_bytes import ASK
from tests.journal.journal_before import BEFORE, QUESTION, UNFINISHED, asked, close, opened, served

from ronda.core.parts import ToolTurn
from ronda.core.run import rebuild
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import ScriptedModel, says

ANSWERS: dict[str, Any] = json.loads((BEFORE / "answers.json").read_text())


async def test_every_run_is_rebuilt(tmp_path: Path) -> None:
    file = opened(tmp_path) / "journal.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        ids = [id for (id,) in db.execute("SELECT name FROM run")]
    journal = SqliteJournal(str(file))
    runs = [rebuild(list(await journal.read(id))) for id in ids]
    await journal.close()

    ends = sorted([run.ended.reason if run.ended is not None else "" for run in runs])
    assert ends == ["", "stop", "stop", "stop", "stop", "tool_calls"]


async def test_a_run_that_was_left_is_recovered(tmp_path: Path) -> None:
    journal = SqliteJournal(str(opened(tmp_path) / "journal.db"))
    run = rebuild(list(await journal.resume(UNFINISHED)))
    said = run.recover()
    await journal.close()

    assert [type(event).__name__ for event in said] == ["ToolFinished"]
    assert run.todo()


async def test_a_stored_response_is_the_same(tmp_path: Path) -> None:
    before = ANSWERS["response"]
    server = served(opened(tmp_path))
    found = await asked(server, "GET", f"/v1/responses/{before['id']}")
    await close(server)

    assert found == before


async def test_a_conversations_history_is_the_same(tmp_path: Path) -> None:
    before = ANSWERS["history"]
    server = served(opened(tmp_path))
    found = await asked(server, "GET", f"/v1/conversations/{before['conversation_id']}/history")
    await close(server)

    assert found == before


async def test_the_callers_result_finds_the_run_that_waits_for_it(tmp_path: Path) -> None:
    server = served(opened(tmp_path), says("On Monday."))
    [call] = ANSWERS["waits"]["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Monday"}
    body = {
        "model": "default",
        "messages": [QUESTION, ANSWERS["waits"], result],
        "tools": [{"type": "function", "function": ASK}],
    }
    await asked(server, "POST", "/v1/chat/completions", body)
    model = (await server.models.find("default")).provider
    await close(server)

    assert isinstance(model, ScriptedModel)
    last = model.heard[0][-1]
    assert isinstance(last, ToolTurn)
    assert [one.content for one in last.results] == ["found Oslo", "Monday"]
