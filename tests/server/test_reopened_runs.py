"""Runs that a server goes on with: what they are driven with is what their first event says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.interaction.doors import Door, Json, Remembering, Served, soon
from tests.server.runs_door import HI, Deleting, Follower, asked_of, get, post

from ronda.core.events import Event
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
    """A run that waits, its question, and a journal in which nobody drives it."""
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
    assert b"tools.json" not in body  # what the operator wrote is not for whoever asks
