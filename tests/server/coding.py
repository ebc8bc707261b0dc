"""A server whose tools run code, each session's in a sandbox of this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import QUICK, Door, Json, Remembering, config_of, soon

from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.files.file_store import FileStore
from ronda.files.workspaces import Workspaces
from ronda.sandbox.layers import Layers, choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.server.app import Server, create_app
from ronda.server.features.code.code_tools import CodeTools
from ronda.server.features.code.settings import CodeSettings
from ronda.testing import ScriptedModel


@pytest.fixture
def root() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="ronda-test-"))  # pytest's own is closed for other users
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def require_isolation(policy: Policy) -> None:
    """Skips a test of what no layer of this machine can give to code: without bubblewrap it has no network of its own."""
    try:
        choose_layer(policy, find_layers())
    except BadConfig as error:
        pytest.skip(str(error))


@contextlib.asynccontextmanager
async def serving(
    door: Door,
    model: ScriptedModel,
    root: Path,
    tools: Sequence[Tool] = (),
    layers: Layers | None = None,
    **settings: Any,
) -> AsyncIterator[Server]:
    config = config_of(
        {
            "model": "script:test",
            "retry": QUICK,
            "enable_code_execution": True,
            "enable_shell": True,
            "sandbox": Policy(max_memory_mb=512),
            **settings,
        }
    )

    def open_code(files: FileStore) -> CodeTools:
        own, workspaces = config.part(CodeSettings), Workspaces(root / "work")
        return CodeTools(own, config.sandbox, files, workspaces, os.environ, layers)

    server = Server(
        config,
        Remembering(),
        provider=model,
        tools=tools,
        given={"code": open_code},
    )
    door._app = create_app(server)
    try:
        yield server
    finally:
        door._app = None
        async with soon():
            await server.runs.close()
            if server.code is not None:
                await server.code.close()


async def post(door: Door, path: str, body: Json) -> tuple[int, Json]:
    async with door.http.post(f"{door.url}/{path}", json=body) as answer:
        return answer.status, await answer.json()


async def stream(door: Door, path: str, body: Json) -> list[tuple[str, Json]]:
    """The events of a stream: their names ("" for those that have none) and what they say."""
    events: list[tuple[str, Json]] = []
    async with door.http.post(f"{door.url}/{path}", json={**body, "stream": True}) as answer:
        assert answer.status == 200, await answer.text()
        for frame in (await answer.text()).split("\n\n"):
            lines = dict(line.split(": ", 1) for line in frame.splitlines() if not line.startswith(":"))
            if lines.get("data", "[DONE]") != "[DONE]":
                events.append((lines.get("event", ""), json.loads(lines["data"])))
    return events
