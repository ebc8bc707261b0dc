"""A stranger's web page → a picture of it. The browser has no network: what it asks for is fetched here, each address checked
as every address that comes from outside (`tools.fetch`), and handed in."""

from __future__ import annotations

import asyncio
import re
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from ronda.errors import BadRequest, ToolFailed
from ronda.tools.fetch.fetcher import FetchedPage, Fetcher, FetchFailed, parse_url
from ronda.tools.page.browser import DESKTOP, Request, Response
from ronda.tools.page.services import PageServices

MAX_TOTAL: Final = 100 * 1024 * 1024  # bytes of everything that one page loads
AT_A_TIME: Final = 8  # addresses that are fetched for it

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?!\d+(?:[/?#]|$))")  # not the colon of host:port


def page_address(text: str) -> str:
    """What a person typed as an address → an https or http one. Raises BadRequest."""
    text = text.strip()
    found = _SCHEME.match(text)
    if found is not None and found[1].lower() not in ("http", "https"):
        raise BadRequest(f"Unsupported protocol: {found[1].lower()}", param="url")
    address = text if found is not None else f"https://{text}"
    try:
        return _as_browsers_write(str(parse_url(address)))
    except FetchFailed as error:
        raise BadRequest(str(error), param="url") from error


async def capture(url: str, services: PageServices) -> bytes:
    """A PNG of the whole page, as a desktop shows it. Raises BadRequest for what is no address, ToolFailed where there is no
    picture."""
    address = page_address(url)
    loader = _Loader(services.fetcher)
    # First of all by us: whether it is there, and where it redirects to.
    start = await loader.load(address)
    [shot] = await services.browser.pictures(start, [DESKTOP], loader.answer)
    return shot.picture


class _Loader:
    """Fetches what one page asks for, within a bound."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._left = MAX_TOTAL
        self._first: dict[str, Response] = {}
        self._slots = asyncio.Semaphore(AT_A_TIME)

    async def load(self, address: str) -> str:
        """The page itself; where it was found."""
        found = await self._fetcher.fetch(address)
        url = _as_browsers_write(found.url)
        self._first[url] = _response(found)
        return url

    async def answer(self, request: Request) -> Response | None:
        if request.method != "GET" or self._left <= 0:
            return None
        address = _as_browsers_write(request.url)
        if (first := self._first.pop(address, None)) is not None:
            return first
        try:
            async with self._slots:
                found = await self._fetcher.fetch(address)
        except ToolFailed:
            return None
        self._left -= len(found.data)
        there = _as_browsers_write(found.url)
        if there != address and request.kind == "Document":  # its addresses are relative to where it is
            self._first[there] = _response(found)
            return Response(b"", status=302, location=there)
        return _response(found)


def _as_browsers_write(url: str) -> str:
    """With a path, and without what is not sent."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path or "/", fragment=""))


def _response(found: FetchedPage) -> Response:
    kind, charset = found.content_type, found.charset
    return Response(found.data, f"{kind}; charset={charset}" if kind and charset else kind)
