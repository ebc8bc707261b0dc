"""The operator's table `[search]` → a backend.

[search]
backend = "searxng"
address = "http://127.0.0.1:8888"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, assert_never
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ronda._extras import check_extra
from ronda.errors import BadConfig
from ronda.providers.http.transport import DIRECT, Routes
from ronda.tools.fetch.addresses import AllowList
from ronda.tools.fetch.fetcher import Fetcher
from ronda.tools.fetch.page_worker import PageWorkers
from ronda.tools.fetch.pages import PageReader
from ronda.tools.function import call_either
from ronda.tools.search.backend import Backend, NoBackend, Query, Result, SearchFailed
from ronda.tools.search.duckduckgo import ADDRESS, DuckDuckGo
from ronda.tools.search.folder import FolderBackend
from ronda.tools.search.json_api import JsonApi, JsonBackend, Searxng
from ronda.tools.search.rank import Embed
from ronda.tools.search.searcher import Searcher

# A function of the program's → results: `fn(query) → [{title, description, url, content}]`, plain or async.


class CallbackBackend:
    finds_pages = False

    def __init__(self, function: Callable[[str], Any]) -> None:
        self._function = function

    async def search(self, query: Query) -> list[Result]:
        try:
            value = await call_either(self._function, query.text)
        except Exception as error:  # the program's own function: whatever it raises is news for the model
            raise SearchFailed(f"the search failed: {type(error).__name__}: {error}") from error
        try:
            return msgspec.convert(value, list[Result], from_attributes=True)[: query.count]
        except msgspec.ValidationError as error:
            raise SearchFailed(
                f"the search callback has to return a list of {{title, description, url, content}}: {error}"
            ) from error


class DuckDuckGoSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="duckduckgo"):
    address: str = ADDRESS


class SearxngSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="searxng"):
    address: str


class FolderSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="folder"):
    """`address` comes before a document's path in the address that is cited; `index` is a file to keep the index in."""

    folder: str
    address: str = ""
    index: str = ""


class NoSettings(Struct, frozen=True, forbid_unknown_fields=True, tag_field="backend", tag="none"):
    """A search that says that there is none."""


SearchCallback: TypeAlias = Callable[[str], Any]
BackendSettings: TypeAlias = DuckDuckGoSettings | SearxngSettings | JsonApi | FolderSettings | NoSettings


class Settings(Struct, frozen=True):
    """`robots`: whether pages are read only where their site's robots.txt allows it."""

    backend: BackendSettings = DuckDuckGoSettings()
    robots: bool = True


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Without a `backend` it is the folder that is named, else DuckDuckGo. Raises BadConfig."""
    usual = "folder" if "folder" in table else "duckduckgo"
    own = {"backend": usual, **{name: value for name, value in table.items() if name != "robots"}}
    try:
        robots = msgspec.convert(table.get("robots", True), bool)
        return Settings(msgspec.convert(own, BackendSettings), robots)
    except msgspec.ValidationError as error:
        raise BadConfig(f"[search] cannot be used: {error}") from error


def open_backend(settings: BackendSettings) -> Backend:
    """Raises BadConfig."""
    match settings:
        case DuckDuckGoSettings(address=address):
            return DuckDuckGo(address)
        case SearxngSettings(address=address):
            return Searxng(address)
        case JsonApi():
            return JsonBackend(settings)
        case FolderSettings():
            index = Path(settings.index) if settings.index else None
            return FolderBackend(Path(settings.folder), index=index, address=settings.address)
        case NoSettings():
            return NoBackend()
    assert_never(settings)


def destination(settings: BackendSettings) -> str | None:
    """The host that queries are sent to; None where they stay on this machine."""
    address = address_of(settings)
    return None if address is None else urlsplit(address).hostname or address


def address_of(settings: BackendSettings) -> str | None:
    """Where queries are sent; None likewise."""
    match settings:
        case DuckDuckGoSettings(address=address) | SearxngSettings(address=address) | JsonApi(address=address):
            return address
        case FolderSettings() | NoSettings():
            return None
    assert_never(settings)


def open_searcher(
    table: Mapping[str, Any],
    callback: SearchCallback | None = None,
    allow: Sequence[str] = (),
    embed: Embed | None = None,
    make_workers: Callable[[], PageWorkers] = PageWorkers,
    routes: Routes = DIRECT,
) -> Searcher:
    """`callback` searches instead of what the table names; `allow` lists addresses besides public ones, and `routes` are the way
    to all of them; `make_workers` makes what finds the text of pages. Raises BadConfig."""
    check_extra("web", "searching and reading the web")
    settings = read_settings(table)
    backend = open_backend(settings.backend) if callback is None else CallbackBackend(callback)
    fetcher = Fetcher(AllowList.parse(allow), routes=routes)
    pages = PageReader(fetcher, heeds_robots=settings.robots, make_workers=make_workers)
    return Searcher(backend, pages, embed, routes)
