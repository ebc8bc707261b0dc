"""What a search is asked of."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from ronda.errors import ToolFailed
from ronda.wire.web.search import SearchOptions

MAX_RESULTS: Final = 10
MAX_QUERY: Final = 1_000  # characters

# As the Messages API calls them.
Code: TypeAlias = Literal[
    "invalid_tool_input", "unavailable", "too_many_requests", "max_uses_exceeded", "query_too_long"
]


class Result(Struct, frozen=True):
    """`content` is the text of the page, where a backend brings it along; `description` is a line or two about it."""

    title: str = ""
    description: str = ""
    url: str = ""
    content: str = ""


class Query(Struct, frozen=True):
    """`options` are the request's. A backend may make use of domains and location; the domains are checked again later."""

    text: str
    options: SearchOptions = SearchOptions()
    count: int = MAX_RESULTS


class Backend(Protocol):
    @property
    def finds_pages(self) -> bool:
        """Whether its results are pages of the web, to be read where their content is missing."""
        ...

    async def search(self, query: Query) -> list[Result]:
        """The best results first. Raises SearchFailed."""
        ...


class SearchFailed(ToolFailed):
    """There is no answer to a query; the text is for the model, and names no key."""

    def __init__(self, message: str, code: Code = "unavailable", status: int | None = None) -> None:
        super().__init__(message)
        self.code: Code = code
        self.status = status  # of the HTTP answer, if that was the reason


class NoBackend:
    """Of an operator who has not said what to search."""

    finds_pages = True

    async def search(self, query: Query) -> list[Result]:
        raise SearchFailed(
            "no search is configured here; the operator of this server can choose one, in [search] of its settings"
        )


def with_sites(query: Query) -> str:
    """The words of a query for an engine that knows `site:`; a long list of domains would be more than it takes."""
    allowed, blocked = query.options.allowed_domains, query.options.blocked_domains
    sites = " OR ".join(f"site:{domain}" for domain in allowed) if len(allowed) <= 5 else ""
    without = [f"-site:{domain}" for domain in blocked] if len(blocked) <= 5 else []
    return " ".join([query.text, *([f"({sites})" if len(allowed) > 1 else sites] if sites else []), *without])
