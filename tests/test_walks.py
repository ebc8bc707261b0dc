"""The walks through the code that ARCHITECTURE.md has: taken, and compared with what it says."""

from __future__ import annotations

import asyncio
import json
import re
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.walks import ask, one, two

import ronda
from ronda import invoke_agent
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal.memory import MemoryJournal
from ronda.providers import script_file
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.testing import ScriptedModel, calls, says

SOURCE = Path(ronda.__file__).parent
PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"
HI = [{"role": "user", "content": "go"}]


def written(title: str) -> list[str]:
    """The walk under a title of the page."""
    found = re.search(rf"\*\*{re.escape(title)}\*\*\n\n((?:    .*\n)+)", PAGE.read_text())
    assert found is not None, title
    *steps, last = re.split(r"\s*→\s*", " ".join(found[1].split()))
    assert last == "the provider"
    return steps


def here() -> list[str]:
    """The functions of ours that are under way."""
    ours = [frame for frame in traceback.extract_stack() if Path(frame.filename).is_relative_to(SOURCE)]
    return [f"{Path(frame.filename).relative_to(SOURCE).with_suffix('')}.{frame.name}" for frame in ours]


class Walked(ScriptedModel):
    """Remembers how it was reached, the first time after `walks` was emptied."""

    walks: list[list[str]]

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.walks.append(here())
        return await super().call(request, show)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Where each task that drives a run was started."""
    tasks: dict[str, list[str]] = {}
    create: Callable[..., asyncio.Task[Any]] = asyncio.create_task

    def watched(work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
        if getattr(work, "__qualname__", "") == "LiveRun.drive":
            tasks["drive"] = here()
        return create(work, **more)

    monkeypatch.setattr(asyncio, "create_task", watched)
    return tasks


def walked(*lines: Any) -> Walked:
    model = Walked(*lines)
    model.walks = []
    return model


async def test_a_streaming_chat_request_with_two_server_tools(started: dict[str, list[str]]) -> None:
    model = walked(calls("one", "two"), says("Three."))
    server = Server(ServerConfig(model="script:x"), MemoryJournal(), provider=model, tools=[one, two])
    await ask(create_app(server), "/v1/chat/completions", {"model": "default", "messages": HI, "stream": True})

    steps = written("A streaming Chat request with two server tools")
    assert started["drive"] + model.walks[0] == steps
    assert len(steps) + 1 <= 13 * 3 / 4  # with the provider; it was 13


async def test_append_to_a_mistral_conversation() -> None:
    model = walked(says("Hello."), says("Again."))
    app = create_app(Server(ServerConfig(model="script:x"), MemoryJournal(), provider=model))
    begun = await ask(app, "/v1/conversations", {"model": "default", "inputs": "go"})
    await ask(app, f"/v1/conversations/{begun['conversation_id']}", {"inputs": "go on"})

    steps = written("Append to a Mistral conversation")
    assert model.walks[1] == steps
    assert len(steps) + 1 <= 14 * 3 / 4


async def test_responses_with_previous_response_id() -> None:
    model = walked(says("Hello."), says("Again."))
    app = create_app(Server(ServerConfig(model="script:x"), MemoryJournal(), provider=model))
    begun = await ask(app, "/v1/responses", {"model": "default", "input": "go"})
    await ask(app, "/v1/responses", {"model": "default", "input": "go on", "previous_response_id": begun["id"]})

    assert model.walks[1] == written("Responses with previous_response_id")


def test_invoke_agent_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = walked(says("Hello."))
    call = script_file.ScriptFile.call

    async def watched(self: Any, request: ModelRequest, show: Show) -> ModelFinished:
        model.walks.append(here())
        return await call(self, request, show)

    monkeypatch.setattr(script_file.ScriptFile, "call", watched)
    (tmp_path / "lines.json").write_text(json.dumps([{"text": "Hello."}]))
    file = tmp_path / "x.prompty"
    file.write_text("---\nname: x\nmodel:\n  id: script:lines.json\n---\nuser:\ngo\n")

    assert invoke_agent(str(file)) == "Hello."
    steps = written('invoke_agent("x.prompty")')
    assert model.walks[0] == steps
    assert len(steps) + 1 <= 11 * 3 / 4


def layout(head: str) -> list[tuple[list[str], list[str], list[str]]]:
    """The rows of the table under a head: what each cell names."""
    page = PAGE.read_text().partition("\n## Layout\n")[2].partition("\n## ")[0]
    table = re.sub(r"\([^()]*\)", "", page.partition(head)[2].partition("\n\n")[0])  # without what a file is for
    cells = [row.split("|")[1:4] for row in re.findall(r"^\| `.+$", table, re.MULTILINE)]
    assert cells, head
    return [tuple(re.findall(r"`([\w/.]+)`", cell) for cell in row) for row in cells]  # type: ignore[misc]


@pytest.mark.parametrize(("head", "folder"), [("| folder of `src/ronda` |", ""), ("| in `server/` |", "server")])
def test_the_layout_names_every_folder_and_only_files_that_are_there(head: str, folder: str) -> None:
    root = SOURCE / folder
    rows = layout(head)
    places = {place for named, _, _ in rows for place in named}
    folders = {f"{path.name}/" for path in root.iterdir() if (path / "__init__.py").exists()}

    assert places >= folders
    assert [place for place in places if not (root / place).exists()] == []
    inside = [(root / named[0] if named[0].endswith("/") else root, files) for named, _, files in rows]
    assert [f"{where}/{file}" for where, files in inside for file in files if not (where / file).exists()] == []
