"""Fixtures for tests of agents. A project takes them with one line in its `conftest.py`:

pytest_plugins = ["ronda.testing.plugin"]

    scripted_model      scripted_model("Hello.", calls("look_up", q="x")) → a model that says this, and nothing else
    cassette            cassette(agent, "…") → the `Result` of a run that was recorded; `RONDA_RECORD=1 pytest` records it
    no_network          whatever the test calls, no connection leaves this machine

It is no entry point of pytest: a package that is only installed must not change how other projects' tests run.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from ronda.agent import Agent, Inputs, Tools, run_agent
from ronda.agent.cassettes.replay_agent import replay
from ronda.agent.result import Result
from ronda.core.transcript import final_text
from ronda.providers.script import Line, ScriptedModel
from ronda.schema.output import read_output

RECORD: Final = "RONDA_RECORD"
_NO_NAME: Final = re.compile(r"[^\w.-]+")
_HERE: Final = ("127.", "::1", "localhost", "0.0.0.0")


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Makes a model that plays these lines, one for each call."""

    def make(*lines: Line) -> ScriptedModel:
        return ScriptedModel(*lines)

    return make


class PlayCassette(Protocol):
    def __call__(self, agent: Agent[Any], inputs: Inputs, tools: Tools | None = None) -> Result[Any]: ...


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> PlayCassette:
    """Runs an agent as it was recorded in `cassettes/TEST.jsonl` next to the test: without a model, a tool or a network. Its
    instructions, tools and options must still be those that were recorded. A second run in one test is `TEST-2.jsonl`."""
    folder = Path(request.node.path).parent / "cassettes"
    count = 0

    def run(agent: Agent[Any], inputs: Inputs, tools: Tools | None = None) -> Result[Any]:
        nonlocal count
        count += 1
        name = _NO_NAME.sub("_", request.node.name) + (f"-{count}" if count > 1 else "")
        path = folder / f"{name}.jsonl"
        if os.environ.get(RECORD):
            folder.mkdir(exist_ok=True)
            return run_agent(agent, inputs, tools, record=path)
        if not path.is_file():
            pytest.fail(
                f"there is no cassette {path}; '{RECORD}=1 pytest …' asks the model, and writes it", pytrace=False
            )
        played = replay(path, agent, inputs, tools).run
        text = final_text(played)
        return Result(text if agent.output is None else read_output(agent.output, text), played)

    return run


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to other machines fail, and say so. Sockets of uvloop are not Python's: asyncio's own loop is watched."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(sock: socket.socket, address: Any) -> None:
        if sock.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(_HERE):
            raise ConnectionRefusedError(f"this test has no network (no_network), and {address[0]} was called")

    def checked_connect(sock: socket.socket, address: Any) -> None:
        check(sock, address)
        connect(sock, address)

    def checked_connect_ex(sock: socket.socket, address: Any) -> int:
        check(sock, address)
        return connect_ex(sock, address)

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", checked_connect_ex)
