"""What code draws and makes, as clients see it at each door: figures, animations, files that calls or requests name."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Remembering
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root
from tests.tools.test_figures import ANIMATION, PACKAGES, PNG

from ronda.core.events import ToolFinished
from ronda.sandbox.policy import Policy
from ronda.server.app import Server
from ronda.testing import ScriptedModel, calls, says
from ronda.wire.codec.json import encode

PYTHON = "mistralrs_execute_python"
BEGIN = f"import sys; sys.path.append({PACKAGES!r})\nimport matplotlib.pyplot as plt\n"
DRAW = (
    "import pathlib; pathlib.Path('wanted.md').unlink(missing_ok=True)\n"
    + BEGIN
    + "plt.plot([1, 3, 2]); plt.savefig('plot.png'); open('named.csv', 'w').write('x\\n1\\n'); print('drawn')"
)
WANTED: Json = {"files": [{"name": "wanted.md", "format": "md"}], "session_id": "s"}
WANTED_CODE = "open('wanted.md', 'w').write('# wanted')"
SCRIPT = [
    calls(PYTHON, code=DRAW, outputs=["named.csv"]),
    calls(PYTHON, code=BEGIN + ANIMATION.format(frames=3) + WANTED_CODE),
    says("done"),
]
HI: Json = {"messages": [{"role": "user", "content": "Draw."}]}
CHAT: Json = {**HI, **WANTED, "enable_code_execution": True}
MESSAGES: Json = {
    **HI, **WANTED, "max_tokens": 100, "tools": [{"type": "code_execution_20250522", "name": "code_execution"}],
}  # fmt: skip
RESPONSES: Json = {
    **WANTED, "input": "Draw.", "tools": [{"type": "code_interpreter", "container": {"type": "auto"}}],
    "include": ["code_interpreter_call.outputs"],
}  # fmt: skip
FILES = {"named.csv", "plot.png", "a.gif", "wanted.md"}

pytestmark = pytest.mark.skipif(not PACKAGES, reason="matplotlib is not installed")


def is_png(text: str) -> bool:
    return base64.b64decode(text).startswith(PNG)


async def content(door: Door, id: str) -> bytes:
    async with door.http.get(f"{door.url}/files/{id}/content") as answer:
        assert answer.status == 200
        return await answer.read()


def check_progress(first: Json, second: Json) -> None:
    """What is told about the two calls at their end."""
    assert (first["tool_type"], first["stdout"]) == ("code_execution", "drawn\n"), first
    assert [is_png(image) for image in first["images_base64"]] == [True]
    assert "video_frame_count" not in first
    assert (second["video_frame_count"], len(second["video_frames_base64"])) == (3, 3)
    assert all(map(is_png, second["video_frames_base64"]))


def events_of(events: list[tuple[str, Json]]) -> tuple[list[Json], list[Json]]:
    """What was told when calls were complete, and the files."""
    told = [event for name, event in events if name == "agentic_tool_call_progress" and event["phase"] == "complete"]
    return [event["data"] for event in told], [event for name, event in events if name == "file_produced"]


async def test_pictures_and_files_are_told_of_at_every_door(door: Door, root: Path) -> None:
    """In one session, so that matplotlib is imported once."""
    doors = {"chat/completions": CHAT, "messages": MESSAGES, "responses": RESPONSES}
    async with serving(door, ScriptedModel(*SCRIPT * 4), root, sandbox=Policy(extra_fs_read=(PACKAGES,))) as server:
        complete, produced = events_of(await stream(door, "chat/completions", CHAT))
        if complete[0].get("exception"):
            pytest.skip(f"the Python inside cannot use this matplotlib: {complete[0]}")
        check_progress(complete[0], complete[1])
        await check_journal(server, complete[0]["images_base64"][0])
        await check_files(door, produced)
        for path, body in doors.items():
            status, answer = await post(door, path, body)
            assert status == 200, answer
            await check_files(door, answer["files"])
            check_answer(path, answer)


async def check_journal(server: Server, picture: str) -> None:
    """A picture is journaled once: with the result that has it."""
    journal = server.runs.journal
    assert isinstance(journal, Remembering)
    events = [encode(event) for event in await journal.read(journal.runs[0]) if type(event) is ToolFinished]
    assert [event.count(picture.encode()) for event in events] == [1, 0]


async def check_files(door: Door, files: list[Json]) -> None:
    names = {file["name"]: file for file in files}
    assert (set(names), len(files)) == (FILES, len(FILES))
    assert names["wanted.md"]["text"] == "# wanted"
    assert (await content(door, names["named.csv"]["id"]), names["named.csv"]["format"]) == (b"x\n1\n", "csv")
    assert (await content(door, names["plot.png"]["id"])).startswith(PNG)
    assert base64.b64decode(names["plot.png"]["data_base64"]).startswith(PNG)
    assert (await content(door, names["a.gif"]["id"])).startswith(b"GIF")


def check_answer(path: str, answer: Any) -> None:
    """Where the dialect says whose call made which file, and shows pictures."""
    ids = {file["id"]: file["name"] for file in answer["files"]}
    if path in ("chat/completions", "agents/completions", "responses"):
        records = answer["agentic_tool_calls"]
        made = [{ids[file_id] for file_id in record["file_ids"]} for record in records]
        assert made == [{"named.csv", "plot.png"}, {"a.gif", "wanted.md"}]
        assert [is_png(image) for image in records[0]["result_images_base64"]] == [True]
    if path == "responses":
        first, _, message = answer["output"]
        logs, image = first["outputs"]
        assert (logs, is_png(image["url"].partition(",")[2])) == ({"type": "logs", "logs": "drawn\n"}, True)
        cited = {note["filename"] for note in message["content"][0]["annotations"]}
        assert cited == FILES, json.dumps(message)
    if path == "messages":
        results = [block["content"] for block in answer["content"] if block["type"] == "code_execution_tool_result"]
        made = [{ids[one["file_id"]] for one in result["content"]} for result in results]
        assert made == [{"named.csv", "plot.png"}, {"a.gif", "wanted.md"}]
