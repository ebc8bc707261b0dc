"""A query → results with the text of their pages, ranked and within the budget. One for a server."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from ronda.providers.http.transport import DIRECT, Routes
from ronda.tools.fetch.fetcher import FetchFailed
from ronda.tools.fetch.pages import PageReader
from ronda.tools.search.backend import MAX_QUERY, MAX_RESULTS, Backend, Query, Result, SearchFailed
from ronda.tools.search.rank import Embed, select
from ronda.tools.search.service import service_routes
from ronda.wire.web.search import SearchOptions

PAGES_SECONDS: Final = 10.0  # for all pages of one search together


class Searcher:
    """`embed` makes vectors of texts, for a better ranking."""

    def __init__(
        self, backend: Backend, pages: PageReader, embed: Embed | None = None, routes: Routes = DIRECT
    ) -> None:
        self.pages = pages
        self._routes = routes
        self.backend = backend
        self._embed = embed

    async def search(self, text: str, options: SearchOptions) -> list[Result]:
        """Raises SearchFailed, or FetchFailed for a query that is an address."""
        text = text.strip()
        if not text:
            raise SearchFailed("the query is empty", "invalid_tool_input")
        if text.startswith(("http://", "https://")):
            return await self._read_one(text, options)
        if len(text) > MAX_QUERY:
            raise SearchFailed(f"the query is longer than {MAX_QUERY} characters", "query_too_long")
        with service_routes(self._routes):
            found = await self.backend.search(Query(text, options))
        results = [result for result in found[:MAX_RESULTS] if options.permits(result.url)]
        if self.backend.finds_pages:
            results = await self._with_pages(results, options)
        return await select(text, results, options.budget, self._embed)

    async def read(self, url: str, options: SearchOptions) -> Result:
        """One page. Raises FetchFailed."""
        page = await self.pages.read(url, options.permits)
        return Result(page.title, "", page.url, page.text)

    async def _read_one(self, url: str, options: SearchOptions) -> list[Result]:
        return await select("", [await self.read(url, options)], options.budget)

    async def _with_pages(self, results: list[Result], options: SearchOptions) -> list[Result]:
        """A page that cannot be read, or not in time, leaves its description; without one, the result says nothing."""
        reading = [asyncio.ensure_future(self._content(result, options)) for result in results]
        if reading:
            try:
                await asyncio.wait(reading, timeout=PAGES_SECONDS)
            finally:
                for task in reading:
                    task.cancel()
        found = [
            replace(result, content=task.result()) if task.done() and not task.cancelled() else result
            for result, task in zip(results, reading, strict=True)
        ]
        return [result for result in found if result.content or result.description]

    async def _content(self, result: Result, options: SearchOptions) -> str:
        if result.content:
            return result.content
        try:
            return (await self.read(result.url, options)).content
        except FetchFailed:
            return ""
