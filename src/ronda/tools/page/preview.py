"""A project as a browser sees it: who answers what its page asks for, and pictures of it.

The page's own files, saved pictures, packages of known CDNs, and drawn boxes for the addresses of placeholders. Nothing else: a
page that a model wrote reaches no network from here.
"""

from __future__ import annotations

import asyncio
import html
import mimetypes
import re
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from ronda.tools.page.assets import ADDRESS, PageAssets
from ronda.tools.page.browser import Request, Response
from ronda.tools.page.cdn import Cdn
from ronda.tools.page.pictures import read_data_url
from ronda.tools.page.project import PageProject

# A name that is this machine's own by definition, so that browsers treat the page as a secure one; it is never looked up.
ORIGIN: Final = "http://preview.localhost/"

# The hash of one version, which another is not; a browser would refuse it.
_INTEGRITY: Final = re.compile(r"""\sintegrity\s*=\s*("[^"]*"|'[^']*')""", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"/(?P<width>\d{1,4})(?:x(?P<height>\d{1,4}))?(?:/(?P<back>[0-9a-fA-F]{3,6}))?\b.*")
_PLACEHOLDER_HOSTS: Final = ("placehold.co", "via.placeholder.com", "placehold.it", "dummyimage.com")


class Preview:
    """Answers the requests of one project's page."""

    def __init__(self, project: PageProject, assets: PageAssets, cdn: Cdn) -> None:
        self._files = dict(project.files)  # as they are now
        self._main = project.main
        self._assets = assets
        self._cdn = cdn

    @property
    def url(self) -> str:
        return ORIGIN + self._main

    async def answer(self, request: Request) -> Response | None:
        if request.method != "GET":
            return None
        parts = urlsplit(request.url)
        path = unquote(parts.path)
        if path.startswith(ADDRESS):  # on whatever host: they are this server's
            picture = await self._assets.open(path.removeprefix(ADDRESS))
            return None if picture is None else Response(picture.data, picture.content_type)
        if request.url.startswith(ORIGIN):
            return self._file(path.lstrip("/") or self._main)
        if parts.hostname in _PLACEHOLDER_HOSTS:
            return _placeholder(path, parts.query)
        return await asyncio.to_thread(self._cdn.find, request.url)

    def _file(self, path: str) -> Response | None:
        content = self._files.get(path)
        if content is None:
            return None
        if (picture := read_data_url(content) if content.startswith("data:") else None) is not None:
            return Response(picture.data, picture.content_type)
        kind = mimetypes.guess_type(path)[0] or "text/plain"
        if kind == "text/html":
            content = _INTEGRITY.sub("", content)
        return Response(content.encode("utf-8", "replace"), f"{kind}; charset=utf-8")


def _placeholder(path: str, query: str) -> Response | None:
    """What services for placeholders draw: a grey box of the size that the address names, with words in it."""
    found = _PLACEHOLDER.fullmatch(path)
    if found is None:
        return None
    width, height = int(found["width"]), int(found["height"] or found["width"])
    back = found["back"] or "ddd"
    text = html.escape(parse_qs(query).get("text", [f"{width} × {height}"])[0][:100])
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">'
        f'<rect width="100%" height="100%" fill="#{back}"/>'
        f'<text x="50%" y="50%" fill="#888" font-family="sans-serif" font-size="{max(10, min(width, height) // 8)}" '
        f'text-anchor="middle" dominant-baseline="central">{text}</text></svg>'
    )
    return Response(drawn.encode(), "image/svg+xml")
