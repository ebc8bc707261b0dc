"""Files with names that no person would choose, made by code: the answer is whole, whatever they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.doors import Door
from tests.server.coding import post, serving, stream
from tests.server.coding import root as root

from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "go"}]
ODD = {
    "no UTF-8": r"b'\xff\xfe.txt'",
    "a line": r"b'a\r\nX-Evil: 1\r\n\r\n.txt'",
    "quotes": r"""b'"; filename="evil.exe'""",
    "long": "b'x' * 255",
    "control": r"b'\x1b[2J\x07.txt'",
    "right to left": r"'\u202etxt.exe'.encode()",
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
async def test_a_file_of_any_name_is_handed_on(door: Door, root: Path, name: str) -> None:
    code = f"import os\nos.write(os.open({name}, os.O_CREAT | os.O_WRONLY), b'x')"
    model = ScriptedModel(calls("mistralrs_execute_python", code=code), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
        assert status == 200, answer
        for file in answer["files"]:
            async with door.http.get(f"{door.url}/files/{file['id']}/content") as content:
                assert (content.status, await content.read()) == (200, b"x")
                assert "X-Evil" not in content.headers
    assert answer["choices"][0]["message"]["content"] == "done"


async def test_a_stream_with_such_a_file_ends_as_it_should(door: Door, root: Path) -> None:
    code = "open(b'\\xff.txt', 'w').write('x')"
    model = ScriptedModel(calls("mistralrs_execute_python", code=code), says("done"))
    async with serving(door, model, root):
        events = await stream(door, "chat/completions", {"messages": HI, "enable_code_execution": True})
    assert "error" not in events[-1][1]
