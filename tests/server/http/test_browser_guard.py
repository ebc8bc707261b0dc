"""Pages in a browser: which may use the server, and what they are told."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Served, user

from ronda.testing import ScriptedModel, says

ASKED = {"model": "default", "messages": [user("hi")]}
PREFLIGHT = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,content-type,x-own",
}


async def ask(served: Served, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], Any]:
    asked = ASKED if method == "POST" else None
    async with served.http.request(method, f"{served.url}{path}", headers=headers, json=asked) as answer:
        kind = answer.headers.get("content-type", "")
        return answer.status, dict(answer.headers), await (answer.json() if "json" in kind else answer.text())


def own(served: Served) -> str:
    return served.url.removesuffix("/v1")


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://elsewhere.example", "http://127.0.0.1:1", "null", "", "http://["])
async def test_a_page_from_elsewhere_is_kept_out_whatever_it_asks(door: Door, origin: str, method: str) -> None:
    model = ScriptedModel()
    path = "/models" if method == "GET" else "/chat/completions"
    async with door.serving(model) as served:
        status, headers, answer = await ask(served, method, path, {"origin": origin, **PREFLIGHT})

    assert status == 403
    assert "--allow-origin" in answer["error"]["message"]
    assert "access-control-allow-origin" not in {name.lower() for name in headers}
    assert model.heard == []


@pytest.mark.parametrize(
    ("path", "where"),
    [("/messages", ("error", "message")), ("/agents", ("message",)), ("/responses", ("error", "message"))],
)
async def test_it_is_told_so_in_the_dialect_of_the_door(door: Door, path: str, where: tuple[str, ...]) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, _, answer = await ask(served, "POST", path, {"origin": "https://elsewhere.example"})

    for name in where:
        answer = answer[name]
    assert (status, answer) == (
        403,
        "pages from https://elsewhere.example may not use this server; its operator can let them with --allow-origin",
    )


async def test_a_page_of_the_servers_own_may(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, _, _ = await ask(served, "POST", "/chat/completions", {"origin": own(served)})

    assert status == 200


async def test_a_name_that_was_made_to_point_here_is_not_the_servers_own(door: Door) -> None:
    """DNS rebinding: the page and what it asks have the same name, and the name is not ours."""
    async with door.serving(ScriptedModel(), host="127.0.0.1") as served:
        said = {"origin": "http://evil.example:1234", "host": "evil.example:1234"}
        status, _, _ = await ask(served, "POST", "/chat/completions", said)

    assert status == 403


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1:1234", "[::1]:1234", "app.localhost", "192.168.1.7:80"])
async def test_names_nobody_else_can_give_are(door: Door, host: str) -> None:
    async with door.serving(ScriptedModel(says("hi")), host="127.0.0.1") as served:
        status, _, _ = await ask(served, "POST", "/chat/completions", {"origin": f"http://{host}", "host": host})

    assert status == 200


@pytest.mark.parametrize("path", ["/models", "/conversations", "/responses/resp_1", "/nothing"])
async def test_without_saying_where_it_comes_from_it_may_read_nothing_either(door: Door, path: str) -> None:
    """A browser leaves `Origin` out where a page asks for something of its own address."""
    async with door.serving(ScriptedModel(), host="127.0.0.1") as served:
        status, _, answer = await ask(served, "GET", path, {"host": "evil.example:1234"})

    assert status == 403
    assert "--allow-host evil.example" in str(answer)


async def test_the_log_says_once_what_a_browser_hides_from_its_user(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    origin = "http://localhost:5173"
    async with door.serving(ScriptedModel()) as served:
        for _ in range(2):
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await served.http.ws_connect(f"{own(served)}/generate-code", headers={"origin": origin})

    told = [record.message for record in caplog.records if origin in record.message]
    assert told == [f"pages from {origin} may not use this server; its operator can let them with --allow-origin"]


async def test_nor_open_a_websocket(door: Door) -> None:
    async with door.serving(ScriptedModel(), host="127.0.0.1") as served:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await served.http.ws_connect(f"{served.url}/responses", headers={"host": "evil.example"})

    assert refused.value.status == 403


@pytest.mark.parametrize("host", ["ronda.example", "RONDA.example:80", "app.example", "localhost", "127.0.0.1:9"])
async def test_the_operator_can_name_the_server(door: Door, host: str) -> None:
    named: dict[str, Any] = {"allow_hosts": ("ronda.example",), "allow_origins": ("https://app.example",)}
    async with door.serving(ScriptedModel(says("hi")), host="127.0.0.1", **named) as served:
        status, _, _ = await ask(served, "POST", "/chat/completions", {"host": host})
        other, _, _ = await ask(served, "GET", "/models", {"host": "evil.ronda.example"})

    assert (status, other) == (200, 403)


async def test_a_server_for_the_network_is_called_by_any_name(door: Door) -> None:
    async with door.serving(ScriptedModel(says("hi")), host="0.0.0.0") as served:
        said = {"origin": "http://box.example:1234", "host": "box.example:1234"}
        status, _, _ = await ask(served, "POST", "/chat/completions", said)

    assert status == 200


@pytest.mark.parametrize("allowed", ["*", "http://localhost:3000", "http://LOCALHOST:3000/"])
async def test_pages_the_operator_names_may_ask_and_read(door: Door, allowed: str) -> None:
    page = {"origin": "http://localhost:3000"}
    async with door.serving(ScriptedModel(says("hi")), allow_origins=(allowed,)) as served:
        may = await ask(served, "OPTIONS", "/chat/completions", page | PREFLIGHT)
        did = await ask(served, "POST", "/chat/completions", page)

    assert (may[0], did[0]) == (200, 200)
    said = {name.lower(): value for name, value in may[1].items()}
    assert said["access-control-allow-headers"] == PREFLIGHT["access-control-request-headers"]
    assert "POST" in said["access-control-allow-methods"]
    for _, headers, _ in (may, did):
        assert {name.lower(): value for name, value in headers.items()}["access-control-allow-origin"] == "*"


async def test_naming_one_page_does_not_let_in_another(door: Door) -> None:
    async with door.serving(ScriptedModel(), allow_origins=("http://localhost:3000",)) as served:
        status, _, _ = await ask(served, "POST", "/chat/completions", {"origin": "http://localhost:3001"})

    assert status == 403


async def test_a_named_page_may_open_a_websocket(door: Door) -> None:
    async with (
        door.serving(ScriptedModel(), allow_origins=("https://app.example",)) as served,
        served.http.ws_connect(f"{served.url}/responses", headers={"origin": "https://app.example"}) as socket,
    ):
        assert not socket.closed
