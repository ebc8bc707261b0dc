"""An island's folder is moved away: the library, the server and the command still import and answer, and a caller that asks
for the island gets one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ronda"

# What is moved away, a line of Python that asks for the island, and the module that it then misses.
ISLANDS = {
    "local": (
        ["local"],
        "from ronda.agent import Agent, run_agent; run_agent(Agent('local:smollm2'), 'hi')",
        "ronda.local",
    ),
    "mistralrs": (["mistralrs", "runner.py"], "from ronda import Runner", "ronda.runner"),
    "app stream": (
        ["server/features/app_stream", "tools/page", "wire/app_stream"],
        "from ronda.server import create_app; create_app('script:x', page={'folder': 'x'})",
        "ronda.server.features.app_stream",
    ),
}

# What other processes run as a program, with a command line of their own.
PROGRAMS = (
    "ronda.__main__",
    "ronda.cli.main",
    "ronda.sandbox.inside",
    "ronda.sandbox.start",
    "ronda.sandbox.supervisor",
)

REST = f"""
import asyncio, importlib, json, pkgutil, sys
import ronda
assert ronda.__file__.startswith(sys.argv[1]), ronda.__file__
for found in pkgutil.walk_packages(ronda.__path__, "ronda."):
    if found.name not in {PROGRAMS}:
        importlib.import_module(found.name)

from ronda import Agent, run_agent
from ronda.server import create_app
from ronda.testing import ScriptedModel, says

said = run_agent(Agent(ScriptedModel(says("from the library"))), "hi").output

import httpx2

async def served():
    app = create_app(ScriptedModel(says("from the server")))
    transport = httpx2.ASGITransport(app=app)
    async with app.lifespan(app), httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.post("/v1/chat/completions", json={{"messages": [{{"role": "user", "content": "hi"}}]}})
        return answer.json()["choices"][0]["message"]["content"]

print(json.dumps([said, asyncio.run(served())]))
"""


@pytest.fixture(params=ISLANDS)
def island(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def without(island: str, tmp_path: Path) -> Path:
    """A copy of the package in which the island's folder is not."""
    shutil.copytree(SOURCE, tmp_path / "ronda", ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ISLANDS[island][0]:
        path = tmp_path / "ronda" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_rest_imports_and_answers(without: Path) -> None:
    done = python(without, "-c", REST, str(without))

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == ["from the library", "from the server"]


def test_the_command_still_runs(without: Path) -> None:
    script = without / "script.json"
    script.write_text('["from the command"]')

    done = python(without, "-m", "ronda", "run", "--model", f"script:{script}", "hi")

    assert (done.returncode, done.stdout.strip()) == (0, "from the command"), done.stderr


def test_a_caller_that_asks_for_it_is_told_what_is_missing(island: str, without: Path) -> None:
    _, asking, module = ISLANDS[island]

    done = python(without, "-c", asking)

    assert done.returncode == 1
    assert module in done.stderr.strip().splitlines()[-1]
