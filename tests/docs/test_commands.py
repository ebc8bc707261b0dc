"""Every `ronda` command and every file of settings in the README and the docs is one that could be given."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from ronda.cli.main import parse
from ronda.cli.preferences import read_preferences
from ronda.cli.settings import read_config
from ronda.server.features.mcp.read_servers import servers_of
from ronda.server.features.mcp.settings import McpSettings
from ronda.server.features.web.settings import WebSettings
from ronda.tools.search.settings import read_settings

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
COMMAND = re.compile(r"^    (?:\w+=\S+ )*ronda (.*?)(?:   .*| +#.*)?$", re.MULTILINE)
SETTINGS = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def found(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    return [(page.name, one) for page in PAGES for one in pattern.findall(page.read_text())]


def test_there_are_some() -> None:
    assert len(found(COMMAND)) > 10
    assert found(SETTINGS)


@pytest.mark.parametrize(("page", "command"), found(COMMAND))
def test_the_command_is_understood(page: str, command: str) -> None:
    assert parse(shlex.split(command)).command is not None


def is_a_persons_own(text: str) -> bool:
    """For `~/.config/ronda/config.toml`, which 'ronda run' and 'ronda chat' read."""
    return "[profiles." in text


@pytest.mark.parametrize(("page", "text"), [one for one in found(SETTINGS) if is_a_persons_own(one[1])])
def test_a_persons_own_settings_are_understood(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    assert read_preferences(file).profiles


@pytest.mark.parametrize(("page", "text"), [one for one in found(SETTINGS) if not is_a_persons_own(one[1])])
def test_the_settings_are_understood(page: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["OPENAI_API_KEY", *re.findall(r"\$\{env:(\w+)\}", text)]:
        monkeypatch.setenv(name, "a key")
    file = tmp_path / "ronda.toml"
    file.write_text(text)
    config = read_config(argparse.Namespace(config=str(file)))
    read_settings(config.part(WebSettings).search)
    assert config.tools == ((str(tmp_path / "my_tools.py"),) if "my_tools" in text else ())
    assert len(config.permission) == text.count("[[permission]]")
    assert [server.name for server in servers_of(config)] == list(config.part(McpSettings).mcp)
