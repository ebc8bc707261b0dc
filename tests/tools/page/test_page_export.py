"""A page as a zip that works by itself, and a picture of a stranger's page."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from tests.timeouts import soon
from tests.tools.page.looks import colours, needs_chromium
from tests.tools.page.play import data_url, png

from ronda.errors import BadRequest, TooLarge, ToolFailed
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.page import PageAssets, PageServices, capture, export_zip
from ronda.tools.page.capture import page_address
from ronda.tools.page.export import BABEL, find_pictures, pin_babel

RED, BLUE = png(3, 3), png(4, 4, b"\x00\x00\xff")
GREEN_PAGE = b"""<!DOCTYPE html><body style="margin:0;background:#fff"><link rel=stylesheet href=style.css><div></div>
  <img src="http://127.0.0.1:9/private.png"><script>fetch("post", {method: "POST"})</script>"""


class Site:
    """A web site, and what it was asked for."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.seen.append(f"{request.method} {request.path}")
        match request.path:
            case "/red.png":
                return web.Response(body=RED, content_type="image/png")
            case "/large.png":
                return web.Response(body=RED + b"\0" * 21 * 1024 * 1024, content_type="image/png")
            case "/page.png":
                return web.Response(text="<p>", content_type="text/html")
            case "/old":
                raise web.HTTPFound("/new/")
            case "/new/":
                return web.Response(body=GREEN_PAGE, content_type="text/html")
            case "/new/style.css":
                return web.Response(text="div {width:100px;height:100px;background:green}", content_type="text/css")
        raise web.HTTPNotFound


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[tuple[Site, PageServices]]:
    made = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    here = f"127.0.0.1:{runner.addresses[0][1]}"
    made.url = f"http://{here}"
    fetcher = Fetcher(AllowList.parse([here]), max_bytes=20 * 1024 * 1024)
    try:
        yield made, PageServices(PageAssets(folder), fetcher=fetcher)
    finally:
        await runner.cleanup()


async def exported(code: str, services: PageServices, base_url: str | None = None) -> dict[str, bytes]:
    async with soon():
        packed = zipfile.ZipFile(io.BytesIO(await export_zip(code, services, base_url)))
    return {name: packed.read(name) for name in packed.namelist()}


async def test_pictures_of_a_page_are_packed_beside_it(tmp_path: Path) -> None:
    async with site(tmp_path) as (here, services):
        saved = await services.assets.save(str(await services.assets.add(data_url(BLUE))))
        assert saved is not None
        code = f"""<style>body{{background:url("{data_url(BLUE)}")}}</style><img src="{data_url(RED)}" alt="a">
          <img src="http://127.0.0.1:9/private.png"><img src="data:text/plain,no"><img src="{here.url}/red.png?a=1&amp;b=2">
          <img src="{here.url}/large.png"><img src="{here.url}/page.png"><p style="background: url('{saved.url()}')">
          <script>const shown = "{here.url}/red.png"</script><script src="https://unpkg.com/@babel/standalone/babel.min.js"></script>"""
        files = await exported(code, services, "http://page.example:5173/")
        seen = set(here.seen)
    page = files.pop("index.html").decode()
    assert files == {
        "assets/image-1.png": RED,
        "assets/image-4.png": RED,
        "assets/image-7.png": BLUE,
        "assets/image-8.png": BLUE,
        "assets/image-9.png": RED,
    }
    assert 'background:url("assets/image-7.png")' in page
    assert 'src="assets/image-1.png" alt="a"' in page
    assert 'src="http://127.0.0.1:9/private.png"' in page
    assert 'src="data:text/plain,no"' in page
    assert 'src="assets/image-4.png"' in page
    assert f'src="{here.url}/large.png"' in page
    assert "url('assets/image-8.png')" in page
    assert 'shown = "assets/image-9.png"' in page
    assert BABEL in page
    assert seen == {"GET /red.png", "GET /large.png", "GET /page.png"}


@pytest.mark.parametrize(
    "code",
    [
        "",
        "<h1>x</h1>",
        "<img src='https://['><img src='http://a:b'>",
        "<img",
        "<style>",
        "<script>'",
        "<img src>",
        "<!--",
        "\0",
    ],
)
async def test_a_page_without_pictures_is_packed_as_it_is(code: str, tmp_path: Path) -> None:
    assert await exported(code, PageServices(PageAssets(tmp_path))) == {"index.html": code.encode()}


async def test_a_page_of_that_size_is_not_packed(tmp_path: Path) -> None:
    with pytest.raises(TooLarge):
        await export_zip("x" * 20_000_001, PageServices(PageAssets(tmp_path)))


def test_pictures_are_found_wherever_a_page_shows_them() -> None:
    code = """<link rel="shortcut icon" href="i.png"><link rel=stylesheet href="s.css"><style>a{background:url(c.png)}</style>
      <picture><source srcset="s1.png 1x, s2.png 2x"><img src="a.png" srcset="a.png, b.png 2x"></picture>
      <svg><image xlink:href="v.png"/></svg><b style='background: url("d.png")'></b><a href="no.png"></a>
      <script>x = "https://e.example/e.png?1"; y = "/local-assets/asset_1.png"; z = "no.png"</script>"""
    assert find_pictures(code) == [
        *("a.png", "b.png", "s1.png", "s2.png", "v.png", "i.png", "c.png", "d.png"),
        *("https://e.example/e.png?1", "/local-assets/asset_1.png"),
    ]
    assert len(find_pictures("".join(f"<img src={n}.png>" for n in range(60)))) == 50


@pytest.mark.parametrize(
    "address",
    [
        "https://unpkg.com/@babel/standalone/babel.min.js",
        "https://unpkg.com/@babel/standalone",
        "https://cdn.jsdelivr.net/npm/@babel/standalone@7.20.0/babel.js",
        "https://cdnjs.cloudflare.com/ajax/libs/babel-standalone/7.23.2/babel.min.js",
    ],
)
def test_babel_is_pinned(address: str) -> None:
    assert pin_babel(f'<script src="{address}"></script>') == f'<script src="{BABEL}"></script>'
    assert pin_babel(f"{address}/other") == f"{address}/other" or "cdnjs" in address


# ---- pictures of pages -----------------------------------------------------------------------------------------------


@needs_chromium
async def test_a_picture_is_taken_of_a_page_and_nothing_private_is_fetched_for_it(tmp_path: Path) -> None:
    async with site(tmp_path) as (here, services), soon():
        picture = await capture(f"{here.url}/old", services)
    assert colours(picture).get((0, 128, 0)) == 10_000
    assert [asked for asked in here.seen if "favicon" not in asked] == ["GET /old", "GET /new/", "GET /new/style.css"]


async def test_no_picture_is_taken_of_what_is_private_or_not_there(tmp_path: Path) -> None:
    async with site(tmp_path) as (here, services):
        for url in ("http://127.0.0.1:9/", "169.254.169.254/latest", "localhost:22", f"{here.url}/nothing"):
            with pytest.raises(ToolFailed):
                await capture(url, services)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("example.com", "https://example.com/"),
        (" example.com:8080/a?b#c ", "https://example.com:8080/a?b"),
        ("HTTP://example.com", "http://example.com/"),
    ],
)
def test_an_address_needs_no_scheme(text: str, address: str) -> None:
    assert page_address(text) == address


@pytest.mark.parametrize(
    "text", ["ftp://example.com", "file:///etc/passwd", "javascript:alert(1)", "", "https://", "chrome://version"]
)
def test_what_is_no_web_address_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        page_address(text)
