"""Calls sent to an address: who sent them, how often they are sent, and which address they go to; through all doors."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.every_door import NAMES, ask, tool_of
from tests.interaction.upstreams import Exchange, Upstream, answers

from ronda.core.limits import Retry
from ronda.core.parts import ToolResult, ToolTurn
from ronda.server.features.dispatch.settings import DispatchSettings, ToolAddress
from ronda.server.features.table import make_config
from ronda.testing import Call, ScriptedModel, calls, says
from ronda.tools.dispatch import MOST_RETRIES
from ronda.tools.signature import sign, verify

SECRET = "a secret of the operator's"
SEARCH = tool_of("search", query="string")
DECLARED = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def script(name: str = "search") -> ScriptedModel:
    return ScriptedModel(calls(Call(name, {"query": "é"}, "s1")), says("done"))


def result_of(model: ScriptedModel) -> ToolResult:
    turn = model.heard[1][-1]
    assert isinstance(turn, ToolTurn)
    [result] = turn.results
    return result


# ---- who sent it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
async def test_each_call_is_signed_at_every_door(door: Door, stream: bool, name: str) -> None:
    async with (
        Upstream(answers(b"ok")) as elsewhere,
        door.serving(script(), tool_dispatch_url=elsewhere.url, tool_dispatch_secret=SECRET) as served,
    ):
        heard = await ask(served, name, stream, [SEARCH])

    assert heard.text == "done"
    [head], [body] = elsewhere.heads, elsewhere.bodies
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", head["x-ronda-signature"])
    assert found is not None
    # As the header is documented, without our own code.
    assert found[2] == hmac.new(SECRET.encode(), f"{found[1]}.".encode() + body, hashlib.sha256).hexdigest()
    assert verify(SECRET, head["x-ronda-signature"], body)


async def test_without_a_secret_there_is_no_signature(door: Door, stream: bool) -> None:
    async with Upstream(answers(b"ok")) as elsewhere, door.serving(script(), tool_dispatch_url=elsewhere.url) as served:
        await ask(served, "chat", stream, [SEARCH])

    assert "x-ronda-signature" not in elsewhere.heads[0]


def test_a_signature_is_of_one_body_one_secret_and_one_moment() -> None:
    header = sign(SECRET, b"{}", 1000.4)

    assert header.startswith("t=1000,v1=")
    assert verify(SECRET, header, b"{}", now=1000.0)
    assert verify(SECRET, header, b"{}", now=1300.0)
    assert not verify(SECRET, header, b"{}", now=1301.0)
    assert not verify(SECRET, header, b"{}", now=699.0)
    assert not verify(SECRET, header, b"{ }", now=1000.0)
    assert not verify("another", header, b"{}", now=1000.0)
    assert not verify(SECRET, header.replace("t=1000", "t=1001"), b"{}", now=1000.0)
    for wrong in ("", "t=1000", "v1=00", header + ",v2=1", header.upper(), "t=x,v1=" + "0" * 64):
        assert not verify(SECRET, wrong, b"{}", now=1000.0)


def test_secrets_are_not_shown() -> None:
    config = make_config({"tool_dispatch_secret": SECRET, "dispatch": {"a": ToolAddress("http://x", SECRET)}})
    part = config.part(DispatchSettings)
    assert part.tool_dispatch_secret == SECRET
    for shown in (config, config.parts, part, part.dispatch):
        assert SECRET not in repr(shown)


# ---- how often it is sent ------------------------------------------------------------------------------------------------


async def cut(exchange: Exchange) -> None:
    """Take the call, and close the connection without a word."""


@pytest.mark.parametrize("act", [cut, answers(b"", 503)], ids=["no answer", "503"])
@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_a_call_that_may_have_run_is_never_sent_twice(door: Door, stream: bool, name: str, act: Any) -> None:
    model = script()
    async with (
        Upstream(act, answers(b"again")) as elsewhere,
        door.serving(model, tool_dispatch_url=elsewhere.url) as served,
    ):
        heard = await ask(served, name, stream, [SEARCH])

    assert heard.text == "done"
    assert len(elsewhere.bodies) == 1
    assert result_of(model).failed


@pytest.mark.parametrize("act", [cut, answers(b"", 503)], ids=["no answer", "503"])
@pytest.mark.parametrize("name", ["chat", "messages"])
async def test_a_repeatable_one_is_sent_again_with_the_same_key(door: Door, stream: bool, name: str, act: Any) -> None:
    model = script()
    async with Upstream(act, act, answers(b"at last")) as elsewhere:
        address = ToolAddress(elsewhere.url, SECRET, repeatable=True)
        async with door.serving(model, dispatch={"search": address}) as served:
            await ask(served, name, stream, [SEARCH])

    assert result_of(model) == ToolResult("s1", "at last")
    assert len(elsewhere.bodies) == 3
    assert len({head["idempotency-key"] for head in elsewhere.heads}) == 1
    for head, body in zip(elsewhere.heads, elsewhere.bodies, strict=True):
        assert verify(SECRET, head["x-ronda-signature"], body)


async def test_it_is_sent_three_times_at_the_most(door: Door, stream: bool) -> None:
    model = script()
    async with Upstream(cut, cut, cut, answers(b"too late")) as elsewhere:
        address = ToolAddress(elsewhere.url, repeatable=True)
        async with door.serving(model, dispatch={"search": address}) as served:
            await ask(served, "chat", stream, [SEARCH])

    assert len(elsewhere.bodies) == 3
    assert result_of(model).failed


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_an_answer_that_will_not_change_is_asked_for_once(door: Door, status: int) -> None:
    async with Upstream(answers(b"", status), answers(b"again")) as elsewhere:
        address = ToolAddress(elsewhere.url, repeatable=True)
        async with door.serving(script(), dispatch={"search": address}) as served:
            await ask(served, "chat", False, [SEARCH])

    assert len(elsewhere.bodies) == 1


@pytest.mark.parametrize("name", ["chat", "conversations"])
async def test_a_call_that_reached_nobody_is_sent_again(door: Door, stream: bool, name: str) -> None:
    """No server listens at first; the pause before the third try starts one."""
    model, heard, servers = script(), list[Json](), list[asyncio.Task[asyncio.Server]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        head = dict(line.split(": ", 1) for line in lines[1:] if line)
        heard.append(json.loads(await reader.readexactly(int(head["content-length"]))))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))

    class Listening(Retry, frozen=True):
        def wait(self, failures: int, jitter: float) -> float:
            if failures == MOST_RETRIES:
                listener.listen()
                servers.append(asyncio.create_task(asyncio.start_server(connected, sock=listener)))
            return 0.0

    url = f"http://127.0.0.1:{listener.getsockname()[1]}/tools"
    async with door.serving(model, tool_dispatch_url=url, retry=Listening()) as served:
        await ask(served, name, stream, [SEARCH])
    [server] = servers
    (await server).close()

    assert result_of(model) == ToolResult("s1", "ok")
    assert heard == [{"name": "search", "arguments": {"query": "é"}}]


# ---- which address it goes to ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
async def test_a_tool_may_have_an_address_of_its_own(door: Door, stream: bool, name: str) -> None:
    model = ScriptedModel(calls(Call("search", {"query": "a"}, "s1"), Call("other", {}, "s2")), says("done"))
    async with Upstream(answers(b"near")) as near, Upstream(answers(b"far")) as far:
        addresses = {"search": ToolAddress(near.url, SECRET)}
        async with door.serving(model, tool_dispatch_url=far.url, dispatch=addresses) as served:
            await ask(served, name, stream, [SEARCH, tool_of("other")])

    assert model.heard[1][-1] == ToolTurn((ToolResult("s1", "near"), ToolResult("s2", "far")))
    assert ("x-ronda-signature" in near.heads[0], "x-ronda-signature" in far.heads[0]) == (True, False)


@pytest.mark.parametrize("name", ["chat", "messages"])
async def test_one_with_parameters_is_offered_to_every_request(door: Door, stream: bool, name: str) -> None:
    model = script()
    async with Upstream(answers(b"found")) as elsewhere:
        address = ToolAddress(elsewhere.url, description="Search.", parameters=DECLARED)
        async with door.serving(model, dispatch={"search": address}) as served:
            heard = await ask(served, name, stream)

    assert (heard.text, result_of(model)) == ("done", ToolResult("s1", "found"))
    [spec] = model.requests[0].tools
    assert (spec.name, spec.description, json.loads(bytes(spec.parameters))) == ("search", "Search.", DECLARED)


async def test_the_tool_of_another_name_is_the_callers(door: Door, stream: bool) -> None:
    async with Upstream() as elsewhere:
        addresses = {"search": ToolAddress(elsewhere.url)}
        async with door.serving(script("other"), dispatch=addresses) as served:
            heard = await ask(served, "chat", stream, [tool_of("other", query="string")])

    assert [name for name, _ in heard.calls] == ["other"]
    assert elsewhere.bodies == []


async def test_a_call_can_need_an_approval(door: Door) -> None:
    async with Upstream(answers(b"found")) as elsewhere:
        address = ToolAddress(elsewhere.url, approval="deny")
        async with door.serving(model := script(), dispatch={"search": address}) as served:
            await ask(served, "chat", False, [SEARCH])

    assert result_of(model).failed
    assert elsewhere.bodies == []


# ---- a server of tools as simple as Python's own -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_a_tool_server_may_speak_http_1_0_and_serve_one_call_at_a_time(
    door: Door, stream: bool, name: str
) -> None:
    heard: list[Json] = []

    class Tools(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
            body = json.dumps({"content": f"sunny in {heard[-1]['arguments']['city']}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Tools) as tools:
        thread = threading.Thread(target=tools.serve_forever, args=(0.01,))
        thread.start()
        two = calls(Call("get_weather", {"city": "Tokyo"}, "t"), Call("get_weather", {"city": "London"}, "l"))
        model = ScriptedModel(two, says("Both sunny."))
        url = f"http://localhost:{tools.server_port}/tools"
        try:
            async with door.serving(model, tool_dispatch_url=url, max_tool_rounds=5) as served:
                said = await ask(served, name, stream, [tool_of("get_weather", strict=True, city="string")])
        finally:
            tools.shutdown()
            thread.join()

    assert said.text == "Both sunny."
    results = (ToolResult("t", "sunny in Tokyo"), ToolResult("l", "sunny in London"))
    assert model.heard[1][-1] == ToolTurn(results)
    assert sorted(one["arguments"]["city"] for one in heard) == ["London", "Tokyo"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_callback_that_is_only_a_name_runs_what_a_request_declares_at_every_door(
    door: Door, stream: bool, name: str
) -> None:
    model = script()

    async def search(query: str) -> str:
        return f"found {query}"

    async with door.serving(model, callbacks={"search": search}) as served:
        heard = await ask(served, name, stream, [SEARCH])

    assert (heard.text, heard.calls) == ("done", [])
    assert result_of(model) == ToolResult("s1", "found é")
