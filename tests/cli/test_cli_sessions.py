"""`ronda run --session` and `ronda sessions`: what is said under a name stays, and can be looked at, moved and copied."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import shown

from ronda.server.features.code.code_tools import workspaces_root

Capsys = pytest.CaptureFixture[str]


class Shell:
    def __init__(self, capsys: Capsys, folder: Path, *storage: str) -> None:
        self._capsys = capsys
        self._storage = storage
        self.script = folder / "script.json"

    def __call__(self, *words: str) -> tuple[int, str, str]:
        return shown(self._capsys, *words, *self._storage)

    def ask(self, text: str, *lines: Any, session: str = "trip", flags: Sequence[str] = ()) -> str:
        self.script.write_text(json.dumps(list(lines)))
        code, out, err = self("run", "-m", f"script:{self.script}", "--session", session, *flags, text)
        assert code == 0, err
        return out.strip()

    def export(self, name: str = "trip", *flags: str) -> Any:
        code, out, err = self("sessions", "export", name, *flags)
        assert code == 0, err
        return json.loads(out)


@pytest.fixture(params=["folder", "database"])
def shell(request: pytest.FixtureRequest, capsys: Capsys, tmp_path: Path) -> Shell:
    if request.param == "folder":
        return Shell(capsys, tmp_path, "--data-dir", str(tmp_path / "data"))
    return Shell(capsys, tmp_path, "--database", request.getfixturevalue("postgres"), "--data-dir", ":memory:")


def said(document: Any) -> list[str]:
    return [message["content"] for message in document["messages"]]


def test_a_run_goes_on_with_a_session(shell: Shell) -> None:
    shell.ask("Hello", "Hi.")
    shell.ask("And?", "Well.")
    assert said(shell.export()) == ["Hello", "Hi.", "And?", "Well."]
    code, out, _ = shell("sessions", "show", "trip")
    assert (code, out.splitlines()) == (0, ["> Hello", "Hi.", "> And?", "Well."])


def test_a_run_goes_on_with_the_session_of_a_keys_owner(shell: Shell) -> None:
    ann = ("--owner", "ann")
    shell.ask("Hello", "Hi.", flags=ann)
    assert shell.ask("And?", ["One."], ["Two."], flags=ann) == "Two."
    assert said(shell.export("trip", *ann)) == ["Hello", "Hi.", "And?", "Two."]
    assert shell.ask("Who?", ["One."], ["Two."]) == "One."  # that is another of the same name
    assert said(shell.export()) == ["Who?", "One."]


def test_an_owner_without_a_session_is_refused(shell: Shell) -> None:
    shell.script.write_text('["Hi."]')
    code, _, err = shell("run", "-m", f"script:{shell.script}", "--owner", "ann", "Hello")
    assert (code, "--owner goes with --session" in err) == (2, True)


def test_the_model_is_sent_what_was_said(shell: Shell, tmp_path: Path) -> None:
    """A script counts the user's messages: the second question is answered by the second list."""
    lines = [["One."], ["Two."]]
    assert shell.ask("First?", *lines) == "One."
    assert shell.ask("Second?", *lines) == "Two."


def test_a_prompt_file_goes_on_with_a_session(shell: Shell, tmp_path: Path) -> None:
    shell.script.write_text('[["One."], ["Two."]]')
    file = tmp_path / "ask.prompty"
    file.write_text(
        f"---\nmodel: script:{shell.script}\ninputs: {{q: {{kind: string}}}}\n---\nsystem:\nBe kind.\n\nuser:\n{{{{q}}}}\n"
    )
    for question in ("First?", "Second?"):
        code, _, err = shell("run", str(file), "-i", f"q={question}", "--session", "trip")
        assert code == 0, err
    assert said(shell.export()) == ["First?", "One.", "Second?", "Two."]


def test_what_failed_before_anything_was_said_is_not_kept(shell: Shell) -> None:
    shell.ask("Hello", "Hi.")
    shell.script.write_text(json.dumps([{"error": "no", "status": 400}]))
    code, _, _ = shell("run", "-m", f"script:{shell.script}", "--session", "trip", "Oops?")
    assert code == 1
    assert said(shell.export()) == ["Hello", "Hi."]


def test_sessions_are_listed(shell: Shell) -> None:
    code, out, err = shell("sessions", "list")
    assert (code, out) == (0, "")
    assert "no sessions yet" in err
    for name in ("a", "b c"):
        shell.ask("Hello", "Hi.", session=name)
    heading, *rows = shell("sessions", "list")[1].splitlines()
    assert heading.split() == ["NAME", "TURNS", "BYTES", "USED", "TITLE"]
    assert [row[:3].strip() for row in rows] == ["b c", "a"]


def test_a_session_is_moved_and_copied(shell: Shell, tmp_path: Path) -> None:
    shell.ask("Hello", "Hi.")
    shell.ask("And?", "Well.")
    file = tmp_path / "trip.json"
    file.write_text(shell("sessions", "export", "trip")[1])
    assert shell("sessions", "import", "moved", str(file))[0] == 0
    assert said(shell.export("moved")) == ["Hello", "Hi.", "And?", "Well."]
    code, out, _ = shell("sessions", "fork", "trip", "short", "--num-turns", "1")
    assert (code, out) == (0, "short\n")
    assert said(shell.export("short")) == ["Hello", "Hi."]
    assert shell("sessions", "delete", "trip")[0] == 0
    assert shell("sessions", "show", "trip")[0] == 2


def test_files_go_with_their_session(capsys: Capsys, tmp_path: Path) -> None:
    shell = Shell(capsys, tmp_path, "--data-dir", str(tmp_path / "data"))
    document = {"messages": [{"role": "user", "content": "Hi"}], "files": [{"name": "d/a.txt", "content": "b25l"}]}
    file = tmp_path / "trip.json"
    file.write_text(json.dumps(document))
    shell.ask("Hello", "Hi.", session="other")  # there is a data folder
    assert shell("sessions", "import", "trip", str(file))[0] == 0
    assert shell("sessions", "fork", "trip", "copy")[0] == 0
    assert shell("sessions", "delete", "trip")[0] == 0
    assert [shell.export(name)["files"] for name in ("copy", "other")] == [document["files"], []]
    assert shell("sessions", "import", "trip", str(file))[0] == 0
    document["files"] = []
    file.write_text(json.dumps(document))
    assert shell("sessions", "import", "trip", str(file))[0] == 0
    assert shell.export()["files"] == []


def test_a_file_whose_name_is_no_text_goes_with_its_session(capsys: Capsys, tmp_path: Path) -> None:
    shell = Shell(capsys, tmp_path, "--data-dir", str(tmp_path / "data"))
    document = {"messages": [{"role": "user", "content": "Hi"}], "files": [{"name": "a.txt", "content": "b25l"}]}
    file = tmp_path / "trip.json"
    file.write_text(json.dumps(document))
    shell.ask("Hello", "Hi.", session="other")  # there is a data folder
    assert shell("sessions", "import", "trip", str(file))[0] == 0
    [found] = workspaces_root(tmp_path / "data", is_root=os.getuid() == 0).rglob("a.txt")
    found.rename(os.fsdecode(os.fsencode(found.parent) + b"/\xff.txt"))

    files = shell.export()["files"]

    assert files == [{"name": "\\xff.txt", "content": "b25l"}]


def test_a_long_result_is_read_on_by_the_next_run_of_the_session_and_goes_with_it(
    capsys: Capsys, tmp_path: Path
) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text(
        "from ronda import tool\n\n@tool\ndef report() -> str:\n    return 'a' * 50_000 + 'MIDDLE' + 'b' * 50_000\n"
    )
    shell = Shell(capsys, tmp_path, "--data-dir", str(tmp_path / "data"), "--tools", str(tools))
    shell.ask("First?", [{"calls": [{"name": "report"}]}, "One."])
    shown = Shell(capsys, tmp_path, "--data-dir", str(tmp_path / "data"))
    [run_id] = set(re.findall(r"the file (file-\w+):", json.dumps(shown.export())))
    read = {"name": "mistralrs_read_file", "arguments": {"file_id": run_id, "start": 50_000, "end": 50_006}}
    shell.ask("Second?", ["One."], [{"calls": [read]}, "Two."])
    assert '\\"text\\":\\"MIDDLE\\"' in json.dumps(shown.export())
    assert shown("sessions", "delete", "trip")[0] == 0
    assert list((tmp_path / "data" / "files").glob("??/*")) == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["show"], "which session?"),
        (["show", "nothing"], "Session nothing not found; 'ronda sessions list'"),
        (["delete", "nothing"], "there is no session 'nothing'"),
        (["fork", "nothing", "x"], "Session nothing not found"),
        (["import", "x", "/nothing/here"], "/nothing/here cannot be read"),
        (["lst"], "choose from list, show, export, import, fork, delete"),
    ],
)
def test_mistakes_are_told(shell: Shell, words: list[str], hint: str) -> None:
    code, out, err = shell("sessions", *words)
    assert (code, out) == (2, "")
    assert hint in err


def test_a_document_that_makes_no_sense(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("{}")
    code, _, err = shell("sessions", "import", "x", str(file))
    assert (code, "'messages' is missing" in err) == (2, True)


def test_nothing_is_kept_in_memory(capsys: Capsys) -> None:
    code, _, err = shown(capsys, "sessions", "list", "--data-dir", ":memory:")
    assert (code, "keeps nothing" in err) == (2, True)
