"""`ronda init`: what it writes works, without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import shown
from tests.cli.serving import Started
from tests.timeouts import TIMEOUT

from ronda.cli.init import FILES


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    code, out, err = shown(capsys, "init", "shop")
    assert (code, err) == (0, "")
    assert "    cd shop\n" in out
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def test_its_test_passes(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_its_agent_answers(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RONDA_MODEL", "script:script.json")
    code, out, err = shown(
        capsys, "run", "agent.prompty", "--tools", "tools.py", "-i", "question=What does a pear cost?"
    )
    assert (code, out) == (0, "A pear costs 0.40 euros.\n")
    assert "get_price → pear: 0.40 euros" in err


def test_its_evaluation_passes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys, "eval", "agent.eval.yaml")
    assert code == 0, err
    assert "2 passed of 2" in out + err


def test_its_server_says_under_which_names_the_agent_is_asked(
    project: Path, start: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RONDA_MODEL", "script:script.json")
    start.cwd = project
    with start.serving("--config", "ronda.toml", "--model", "script:script.json") as served:
        assert "agents in .: agent (or shop)\n" in served.startup
        for name in ("agent", "shop"):
            asked: Any = {"messages": [{"role": "user", "content": "What does a pear cost?"}], "model": name}
            assert (
                served.client.chat.completions.create(**asked).choices[0].message.content == "A pear costs 0.40 euros."
            )


def test_its_files_are_valid(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    from ronda.cli.settings import read_config

    assert shown(capsys, "validate", "--strict", "agent.prompty")[0] == 0
    config = read_config(argparse.Namespace(config="ronda.toml"))
    assert config.tools == ("tools.py",)


def test_its_agent_is_asked_with_the_local_model(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(
        capsys,
        "run",
        "agent.prompty",
        "--tools",
        "tools.py",
        "--max-tokens",
        "60",
        "-i",
        "question=What does a pear cost?",
    )
    assert code == 0, err
    assert out.strip()


def test_nothing_is_overwritten(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "tools.py").write_text("# mine")
    (project / "README.md").unlink()
    code, out, err = shown(capsys, "init")

    assert (code, out) == (2, "")
    assert "tools.py" in err
    assert "nothing is overwritten" in err
    assert (project / "tools.py").read_text() == "# mine"
    assert not (project / "README.md").exists()
    assert sorted(path.name for path in project.iterdir()) == sorted({*FILES} - {"README.md"})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = shown(capsys, "init", str(tmp_path / "file" / "x"))
    assert (code, err) == (2, f"ronda: cannot write to {tmp_path}/file/x: Not a directory\n")


# ---- completion --------------------------------------------------------------------------------------------------------


def completed(script: str, words: str) -> list[str]:
    ask = f'{script}\nCOMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _ronda; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=TIMEOUT, check=True)
    return done.stdout.split()


def test_bash_completes_commands_flags_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, script, _ = shown(capsys, "completion", "bash")

    assert code == 0
    assert completed(script, 'ronda "in"') == ["init"]
    assert completed(script, 'ronda run "--mod"') == ["--model"]
    assert completed(script, 'ronda models "p"') == ["pull"]
    assert completed(script, 'ronda serve --tool-calls "f"') == ["first"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    from ronda.cli.commands import COMMANDS

    code, script, _ = shown(capsys, "completion", shell)
    assert code == 0
    assert [one.name for one in COMMANDS if one.name not in script] == []
    assert "base-url" in script


def test_ronda_alone_says_what_to_do_next(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shown(capsys)
    assert (code, out) == (2, "")
    assert "ronda init my-agent" in err
