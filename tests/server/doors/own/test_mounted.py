"""The server as an app of another app: its addresses, its beginning and its end, and who may ask."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from tests.timeouts import TIMEOUT, soon

from ronda import Agent, Retry, tool
from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadConfig
from ronda.server import create_app
from ronda.server.http.incoming import Headers
from ronda.testing import Call, ScriptedModel, calls, says

HI: Any = [{"role": "user", "content": "hi"}]


@tool
def count(text: str) -> int:
    """Count the words."""
    return len(text.split())


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are pytest's


@asynccontextmanager
async def listening(app: Any, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """The app in a plain server, as its operator would run it."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        listener.listen()  # who comes before it is up waits
        server = _Uvicorn(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            async with soon():
                await task


def hosted(app: Any, **more: Any) -> Starlette:
    async def home(request: Request) -> PlainTextResponse:
        return PlainTextResponse("home")

    return Starlette(routes=[Route("/", home), Mount("/ai/ronda", app)], **more)


async def asked(url: str, path: str = "/ai/ronda/v1", **more: Any) -> str:
    async with openai.AsyncOpenAI(base_url=url + path, api_key="k", max_retries=0, timeout=TIMEOUT) as client:
        answer = await client.chat.completions.create(model="default", messages=HI, **more)
        return answer.choices[0].message.content or ""


async def got(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with http.get(url) as answer:
        return answer.status, await answer.text()


# ---- addresses -----------------------------------------------------------------------------------------------------------


async def test_the_doors_are_below_the_place_where_it_is_mounted() -> None:
    model = ScriptedModel(calls(Call("count", {"text": "a b"}, "c1")), says("two"), says("second"))
    app = create_app(model, tools=[count])

    async with listening(hosted(app, lifespan=app.lifespan)) as url:
        assert await asked(url) == "two"
        async with anthropic.AsyncAnthropic(base_url=f"{url}/ai/ronda", api_key="k", timeout=TIMEOUT) as client:
            message: Any = await client.messages.create(model="default", max_tokens=9, messages=HI)
        assert message.content[0].text == "second"
        async with aiohttp.ClientSession() as http:
            assert await got(http, f"{url}/") == (200, "home")
            missing, error = await got(http, f"{url}/ai/ronda/v1/nothing")
            assert (missing, "there is nothing at GET /v1/nothing" in error) == (404, True)
            assert (await got(http, f"{url}/ai/ronda"))[0] == 200
            assert (await got(http, f"{url}/v1/models"))[0] == 404
            async with http.ws_connect(f"{url}/ai/ronda/v1/responses") as socket_:
                await socket_.send_json({"type": "nonsense"})
                assert (await socket_.receive_json())["type"] == "error"


async def test_it_can_stand_alone() -> None:
    async with listening(create_app(ScriptedModel(says("hello")))) as url:
        assert await asked(url, "/v1") == "hello"


# ---- its beginning and its end -------------------------------------------------------------------------------------------


class Endless:
    """A model that never answers."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.parametrize("hands_over", [True, False], ids=["its lifespan is run", "its lifespan is not run"])
def test_a_run_that_outlives_one_app_is_driven_on_by_the_next(tmp_path: Path, hands_over: bool) -> None:
    first = create_app(Endless(), tools=[count], data_dir=str(tmp_path), shutdown_seconds=0)
    second = create_app(ScriptedModel(says("at last")), tools=[count], data_dir=str(tmp_path))

    async def begin() -> str:
        body = {"model": "default", "messages": HI, "stream": True, "on_disconnect": "detach"}
        async with (
            soon(),
            aiohttp.ClientSession() as http,
            listening(hosted(first, lifespan=first.lifespan)) as url,
            http.post(f"{url}/ai/ronda/v1/chat/completions", json=body) as answer,
        ):
            return answer.headers["x-ronda-run"]

    async def follow(run: str) -> tuple[str, dict[str, Any]]:
        state: dict[str, Any] = {"state": "running"}
        more = {"lifespan": second.lifespan} if hands_over else {}
        async with soon(), aiohttp.ClientSession() as http, listening(hosted(second, **more)) as url:
            while state["state"] == "running":  # it is looked for when there is time
                state = json.loads((await got(http, f"{url}/ai/ronda/v1/runs/{run}"))[1])
            _, events = await got(http, f"{url}/ai/ronda/v1/runs/{run}/events")
            return events, state

    events, state = asyncio.run(follow(asyncio.run(begin())))

    assert "event: recovered" in events
    assert (state["state"], state["result"]["text"]) == ("finished", "at last")


def test_where_nobody_runs_its_lifespan_it_ends_with_the_loop(tmp_path: Path) -> None:
    app = create_app(ScriptedModel(says("one"), says("two")), data_dir=str(tmp_path))

    async def ask() -> str:
        async with listening(hosted(app)) as url:
            return await asked(url)

    for expected in ("one", "two"):  # each in a loop of its own
        assert asyncio.run(ask()) == expected
        assert not list(tmp_path.glob("*-wal")), "the journal was not closed"


# ---- what it is made of --------------------------------------------------------------------------------------------------


async def test_settings_are_those_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "poet.prompty").write_text("---\nmodel: {id: p.json, provider: script}\n---\nuser:\nWrite.")
    (tmp_path / "p.json").write_text('["Drip, drop."]')
    tools = tmp_path / "tools.py"
    tools.write_text('from ronda import tool\n\n@tool\ndef shout(text: str) -> str:\n    """Shout."""\n    return text')
    model = ScriptedModel(calls(Call("scribe", {"input": "go"}, "s1")), says("done"))
    scribe = Agent(ScriptedModel(says("written")), name="scribe")
    app = create_app(model, tools=[str(tools), count, scribe], agents=str(tmp_path), retry=Retry(tries=1))

    async with listening(app) as url:
        assert await asked(url, "/v1") == "done"
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", timeout=TIMEOUT) as client:
            answer = await client.chat.completions.create(model="poet", messages=HI)

    assert answer.choices[0].message.content == "Drip, drop."
    assert sorted(spec.name for spec in model.requests[0].tools) == ["count", "scribe", "shout"]


@pytest.mark.parametrize(
    ("model", "settings", "problem"),
    [
        ("script:a.json", {"max_tool_rounds": -1}, "--max-tool-rounds is -1; it cannot be negative"),
        ("script:a.json", {"max_tool_round": 1}, r"no setting 'max_tool_round'; did you mean 'max_tool_rounds'\?"),
        ("script:a.json", {"port": "many"}, "the settings do not fit: .*port"),
        ("nobody:x", {}, "no model can be found under 'nobody:x'"),
        ("anthropic:x", {}, "anthropic:x needs a key: set ANTHROPIC_API_KEY"),
        (5, {}, "5 is no model"),
    ],
)
def test_a_mistake_is_named_when_the_app_is_made(
    model: Any, settings: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(BadConfig, match=problem):
        create_app(model, **settings)


# ---- who may ask ---------------------------------------------------------------------------------------------------------


async def status(app: Any, server: str, host: str = "localhost", path: str = "/v1/models") -> int:
    """The status of a request that came over an address of this machine, as an ASGI server says it."""
    seen: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen.append(message["status"])

    headers = [(b"host", host.encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": headers,
        "query_string": b"",
        "server": (server, 80),
    }
    async with app.lifespan():
        await app(scope, receive, send)
    return seen[0]


class Guests:
    async def owner(self, headers: Headers) -> str:
        return "guest"


async def test_without_keys_only_this_machine_may_ask() -> None:
    model = ScriptedModel()
    assert await status(create_app(model), "127.0.0.1") == 200
    assert await status(create_app(model), "10.0.0.5", "10.0.0.5") == 403
    assert await status(create_app(model, insecure=True), "10.0.0.5", "10.0.0.5") == 200
    assert await status(create_app(model, auth=Guests()), "10.0.0.5", "10.0.0.5") == 200


async def test_it_is_called_localhost_unless_its_operator_names_it() -> None:
    model = ScriptedModel()
    assert await status(create_app(model), "127.0.0.1", "ronda.example") == 403
    assert await status(create_app(model, allow_hosts=["ronda.example"]), "127.0.0.1", "ronda.example") == 200


def test_the_sandbox_is_set_as_in_a_file() -> None:
    with pytest.raises(BadConfig, match="did you mean 'network'"):
        create_app(ScriptedModel(says("hi")), sandbox={"netwrok": "none"})
    create_app(ScriptedModel(says("hi")), sandbox={"network": "allow:pypi.org", "max_procs": 9})
