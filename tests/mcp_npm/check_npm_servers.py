"""`make test-mcp`: servers of npm that people run, behind two doors of ours. What they need is installed by the target."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, open_door
from tests.timeouts import soon

from ronda.providers.script import Call
from ronda.testing import ScriptedModel, calls, says
from ronda.tools.mcp.config import McpServer, Process, slug

BIN = Path(__file__).parent / "node_modules" / ".bin"
DOORS = pytest.mark.parametrize("which", ["chat", "responses"])


def server(name: str, *arguments: str, **changes: Any) -> McpServer:
    program = Process(str(BIN / "node"), (str((BIN / f"mcp-server-{name}").resolve()), *arguments))
    return McpServer(name=name, source=program, prefix=slug(name), connect_seconds=60.0, **changes)


@pytest.fixture
async def npm_door() -> AsyncIterator[Door]:
    async with open_door() as door:
        yield door


async def ask(served: Served, which: str) -> list[dict[str, Any]]:
    """What the tools gave, through the official SDK of the door."""
    async with soon():
        if which == "chat":
            return (await served.ask(stream=False)).records
        response = await served.client().responses.create(model="default", input="go")
        records: list[dict[str, Any]] = response.to_dict()["agentic_tool_calls"]  # type: ignore[assignment]  # ours
        return records


@DOORS
async def test_the_filesystem_server(npm_door: Door, tmp_path: Path, which: str) -> None:
    write = Call("filesystem_write_file", {"path": str(tmp_path / "a.txt"), "content": "hello"})
    read = Call("filesystem_read_text_file", {"path": str(tmp_path / "a.txt")})
    outside = Call("filesystem_read_text_file", {"path": "/etc/hostname"})
    model = ScriptedModel(calls(write), calls(read, outside), says("done"))
    async with npm_door.serving(model, mcp=[server("filesystem", str(tmp_path))]) as served:
        written, found, refused = await ask(served, which)
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert "failed" not in written
    assert found["result_content"] == "hello"
    assert refused["failed"] is True
    assert "outside allowed directories" in refused["result_content"]


@DOORS
async def test_the_memory_server(npm_door: Door, tmp_path: Path, which: str) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    model = ScriptedModel(
        calls(Call("memory_create_entities", {"entities": [entity]})),
        calls(Call("memory_search_nodes", {"query": "programs"})),
        says("done"),
    )
    config = server("memory")
    source = Process(config.source.command, config.source.args, {"MEMORY_FILE_PATH": str(tmp_path / "m.json")})  # type: ignore[union-attr]  # as made above
    async with npm_door.serving(
        model, mcp=[McpServer(name="memory", source=source, prefix="memory", connect_seconds=60.0)]
    ) as served:
        _, found = await ask(served, which)
    assert "Ada" in found["result_content"]


@DOORS
async def test_images_and_resources_of_the_everything_server(npm_door: Door, which: str) -> None:
    image = Call("everything_get-tiny-image", {})
    resource = Call("everything_get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    add = Call("everything_get-sum", {"a": 2, "b": 3})
    model = ScriptedModel(calls(image, resource, add), says("done"))
    async with npm_door.serving(model, mcp=[server("everything")]) as served:
        pictured, referred, summed = await ask(served, which)
    [data] = pictured["result_images_base64"]
    assert base64.b64decode(data).startswith(b"\x89PNG")
    assert "demo://resource" in referred["result_content"]
    assert "5" in summed["result_content"]
