"""Web search as every dialect speaks of it: the tools' names, what a request may say of a search, and what is shown of a call.

    Chat        web_search_options {search_context_size, user_location {approximate {…}}, filters {…}, …}
    Responses   tool web_search {search_context_size, user_location {…}, filters {…}, …}
    Messages    tools web_search_… {allowed_domains | blocked_domains, max_uses, user_location {…}},
                web_fetch_… {allowed_domains | blocked_domains, max_uses, max_content_tokens, citations {enabled}}
    Mistral     tool web_search, which says nothing

Their members do not contradict each other, so that one reader serves all. Only Messages asks for a search and for the reading
of pages apart; elsewhere a search brings both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_or

SEARCH: Final = "mistralrs_search_the_web"
EXTRACT: Final = "mistralrs_website_content_extractor"
WEB_TOOLS: Final = frozenset({SEARCH, EXTRACT})

# How an answer cites a page that was read by its address: as it does a search's results, as a document, or not at all.
PageCitations: TypeAlias = Literal["result", "document", "none"]
ContextSize: TypeAlias = Literal["low", "medium", "high"]
BUDGETS: Final[dict[ContextSize, int]] = {"low": 4096, "medium": 8192, "high": 16384}  # tokens of one search's results
MAX_DOMAINS: Final = 100
MAX_DESCRIPTION: Final = 8_000


class Location(Struct, frozen=True, omit_defaults=True):
    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None

    def __str__(self) -> str:
        return ", ".join(part for part in (self.city, self.region, self.country, self.timezone) if part)


class SearchOptions(Struct, frozen=True, omit_defaults=True):
    """What one request says of its searches and of the pages it reads."""

    budget: int = BUDGETS["medium"]
    location: Location | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    max_uses: int | None = None
    max_content_tokens: int | None = None  # of one page that is read
    page_citations: PageCitations = "result"
    external_web_access: bool = True
    search_description: str | None = None
    extract_description: str | None = None

    def permits(self, url: str) -> bool:
        """By domain; with filters, what has no domain is not permitted."""
        if not self.allowed_domains and not self.blocked_domains:
            return True
        domain, path = _parts(url)
        if not domain:
            return False
        if self.allowed_domains and not any(_covers(rule, domain, path) for rule in self.allowed_domains):
            return False
        return not any(_covers(rule, domain, path) for rule in self.blocked_domains)


class WebTools(Struct, frozen=True, omit_defaults=True):
    """What of the web a request may use, and how; None: not that."""

    search: SearchOptions | None = None
    fetch: SearchOptions | None = None  # a page by its address

    def __or__(self, other: WebTools) -> WebTools:
        return WebTools(self.search or other.search, self.fetch or other.fetch)


ANY_WEB: Final = WebTools(SearchOptions(), SearchOptions())


def domain_of(url: str) -> str:
    """`https://www.Example.com./x` → `example.com`; empty where there is none."""
    return _parts(url)[0]


def domains_of(urls: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(domain for domain in map(domain_of, urls) if domain))


def _parts(url: str) -> tuple[str, str]:
    try:
        split = urlsplit(url if "://" in url else "")
        return _ascii((split.hostname or "").lower().rstrip(".").removeprefix("www.")), split.path
    except ValueError:
        return "", ""


def _ascii(name: str) -> str:
    """`bücher.example` → `xn--bcher-kva.example`: a filter holds however an address is written."""
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return ""


def _covers(rule: str, domain: str, path: str) -> bool:
    """A filter is a domain, with its subdomains, and perhaps the beginning of a path."""
    name, slash, prefix = rule.partition("/")
    return (domain == name or domain.endswith(f".{name}")) and (
        not slash or f"{path}/".startswith(f"/{prefix.rstrip('/')}/")
    )


# ---- what a request says ----------------------------------------------------------------------------------------------


class _Location(Location, frozen=True):
    type: str | None = None
    approximate: Location | None = None


class _Filters(Struct):
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None


class _Options(_Filters):
    search_context_size: ContextSize | None = None
    user_location: _Location | None = None
    filters: _Filters | None = None
    return_token_budget: Literal["default", "unlimited"] | None = None
    external_web_access: bool | None = None
    search_content_types: list[str] | None = None
    search_description: str | None = None
    extract_description: str | None = None
    max_uses: int | None = None
    max_content_tokens: int | None = None


def read_search_options(raw: Raw | bytes, path: str) -> SearchOptions:
    """`path` is where the options stand in the request. Raises BadRequest."""
    try:
        read = msgspec.json.decode(raw, type=_Options)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        raise BadRequest(f"{path}{place.rstrip('`')}: {message}", param=path) from error
    if "image" in (read.search_content_types or ()):
        raise BadRequest(
            'tools[].type="web_search" image search is not supported.', param=f"{path}.search_content_types"
        )
    if read.allowed_domains and read.blocked_domains:
        raise BadRequest(f"{path}: give allowed_domains or blocked_domains, not both", param=path)
    for name, value in (("max_uses", read.max_uses), ("max_content_tokens", read.max_content_tokens)):
        if value is not None and value < 1:
            raise BadRequest(f"{path}.{name} must be at least 1", param=f"{path}.{name}")
    filters = read.filters or _Filters()
    location = read.user_location
    unlimited = read.return_token_budget == "unlimited"
    return SearchOptions(
        budget=BUDGETS["high" if unlimited else read.search_context_size or "medium"],
        location=None if location is None else location.approximate or _plain(location),
        allowed_domains=_domains(path, "allowed_domains", filters.allowed_domains or read.allowed_domains),
        blocked_domains=_domains(path, "blocked_domains", filters.blocked_domains or read.blocked_domains),
        max_uses=read.max_uses,
        max_content_tokens=read.max_content_tokens,
        external_web_access=read.external_web_access is not False,
        search_description=_description(path, "search_description", read.search_description),
        extract_description=_description(path, "extract_description", read.extract_description),
    )


def _plain(location: _Location) -> Location:
    return Location(location.city, location.region, location.country, location.timezone)


def _domains(path: str, label: str, domains: Sequence[str] | None) -> tuple[str, ...]:
    if len(domains or ()) > MAX_DOMAINS:
        raise BadRequest(f"{path}.filters.{label} may contain at most {MAX_DOMAINS} domains.", param=f"{path}.{label}")
    found = [_domain(domain) for domain in domains or ()]
    if "" in found:
        raise BadRequest(f"{path}.{label} has an entry that is no domain", param=f"{path}.{label}")
    return tuple(found)


def _domain(text: str) -> str:
    text = text.strip().partition("://")[2] or text.strip()
    name, slash, prefix = text.partition("/")
    name = _ascii(name.lower().rstrip(".").removeprefix("www.").removeprefix("*."))
    return f"{name}{slash}{prefix}".rstrip("/") if name and " " not in name else ""


def _description(path: str, label: str, text: str | None) -> str | None:
    if text is not None and len(text) > MAX_DESCRIPTION:
        raise BadRequest(f"{path}.{label} is longer than {MAX_DESCRIPTION} characters", param=f"{path}.{label}")
    return text or None


# ---- what is shown of a call --------------------------------------------------------------------------------------------


class _Arguments(Struct):
    query: str | None = None


def begin_data(arguments: str) -> dict[str, Any]:
    """`data` of the progress event when a call of ours begins; when it ends, that is the details of the call."""
    query = decode_or(_Arguments(), _Arguments, arguments).query
    return {"tool_type": "web_search", **({} if query is None else {"query": query})}


def record_text(details: Mapping[str, Any]) -> str:
    """`result_content` of a record: what was found, in two lines."""
    lines = [f"{details.get('results_count', 0)} results"]
    if sources := details.get("sources"):
        lines.append(f"sources: {', '.join(map(str, sources))}")
    return "\n".join(lines)
