"""A server's way to the web: what it searches with, how it reads pages, and which requests are offered both.

What a request asks for is in its needs (`wire.shared.capabilities`). What it was offered is kept with its run, so that the server
which continues the run offers the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import or_
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from ronda.core.events import Event, RunStarted, ToolFinished
from ronda.core.parts import Turn
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.server.config import ServerConfig
from ronda.server.features.web.settings import WebSettings
from ronda.server.services.embedders import open_embedder
from ronda.tools.fetch.page_worker import PageWorkers
from ronda.tools.search.history import SearchHistory
from ronda.tools.search.rank import Embed
from ronda.tools.search.searcher import Searcher
from ronda.tools.search.settings import SearchCallback, open_searcher
from ronda.tools.search.tool import search_tools
from ronda.wire.codec.json import encode
from ronda.wire.shared.capabilities import Capability, Need
from ronda.wire.web.calls import sources_before
from ronda.wire.web.search import ANY_WEB, EXTRACT, SEARCH, WebTools

SearchMode: TypeAlias = Literal["always", "on-request"]

WARM_SECONDS: Final = 60.0  # that what reads pages stays ready without use: its start takes a second
_ABOUT: Final = "web"  # where a run keeps what it was offered
_NOTHING: Final = WebTools()  # of a need that says no more than that there is one
_decode_web = msgspec.json.Decoder(WebTools).decode


class WebSearch:
    """`mode`: whether every request is offered it, or only those that ask for it."""

    def __init__(
        self,
        searcher: Searcher,
        mode: SearchMode = "always",
    ) -> None:
        self._searcher = searcher
        self._mode = mode
        self.capabilities: frozenset[Capability] = frozenset(
            {"search", "fetch"} if searcher.backend.finds_pages else {"search", "fetch", "offline_search"}
        )
        self.names = (SEARCH, EXTRACT)

    async def close(self) -> None:
        await self._searcher.pages.close()

    def names_for(self, need: Need) -> tuple[str, ...]:
        """The tools that do what is asked for; none where it is something else."""
        if need.hosted.capability not in self.capabilities:
            return ()
        web = ANY_WEB if need.web == _NOTHING else need.web
        return tuple([name for name, how in ((SEARCH, web.search), (EXTRACT, web.fetch)) if how is not None])

    def choose(self, needs: Sequence[Need], *, unasked: bool) -> WebTools | None:
        """`unasked`: whether this request may be offered what it does not ask for. What one asks for is all that it gets."""
        request = [need for need in needs if need.hosted.capability in self.capabilities]
        if described := [need.web for need in request if need.web != _NOTHING]:
            return reduce(or_, described)
        if any(need.hosted.capability == "offline_search" for need in needs):
            return None  # which is not here, and the web is not wanted
        return ANY_WEB if request or (unasked and self._mode == "always") else None

    def tools(self, web: WebTools, turns: Sequence[Turn]) -> list[Tool]:
        """For a conversation that has come so far."""
        return search_tools(self._searcher, web, before=sources_before(turns))

    def about(self, web: WebTools) -> dict[str, Raw]:
        return {_ABOUT: Raw(encode(web))}

    def reopen(self, start: RunStarted, events: Sequence[Event]) -> list[Tool]:
        """What a run was offered when it began: its sources are numbered on, and its uses counted on."""
        if _ABOUT not in start.about:
            return []
        details = [event.details for event in events if type(event) is ToolFinished]
        history = SearchHistory(details, sources_before(start.turns))
        return search_tools(self._searcher, _decode_web(start.about[_ABOUT]), {start.run: history})


def open_web_search(config: ServerConfig, callback: SearchCallback | None = None) -> WebSearch | None:
    """None where the operator has not switched it on. Raises BadConfig."""
    own = config.part(WebSettings)
    if not own.enable_search:
        useless = {
            "[search]": own.search,
            "--search-embedding-model": own.search_embedding_model,
            "search_callback": callback,
        }
        for name, value in useless.items():
            if value:
                raise BadConfig(f"{name} has no use without --enable-search (enable_search=True) or --agent")
        return None
    embed: Embed | None = None
    if (model := own.search_embedding_model) is not None:
        embedder = open_embedder(model, "--search-embedding-model", config.transport)

        async def embed(texts: Sequence[str]) -> list[list[float]]:
            return (await embedder.embed(texts)).vectors

    make_workers = partial(PageWorkers, config.sandbox, linger=WARM_SECONDS)
    searcher = open_searcher(own.search, callback, config.fetch_allow, embed, make_workers, config.fetch_routes)
    return WebSearch(searcher, own.search_mode)
