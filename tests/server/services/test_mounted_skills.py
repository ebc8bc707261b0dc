"""Skills that a request names: told to the model, there for its shell, and read-only."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace
from tests.interaction.doors import Door, Json
from tests.sandbox.conftest import require
from tests.server.coding import post, serving
from tests.server.coding import root as root
from tests.server.services.test_input_files import results, told

from ronda.core.events import RunStarted
from ronda.drive import ToolContext
from ronda.files.archives import pack_zip
from ronda.files.blobs import FolderBlobs
from ronda.sandbox.layers import find_layers
from ronda.testing import ScriptedModel, calls, says

HI = [{"role": "user", "content": "go"}]
SKILL = {
    "auditor/SKILL.md": b"---\nname: invoice auditor\ndescription: Audits invoices.\n---\nRun check.py.\n",
    "auditor/check.py": b"import sys\nprint('checked', open(sys.argv[1]).read())\n",
    "auditor/data/invoice.csv": b"total,7",
}
RUN = "python3 skills/invoice_auditor/check.py skills/invoice_auditor/data/invoice.csv"


async def upload(door: Door, path: str = "skills", files: dict[str, bytes] = SKILL) -> Json:
    form = aiohttp.FormData()
    form.add_field("files", pack_zip(files), filename="skill.zip")
    async with door.http.post(f"{door.url}/{path}", data=form) as answer:
        assert answer.status == 200, await answer.text()
        found: Json = await answer.json()
        return found


def responses(*skills: Json) -> tuple[str, Json]:
    environment = {"type": "container_auto", "skills": list(skills)}
    return "responses", {"input": "go", "tools": [{"type": "shell", "environment": environment}]}


def messages(*skills: Json) -> tuple[str, Json]:
    tools = [{"type": "code_execution_20250825", "name": "code_execution"}]
    return "messages", {"messages": HI, "max_tokens": 99, "tools": tools, "container": {"skills": list(skills)}}


def reference(door: str, id: str, **version: Any) -> tuple[str, Json]:
    if door == "responses":
        return responses({"type": "skill_reference", "skill_id": id, **version})
    return messages({"type": "custom", "skill_id": id, **version})


@pytest.mark.parametrize("name", ["responses", "messages"])
async def test_a_skill_is_told_of_and_there_for_the_shell(door: Door, root: Path, name: str) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["cat skills/*/SKILL.md", RUN]), says("done"))
    async with serving(door, model, root):
        skill = await upload(door)
        status, answer = await post(door, *reference(name, skill["id"], version="latest"))
    assert status == 200, answer
    for text in (
        "invoice auditor",
        "Audits invoices.",
        "cat skills/invoice_auditor/SKILL.md",
        "  check.py",
        "    invoice.csv",
    ):
        assert text in told(model)
    assert json.loads(results(model)[0])["stdout"].endswith("Run check.py.\nchecked total,7\n")


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
async def test_code_cannot_change_a_skill(door: Door, root: Path, layer: str) -> None:
    layers = find_layers()
    require(layer, layers)
    if layer == "landlock":
        layers = replace(layers, bwrap=None)
    tricks = [
        "echo bad >> skills/invoice_auditor/SKILL.md",
        "rm -rf skills/invoice_auditor",
        "touch skills/new",
        "chmod -R 777 skills/.",
        "mv skills/invoice_auditor x",
        "rm skills; mkdir skills; touch skills/own",
    ]
    model = ScriptedModel(
        calls("mistralrs_shell", commands=tricks[:5]),
        calls("mistralrs_shell", commands=["rm skills"]),
        calls("mistralrs_shell", commands=["cat skills/invoice_auditor/SKILL.md", RUN]),
        calls("mistralrs_shell", commands=tricks[5:]),
        calls("mistralrs_shell", commands=["ls skills"]),
        says("done"),
    )
    async with serving(door, model, root, layers=layers):
        skill = await upload(door)
        status, answer = await post(door, *reference("responses", skill["id"]))
        [folder] = (root / "work").glob("*/skills")
        assert {path.name for path in folder.iterdir()} == {"invoice_auditor"}
        assert (folder / "invoice_auditor" / "SKILL.md").stat().st_mode & 0o777 == 0o644
    assert status == 200, answer
    first, _, third, _, last = results(model)
    for output in next(item for item in answer["output"] if item["type"] == "shell_call_output")["output"]:
        if layer == "bubblewrap":  # under Landlock a change of modes or times seems to succeed, and does nothing
            assert output["outcome"]["exit_code"] != 0, output
    assert json.loads(third)["stdout"] == SKILL["auditor/SKILL.md"].decode() + "checked total,7\n"
    assert "is in the way of the skills" in last
    assert "Read-only" in first or "denied" in first


async def test_an_older_version_is_found_by_its_number_its_id_and_as_the_default(door: Door, root: Path) -> None:
    newer = {**SKILL, "auditor/data/invoice.csv": b"total,8"}
    model = ScriptedModel()
    async with serving(door, model, root):
        skill = await upload(door)
        version = await upload(door, f"skills/{skill['id']}/versions", newer)
        asked: list[tuple[Json, str]] = [
            ({}, "7"), ({"version": "latest"}, "8"), ({"version": "1"}, "7"), ({"version": 2}, "8"),
            ({"version": version["id"]}, "8"),
        ]  # fmt: skip
        for more, total in asked:
            ScriptedModel.__init__(model, calls("mistralrs_shell", commands=[RUN]), says("done"))
            status, answer = await post(door, *reference("responses", skill["id"], **more))
            assert status == 200, answer
            assert json.loads(results(model)[0])["stdout"] == f"checked total,{total}\n", more


async def test_a_session_has_the_skills_of_its_last_request(door: Door, root: Path) -> None:
    other = {"b/SKILL.md": b"---\nname: b\ndescription: B.\n---\n"}
    look = calls("mistralrs_shell", commands=["ls skills/"])
    model = ScriptedModel(look, says("1"), look, says("2"))
    async with serving(door, model, root):
        first, second = await upload(door), await upload(door, files=other)
        for skill in (first, second):
            path, body = reference("responses", skill["id"])
            await post(door, path, {**body, "session_id": "s"})
    assert json.loads(results(model)[-1])["stdout"] == "b\n"


def inline(files: dict[str, bytes], **more: Any) -> Json:
    data = base64.b64encode(pack_zip(files)).decode()
    source = {"type": "base64", "media_type": "application/zip", "data": data}
    return {"type": "inline", "name": "auditor", "description": "Inline.", "source": source, **more}


async def test_a_skill_may_come_with_the_request_and_two_have_two_folders(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["cat skills/auditor/data/*", "ls skills/"]), says("done"))
    async with serving(door, model, root):
        nameless = inline({"x/SKILL.md": b"No front matter."})
        status, answer = await post(door, *responses(inline(SKILL), nameless))
    assert status == 200, answer
    assert "Inline." in told(model)
    assert json.loads(results(model)[0])["stdout"] == "total,7auditor\nauditor-2\n"


async def test_a_chat_may_have_skills(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=["ls skills/"]), says("done"))
    async with serving(door, model, root):
        status, answer = await post(door, "chat/completions", {"messages": HI, "shell_skills": [inline(SKILL)]})
    assert status == 200, answer
    assert json.loads(results(model)[0])["stdout"] == "auditor\n"


REFUSED: dict[str, tuple[str, Json, str]] = {
    "unknown": (*reference("responses", "skill_gone"), "Skill `skill_gone` was not found."),
    "unknown, on Messages": (*reference("messages", "skill_gone"), "Skill `skill_gone` was not found."),
    "of Anthropic's": (*messages({"type": "anthropic", "skill_id": "pptx"}), "is not bundled"),
    "a path": (*responses({"type": "local", "name": "a", "description": "b", "path": "/etc"}), "takes no paths"),
    "no zip": (*responses(inline({}, source={"type": "base64", "data": "aGk="})), "is no zip"),
    "no base64": (*responses(inline({}, source={"type": "base64", "data": "!"})), "is no base64"),
    "no SKILL.md": (*responses(inline({"a/b": b""})), "must contain SKILL.md"),
    "a path that leads out": (*responses(inline({"../SKILL.md": b""})), "unsafe path"),
}


@pytest.mark.parametrize(("path", "body", "message"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_skill_that_cannot_be_used_is_refused(
    door: Door, root: Path, path: str, body: Json, message: str
) -> None:
    async with serving(door, ScriptedModel(), root):
        status, answer = await post(door, path, body)
    assert status == 400
    assert message in json.dumps(answer)


async def test_skills_need_a_shell(door: Door) -> None:
    async with door.serving(ScriptedModel()):
        status, answer = await post(door, *messages({"type": "custom", "skill_id": "skill_1"}))
    assert status == 400
    assert "--enable-shell" in json.dumps(answer)


async def test_nobody_uses_a_skill_of_somebody_else(door: Door, root: Path) -> None:
    async with serving(door, ScriptedModel(), root):
        theirs = await door.client("bob").skills.create(files=list(SKILL.items()))
        status, answer = await post(door, *reference("responses", theirs.id))
    assert (status, answer["error"]["message"]) == (400, f"Skill `{theirs.id}` was not found.")


async def test_skills_may_be_kept_in_a_folder_of_their_own(door: Door, root: Path) -> None:
    model = ScriptedModel(calls("mistralrs_shell", commands=[RUN]), says("done"))
    async with serving(door, model, root, skills_dir=str(root / "skills")):
        skill = await upload(door)
        status, answer = await post(door, *reference("responses", skill["id"]))
    assert status == 200, answer
    assert "checked total,7" in results(model)[0]
    assert len(FolderBlobs(root / "skills").hashes()) == 1


async def test_a_message_goes_on_in_the_container_of_the_one_before(door: Door, root: Path) -> None:
    model = ScriptedModel(
        calls("mistralrs_shell", commands=["echo here > a.txt"]),
        says("one"),
        calls("mistralrs_shell", commands=["cat a.txt"]),
        says("two"),
    )
    async with serving(door, model, root):
        skill = await upload(door)
        path, body = reference("messages", skill["id"], version="latest")
        _, first = await post(door, path, body)
        container = first["container"]
        assert container["skills"] == [{"type": "custom", "skill_id": skill["id"], "version": "1"}]
        status, second = await post(door, path, {**body, "container": container["id"]})
        assert status == 200, second
        assert second["container"]["id"] == container["id"]
        status, answer = await post(door, path, {**body, "container": "cntr_gone"})
    assert json.loads(results(model)[-1])["stdout"] == "here\n"
    assert (status, answer["error"]["type"]) == (404, "not_found_error")


async def test_a_run_that_goes_on_after_a_crash_has_its_files_and_skills(door: Door, root: Path) -> None:
    model = ScriptedModel(says("done"))
    async with serving(door, model, root) as server:
        skill = await upload(door)
        path, body = reference("responses", skill["id"])
        _, answer = await post(door, path, body)
        run = "run_" + answer["id"].removeprefix("resp_")
        events = await server.runs.journal.read(run)
        start = events[0]
        assert isinstance(start, RunStarted)
        _, tools = await server.reopener.reopen(start, events)
        context = ToolContext(start.run, start.session, 0, "call_1", owner=start.owner)
        output = await tools["mistralrs_shell"].run({"commands": [RUN]}, context)
    assert "checked total,7" in output.content
    assert {"mistralrs_read_file", "mistralrs_list_files"} <= tools.keys()
