"""A page's code → a zip that works by itself: the page, and the pictures that it shows, beside it.

    index.html, assets/image-<n>.<gif|jpg|png|webp|svg>

`n` is the place of a picture among the page's; one that cannot be had keeps its address, so numbers may have gaps. Addresses that
the page names are fetched as any stranger's: public ones only.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import html
import io
import re
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote_to_bytes, urljoin

from ronda.errors import TooLarge, ToolFailed
from ronda.tools.fetch.fetcher import FetchFailed
from ronda.tools.page.assets import ADDRESS
from ronda.tools.page.pictures import ENDINGS, MAX_BYTES, read_picture
from ronda.tools.page.services import PageServices

MAX_PICTURES: Final = 50
MAX_TOTAL: Final = 100 * 1024 * 1024  # bytes of all pictures together
MAX_CODE: Final = 20_000_000  # characters: pages may carry their pictures
_AT_A_TIME: Final = 4

BABEL: Final = "https://unpkg.com/@babel/standalone@7.25.6/babel.min.js"  # the last that every page was tried with
_BABEL: Final = re.compile(
    r"https?://(?:unpkg\.com|cdn\.jsdelivr\.net/npm)/@babel/standalone(?:@[\w.^~-]+)?(?:/babel(?:\.min)?\.js)?(?=[\"'\s>)])"
    r"|https?://cdnjs\.cloudflare\.com/ajax/libs/babel-standalone/[\w.-]+/babel(?:\.min)?\.js"
)
_CSS_URL: Final = re.compile(r"""url\(\s*(?:"([^"]+)"|'([^']+)'|([^"')\s]+))\s*\)""")
_IN_SCRIPT: Final = re.compile(
    r"""["'`](https?://[^"'`\s<>]+\.(?:png|jpe?g|gif|webp|svg)(?:\?[^"'`\s<>]*)?|/local-assets/[\w.]+)["'`]"""
)
_ICONS: Final = frozenset({"icon", "apple-touch-icon", "mask-icon", "shortcut"})


def pin_babel(code: str) -> str:
    """Pages that take Babel from a CDN get a version that is known to work."""
    return _BABEL.sub(BABEL, code)


async def export_zip(code: str, services: PageServices, base_url: str | None = None) -> bytes:
    """`base_url` is what addresses without a host are relative to: where the page was shown. Raises TooLarge."""
    if len(code) > MAX_CODE:
        raise TooLarge(f"the page has {len(code)} characters; {MAX_CODE} can be exported", param="code")
    code = await asyncio.to_thread(pin_babel, code)
    candidates = await asyncio.to_thread(find_pictures, code)
    fetching = _Fetching(services, base_url)
    found = await asyncio.gather(*(fetching.get(address) for address in candidates))
    return await asyncio.to_thread(_pack, code, dict(zip(candidates, found, strict=True)))


def find_pictures(code: str) -> list[str]:
    """The addresses of a page's pictures, as they are written there, without doubles: kind by kind, each in the page's order."""
    finder = _Finder()
    finder.feed(code)
    finder.close()
    addresses = [address for kind in finder.found.values() for address in kind]
    return list(dict.fromkeys(address for address in addresses if address and not address.startswith("#")))[
        :MAX_PICTURES
    ]


class _Finder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, list[str]] = {kind: [] for kind in ("img", "source", "image", "link", "style", "script")}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: (value or "").strip() for name, value in attrs}
        match tag:
            case "img":
                self.found[tag] += [attributes.get("src", ""), *_srcset(attributes.get("srcset", ""))]
            case "source":
                self.found[tag] += _srcset(attributes.get("srcset", ""))
            case "image":
                self.found[tag].append(attributes.get("href", "") or attributes.get("xlink:href", ""))
            case "link" if _ICONS & set(attributes.get("rel", "").lower().split()):
                self.found[tag].append(attributes.get("href", ""))
            case "style" | "script":
                self._inside = tag
            case _:
                pass
        self.found["style"] += _css_urls(attributes.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.found["style"] += _css_urls(data)
        elif self._inside == "script":
            self.found["script"] += [match[1] for match in _IN_SCRIPT.finditer(data)]


def _srcset(value: str) -> Iterator[str]:
    """`a.png 1x, b.png 2x`; the comma of a data: URL is no separator."""
    for piece in re.split(r",\s+(?=\S)", value):
        if words := piece.split():
            yield words[0].rstrip(",")


def _css_urls(text: str) -> Iterator[str]:
    for match in _CSS_URL.finditer(text):
        yield match[1] or match[2] or match[3]


class _File:
    """A picture, under the ending that it gets."""

    def __init__(self, data: bytes, ending: str) -> None:
        self.data = data
        self.ending = ending


class _Fetching:
    """Gets the pictures of one page, within a bound on all of them together."""

    def __init__(self, services: PageServices, base_url: str | None) -> None:
        self._services = services
        self._base_url = base_url
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._left = MAX_TOTAL

    async def get(self, address: str) -> _File | None:
        async with self._slots:
            if self._left <= 0:
                return None
            try:
                found = await self._find(address)
            except (ToolFailed, ValueError):  # what is no address, too
                return None
            if found is None or len(found.data) > self._left:
                return None
            self._left -= len(found.data)
            return found

    async def _find(self, address: str) -> _File | None:
        if address.startswith("data:"):
            return await asyncio.to_thread(_from_data_url, address)
        absolute = urljoin(self._base_url or "", address)
        path = absolute.partition("?")[0]
        if ADDRESS in path:
            picture = await self._services.assets.open(path.rpartition(ADDRESS)[2])
            if picture is not None:
                return _File(picture.data, picture.ending)
        try:
            fetched = await self._services.fetcher.fetch(absolute, types=("image/*",))
        except FetchFailed:
            return None
        return _as_file(fetched.data, fetched.content_type)


def _from_data_url(url: str) -> _File | None:
    head, _, body = url.partition(",")
    kind, *options = head.removeprefix("data:").split(";")
    if not kind.startswith("image/") or len(body) > MAX_BYTES * 4 // 3 + 4:
        return None
    try:
        data = base64.b64decode(body) if "base64" in options else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        return None
    return _as_file(data, kind)


def _as_file(data: bytes, kind: str) -> _File | None:
    if kind == "image/svg+xml":
        return _File(data, "svg")
    picture = read_picture(data)
    if picture is not None:
        return _File(data, ENDINGS[picture.content_type])
    return _File(data, "ico") if kind in ("image/x-icon", "image/vnd.microsoft.icon") else None


def _pack(code: str, found: dict[str, _File | None]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        names: dict[str, str] = {}
        for index, (address, file) in enumerate(found.items(), 1):
            if file is not None:
                names[address] = f"assets/image-{index}.{file.ending}"
                archive.writestr(names[address], file.data)
        archive.writestr("index.html", _replace_addresses(code, names))
    return packed.getvalue()


def _replace_addresses(code: str, names: dict[str, str]) -> str:
    """Each address as it is written in the page, escaped or not; the longest first, since one may begin another."""
    written: dict[str, str] = {}
    for address in sorted(names, key=len, reverse=True):
        if address.startswith("data:"):  # a pattern of megabytes would take minutes to make
            code = code.replace(address, names[address]).replace(html.escape(address), names[address])
        else:
            spellings = (address, html.escape(address), html.escape(address, quote=False))
            written |= dict.fromkeys(spellings, names[address])
    if not written:
        return code
    # What follows an address must not be a part of one: /a.png is not meant in /a.png2.
    pattern = "|".join(re.escape(address) for address in sorted(written, key=len, reverse=True))
    return re.sub(rf"(?:{pattern})(?![\w%./-])", lambda match: written[match[0]], code)
