"""Where MCP servers are that a request names: at no private address, however it is written or found."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yarl
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.interaction.doors import Door
from tests.providers.proxy_server import ProxyServer
from tests.providers.test_http_tls import certificate as certificate
from tests.providers.test_http_tls import trusted as trusted
from tests.server.services.test_mcp_named import ADD, allowing, named, respond
from tests.tools.mcp.everything import make_server
from tests.tools.mcp.serving import listening

from ronda.testing import ScriptedModel, says
from ronda.tools.loop_pools import close_shared
from ronda.tools.mcp.config import Http, McpServer
from ronda.tools.mcp.http import tls_context

ANY_HOST = TransportSecuritySettings(enable_dns_rebinding_protection=False)


class Redirecting:
    """An app behind addresses that lead elsewhere; and the paths that were asked for."""

    def __init__(self, app: ASGIApp | None, places: dict[str, str]) -> None:
        self._app = app
        self.places = places
        self.asked: list[str] = []
        self.hosts: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.asked.append(scope["path"])
            self.hosts.append(dict(scope["headers"])[b"host"].decode())
            if (to := self.places.get(scope["path"])) is not None or self._app is None:
                headers = [(b"location", to.encode())] if to is not None else []
                await send({"type": "http.response.start", "status": 307 if to else 404, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        assert self._app is not None
        await self._app(scope, receive, send)


class Rebinding:
    """A resolver that gives a name one address first, and another from then on."""

    def __init__(self, host: str, addresses: list[str], otherwise: Callable[..., Any]) -> None:
        self._host = host
        self._addresses = addresses
        self._otherwise = otherwise
        self.asked = 0

    def __call__(self, host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host != self._host:
            return self._otherwise(host, port, *arguments, **options)
        address = self._addresses[min(self.asked, len(self._addresses) - 1)]
        self.asked += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]


@pytest.mark.parametrize(
    "host",
    ["[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[fd00:ec2::254]", "0.0.0.0", "2130706433",
     "0x7f000001", "127.1", "localhost", "100.64.0.1", "192.168.0.1"],
)  # fmt: skip
async def test_a_private_address_is_refused_however_it_is_written(door: Door, host: str) -> None:
    async with door.serving(ScriptedModel(says("hi")), mcp_allow_url=("http://*",)) as served:
        response = await respond(served, False, tools=[named(f"http://{host}:9/mcp")])
        await close_shared()
    [listing, _] = response.output
    assert (listing.type, listing.tools) == ("mcp_list_tools", [])
    assert any(words in str(listing.error) for words in ("has not allowed", "cannot be found"))


@pytest.mark.parametrize("form", ["/mcp", "{origin}/mcp"], ids=["relative", "absolute"])
async def test_a_redirect_within_the_origin_is_followed(door: Door, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    app = Redirecting(make_server().streamable_http_app(transport_security=ANY_HOST), {})
    async with listening(app) as url:
        monkeypatch.setattr(socket, "getaddrinfo", Rebinding("site.test", ["127.0.0.1"], socket.getaddrinfo))
        origin = f"http://site.test:{yarl.URL(url).port}"
        app.places["/old"] = form.format(origin=origin)
        async with door.serving(ScriptedModel(ADD, says("3")), **allowing(f"{origin}/*")) as served:
            response = await respond(served, False, tools=[named(f"{origin}/old")])
            await close_shared()
    assert [item.type for item in response.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert response.output[1].output == "3"
    assert {f"http://{host}" for host in app.hosts} == {origin}


async def test_a_redirect_elsewhere_is_not_followed(door: Door) -> None:
    inside = Redirecting(make_server().streamable_http_app(), {})
    async with listening(inside) as private:
        outside = Redirecting(None, {"/mcp": f"{private}/mcp"})
        async with listening(outside) as url, door.serving(ScriptedModel(says("hi")), **allowing(url)) as served:
            response = await respond(served, False, tools=[named(f"{url}/mcp")])
            await close_shared()
    assert response.output[0].tools == []
    assert outside.asked
    assert inside.asked == []


async def test_a_name_that_moves_inside_is_refused_and_never_asked_twice_for_one_request(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """127.0.0.2 stands for an address outside, which may be called; 127.0.0.1, where the server listens, may not."""
    inside = Redirecting(make_server().streamable_http_app(), {})
    async with listening(inside) as url:
        resolver = Rebinding("rebind.test", ["127.0.0.2", "127.0.0.1"], socket.getaddrinfo)
        monkeypatch.setattr(socket, "getaddrinfo", resolver)
        address = f"http://rebind.test:{yarl.URL(url).port}/mcp"
        settings: dict[str, Any] = {"mcp_allow_url": (address,), "fetch_allow": ("127.0.0.2",)}
        async with door.serving(ScriptedModel(says("hi")), **settings) as served:
            response = await respond(served, False, tools=[named(address)])
            await close_shared()
    assert response.output[0].tools == []
    assert resolver.asked
    assert inside.asked == []  # it was listening on the other address all the time


@pytest.fixture
def trusted_by_clients(trusted: None) -> Iterator[None]:
    """MCP's client has a context of its own, which is made once."""
    tls_context.cache_clear()
    yield
    tls_context.cache_clear()


@pytest.mark.usefixtures("trusted_by_clients")
@pytest.mark.parametrize(("host", "is_right"), [("localhost", True), ("site.test", False)])
async def test_over_https_the_certificate_must_be_for_the_name_although_an_address_is_called(
    door: Door, monkeypatch: pytest.MonkeyPatch, certificate: Path, host: str, is_right: bool
) -> None:
    app = Redirecting(make_server().streamable_http_app(transport_security=ANY_HOST), {})
    async with listening(app, certificate=str(certificate)) as url:
        monkeypatch.setattr(socket, "getaddrinfo", Rebinding(host, ["127.0.0.1"], socket.getaddrinfo))
        address = f"https://{host}:{yarl.URL(url).port}/mcp"
        async with door.serving(ScriptedModel(ADD, says("3")), **allowing(address)) as served:
            response = await respond(served, False, tools=[named(address)])
            await close_shared()
    assert bool(response.output[0].tools) is is_right
    assert bool(app.asked) is is_right


@pytest.mark.parametrize("is_named", [True, False], ids=["a request names it", "the operator names it"])
async def test_a_server_is_reached_through_the_proxy_that_the_operator_names(door: Door, is_named: bool) -> None:
    """Which alone can resolve its name."""
    app = Redirecting(make_server().streamable_http_app(transport_security=ANY_HOST), {})
    async with listening(app) as url, ProxyServer({"site.test": yarl.URL(url).port or 0}).running() as proxy:
        address = "http://site.test/mcp"
        own = () if is_named else (McpServer(name="own", source=Http(address)),)
        settings = allowing(address) if is_named else {}
        settings = {**settings, "fetch_proxy": f"127.0.0.1:{proxy.port}"}
        async with door.serving(ScriptedModel(ADD, says("3")), mcp=own, **settings) as served:
            tool = named(address) if is_named else {"type": "mcp", "server_label": "own", "connector_id": "own"}
            response = await respond(served, False, tools=[tool])
            await close_shared()
    assert [one.name for one in response.output[0].tools][:1] != [], (response.output[0], proxy.asked, app.asked)
    assert proxy.asked[0] == "POST http://site.test/mcp HTTP/1.1"
    assert app.asked != []


async def test_a_proxy_leads_to_no_private_address(door: Door) -> None:
    async with ProxyServer().running() as proxy:
        settings: dict[str, Any] = {"mcp_allow_url": ("http://*",), "fetch_proxy": f"127.0.0.1:{proxy.port}"}
        async with door.serving(ScriptedModel(says("hi")), **settings) as served:
            response = await respond(served, False, tools=[named("http://127.1:9/mcp")])
            await close_shared()
    assert response.output[0].tools == []
    assert proxy.asked == []
