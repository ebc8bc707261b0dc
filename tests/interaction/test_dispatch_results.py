"""What an address may answer beside text: images, sound and files; and answers that make no sense."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.interaction.doors import Door
from tests.interaction.every_door import ask, tool_of
from tests.interaction.upstreams import Act, Upstream, answers

from ronda.core.events import ToolFinished
from ronda.core.parts import Audio, File, Image, ToolResult
from ronda.testing import Call, ScriptedModel, calls, says

PICTURE = base64.b64encode(b"\x89PNG").decode()
IMAGE = Image(f"data:image/png;base64,{PICTURE}")


async def finished(door: Door, name: str, stream: bool, act: Act) -> ToolFinished:
    model = ScriptedModel(calls(Call("draw", {}, "d1")), says("done"))
    async with Upstream(act) as elsewhere, door.serving(model, tool_dispatch_url=elsewhere.url) as served:
        heard = await ask(served, name, stream, [tool_of("draw")])
        [events] = await served.events
    assert heard.text == "done"
    [found] = [event for event in events if isinstance(event, ToolFinished)]
    return found


def says_json(value: Any) -> Act:
    return answers(json.dumps(value).encode())


PARTS = [
    {"type": "text", "text": "Here"},
    {"type": "image", "data": PICTURE, "mimeType": "image/png"},
    {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    {"type": "audio", "data": PICTURE, "mimeType": "audio/mp3"},
    {"type": "text", "text": "it is."},
]


@pytest.mark.parametrize("name", ["chat", "messages"])
async def test_content_may_be_parts(door: Door, stream: bool, name: str) -> None:
    event = await finished(door, name, stream, says_json({"content": PARTS}))

    attachments = (IMAGE, Image("https://example.org/a.png"), Audio(PICTURE, "mp3"))
    assert event.result == ToolResult("d1", "Here\nit is.", attachments=attachments)


@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_an_image_may_be_the_whole_answer(door: Door, stream: bool, name: str) -> None:
    event = await finished(door, name, stream, answers(b"\x89PNG", kind="image/png"))

    assert event.result == ToolResult("d1", "[image]", attachments=(IMAGE,))


@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_files_come_beside_the_text(door: Door, stream: bool, name: str) -> None:
    files = [
        {"name": "up/a.csv", "text": "x\n1\n"},
        {"name": "b.bin", "data": PICTURE},
        {"name": "c", "data": PICTURE, "mime_type": "image/png"},
    ]
    event = await finished(door, name, stream, says_json({"content": "Made.", "files": files}))

    assert event.result == ToolResult("d1", "Made.\n[file a.csv]\n[file b.bin]\n[file c]")
    assert event.files == (
        File(f"data:text/csv;base64,{base64.b64encode(b'x%c1%c' % (10, 10)).decode()}", "a.csv"),
        File(f"data:application/octet-stream;base64,{PICTURE}", "b.bin"),
        File(f"data:image/png;base64,{PICTURE}", "c"),
    )


async def test_a_file_may_be_the_whole_answer(door: Door, stream: bool) -> None:
    act = answers(b"\x89PNG", kind="application/pdf", content_disposition='attachment; filename="report.pdf"')
    event = await finished(door, "chat", stream, act)

    assert event.result == ToolResult("d1", "[file report.pdf]")
    assert event.files == (File(f"data:application/pdf;base64,{PICTURE}", "report.pdf"),)


async def test_an_answer_can_say_that_it_failed(door: Door, stream: bool) -> None:
    event = await finished(door, "chat", stream, says_json({"content": "no such place", "failed": True}))

    assert event.result == ToolResult("d1", "no such place", failed=True)


WRONG: dict[str, tuple[Any, str]] = {
    "an unknown part": ({"content": [{"type": "hologram"}]}, "content[0] of the answer is of the type 'hologram'"),
    "a part without its data": ({"content": [{"type": "image"}]}, "content[0] of the answer is of the type 'image'"),
    "no base64": ({"content": [{"type": "image", "data": "§"}]}, "`data` in content[0] of the answer is not base64"),
    "files that are no list": ({"content": "", "files": {}}, "'files' of the answer is no list of 64 files"),
    "too many files": ({"content": "", "files": [{}] * 65}, "'files' of the answer is no list of 64 files"),
    "a file without a name": ({"content": "", "files": [{"text": "a"}]}, "files[0] of the answer needs a `name`"),
}


@pytest.mark.parametrize(("answer", "problem"), WRONG.values(), ids=WRONG.keys())
async def test_what_makes_no_sense_is_a_failed_result_that_says_so(door: Door, answer: Any, problem: str) -> None:
    event = await finished(door, "chat", False, says_json(answer))

    assert event.result.failed
    assert f"Error: Tool 'draw' failed: {problem}" in event.result.content


@pytest.mark.parametrize("content", [[1, 2], [{"a": 1}], [], {"type": "text"}])
async def test_other_json_is_text_as_before(door: Door, content: Any) -> None:
    event = await finished(door, "chat", False, says_json({"content": content}))

    assert json.loads(event.result.content) == content
