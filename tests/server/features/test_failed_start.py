"""A feature that cannot start keeps the server from starting, and one line says which and why."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import httpx2 as httpx
import pytest
from starlette.types import Message
from tests.cli.commands import script
from tests.cli.serving import Started
from tests.server.installed import install_feature
from tests.timeouts import TIMEOUT, soon

from ronda.errors import BadConfig
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import ScriptedModel, says
from ronda.server import create_app
from ronda.server.app import App, Server
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature
from ronda.server.mounted_app import MountedApp

LINE = "the feature 'broken' could not start: OSError: the door is stuck"
BROKEN = """
from ronda.server.features.contract import Feature


class Broken(Feature):
    name = "broken"

    async def start(self):
        raise OSError("the door\\n is stuck")
"""


class Stuck(Feature):
    """Starts when it is told to, and not before."""

    name = "broken"
    problem: ClassVar[Exception | None]
    told: ClassVar[list[str]]

    async def start(self) -> None:
        await asyncio.sleep(0)
        if self.problem is not None:
            raise self.problem
        self.told.append("starts")

    async def stop(self) -> None:
        self.told.append("stops")


def stuck(problem: Exception) -> type[Stuck]:
    return type("StuckHere", (Stuck,), {"problem": problem, "told": []})


def mounted(feature: type[Feature]) -> MountedApp:
    def make() -> Server:
        config = ServerConfig(model="script:x", data_dir=":memory:")
        return Server(config, MemoryJournal(), provider=ScriptedModel(says("Hello.")), features=[feature])

    return MountedApp(make, is_open=True)


async def told_by(app: Any) -> list[Message]:
    """What an app says of its lifespan to the program that serves it."""
    said: list[Message] = []

    async def receive() -> Message:
        assert not said, "it goes on although it has not started"
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        said.append(dict(message))

    async with soon():
        await app({"type": "lifespan"}, receive, send)
    return said


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (OSError("the door\n is stuck"), LINE),
        (BadConfig("--door is stuck; oil it"), "the feature 'broken' could not start: --door is stuck; oil it"),
        (KeyError(), "the feature 'broken' could not start: KeyError"),
    ],
)
async def test_the_program_that_serves_the_app_is_told(problem: Exception, line: str) -> None:
    feature = stuck(problem)
    server = Server(ServerConfig(model="script:x"), MemoryJournal(), provider=ScriptedModel(), features=[feature])

    assert await told_by(App(server)) == [{"type": "lifespan.startup.failed", "message": line}]
    assert feature.told == ["stops"]
    assert await told_by(mounted(feature)) == [{"type": "lifespan.startup.failed", "message": line}]


async def test_a_host_that_starts_the_app_gets_the_reason() -> None:
    feature = stuck(OSError("the door is stuck"))

    with pytest.raises(BadConfig, match=f"^{LINE}$"):
        async with mounted(feature).lifespan():
            pytest.fail("it has started")

    assert feature.told == ["stops"]


async def test_a_mounted_app_that_starts_with_its_first_request_refuses_and_tries_again() -> None:
    feature = stuck(OSError("the door is stuck"))
    app = mounted(feature)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client, soon():
        refused = [await client.get("/v1/models"), await client.get("/v1/models")]
        feature.problem = None
        answers = await asyncio.gather(*[client.get("/v1/models") for _ in range(3)])

    assert [answer.status_code for answer in refused] == [503, 503]
    assert "the door" not in refused[0].text
    assert refused[0].json()["error"]["message"] == "this server could not start; its log says why"
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert feature.told == ["stops", "stops", "starts"]


async def test_requests_wait_for_a_mounted_app_to_start() -> None:
    asked, may_start, order = asyncio.Event(), asyncio.Event(), []

    class Slow(Feature):
        name = "slow"

        async def start(self) -> None:
            asked.set()
            await may_start.wait()
            order.append("started")

    app = mounted(Slow)

    async def ask(client: httpx.AsyncClient) -> None:
        answer = await client.get("/v1/models")
        order.append(str(answer.status_code))

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client, soon():
        asking = [asyncio.create_task(ask(client)) for _ in range(2)]
        await asked.wait()
        for _ in range(50):  # turns of the loop: enough for a request that would not wait
            await asyncio.sleep(0)
        may_start.set()
        await asyncio.gather(*asking)

    assert order == ["started", "200", "200"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_says_one_line_and_fails(tmp_path: Path, workers: str) -> None:
    site = tmp_path / "site"
    install_feature(site, "broken", BROKEN, "broken:Broken")
    started = Started(tmp_path)
    words = ["--port", "0", "--feature", "broken", "--model", script(tmp_path, "Hello."), "--workers", workers]

    ended = subprocess.run(
        started.command(*words),
        cwd=started.cwd, env=started.env | {"PYTHONPATH": str(site)}, capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip

    assert ended.returncode == 3
    assert set(ended.stderr.splitlines()) == {f"ronda: {LINE}"}
    if workers == "1":
        assert ended.stderr.count("\n") == 1


async def test_create_app_fails_by_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path / "site")
    install_feature(tmp_path / "site", "broken", BROKEN, "broken:Broken")

    try:
        app = create_app(ScriptedModel(says("x")), features=["broken"])
        assert await told_by(app) == [{"type": "lifespan.startup.failed", "message": LINE}]
    finally:
        sys.modules.pop("broken", None)
