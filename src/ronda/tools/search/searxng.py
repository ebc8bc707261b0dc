"""A SearXNG instance → results, by its JSON format, which its operator has to switch on (`search.formats`)."""

from __future__ import annotations

from typing import Final

from ronda.tools.search.backend import Query, Result, SearchFailed, with_sites
from ronda.tools.search.json_api import read_items
from ronda.tools.search.service import ask_json

_SERVICE: Final = "SearXNG"


class Searxng:
    finds_pages = True

    def __init__(self, address: str) -> None:
        self._address = f"{address.rstrip('/')}/search"

    async def search(self, query: Query) -> list[Result]:
        try:
            answer = await ask_json(
                "GET", self._address, service=_SERVICE, parameters={"q": with_sites(query), "format": "json"}
            )
        except SearchFailed as error:
            if error.status == 403:
                raise SearchFailed(f"{error}; its settings.yml has to list 'json' in search.formats") from error
            raise
        found = read_items(answer, "results", {"title": "title", "url": "url", "description": "content"}, _SERVICE)
        return found[: query.count]
