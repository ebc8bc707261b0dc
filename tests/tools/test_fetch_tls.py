"""Fetching over https: from a server whose certificate an authority of ours has signed, or none."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.providers.test_http_tls import certificate as certificate
from tests.providers.test_http_tls import trusted as trusted
from tests.providers.test_http_tls import write_certificate

from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher, FetchFailed
from ronda.tools.fetch.pages import PageReader

PAGE = (
    "<html><head><title>Tides</title></head><body><p>They follow the moon, and come back twice a day.</p></body></html>"
)


async def resolve(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


FETCHER = Fetcher(AllowList.parse(["127.0.0.1"]), resolve=resolve)


@asynccontextmanager
async def serving(certificate: Path) -> AsyncIterator[int]:
    async def page(request: web.Request) -> web.Response:
        if request.path == "/away":
            raise web.HTTPFound(f"https://other.test:{request.url.port}/")
        if request.path == "/robots.txt":
            return web.Response(text="User-agent: *\nDisallow: /private")
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/{any:.*}", page)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.mark.usefixtures("trusted")
async def test_a_page_is_read_over_https_from_the_address_that_was_checked(certificate: Path) -> None:
    async with serving(certificate) as port:
        page = await PageReader(FETCHER).read(f"https://localhost:{port}/tides")

    assert (page.url, page.title) == (f"https://localhost:{port}/tides", "Tides")
    assert "twice a day" in page.text


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("start", ["https://other.test:{0}/", "https://localhost:{0}/away"])
async def test_a_certificate_of_another_name_is_not_taken(certificate: Path, start: str) -> None:
    async with serving(certificate) as port:
        with pytest.raises(FetchFailed, match="its certificate is not to be trusted") as found:
            await FETCHER.fetch(start.format(port))

    assert found.value.code == "url_not_accessible"


async def test_a_certificate_that_nobody_has_signed_is_not_taken(certificate: Path) -> None:
    async with serving(certificate) as port:
        with pytest.raises(FetchFailed, match="its certificate is not to be trusted"):
            await FETCHER.fetch(f"https://localhost:{port}/")


@pytest.mark.usefixtures("trusted")
async def test_a_certificate_that_has_expired_is_not_taken(tmp_path: Path) -> None:
    async with serving(write_certificate(tmp_path / "old.pem", days=-1)) as port:
        with pytest.raises(FetchFailed, match="its certificate is not to be trusted"):
            await FETCHER.fetch(f"https://localhost:{port}/")
