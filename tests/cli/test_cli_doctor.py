"""`ronda doctor` on the machine that the tests run on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.commands import script, shown, shown_at_terminal

from ronda.errors import BadConfig
from ronda.sandbox.layers import choose_layer, find_layers
from ronda.sandbox.policy import Policy
from ronda.tools.page.browser import Browser
from ronda.tools.page.doctor import examine_page


def test_it_names_the_layers_and_says_whether_code_can_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    try:
        chosen: str = choose_layer(Policy(), find_layers()).layer
    except BadConfig:
        chosen = "refused"
    code, out, err = shown(capsys, "doctor", "--data-dir", str(tmp_path / "data"))
    assert not (tmp_path / "data").exists()  # it looks, and makes nothing
    lines = out.splitlines()
    names = ["isolation", "bubblewrap", "landlock", "seccomp", "cgroup", "user", "python"]
    names += [
        "model",
        "prices",
        "database",
        "disk",
        "keys",
        "embeddings",
        "screenshots",
        "page",
        "pictures",
        "settings",
    ]
    assert [line.split()[0] for line in lines] == names
    assert chosen in lines[0]
    assert (code, err) == (1 if chosen == "refused" else 0, "")


def test_it_says_what_would_help_where_pages_cannot_be_shown(tmp_path: Path) -> None:
    screenshots, packages, _ = examine_page(tmp_path, Browser("/nowhere/chromium"))
    assert (screenshots.state, packages.state, packages.help) == ("missing", "partly", "ronda page setup")
    assert "Chromium" in screenshots.text


def test_settings_that_no_server_can_be_made_of_are_a_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = tmp_path / "ronda.toml"
    settings.write_text('model = "script:nowhere.json"\nprot = 1\n')

    code, out, _ = shown(capsys, "doctor", "--config", str(settings))

    assert code == 1
    assert out.splitlines()[-1].startswith("settings    fails")
    assert "prot" in out.splitlines()[-1]


@pytest.mark.parametrize(("key", "state"), [(None, "fails"), ("any", "works")])
def test_a_model_is_looked_at_before_it_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, state: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("OPENAI_API_KEY", key)

    code, out, _ = shown(capsys, "doctor", "-m", "openai:gpt-5.5", "--data-dir", str(tmp_path / "data"))

    lines = {line.split()[0]: line for line in out.splitlines()}
    assert lines["settings"].split()[1] == state
    assert ("OPENAI_API_KEY" in lines["settings"]) == (key is None)
    assert ("openai:gpt-5.5" in lines.get("model", "")) == (key is not None)
    assert code == 1 or key is not None


def test_an_mcp_server_that_does_not_start_is_a_line_with_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings = tmp_path / "ronda.toml"
    model = script(tmp_path)
    settings.write_text(f'model = "{model}"\n[mcp.weather]\ncommand = "/nowhere/weather"\n')

    code, out, _ = shown(capsys, "doctor", "--config", str(settings), "--data-dir", ":memory:")

    [line] = [line for line in out.splitlines() if line.startswith("mcp weather")]
    assert (code, "fails" in line) == (1, True)


def test_the_keys_of_the_data_folder_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    assert shown(capsys, "keys", "create", "--owner", "ann", "--data-dir", folder)[0] == 0

    _, out, _ = shown(capsys, "doctor", "--data-dir", folder)

    assert "1 API keys; requests without one are refused" in out


def test_a_terminal_shows_lines_that_fit_into_it(tmp_path: Path) -> None:
    settings = tmp_path / "ronda.toml"
    settings.write_text('model = "script:nowhere.json"\n')

    _, written = shown_at_terminal("doctor", "--config", str(settings), columns=72)

    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in written.splitlines()]
    words = [word for line in lines for word in line.split()]
    assert [line for line in lines if len(line) > 72 and " " in line[21:]] == []  # a path may be longer
    assert all(
        line.startswith(" " * 21) or line.split()[1] in ("works", "partly", "missing", "fails") for line in lines
    )
    assert "isolation" in words
    assert "\x1b[31mfails" in written
