"""A person's own settings file: the model that is asked when no other is named, and profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.commands import script, shown

from ronda.cli.preferences import config_path, fill_in, read_preferences


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = config_path()
    path.parent.mkdir(parents=True)
    return path


def named(folder: Path, name: str, *turns: object) -> str:
    (folder / name).mkdir()
    return script(folder / name, *turns)


def test_the_default_model_is_asked_when_no_other_is_named(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = named(tmp_path, "usual", "the usual")
    code, out, _ = shown(capsys, "models", "default", usual)
    assert (code, out) == (0, f"{usual} is asked when no other is named; {config} says so\n")

    assert shown(capsys, "models", "default") == (0, f"{usual}\n", "")
    assert shown(capsys, "run", "hi") == (0, "the usual\n", "")
    assert shown(capsys, "run", "-m", named(tmp_path, "flag", "the flag's"), "hi") == (0, "the flag's\n", "")

    monkeypatch.setenv("RONDA_MODEL", named(tmp_path, "variable", "the variable's"))
    assert shown(capsys, "run", "hi") == (0, "the variable's\n", "")


def test_only_the_line_of_the_model_is_changed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('# mine\nsystem = "Be brief."\nmodel = "local:x"  # old\n\n[profiles.a]\nmodel = "local:y"\n')

    assert shown(capsys, "models", "default", "ollama:qwen3")[0] == 0

    text = '# mine\nsystem = "Be brief."\nmodel = "ollama:qwen3"\n\n[profiles.a]\nmodel = "local:y"\n'
    assert config.read_text() == text


def test_a_default_is_put_before_the_tables(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text('[profiles.a]\nmodel = "local:y"\n')
    assert shown(capsys, "models", "default", "ollama:qwen3")[0] == 0
    assert (read_preferences().model, read_preferences().profiles["a"].model) == ("ollama:qwen3", "local:y")


def test_a_model_without_its_key_can_be_the_default_and_the_key_is_named(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    code, _, err = shown(capsys, "models", "default", "groq:llama-4")

    assert code == 0
    assert "set GROQ_API_KEY" in err
    assert read_preferences().model == "groq:llama-4"


def test_a_default_that_is_no_model_is_refused(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = shown(capsys, "models", "default", "olama:qwen3")
    assert (code, config.exists()) == (2, False)
    assert "did you mean 'ollama:qwen3'?" in err


def test_a_profile_says_what_flags_do_not(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ronda.cli.main import parse

    config.write_text(
        'model = "local:usual"\ntemperature = 0.9\n\n[profiles.work]\nmodel = "azure:gpt-5"\nbase-url = "http://127.0.0.1:9/v1"\n'
        'system = "Be brief."\nmax_tokens = 50\ntools = ["mine.py"]\n'
    )
    arguments = parse(["run", "--profile", "work", "--max-tokens", "7", "hi"])
    fill_in(arguments)

    assert (arguments.model, arguments.base_url, arguments.system) == (
        "azure:gpt-5",
        "http://127.0.0.1:9/v1",
        "Be brief.",
    )
    assert (arguments.max_tokens, arguments.temperature) == (7, 0.9)
    assert arguments.tools == [str(config.parent / "mine.py")]

    arguments = parse(["run", "--profile", "work", "-m", "ollama:x", "hi"])
    fill_in(arguments)
    assert (arguments.model, arguments.base_url) == ("ollama:x", None)  # an address belongs to the model next to it


def test_a_profile_can_be_the_usual_one(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, home = named(tmp_path, "work", "at work"), named(tmp_path, "home", "at home")
    config.write_text(
        f'profile = "home"\n[profiles.work]\nmodel = {json.dumps(work)}\n[profiles.home]\nmodel = {json.dumps(home)}\n'
    )
    assert shown(capsys, "run", "hi") == (0, "at home\n", "")
    assert shown(capsys, "run", "--profile", "work", "hi") == (0, "at work\n", "")
    monkeypatch.setenv("RONDA_PROFILE", "work")
    assert shown(capsys, "run", "hi") == (0, "at work\n", "")


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("model = ", [], " is not TOML: "),
        ('modle = "x:y"', [], " has no use for 'modle'; did you mean 'model'?"),
        ("[profiles.a]\ntemprature = 1", [], "[profiles.a] of "),
        ("temperature = 'warm'", [], ": Expected float | null, got str, at temperature"),
        ("profiles = 3", [], ": Expected object, got int, at profiles"),
        ("[profiles.work]", ["--profile", "wrok"], " has no profile 'wrok'; did you mean 'work'?"),
        ("", ["--profile", "work"], " has no profile 'work'; there is none"),
        ("temperature = 3.5", [], "--temperature is 3.5; it is between 0 and 2"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(
    config: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str], message: str
) -> None:
    config.write_text(text)
    code, out, err = shown(capsys, "run", "hi", *arguments)

    assert (code, out) == (2, "")
    assert err.startswith("ronda: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_file_has_its_own_model_and_options(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(
        f'model = {json.dumps(named(tmp_path, "usual", "the usual"))}\nsystem = "Be brief."\nmax-tokens = 3\n'
    )
    own = tmp_path / "own.prompty"
    script(tmp_path, "the file's")
    own.write_text("---\nmodel: script:script.json\n---\nuser:\nHi")
    assert shown(capsys, "run", str(own)) == (0, "the file's\n", "")

    bare = tmp_path / "bare.prompty"
    bare.write_text("---\nname: bare\n---\nuser:\nHi")
    code, out, _ = shown(capsys, "run", str(bare))
    assert (code, out) == (0, "the usual\n")
