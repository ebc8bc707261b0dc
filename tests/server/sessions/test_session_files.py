"""A session moves with the files that its code made: exported, imported, forked and deleted with it."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.interaction.doors import Door, Json
from tests.server.coding import root as root
from tests.server.coding import serving
from tests.server.doors.own.test_session_routes import Api

from ronda.testing import ScriptedModel, calls, says

CODE: Json = {"enable_code_execution": True, "session_mode": "append"}
MAKE = (
    "import os; os.mkdir('d'); open('a.txt', 'w').write('one'); "
    "open('d/b.bin', 'wb').write(b'\\xff'); os.symlink('/etc/passwd', 'link')"
)
LOOK = "open('a.txt').read() + str(open('d/b.bin', 'rb').read())"


def content(text: bytes) -> str:
    return base64.b64encode(text).decode()


async def test_files_go_with_their_session(door: Door, root: Path) -> None:
    looks = [calls("mistralrs_execute_python", code=LOOK), says("seen")]
    model = ScriptedModel(calls("mistralrs_execute_python", code=MAKE), says("made"), *looks, *looks)
    async with serving(door, model, root):
        api = Api(door, "test")
        await api.ask("Make files.", "s", **CODE)
        _, document = await api("GET", "sessions/s")
        assert sorted(document["files"], key=lambda file: file["name"]) == [
            {"name": "a.txt", "content": content(b"one")},
            {"name": "d/b.bin", "content": content(b"\xff")},
        ]
        assert (await api("PUT", "sessions/moved", document))[0] == 200
        assert (await api("POST", "sessions/moved/fork", {"id": "forked"}))[0] == 200
        for name in ("moved", "forked"):
            await api.ask("Look.", name, **CODE)
            seen = [turn.results[0].content for turn in model.heard[-1] if hasattr(turn, "results")]
            assert "oneb'" in seen[-1]
        await api("DELETE", "sessions/moved")
        await api("PUT", "sessions/moved", {"messages": []})
        assert (await api("GET", "sessions/moved"))[1]["files"] == []


async def test_a_file_whose_name_is_no_text_is_exported_and_forked(door: Door, root: Path) -> None:
    make = "[open(name, 'wb').write(name) for name in (b'\\xff.txt', b'\\xfe.txt', 'ü.txt'.encode())]; None"
    look = "import os; str(sorted(os.listdir(b'.')))"
    model = ScriptedModel(
        calls("mistralrs_execute_python", code=make),
        says("made"),
        calls("mistralrs_execute_python", code=look),
        says("seen"),
    )
    async with serving(door, model, root):
        api = Api(door, "test")
        await api.ask("Make files.", "s", **CODE)
        status, document = await api("GET", "sessions/s")
        imported = await api("PUT", "sessions/moved", document)
        forked = await api("POST", "sessions/s/fork", {"id": "forked"})
        await api.ask("Look.", "forked", **CODE)
        seen = [turn.results[0].content for turn in model.heard[-1] if hasattr(turn, "results")]
        moved = (await api("GET", "sessions/moved"))[1]["files"]

    names = {file["name"]: file["content"] for file in document["files"]}
    assert (status, imported[0], forked[0]) == (200, 200, 200)
    assert names == {
        "\\xff.txt": content(b"\xff.txt"),
        "\\xfe.txt": content(b"\xfe.txt"),
        "ü.txt": content("ü.txt".encode()),
    }
    assert "\\xff.txt" in seen[-1]  # a fork is no document: it has the very names
    assert {file["name"] for file in moved} == names.keys()


async def test_a_file_may_not_leave_the_workspace(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root):
        api = Api(door, "test")
        kept = [{"name": "kept.txt", "content": content(b"x")}]
        await api("PUT", "sessions/s", {"messages": [], "files": kept})
        for name in ("../x", "/etc/x", "a/../../x", ""):
            document = {"messages": [], "files": [{"name": name, "content": content(b"x")}]}
            status, answer = await api("PUT", "sessions/s", document)
            assert (status, answer["error"]["param"]) == (400, "files"), name
        status, answer = await api("PUT", "sessions/s", {"messages": [], "files": [{"name": "x", "content": "?"}]})
        assert (status, "files" in answer["error"]["param"]) == (400, True)
        assert (await api("GET", "sessions/s"))[1]["files"] == kept


async def test_the_model_is_told_that_its_python_is_a_new_one(door: Door, root: Path) -> None:
    """An interpreter does not survive a restart; its workspace does. One that was reset is what the model asked for."""
    python, reset = "mistralrs_execute_python", calls("mistralrs_reset_python_session")
    first = ScriptedModel(
        calls(python, code="x = 1; open('a.txt', 'w').write('one')"), calls(python, code="x"), says("done")
    )
    second = ScriptedModel(
        calls(python, code="open('a.txt').read()"),
        calls(python, code="1"),
        reset,
        calls(python, code="2"),
        says("done"),
    )
    told: list[list[bool]] = []
    for model in (first, second):  # one server after the other, on the same folder
        async with serving(door, model, root):
            await Api(door, "test").ask("Go.", "s", **CODE)
        results = [turn.results[0].content for turn in model.heard[-1] if hasattr(turn, "results")]
        told.append(["This is a new Python" in result for result in results])
    assert told == [[False, False], [True, False, False, False]]
    assert "one" in results[0]
