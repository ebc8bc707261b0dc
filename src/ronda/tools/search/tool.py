"""The two tools that a model searches the web with.

    mistralrs_search_the_web {query}              → {"sources": [domains], "output": [{number, title, description, url, content}]}
    mistralrs_website_content_extractor {url}     → {"sources": [domain], "output": "{number, url, content}, as text"}

Names and results are those of mistral.rs, plus the number that the model cites a source by. What else
clients are shown of a call is in its details: `query`, `results_count`, `sources` for the progress events, `action` and `results`
for the doors' own items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from ronda.core.plan import ToolSpec
from ronda.core.taint import EGRESS, UNTRUSTED
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.tools.fetch.fetcher import FetchFailed
from ronda.tools.parameters import parameters
from ronda.tools.search.backend import SearchFailed
from ronda.tools.search.history import SearchHistory
from ronda.tools.search.rank import cut
from ronda.tools.search.searcher import Searcher
from ronda.wire.web.citations import Source
from ronda.wire.web.search import EXTRACT, SEARCH, SearchOptions, WebTools, domains_of

SECONDS: Final = 60.0
# What each run was shown, by its id: several choices of one answer are several runs with the same tools.
Histories: TypeAlias = dict[str, SearchHistory]
MAX_RUNS: Final = 1_000  # that a program's own tools remember, the latest

CITE: Final = (
    "Each source has a number. Cite the sources that you use in your answer by their numbers, as in [1] or [2]."
)
_SEARCH_TEXT: Final = (
    "Search the web. Use this for whatever you cannot know, or that may have changed: news, prices, versions, people, places. "
    "The result holds pages with the passages that fit the query best. " + CITE
)
_EXTRACT_TEXT: Final = (
    "Read one web page or PDF as text, by its address. Use this for an address that the user gives, "
    "or to read more of a page that a search has found."
)


def search_tools(
    searcher: Searcher, web: WebTools, histories: Histories | None = None, before: Sequence[Source] = ()
) -> list[Tool]:
    """What a request that may use the web is offered.

    `histories` are of runs that go on: both tools number on in them. `before` is what the conversation has shown already.
    """
    histories = {} if histories is None else histories
    tools: list[Tool] = []
    if web.search is not None:
        tools.append(SearchTool(searcher, web.search, histories, before))
    if web.fetch is not None:
        tools.append(ExtractTool(searcher, web.fetch, histories, before))
    return tools


class _ShownResult(Struct):
    """A result as the model sees it."""

    number: int
    title: str
    description: str
    url: str
    content: str


class _WebTool(ABC):
    def __init__(
        self, searcher: Searcher, options: SearchOptions, histories: Histories, before: Sequence[Source] = ()
    ) -> None:
        self.spec = self._describe(options)
        self._searcher = searcher
        self._options = options
        self._histories = histories
        self._before = before

    @abstractmethod
    def _describe(self, options: SearchOptions) -> ToolSpec: ...

    def _history(self, run: str) -> SearchHistory:
        histories = self._histories
        if run not in histories:
            while len(histories) >= MAX_RUNS:
                del histories[next(iter(histories))]
            histories[run] = SearchHistory(before=self._before)
        return histories[run]


class SearchTool(_WebTool):
    def _describe(self, options: SearchOptions) -> ToolSpec:
        text = options.search_description or _SEARCH_TEXT
        if options.location is not None and (place := str(options.location)):
            text += f" The user is in: {place}."
        meaning = "What to search for: a few words, as one would type them into a search engine."
        return _spec(SEARCH, text, "query", meaning)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        query = str(arguments.get("query", ""))
        about = {"action": "search", "query": query}
        history = self._history(context.run)
        if not history.may_use("search", self._options.max_uses):
            return _failure({"error": "there are no searches left for this request"}, "max_uses_exceeded", about)
        try:
            results = await self._searcher.search(query, self._options)
        except (SearchFailed, FetchFailed) as error:
            return _failure({"error": str(error)}, error.code, about)
        sources = [history.source(one.url, one.title, one.content or one.description) for one in results]
        shown = [
            _ShownResult(source.number, one.title, one.description, one.url, one.content)
            for source, one in zip(sources, results, strict=True)
        ]
        domains = domains_of([one.url for one in results])
        content = msgspec.json.encode({"sources": domains, "output": shown}).decode()
        return ToolOutput(content, details=_details(about, domains, sources))


class ExtractTool(_WebTool):
    def _describe(self, options: SearchOptions) -> ToolSpec:
        text = options.extract_description or _EXTRACT_TEXT
        if options.extract_description is None and options.page_citations != "none":
            text += f" {CITE}"
        return _spec(EXTRACT, text, "url", "The address of the page: http or https.")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        url = str(arguments.get("url", ""))
        about = {"action": "open_page", "url": url}
        history = self._history(context.run)
        if not history.may_use("open_page", self._options.max_uses):
            return _failure({"error": "there are no pages left to read for this request"}, "max_uses_exceeded", about)
        try:
            page = await self._searcher.read(url, self._options)
        except FetchFailed as error:
            output = f"ERROR: failed to extract content: {error}"
            return _failure({"sources": [], "output": output}, error.code, about)
        text = cut(page.content, self._options.max_content_tokens or self._options.budget)
        source = history.page(page.url, page.title, text, self._options.page_citations)
        domains = domains_of([page.url])
        # One text, not JSON in JSON: what is escaped twice is hard to read.
        output = f'{{"number": {source.number}, "url": "{page.url}", "content": "{text}"}}'
        content = msgspec.json.encode({"sources": domains, "output": output}).decode()
        return ToolOutput(content, details=_details(about, domains, [source]))


def _spec(name: str, description: str, argument: str, meaning: str) -> ToolSpec:
    return ToolSpec(
        name,
        description,
        parameters({argument: {"type": "string", "description": meaning}}, argument),
        strict=True,
        kind="builtin",
        repeatable=True,
        timeout=SECONDS,
        labels=("web", UNTRUSTED, EGRESS),  # a query, or an address, can say anything to who reads it
    )


def _details(about: dict[str, Any], domains: list[str], sources: Sequence[Source]) -> dict[str, Any]:
    return {
        "tool_type": "web_search",
        **about,
        "results_count": len(sources),
        "sources": domains,
        "results": list(sources),
    }


def _failure(content: dict[str, Any], code: str, about: dict[str, Any]) -> ToolOutput:
    details = {"tool_type": "web_search", **about, "results_count": 0, "error_code": code}
    return ToolOutput(msgspec.json.encode(content).decode(), failed=True, details=details)
