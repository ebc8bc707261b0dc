"""What `server/http` takes from inside uvicorn is there, in the shape that it relies on.

uvicorn promises nothing of the classes that read HTTP and WebSockets. Ronda's own are made of them, so the version has an upper
bound: raise it when these tests and the rest of `tests/server/http` pass with the next release.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import socket
import textwrap
import tomllib
from collections import deque
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import uvloop
from packaging.requirements import Requirement
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from ronda.cli.process import Process
from ronda.server.http.cycle import Cycle
from ronda.server.http.protocol import BoundedProtocol
from ronda.server.http.sockets import BoundedSockets

ROOT = Path(__file__).parents[3]
SEAM = {"server/http/cycle.py", "server/http/protocol.py", "server/http/sockets.py"}

PAIRS: list[tuple[type[Any], type[Any]]] = [
    (Cycle, RequestResponseCycle),
    (BoundedProtocol, HttpToolsProtocol),
    (BoundedSockets, WebSocketsSansIOProtocol),
    (Process, uvicorn.Server),
]
# What is called by its name beside what is overridden.
CALLED = {
    RequestResponseCycle: {"send", "receive", "run_asgi"},
    HttpToolsProtocol: {"data_received", "_start_asgi_task", "send_400_response", "connection_made", "connection_lost"},
    WebSocketsSansIOProtocol: {"data_received", "receive", "handle_ping", "handle_cont", "handle_parser_exception"},
    FlowControl: {"drain", "pause_reading", "resume_reading", "pause_writing", "resume_writing"},
}
OVERRIDDEN = {
    "Cycle": {"send"},
    "BoundedProtocol": {
        "connection_made",
        "connection_lost",
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_response_complete",
        "send_400_response",
    },
    "BoundedSockets": {
        "connection_lost",
        "handle_cont",
        "handle_parser_exception",
        "handle_ping",
        "receive",
        "send_receive_event_to_app",
    },
    "Process": {"capture_signals", "on_tick", "shutdown", "startup"},
}


def inner_imports(path: Path) -> set[str]:
    """The modules of uvicorn that a file imports, but for the package itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
    return {name for name in found if name.startswith("uvicorn.")}


def test_three_files_and_no_other_know_the_inside_of_uvicorn() -> None:
    source = ROOT / "src" / "ronda"
    knowing = {str(path.relative_to(source)) for path in source.rglob("*.py") if inner_imports(path)}

    assert knowing == SEAM


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=[ours.__name__ for ours, _ in PAIRS])
def test_what_is_overridden_is_there_and_takes_the_same(ours: type[Any], theirs: type[Any]) -> None:
    for name in OVERRIDDEN[ours.__name__]:
        assert name in vars(ours), name
        mine, original = (inspect.signature(getattr(one, name)) for one in (ours, theirs))
        assert list(mine.parameters) == list(original.parameters), name
        assert inspect.iscoroutinefunction(getattr(ours, name)) == inspect.iscoroutinefunction(getattr(theirs, name))


def test_what_is_called_is_there() -> None:
    assert {theirs: {name for name in names if not hasattr(theirs, name)} for theirs, names in CALLED.items()} == {
        theirs: set() for theirs in CALLED
    }
    assert STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"


def test_a_cycle_of_ours_has_all_that_theirs_has() -> None:
    """`Cycle` does not call their `__init__`, since it costs: so it must set all that theirs sets."""
    set_by_theirs = assigned(RequestResponseCycle)
    set_by_ours = assigned(Cycle) | {name for name in vars(Cycle) if not name.startswith("__")}

    assert set_by_theirs <= set_by_ours


def test_a_connection_of_ours_has_all_that_theirs_has() -> None:
    """`BoundedProtocol` does not call their `__init__` either."""
    set_by_theirs = assigned(HttpToolsProtocol)
    set_by_ours = assigned(BoundedProtocol) | {name for name in vars(BoundedProtocol) if not name.startswith("__")}

    assert set_by_theirs <= set_by_ours


async def test_a_new_connection_of_ours_says_what_theirs_says() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request is made here")

    config, state = uvicorn.Config(app, access_log=False, log_level="warning"), ServerState()
    ours, theirs = (kind(config, state, {"a": 1}) for kind in (BoundedProtocol, HttpToolsProtocol))

    names = assigned(HttpToolsProtocol) - {"parser"}
    assert {name: getattr(ours, name) for name in names} == {name: getattr(theirs, name) for name in names}


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["ip", "unix"])
def test_a_connection_knows_its_addresses_as_theirs_does(
    new_loop: Callable[[], asyncio.AbstractEventLoop], family: socket.AddressFamily, tmp_path: Path
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request is made here")

    class Accepts(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)
            is_accepted.set()

    accepted: list[Any] = []
    is_accepted = asyncio.Event()

    async def addresses() -> list[tuple[Any, ...]]:
        loop, path = asyncio.get_running_loop(), str(tmp_path / "socket")
        if family == socket.AF_UNIX:
            server = await loop.create_unix_server(Accepts, path)
            client, _ = await loop.create_unix_connection(asyncio.Protocol, path)
        else:
            server = await loop.create_server(Accepts, "127.0.0.1", 0)
            client, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
        await is_accepted.wait()
        try:
            connections = [
                kind(uvicorn.Config(app), ServerState(), {}) for kind in (BoundedProtocol, HttpToolsProtocol)
            ]
            for one in connections:
                one.connection_made(accepted[0])
            return [(one.server, one.client, one.scheme, one.connections == {one}) for one in connections]
        finally:
            client.close()
            accepted[0].close()
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0)  # their sockets are closed in the next turn of the loop

    loop = new_loop()
    try:
        ours, theirs = loop.run_until_complete(addresses())
    finally:
        loop.close()
    assert ours == theirs


def test_a_connection_over_ipv6_is_named_by_host_and_port() -> None:
    class Transport:
        def get_extra_info(self, name: str) -> Any:
            return {"sockname": ("::1", 80, 0, 0), "peername": ("::1", 4000, 0, 0)}.get(name)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request is made here")

    connection: Any = BoundedProtocol(uvicorn.Config(app), ServerState(), {}, asyncio.new_event_loop())
    connection.connection_made(Transport())
    connection.loop.close()

    assert (connection.server, connection.client) == (("::1", 80), ("::1", 4000))


def assigned(kind: type[Any]) -> set[str]:
    """`self.NAME = …` in `__init__`, and `self.a = self.b = …`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind.__init__)))
    targets = [
        target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {target.attr for target in targets if isinstance(target, ast.Attribute)}


async def test_a_connection_begins_with_what_is_read_of_it() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("no request is made here")

    protocol = HttpToolsProtocol(uvicorn.Config(app), ServerState(), {}, asyncio.get_running_loop())

    assert protocol.app_state == {}
    assert protocol.pipeline == deque()
    assert [vars(protocol)[name] for name in ("cycle", "transport", "flow")] == [None, None, None]
    assert (protocol.expect_100_continue, protocol.timeout_keep_alive) == (False, 5)
    assert {
        "app",
        "client",
        "headers",
        "loop",
        "parser",
        "root_path",
        "scheme",
        "scope",
        "server",
        "server_state",
    } <= set(vars(protocol))
    assert protocol.server_state.total_requests == 0


def test_the_version_has_an_upper_bound_and_this_one_is_within_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *[one for extra in project["optional-dependencies"].values() for one in extra]]
    found = [Requirement(one) for one in named if Requirement(one).name == "uvicorn"]

    assert found
    for one in found:
        assert "<" in {clause.operator for clause in one.specifier}
        assert one.specifier.contains(version("uvicorn"))
