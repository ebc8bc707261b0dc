"""A web of our own: pages, and a SearXNG-shaped service that finds all of them, on one socket of this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.tools.api_server import Api, serve

HTML = "<html><head><title>{0}</title></head><body><article><p>{1}</p></article></body></html>"
TIDES = "The tides follow the moon, and twice a day the sea comes back to where it was."
SALT = "Salt comes from the sea, where the sun dries it in flat basins by the shore."


class Site:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.add("/tides", "Tides", TIDES)
        self.add("/salt", "Salt", SALT)
        api.answers["/robots.txt"] = web.Response(status=404)
        self.find("tides", "salt")

    def find(self, *names: str) -> None:
        """What a search finds from now on."""
        about = {"tides": "About tides and the moon", "salt": "About salt"}
        found = [{"title": name.title(), "url": self.url(f"/{name}"), "content": about[name]} for name in names]
        self.api.answers["/search"] = web.json_response({"results": found})

    def add(self, path: str, title: str, text: str) -> None:
        self.api.answers[path] = web.Response(text=HTML.format(title, text), content_type="text/html")

    def url(self, path: str) -> str:
        return f"{self.api.url}{path}"

    @property
    def domain(self) -> str:
        return "127.0.0.1"

    @property
    def config(self) -> dict[str, Any]:
        """What a server that searches here is started with."""
        return {
            "enable_search": True,
            "search": {"backend": "searxng", "address": self.api.url},
            "fetch_allow": ("127.0.0.1",),
        }


@asynccontextmanager
async def web_site() -> AsyncIterator[Site]:
    async with serve() as api:
        yield Site(api)
