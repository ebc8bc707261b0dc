"""The fixtures that `ronda.testing.plugin` gives a project, as pytest runs them there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.timeouts import TIMEOUT

TESTS = '''
import socket

import pytest
from ronda import Agent
from ronda.testing import calls, says


def look_up(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def agent(model, instructions="Be brief."):
    return Agent(model, instructions=instructions, tools=[look_up], options={"temperature": 0})


def test_scripted(scripted_model):
    model = scripted_model(calls("look_up", q="x"), says("There."))
    assert agent(model).run("Where?").output == "There."


def test_recorded(scripted_model, cassette):
    result = cassette(agent(scripted_model(calls("look_up", q="x"), says("There."))), "Where?")
    assert result.output == "There."
    assert [call.content for call in result.tool_calls] == ["found x"]


def test_offline(no_network):
    with pytest.raises(ConnectionRefusedError, match="no_network"):
        socket.create_connection(("192.0.2.1", 80), timeout=5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["ronda.testing.plugin"]\n')
    (tmp_path / "test_mine.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False)


def test_the_fixtures_work_where_one_line_takes_them(project: Path) -> None:
    missing = run(project)
    assert missing.returncode == 1
    assert "RONDA_RECORD=1 pytest" in missing.stdout
    assert "1 failed, 2 passed" in missing.stdout

    recorded = run(project, RONDA_RECORD="1")
    assert recorded.returncode == 0, recorded.stdout
    assert [path.name for path in (project / "cassettes").iterdir()] == ["test_recorded.jsonl"]

    played = run(project)
    assert "3 passed" in played.stdout, played.stdout


def test_an_agent_that_has_changed_since_fails(project: Path) -> None:
    assert run(project, "-k", "recorded", RONDA_RECORD="1").returncode == 0
    file = project / "test_mine.py"
    file.write_text(file.read_text().replace('"Be brief."', '"Be long."'))

    changed = run(project, "-k", "recorded")
    assert changed.returncode == 1
    assert "Be long." in changed.stdout
