"""DuckDuckGo's page without JavaScript → results. There is no API: the page is read, and may change.

<a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2F&rut=…">Title</a>
<a class="result__snippet" href="…">A <b>line</b> or two</a>
"""

from __future__ import annotations

from functools import partial
from html.parser import HTMLParser
from typing import Final
from urllib.parse import parse_qs, urlsplit

from ronda.tools.function import in_thread
from ronda.tools.search.backend import Query, Result, SearchFailed, with_sites
from ronda.tools.search.service import ask

ADDRESS: Final = "https://html.duckduckgo.com/html/"
MAX_PAGE: Final = 1_000_000  # bytes: ten times what a page of results has
_SERVICE: Final = "DuckDuckGo"


class DuckDuckGo:
    finds_pages = True

    def __init__(self, address: str = ADDRESS) -> None:
        self._address = address

    async def search(self, query: Query) -> list[Result]:
        data = await ask("POST", self._address, service=_SERVICE, form={"q": with_sites(query)})
        found: list[Result] = await in_thread(partial(read_results, data[:MAX_PAGE].decode("utf-8", "replace")))
        return found[: query.count]


def read_results(page: str) -> list[Result]:
    """Advertisements are left out. Raises SearchFailed for a page that is no list of results."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    if not reader.results and "no-results" not in page:
        if "anomaly" in page:
            raise SearchFailed(f"{_SERVICE} takes no more searches for now", "too_many_requests")
        raise SearchFailed(f"{_SERVICE} answers with a page that cannot be read")
    return [found for found in reader.results if found.url]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.results: list[Result] = []
        self._field = ""  # of the last result, while its text is read
        self._ends_with = ""
        self._text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        classes = (named.get("class") or "").split()
        if "result__a" in classes:
            self._take()
            self.results.append(Result(url=_target(named.get("href") or "")))
            self._field, self._ends_with = "title", tag
        elif "result__snippet" in classes and self.results:
            self._take()
            self._field, self._ends_with = "description", tag

    def handle_endtag(self, tag: str) -> None:
        if self._field and tag == self._ends_with:
            self._take()

    def handle_data(self, data: str) -> None:
        if self._field:
            self._text.append(data)

    def _take(self) -> None:
        if self._field:
            last, text = self.results[-1], " ".join("".join(self._text).split())
            title, description = (text, last.description) if self._field == "title" else (last.title, text)
            self.results[-1] = Result(title, description, last.url)
        self._field, self._text = "", []

    def close(self) -> None:
        super().close()
        self._take()


def _target(href: str) -> str:
    """Where a link leads in the end; empty for an advertisement, which leads through DuckDuckGo's own `y.js`."""
    try:
        found = urlsplit(href if "://" in href else f"https:{href}" if href.startswith("//") else href)
        host = found.hostname or ""
    except ValueError:
        return ""
    if host != "duckduckgo.com" and not host.endswith(".duckduckgo.com"):
        return href if found.scheme in ("http", "https") else ""
    target = parse_qs(found.query).get("uddg", [""])[0] if found.path.startswith("/l/") else ""
    return "" if _is_own(target) or not target.startswith(("http://", "https://")) else target


def _is_own(target: str) -> bool:
    return "duckduckgo.com/y.js" in target
