"""GET /ui: the page, a file of it, the frame for previews, and what the page must know of its server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from typing import Any, Final

from starlette.types import ASGIApp

from ronda._version import __version__
from ronda.drive.offload import aside
from ronda.errors import NotFound
from ronda.server.config import ServerConfig
from ronda.server.doors.page.page_files import INDEX, Build, PageFile
from ronda.server.doors.page.policy import FRAME_HEADERS, PAGE_HEADERS
from ronda.server.http.incoming import Header, Incoming, Json, Whole
from ronda.server.services.toolbox import Toolbox
from ronda.store.catalog import Catalog
from ronda.wire.codec.json import encode

_HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")
_ASSETS: Final = "assets/"  # whose names change with their content
_FOREVER: Final[Header] = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN: Final[Header] = (b"cache-control", b"no-cache")
_FRAME: Final = "frame.html"
_NOT_BUILT: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Ronda</title>
<h1>The page is not built</h1>
<p>Everything else of this server works. To build the page, run <code>make setup</code> in the source of Ronda, with a
network or with npm; or install a wheel of Ronda, which has the page in it. Then load this address again.</p>
</html>
"""


_BUILD: Final = Build()


class PageDoor:
    """`abilities`: what models may do here besides answering, under the page's names for it."""

    def __init__(
        self,
        settings: Callable[[], ServerConfig],
        catalog: Catalog,
        toolbox: Toolbox,
        feature_names: Callable[[], Sequence[str]] = tuple,
        abilities: Mapping[str, bool] = MappingProxyType({}),
        build: Build = _BUILD,
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._toolbox = toolbox
        self._feature_names = feature_names
        self._abilities = abilities
        self._build = build

    async def front(self, incoming: Incoming) -> ASGIApp:
        """A browser is sent to the page; every other client learns that the server is up."""
        if not self._settings().no_ui and "text/html" in (incoming.header(b"accept") or ""):
            place = f"{incoming.root}/ui".encode("latin-1", "replace")
            return Whole(b"", 302, [(b"location", place), (b"vary", b"accept"), _ASK_AGAIN])
        return Whole(b"OK", headers=[(b"content-type", b"text/plain; charset=utf-8"), (b"vary", b"accept")])

    async def page(self, incoming: Incoming) -> ASGIApp:
        """A file of the page where an address names one, else the page itself: its addresses are its own."""
        self._check_is_on()
        files = await aside(self._build.read)
        name = incoming.places.get("path", "")
        if (file := files.get(name)) is not None and name not in (INDEX, _FRAME):
            return _file_answer(file, incoming, _FOREVER if name.startswith(_ASSETS) else _ASK_AGAIN)
        if name.startswith(_ASSETS):
            raise NotFound(f"the page has no file '{name[:100]}'; load the page again", param="path")
        if (index := files.get(INDEX)) is None:
            return Whole(_NOT_BUILT.encode(), 503, [_HTML, _ASK_AGAIN, *PAGE_HEADERS])
        if not incoming.root:
            return _file_answer(index, incoming, _ASK_AGAIN)
        return Whole(_under(incoming.root, index.body), headers=[_HTML, _ASK_AGAIN, *PAGE_HEADERS])

    async def frame(self, incoming: Incoming) -> ASGIApp:
        """What previews are shown in: a page without an origin, which is told its content."""
        self._check_is_on()
        file = (await aside(self._build.read)).get(_FRAME)
        if file is None:
            return Whole(_NOT_BUILT.encode(), 503, [_HTML, _ASK_AGAIN, *FRAME_HEADERS])
        return Whole(file.body, headers=[_HTML, _ASK_AGAIN, *FRAME_HEADERS])

    async def describe(self, incoming: Incoming) -> ASGIApp:
        """What the page must know of its server before anything is asked."""
        self._check_is_on()
        return Json(encode(await self._facts(incoming.owner)), headers=[_ASK_AGAIN])

    async def _facts(self, owner: str) -> dict[str, Any]:
        config = self._settings()
        rounds, _ = config.rounds_for(None)
        return {
            "version": __version__,
            "model": config.model,
            "owner": owner,
            "has_keys": bool(await self._catalog.keys.all()),
            "tools": self._toolbox.names,
            "features": {
                **self._abilities,
                "round_requests": True,
                "events": True,
                "operate": "operate" in self._feature_names(),
                "budgets": "budgets" in self._feature_names(),
            },
            "permission": config.agent_permission,
            "rounds": rounds,
            "max_rounds": config.max_tool_rounds_ceiling,
            "max_upload": config.max_upload,
            "session_days": config.session_max_days,
        }

    def _check_is_on(self) -> None:
        if self._settings().no_ui:
            raise NotFound("this server was started without its page (--no-ui)", code="no_ui")


def _file_answer(file: PageFile, incoming: Incoming, caching: Header) -> Whole:
    headers = [(b"content-type", file.content_type), (b"etag", file.tag), (b"vary", b"accept-encoding"), caching]
    if incoming.headers.get(b"if-none-match") == file.tag:
        return Whole(b"", 304, [*headers, *PAGE_HEADERS])
    takes_gzip = "gzip" in (incoming.header(b"accept-encoding") or "")
    if file.packed is not None and takes_gzip:
        return Whole(file.packed, headers=[*headers, (b"content-encoding", b"gzip"), *PAGE_HEADERS])
    return Whole(file.body, headers=[*headers, *PAGE_HEADERS])


def _under(root: str, index: bytes) -> bytes:
    """The page of a server that is mounted in another app: its files have longer addresses."""
    return index.replace(b'"/ui/', f'"{escape(root)}/ui/'.encode())
