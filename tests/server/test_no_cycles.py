"""A request leaves nothing that only the garbage collector finds: `ronda serve` lets it look so seldom that it may.

Clients and the model's server are plain sockets in threads, which leave no cycles of their own; what the collector finds is
the server's.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import os
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from tests.interaction.doors import QUICK, TIMEOUT, Json, declared

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.request import ModelRequest
from ronda.drive import Show, ToolContext
from ronda.journal.memory import MemoryJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, Line, ScriptedModel, calls, fails, says
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.http.protocol import BoundedProtocol

HI: Json = {"role": "user", "content": "hi"}
BODIES: dict[str, Json] = {
    "/v1/chat/completions": {"messages": [HI]},
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"messages": [HI], "max_tokens": 9},
    "/v1/agents/completions": {"agent_id": "default", "messages": [HI]},
    "/v1/conversations": {"model": "default", "inputs": "hi"},
}


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@tool
async def fail(q: str) -> str:
    """Fail."""
    raise ValueError(q)


@tool
async def wait_forever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    raise AssertionError


@tool
async def ask_person(context: ToolContext) -> str:
    """Ask a person."""
    return str(await context.ask("Which one?"))


@tool(approval="ask")
async def pay() -> str:
    """Pay."""
    return "paid"


# ---- a server, and a client that leaves no cycles ---------------------------------------------------------------------


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Running:
    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self._port = port

    async def left_by(self, *requests: Any) -> Counter[str]:
        """What the collector finds after the last of these exchanges, each a function of a connected socket; by type."""
        for request in requests[:-1]:
            await self._exchange(request)
        await self._exchange(requests[-1])  # once for what is made once: caches, pools, lazy imports
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await self._exchange(requests[-1])
            gc.collect()
            return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()

    async def _exchange(self, request: Any) -> None:
        async with asyncio.timeout(TIMEOUT):
            await asyncio.to_thread(self._connected, request)
            await self._settle()

    async def _settle(self) -> None:
        """What is closed, and cancelled, has a few steps to go: until no task is left but those that were there before."""
        while len(asyncio.all_tasks()) > 2:  # noqa: ASYNC110  # this one and uvicorn's; the others cannot be waited for
            await asyncio.sleep(0.001)

    def _connected(self, request: Any) -> None:
        with socket.create_connection(("127.0.0.1", self._port), TIMEOUT) as connection:
            request(connection)


@contextlib.asynccontextmanager
async def running(provider: Any, *, journal: Any = None, **config: Any) -> AsyncIterator[Running]:
    server = Server(
        ServerConfig(**{"model": "script:test", "retry": QUICK, **config}),
        journal() if journal is not None else MemoryJournal(),
        provider=provider,
        tools=[lookup, fail, wait_forever, ask_person, pay],
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        settings = uvicorn.Config(
            create_app(server), lifespan="off", log_level="critical", ws="websockets-sansio", http=BoundedProtocol
        )
        uvicorns = _Uvicorn(settings)
        task = asyncio.create_task(uvicorns.serve([listener]))
        try:
            yield Running(server, listener.getsockname()[1])
        finally:
            uvicorns.should_exit = True
            await task
            await server.runs.close()
            await server.catalog.close()


def left_by(provider: Any, *requests: Any, **settings: Any) -> Counter[str]:
    """On the loop that `ronda serve` runs on."""

    async def measure() -> Counter[str]:
        async with running(provider, **settings) as behind:
            return await behind.left_by(*requests)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measure())


def written(method: str, path: str, body: Json | None = None) -> bytes:
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data


def asks(path: str, method: str = "POST", **body: Any) -> Any:
    def exchange(connection: socket.socket) -> bytes:
        connection.sendall(written(method, path, {**BODIES.get(path, {}), **body} if method == "POST" else None))
        said = b""
        while piece := connection.recv(65536):
            said += piece
        return said

    return exchange


def leaves(path: str, **body: Any) -> Any:
    """A client that goes away as soon as there is something to read."""

    def exchange(connection: socket.socket) -> None:
        connection.sendall(written("POST", path, {**BODIES[path], **body}))
        connection.recv(1)

    return exchange


def leaves_at_once(path: str) -> Any:
    """A client that does not wait for an answer."""

    def exchange(connection: socket.socket) -> None:
        connection.sendall(written("POST", path, BODIES[path]))

    return exchange


class Forever:
    """A model that says something and never ends."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.stream:
            show([TextDelta("Hel")])
        await asyncio.Event().wait()
        raise AssertionError


def script(*lines: Line) -> ScriptedModel:
    return ScriptedModel(*lines * 4)


DOORS = pytest.mark.parametrize("path", BODIES)
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
SCRIPTS: dict[str, tuple[Line, ...]] = {
    "text": (says("Hello."),),
    "tools": (calls(Call("lookup", {"q": "a"}, "c1"), Call("fail", {"q": "b"}, "c2")), says("Done.")),
    "one tool": (calls(Call("lookup", {"q": "a"}, "c1")), says("Done.")),
    "refused": (fails("no way", 400, 0.0),),
    "down": (fails("down", 500, 0.0),) * 3,
    "too many tries": (fails("busy", 429, 0.0),) * 3,
}


@pytest.fixture(params=[0.0, 60.0], ids=["watched", "unwatched"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the request takes so long that the server looks out for its client going away."""
    monkeypatch.setattr("ronda.server.http.incoming._WATCH_AFTER", request.param)


@pytest.mark.parametrize("lines", SCRIPTS.values(), ids=SCRIPTS.keys())
@STREAM
@DOORS
def test_a_request_leaves_no_cycles(path: str, stream: bool, lines: tuple[Line, ...], watched: None) -> None:
    assert left_by(script(*lines), asks(path, stream=stream)) == {}


@pytest.mark.parametrize(
    "lines", [SCRIPTS["text"], SCRIPTS["one tool"], SCRIPTS["refused"]], ids=["text", "tool", "refused"]
)
@STREAM
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/agents/completions"])
def test_several_choices_leave_no_cycles(path: str, stream: bool, lines: tuple[Line, ...]) -> None:
    assert left_by(script(*lines, *lines), asks(path, stream=stream, n=2)) == {}


@STREAM
@DOORS
def test_a_callers_calls_leave_no_cycles(path: str, stream: bool) -> None:
    tools = {"/v1/responses": [{"type": "function", "name": "pick", "parameters": {"type": "object"}}]}
    if path == "/v1/messages":
        tools[path] = [{"name": "pick", "input_schema": {"type": "object"}}]
    body: Json = {} if path == "/v1/conversations" else {"tools": tools.get(path, [declared("pick")])}
    both = calls(Call("lookup", {"q": "a"}, "c1"), Call("pick", {}, "c2"))
    assert left_by(script(both), asks(path, stream=stream, **body)) == {}


@DOORS
def test_a_client_that_leaves_a_stream_leaves_no_cycles(path: str) -> None:
    assert left_by(Forever(), leaves(path, stream=True)) == {}


@pytest.mark.parametrize(
    "names",
    [("wait_forever",), ("wait_forever", "lookup"), ("ask_person",), ("ask_person", "lookup"), ("pay",)],
    ids=["one", "two", "asks", "asks beside another", "waits for approval"],
)
@DOORS
def test_a_client_that_leaves_while_tools_run_leaves_no_cycles(path: str, names: tuple[str, ...]) -> None:
    line = calls(*[Call(name, {"q": "a"} if name == "lookup" else {}, f"c{at}") for at, name in enumerate(names)])
    assert left_by(script(line), leaves(path, stream=True), max_run_seconds=TIMEOUT) == {}


@DOORS
def test_a_client_that_leaves_before_its_answer_leaves_no_cycles(path: str) -> None:
    assert left_by(Forever(), leaves_at_once(path)) == {}


@DOORS
def test_a_server_that_breaks_down_leaves_no_cycles(path: str) -> None:
    class Broken:
        async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
            raise RuntimeError("ours")

    assert left_by(Broken(), asks(path, stream=True)) == {}
    assert left_by(Broken(), asks(path)) == {}


@STREAM
@DOORS
def test_a_bad_request_leaves_no_cycles(path: str, stream: bool) -> None:
    assert left_by(script(says("Hello.")), asks(path, stream=stream, temperature="hot")) == {}


@pytest.mark.parametrize("query", ["", "?stream=true"])
def test_a_stored_response_that_is_read_again_leaves_no_cycles(query: str) -> None:
    found: list[str] = []

    def make(connection: socket.socket) -> None:
        said = asks("/v1/responses", stream=True)(connection)
        found.append("resp_" + said.split(b'"id":"resp_')[1].split(b'"')[0].decode())

    def read(connection: socket.socket) -> None:
        assert b"200 OK" in asks(f"/v1/responses/{found[0]}{query}", "GET")(connection)[:20]

    assert left_by(script(*SCRIPTS["one tool"]), make, read) == {}


def over_a_websocket(times: int) -> Any:
    def exchange(connection: socket.socket) -> None:
        key = base64.b64encode(os.urandom(16)).decode()
        head = "GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        connection.sendall(f"{head}sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n\r\n".encode())
        connection.recv(65536)
        text = json.dumps({"type": "response.create", "input": "hi", "store": False}).encode()
        for _ in range(times):
            connection.sendall(b"\x81" + bytes([0x80 | len(text)]) + bytes(4) + text)
            said = b""
            while b"response.completed" not in said:
                piece = connection.recv(65536)
                assert piece, said
                said += piece
        connection.sendall(b"\x88\x80" + bytes(4))
        while connection.recv(65536):
            pass

    return exchange


def test_responses_over_a_websocket_leave_no_cycles() -> None:
    """A connection that is closed leaves some of uvicorn's; they are the same however much was said over it."""
    once, often = [left_by(script(*SCRIPTS["one tool"] * times), over_a_websocket(times)) for times in (1, 4)]

    assert once == often
    assert {name for name in once if name.startswith("ronda")} <= {
        "ronda.server.http.protocol.BoundedProtocol",  # uvicorn's, too
        "ronda.server.http.protocol._Flow",
    }


# ---- a model behind a socket -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def upstream(answer: bytes) -> Iterator[str]:
    """A server that says these bytes to every request, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                said = b""
                while b"\r\n\r\n" not in said or not said.endswith(b"}"):
                    said += connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def said(kind: str, *frames: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\nconnection: close\r\n\r\n" % kind.encode() + b"".join(frames)


def frame(finish: str = "null", **delta: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n' % (
        json.dumps(delta).encode(), finish.encode(),
    )  # fmt: skip


ANSWERS = {
    "whole": said("text/event-stream", frame(content="Hi"), frame('"stop"'), b"data: [DONE]\n\n"),
    "cut": said("text/event-stream", frame(content="Hi")),
    "broken": said("text/event-stream", frame(content="Hi"), b"data: garbage\n\n"),
    "error": said("text/event-stream", frame(content="Hi"), b'data: {"error":{"message":"no"}}\n\n'),
    "refused": b"HTTP/1.1 400 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}",
    "nothing": b"",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
@DOORS
def test_a_call_of_a_models_server_leaves_no_cycles(path: str, answer: bytes) -> None:
    with upstream(answer) as url:
        model = "openai-chat:m"
        assert left_by(None, asks(path, stream=True), model=model, base_url=url) == {}


@STREAM
@DOORS
def test_a_run_that_outlives_its_client_leaves_no_cycles(path: str, stream: bool, tmp_path: Path) -> None:
    journal = partial(SqliteJournal, str(tmp_path / "journal.db"))
    request = asks(path, stream=stream, on_disconnect="detach")
    assert left_by(script(*SCRIPTS["one tool"]), request, journal=journal) == {}


@pytest.mark.parametrize("kind", ["whole", "cut", "refused"])
def test_a_journal_on_disk_leaves_no_cycles(kind: str, tmp_path: Path) -> None:
    with upstream(ANSWERS[kind]) as url:
        journal = partial(SqliteJournal, str(tmp_path / "journal.db"))
        settings: Json = {"model": "openai-chat:m", "base_url": url, "journal": journal}
        assert left_by(None, asks("/v1/responses", stream=True), **settings) == {}
