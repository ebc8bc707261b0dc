"""`ronda serve --agent`: what it has, and what it says of that at its start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.serving import USER, Started

LOUD = (
    "WARNING: CODE IS NOT ISOLATED (--sandbox off). What a model writes can read, change, delete and send all that this user "
    "can.\n"
)


@pytest.fixture
def settings(tmp_path: Path) -> str:
    """Of a server that searches a folder, and whose model does so once."""
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "tea.md").write_text("# Tea\n\nGreen tea wants water of 70 degrees.\n")
    call = {"name": "mistralrs_search_the_web", "arguments": {"query": "green tea"}}
    (tmp_path / "searching.json").write_text(json.dumps([{"calls": [call]}, "70 degrees."]))
    (tmp_path / "ronda.toml").write_text('model = "script:searching.json"\n[search]\nfolder = "handbook"\n')
    return str(tmp_path / "ronda.toml")


def test_an_agent_has_search_python_and_a_shell_and_says_so(start: Started, settings: str) -> None:
    with start.serving("--config", settings, "--agent", "--sandbox", "off") as served:
        asked: dict[str, Any] = {"messages": [USER], "model": "default"}
        answer = served.client.chat.completions.create(**asked)
        (call,) = answer.model_dump()["agentic_tool_calls"]
        code, _ = served.end()

    assert [found["url"] for found in call["data"]["results"]] == ["tea.md"]
    said = served.startup
    assert "requests may ask for Python and a shell\n" in said
    assert (
        "every request is offered a search; queries stay on this machine ([search] in the settings file chooses "
        in ("".join(said))
    )
    assert LOUD in said
    assert code == 0


def test_a_server_says_where_queries_go(start: Started) -> None:
    with start.serving(*start.model, "--enable-search", "--search-mode", "on-request") as served:
        said = "".join(served.startup)

    assert "requests may ask for a search; queries go to html.duckduckgo.com ([search] in the settings" in said
    assert "requests may ask for Python" not in said
    assert "WARNING" not in said


def test_code_that_is_off_needs_no_warning(start: Started) -> None:
    with start.serving(*start.model, "--sandbox", "off") as served:
        assert "WARNING" not in "".join(served.startup)
