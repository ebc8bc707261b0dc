"""One line in the log for each request: what it has, what it never has, and the id that a client may give."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.responses_door import connected

from ronda.core.parts import Usage
from ronda.providers.script import ScriptedModel, calls, fails, says
from ronda.server.features.contract import Feature
from ronda.server.features.request_log.lines import Line, Tokens, without_secrets, write_line
from ronda.server.http.incoming import Incoming
from ronda.server.http.routing import Route
from ronda.store.keys import KeyRow, hash_key
from ronda.tools.function import as_tool

KEY = {"authorization": "Bearer canary-key"}
CANARY = "canary"


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ronda.access")


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ronda.access"]


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [json.loads(text) for text in texts(caplog)]


async def until(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """A line is written after the last byte: a client may be quicker."""
    bell = asyncio.Event()

    class Ring(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            bell.set()

    ring = Ring()
    logging.getLogger("ronda.access").addHandler(ring)
    try:
        async with soon():
            while len(texts(caplog)) < count:
                await bell.wait()
                bell.clear()
    finally:
        logging.getLogger("ronda.access").removeHandler(ring)


async def ask(served: Served, method: str, path: str, **given: Any) -> tuple[int, dict[str, str], bytes]:
    given.setdefault("headers", KEY)
    url = served.url.removesuffix("/v1") + path
    async with served.http.request(method, url, **given) as answer:
        body = await answer.read()
    return answer.status, {name.lower(): value for name, value in answer.headers.items()}, body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_a_request_of_any_door_is_one_line(
    door: Door, name: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    usage = Usage(input=12, output=3, cost=0.5)
    async with door.serving(ScriptedModel(says("over", usage=usage)), access_log_format="json") as served:
        status, headers, _ = await ask(served, "POST", f"/v1/{PATHS[name]}", json=body_for(name, stream))
        owner = (await served.events)[0][0].owner  # type: ignore[union-attr]
        await until(caplog, 1)

    (line,) = lines(caplog)
    assert line.pop("ms") >= 0
    assert line.pop("time").endswith("Z")
    assert line == {
        "method": "POST",
        "path": f"/v1/{PATHS[name]}",
        "status": status,
        "request_id": headers["x-request-id"],
        "run": headers["x-ronda-run"],
        "owner": owner,
        "model": "script:test",
        "tokens": {"input": 12, "output": 3},
        "cost": 0.5,
    }


async def test_the_time_of_an_answer_is_counted_from_the_request_on(door: Door) -> None:
    began: list[float] = []
    called: list[float] = []

    class Timed(Feature):
        name = "timed"

        def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
            began.append(time.monotonic() - seconds)

    def look() -> str:
        """Look at the clock."""
        called.append(time.monotonic())
        return "done"

    model = ScriptedModel(calls("look"), says("over"))
    async with door.serving(model, as_tool(look), features=[Timed]) as served:
        await served.ask(stream=False)

    assert began[0] < called[0]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("stream", [False, True])
async def test_no_line_has_words_keys_or_queries(
    door: Door, form: str, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel(says("canary-answer"), fails("canary-failure"))
    async with door.serving(model, access_log=True, access_log_format=form) as served:
        body = {"model": "default", "stream": stream, "messages": [{"role": "user", "content": "canary-prompt"}]}
        for _ in range(2):
            await ask(served, "POST", "/v1/chat/completions?token=canary-query", json=body)
        await ask(served, "GET", "/v1/runs/canary-run?x=canary-query")
        await ask(served, "GET", "/canary-path")
        await ask(served, "POST", "/v1/chat/completions", json={**body, "model": "canary-model"})
        await ask(served, "GET", "/v1/models", headers={"x-api-key": "canary-key", "cookie": "canary-cookie"})
        await until(caplog, 6)

    said = texts(caplog)
    assert len(said) == 6
    assert CANARY not in "".join(said)


async def test_an_id_of_the_client_is_sent_back_and_logged(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    given = {**KEY, "x-request-id": "mine-7"}
    async with door.serving(ScriptedModel(says("over")), access_log=True, access_log_format="json") as served:
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/nowhere")):
            body: Any = {"json": body_for("chat", False)} if method == "POST" else {}
            async with served.http.request(
                method, served.url.removesuffix("/v1") + path, headers=given, **body
            ) as answer:
                await answer.read()
            assert answer.headers.getall("x-request-id") == ["mine-7"]

    assert [line["request_id"] for line in lines(caplog)] == ["mine-7"] * 3
    assert [line["path"] for line in lines(caplog)][-1] == "<unmatched>"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/chat/completions", body_for("chat", False)),
        ("POST", "/v1/chat/completions", body_for("chat", True)),
        ("POST", "/v1/chat/completions", {"messages": 7}),
        ("GET", "/v1/models", None),
        ("GET", "/nowhere", None),
    ],
)
async def test_an_id_of_the_client_is_sent_back_without_a_log_too(
    door: Door, method: str, path: str, body: Any
) -> None:
    async with door.serving(ScriptedModel(says("over"), says("over"))) as served:
        url, found = served.url.removesuffix("/v1") + path, []
        for given in ("mine-7", "two words"):
            async with served.http.request(method, url, json=body, headers={**KEY, "x-request-id": given}) as answer:
                await answer.read()
            found.append((answer.headers.getall("x-request-id", []), answer.headers.get("x-ronda-run")))

    (mine, _), (others, run) = found
    assert mine == ["mine-7"]
    assert others == ([] if run is None else [run])


@pytest.mark.parametrize("given", ["x" * 129, "two words", "caf\xe9", ""])
async def test_an_id_that_is_too_long_or_not_printable_is_not_taken(
    door: Door, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with door.serving(ScriptedModel(), access_log=True, access_log_format="json") as served:
        _, headers, _ = await ask(served, "GET", "/v1/models", headers={**KEY, "x-request-id": given})

    assert headers["x-request-id"].startswith("req_")
    assert [line["request_id"] for line in lines(caplog)] == [headers["x-request-id"]]


async def test_the_header_can_be_left_out(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    settings: Any = {"access_log": True, "access_log_format": "json", "disable_request_id_header": True}
    async with door.serving(ScriptedModel(), **settings) as served:
        _, headers, _ = await ask(served, "GET", "/v1/models", headers={**KEY, "x-request-id": "mine-7"})

    assert "x-request-id" not in headers
    assert [line["request_id"] for line in lines(caplog)] == ["mine-7"]


async def test_a_request_that_is_not_let_in_has_a_line_and_an_id(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    async with door.serving(ScriptedModel(), access_log=True, access_log_format="json") as served:
        await served.server.catalog.keys.add(KeyRow("key_1", "ann", hash_key(b"rk_mine"), 1.0))
        status, headers, _ = await ask(served, "GET", "/v1/models", headers={"x-request-id": "mine-7", **KEY})

    (line,) = lines(caplog)
    assert (status, headers["x-request-id"]) == (401, "mine-7")
    assert (line["status"], line["request_id"], "owner" in line) == (401, "mine-7", False)


@pytest.mark.parametrize(("is_asked_for", "count"), [(False, 0), (True, 4)])
async def test_probes_and_the_page_are_left_out_unless_asked_for(
    door: Door, is_asked_for: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with door.serving(ScriptedModel(), access_log=True, access_log_health=is_asked_for) as served:
        for path in ("/health", "/ready", "/", "/ui/x"):
            await ask(served, "GET", path, allow_redirects=False)

    assert len(texts(caplog)) == count


async def test_the_line_of_a_websocket_comes_when_it_is_closed(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(says("one", usage=Usage(input=1, output=2)), says("two", usage=Usage(input=3, output=4)))
    async with door.serving(model, access_log=True, access_log_format="json") as served:
        async with connected(served) as socket:
            await socket.turn(input="x")
            await socket.turn(input="y")
            assert texts(caplog) == []
        runs = [events[0].run for events in await served.events]  # type: ignore[union-attr]
        await until(caplog, 1)

    (line,) = lines(caplog)
    assert (line["method"], line["path"], line["status"]) == ("WEBSOCKET", "/v1/responses", 101)
    assert (line["run"], line["tokens"]) == (",".join(runs), {"input": 4, "output": 6})


async def test_switched_off_it_writes_nothing(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    async with door.serving(ScriptedModel(), access_log=True, disable_access_log=True) as served:
        await ask(served, "GET", "/v1/models")

    assert texts(caplog) == []


async def test_without_a_setting_for_it_the_server_does_not_have_it(door: Door) -> None:
    async with door.serving(ScriptedModel(), disable_access_log=True) as served:
        assert served.server.features.find("request_log") is None
        assert not served.server.features.watches


def test_a_name_cannot_be_taken_for_another_field_or_line() -> None:
    line = Line("T", "GET", "/v1/models", 200, 1.25, "a", owner="ann id=b\nT GET", tokens=Tokens(1, 2), cost=0.01)

    assert write_line(line, "text") == (
        'T GET /v1/models 200 1.2ms owner="ann id=b\\nT GET" tokens=1+2 cost=$0.010000 id=a'
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("openai:gpt", "openai:gpt"),
        ("http://me:secret@host.example:8/path?key=secret", "http://host.example"),
        ("chat:https://host/secret", "chat:https://host"),
        ("x" * 300, "x" * 200),
    ],
)
def test_of_an_address_only_scheme_and_host_are_told(name: str, shown: str) -> None:
    assert without_secrets(name) == shown
