"""What a run was shown so far: its sources, each with the number that the model cites it by, and how often it was searched.

Made anew from the details of the run's finished calls, a run that goes on elsewhere counts on where it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.wire.codec.json import UNREADABLE
from ronda.wire.web.citations import EXCERPT, Source, sources_of
from ronda.wire.web.search import PageCitations


class _Action(Struct):
    tool_type: str = ""
    action: str = ""
    error_code: str = ""


_ACTION: Final = msgspec.json.Decoder(_Action)


class SearchHistory:
    """`before` is what the conversation has shown before this run."""

    def __init__(self, details: Iterable[Raw] = (), before: Iterable[Source] = ()) -> None:
        self._sources: dict[str, Source] = {source.url: source for source in before}
        self._uses: dict[str, int] = {}
        self._pages = 0  # that were read
        for one in details:
            for source in sources_of(one):
                self._sources.setdefault(source.url, source)
            self._count(one)

    def source(self, url: str, title: str, text: str) -> Source:
        """The number of a page stays the same however often it is found."""
        if url not in self._sources:
            self._sources[url] = Source(self._next_number, url, title, " ".join(text[: 3 * EXCERPT].split())[:EXCERPT])
        return self._sources[url]

    def page(self, url: str, title: str, text: str, citations: PageCitations) -> Source:
        """The same of a page that was read by its address."""
        self._pages += 1
        if url not in self._sources and citations != "result":
            document = self._pages - 1 if citations == "document" else None
            self._sources[url] = Source(
                self._next_number, url, title, text[:EXCERPT], document, is_cited=document is not None
            )
        return self.source(url, title, text)

    @property
    def _next_number(self) -> int:
        return 1 + max((source.number for source in self._sources.values()), default=0)

    def may_use(self, action: str, limit: int | None) -> bool:
        """Counts one more use, if there is room for it."""
        used = self._uses.get(action, 0)
        if limit is not None and used >= limit:
            return False
        self._uses[action] = used + 1
        return True

    def _count(self, details: Raw) -> None:
        try:
            read = _ACTION.decode(details)
        except UNREADABLE:
            return
        if read.tool_type == "web_search":
            self._uses[read.action] = self._uses.get(read.action, 0) + 1
            if read.action == "open_page" and not read.error_code:
                self._pages += 1
