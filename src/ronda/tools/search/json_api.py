"""Any search service with a JSON API → results, as the operator's settings describe it.

Brave    address = "https://api.search.brave.com/res/v1/web/search", query = "q", count = "count",
         headers = {X-Subscription-Token = "…"}, results = "web.results"
Tavily   address = "https://api.tavily.com/search", method = "POST", count = "max_results",
         headers = {Authorization = "Bearer …"}, description = "content"
Exa      address = "https://api.exa.ai/search", method = "POST", count = "numResults",
         headers = {x-api-key = "…"}, body = {contents = {text = true}}, content = "text"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ronda.tools.search.backend import Query, Result, SearchFailed, with_sites
from ronda.tools.search.service import ask_json

MAX_TEXT: Final = 500_000  # characters of one member


class JsonApi(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="json"):
    """How a service is asked, and where its answer says what. A place is a path of names, such as `web.results`."""

    address: str
    method: Literal["GET", "POST"] = "GET"
    query: str = "query"  # what the query is called: a parameter of GET, a member of the body of POST
    count: str = ""  # what the number of results is called; empty: the service decides
    parameters: dict[str, str] = {}
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    results: str = "results"
    title: str = "title"
    url: str = "url"
    description: str = "description"
    content: str = ""  # empty: the pages are fetched
    name: str = "the search service"  # in errors


class JsonBackend:
    finds_pages = True

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    async def search(self, query: Query) -> list[Result]:
        api = self._api
        fields: dict[str, Any] = {api.query: query.text} | ({api.count: query.count} if api.count else {})
        if api.method == "GET":
            words = {name: str(value) for name, value in fields.items()}
            options: dict[str, Any] = {"parameters": {**api.parameters, **words}}
        else:
            options = {"parameters": api.parameters, "body": {**api.body, **fields}}
        answer = await ask_json(api.method, api.address, service=api.name, headers=api.headers, **options)
        places = {"title": api.title, "url": api.url, "description": api.description, "content": api.content}
        return _read_items(answer, api.results, places, api.name)[: query.count]


class Searxng(JsonBackend):
    """A SearXNG instance, by its JSON format, which its operator has to switch on (`search.formats`)."""

    def __init__(self, address: str) -> None:
        place, words = f"{address.rstrip('/')}/search", {"format": "json"}
        super().__init__(JsonApi(place, query="q", parameters=words, description="content", name="SearXNG"))

    async def search(self, query: Query) -> list[Result]:
        try:
            return await super().search(replace(query, text=with_sites(query)))
        except SearchFailed as error:
            if error.status == 403:
                raise SearchFailed(f"{error}; its settings.yml has to list 'json' in search.formats") from error
            raise


def _read_items(answer: Any, results: str, places: Mapping[str, str], service: str) -> list[Result]:
    """An entry without an address is left out; whatever else is missing is empty. Raises SearchFailed."""
    items = _at(answer, results)
    if items is None and isinstance(answer, dict):  # Brave says nothing of `web` where it has found nothing
        return []
    if not isinstance(items, list):
        raise SearchFailed(f"{service} answers without a list of results at '{results}'")
    found = [Result(**{name: _text(_at(item, place)) for name, place in places.items() if place}) for item in items]
    return [result for result in found if result.url]


def _at(value: Any, place: str) -> Any:
    for name in place.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""
