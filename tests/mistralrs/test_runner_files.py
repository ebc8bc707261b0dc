"""Files of a `Runner`: those that go along with a request, those that come back, and skills of this machine."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from ronda import mistralrs
from ronda.core import parts
from ronda.core.parts import SystemTurn
from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext, ToolOutput
from ronda.errors import BadRequest
from ronda.runner import ChatCompletionRequest, File, InputFile, RequestedFile, Runner, ShellSkillMount
from ronda.testing import ScriptedModel, calls, says


class Maker:
    """A tool that makes files."""

    spec = ToolSpec("make", parameters=Raw(b'{"type":"object","properties":{}}'), no_arguments_needed=True)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        text = base64.b64encode(b"x\n1\n").decode()
        files = (
            parts.File(f"data:text/csv;base64,{text}", "a.csv", "file_1", 4, "csv", "x\n1\n"),
            parts.File("data:image/png;base64,UE5H", "b.png", "file_2", 3, "png"),
            parts.File(None, "large.csv", "file_3", 9_000_000, "csv", "x"),
        )
        return ToolOutput("made", files=files)


def test_files_come_back_with_what_is_known_of_them(tmp_path: Path) -> None:
    model = ScriptedModel(calls("make"), says("done"))
    answer = Runner(model, tools=[Maker()]).send_chat_completion_request(ChatCompletionRequest(messages="go"))
    text, picture, large = answer.files
    assert answer.agentic_tool_calls[0].file_ids == ["file_1", "file_2", "file_3"]
    assert (text.is_text(), text.is_binary(), text.is_truncated(), text.is_error()) == (True, False, False, False)
    assert (picture.is_image(), picture.is_binary(), picture.is_video()) == (True, True, False)
    assert (large.is_truncated(), large.preview, large.source.tool) == (True, "x", "make")
    text.save(tmp_path / "a.csv")
    picture.save(str(tmp_path / "b.png"))
    assert ((tmp_path / "a.csv").read_text(), (tmp_path / "b.png").read_bytes()) == ("x\n1\n", b"PNG")
    with pytest.raises(BadRequest, match="find_file"):
        large.save(tmp_path / "c")
    with pytest.raises(BadRequest, match="not produced"):
        File("f", "a", code="not_produced", message="not produced").save(tmp_path / "d")


def test_a_stream_brings_the_files_as_they_are_made() -> None:
    model = ScriptedModel(calls("make"), says("done"))
    request = ChatCompletionRequest(messages="go", stream=True)
    chunks = list(Runner(model, tools=[Maker()]).send_chat_completion_request(request))
    made = [chunk.files[0].name for chunk in chunks if chunk.type == "file_produced"]
    assert made == ["a.csv", "b.png", "large.csv"]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "done"


def test_a_program_of_mistralrs_sends_a_file_along() -> None:
    sales = mistralrs.InputFile.from_text("sales.csv", "city,sales\nParis,7\n", "text/csv")
    assert (sales.name, sales.bytes, sales.mime_type) == ("sales.csv", 19, "text/csv")
    request = mistralrs.ChatCompletionRequest(
        model="default", messages=[{"role": "user", "content": "Best city?"}], input_files=[sales]
    )
    model = ScriptedModel(calls("mistralrs_read_file", file_id=sales.id), says("Paris."))
    answer = Runner(model).send_chat_completion_request(request)
    assert answer.choices[0].message.content == "Paris."
    first = model.heard[0][0]
    assert isinstance(first, SystemTurn)
    assert "Paris,7" in first.text
    assert json.loads(answer.agentic_tool_calls[0].result_content)["text"] == "city,sales\nParis,7\n"


def test_a_file_of_this_machine_is_sent_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("hi")
    assert InputFile.from_path(path) == InputFile("a.txt", b"hi")
    assert InputFile.from_path(path, "text/x", "b").part["file"] == {
        "filename": "b", "file_data": "data:text/x;base64,aGk=",
    }  # fmt: skip


def test_wanted_files_are_named() -> None:
    model = ScriptedModel(says("done"))
    wanted = [RequestedFile("a.csv"), RequestedFile("../b")]
    with pytest.raises(BadRequest, match=r"files\[1\].name"):
        Runner(model).send_chat_completion_request(ChatCompletionRequest(messages="go", files=wanted))


def test_a_skill_is_read_when_the_request_is_sent(tmp_path: Path) -> None:
    mount = ShellSkillMount("auditor", "Audits.", tmp_path)
    (tmp_path / "SKILL.md").write_text("Run it.")
    assert (mount.wish["name"], mount.wish["type"]) == ("auditor", "inline")
    request = ChatCompletionRequest(messages="go", shell_skills=[mount])
    with pytest.raises(BadRequest, match="shell"):  # which this one has not
        Runner(ScriptedModel()).send_chat_completion_request(request)
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(BadRequest, match="no file of its own"):
        Runner(ScriptedModel()).send_chat_completion_request(request)


def test_a_program_of_mistralrs_mounts_a_skill_and_deletes_its_folder_at_once(tmp_path: Path) -> None:
    command = "cat skills/invoice-auditor/invoice.csv > audit.txt; cat audit.txt"
    script = tmp_path / "script.json"
    call = {"name": "mistralrs_shell", "arguments": {"commands": [command]}}
    script.write_text(json.dumps([{"calls": [call]}, "Seven."]))
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: invoice-auditor\ndescription: Audits.\n---\n")
    (folder / "invoice.csv").write_text("total,7")
    runner = mistralrs.Runner(
        which=mistralrs.Which.Plain(model_id=f"script:{script}"), shell_config=mistralrs.ShellConfig()
    )
    with runner:
        answer = runner.send_chat_completion_request(
            mistralrs.ChatCompletionRequest(
                model="default",
                messages=[{"role": "user", "content": "Audit it."}],
                shell_skills=[mistralrs.ShellSkillMount("invoice-auditor", "Audits invoices.", source_path=folder)],
                files=[mistralrs.RequestedFile("audit.txt", "txt", "The audit.")],
                max_tool_rounds=6,
            )
        )
        shutil.rmtree(folder)
        assert answer.choices[0].message.content == "Seven."
        [file] = answer.files
        assert (file.name, file.text, file.is_text()) == ("audit.txt", "total,7", True)
        whole = runner.find_file(file.id)
        assert whole is not None
        assert whole.content() == b"total,7"
        assert runner.find_file("file-gone") is None
