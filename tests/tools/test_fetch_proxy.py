"""Pages and files that models and requests name: through a proxy only where the operator says so, and then by their names."""

from __future__ import annotations

import pytest
from aiohttp import web
from tests.providers.proxy_server import ProxyServer
from tests.timeouts import soon
from tests.tools.api_server import Api
from yarl import URL

from ronda.errors import BadConfig
from ronda.providers.http.transport import web_routes
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed


@pytest.fixture(autouse=True)
def page(api: Api) -> None:
    api.answers["/a"] = web.Response(text="here")


async def test_pages_go_through_no_proxy_of_the_environment(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    found = await Fetcher(AllowList.parse(["127.0.0.1"]), routes=web_routes(None, None, {})).fetch(f"{api.url}/a")
    assert found.data == b"here"


@pytest.mark.parametrize("says", ["env", "the address"])
async def test_pages_go_through_the_proxy_that_the_operator_names(api: Api, says: str) -> None:
    """Which alone can resolve their names."""
    async with ProxyServer({"site.example": URL(api.url).port or 0}, user="me:s3cret").running() as proxy:
        address = f"http://me:s3cret@127.0.0.1:{proxy.port}"
        routes = web_routes(
            says if says == "env" else address, None, {"HTTP_PROXY": address, "NO_PROXY": "other.example"}
        )
        async with soon():
            found = await Fetcher(routes=routes).fetch("http://site.example/a")
    assert found.data == b"here"
    assert proxy.asked == ["GET http://site.example/a HTTP/1.1"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "localhost",
        "a.localhost",
        "10.0.0.1",
        "169.254.169.254",
    ],
)
async def test_private_addresses_are_refused_before_a_proxy_is_asked(host: str) -> None:
    async with ProxyServer().running() as proxy:
        routes = web_routes(f"http://127.0.0.1:{proxy.port}", None, {})
        with pytest.raises(FetchFailed, match="which the operator of this server has not allowed"):
            await Fetcher(routes=routes).fetch(f"http://{host}/a")
    assert proxy.asked == []


async def test_what_goes_without_the_proxy_is_checked_as_ever(api: Api) -> None:
    routes = web_routes("http://127.0.0.1:1", None, {"NO_PROXY": "site.example"})

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with pytest.raises(FetchFailed, match=r"site\.example leads to"):
        await Fetcher(routes=routes, resolve=resolve).fetch("http://site.example/a")


def test_a_proxy_for_pages_has_to_speak_http() -> None:
    with pytest.raises(BadConfig, match="--fetch-proxy takes an http:// or https:// proxy"):
        web_routes("socks5://127.0.0.1:1", None, {})
