"""GET /openapi.json, also at mistral.rs's address, and GET /docs: what the server's addresses take and answer.

The document is made with the first request for it, from the table of addresses and from what features say of theirs
(`Feature.operations`). It says what every server of this version with these features has: nothing of its data, and no settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.types import ASGIApp

from ronda.drive.offload import aside, load
from ronda.errors import NotFound
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.features.contract import Feature, Services
from ronda.server.http.incoming import Header, Incoming, Whole
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Route
from ronda.wire.codec.json import encode

_LOADS: Final = (
    "ronda.server.doors.own.operations",
    "ronda.server.doors.vendor_operations",
    "ronda.server.features.openapi.document",
    "ronda.server.features.openapi.page",
)
_ASK_AGAIN: Final[Header] = (b"cache-control", b"no-cache")
_JSON: Final[Header] = (b"content-type", b"application/json")
_HTML: Final[Header] = (b"content-type", b"text/html; charset=utf-8")


class OpenApi(Feature):
    name = "openapi"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = services.settings
        self._rows, self._operations = services.routes, services.operations
        self._document: dict[str, Any] | None = None
        self._json: bytes = b""
        self._pages: dict[str, tuple[bytes, Sequence[Header]]] = {}  # by the path that the server is mounted at

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", path, OWN, handler, "public", needs_store=False, loads=_LOADS)
            for path, handler in (
                ("/openapi.json", self.show_document),
                ("/api-doc/openapi.json", self.show_document),
                ("/docs", self.show_page),
            )
        ]

    def operations(self) -> Mapping[str, Operation]:
        document = Operation(summary="This document", answer={"openapi": str, "paths": {"*": Any}}, others={304: None})
        return {
            "GET /openapi.json": document,
            "GET /api-doc/openapi.json": document,
            "GET /docs": Operation(summary="This document as a page", answer=str, kind="text/html", others={304: None}),
        }

    async def show_document(self, request: Incoming) -> ASGIApp:
        await self._make()
        return _file(request, self._json, [_JSON])

    async def show_page(self, request: Incoming) -> ASGIApp:
        if self._settings().no_ui:
            raise NotFound("this server was started without its pages (--no-ui)", code="no_ui")
        document = await self._make()
        if request.root not in self._pages:
            from ronda.server.features.openapi.page import page_headers, write_page

            body = await aside(write_page, document, request.root)
            self._pages[request.root] = body, page_headers()
        body, headers = self._pages[request.root]
        return _file(request, body, [_HTML, *headers])

    async def _make(self) -> dict[str, Any]:
        if self._document is None:
            from ronda.server.features.openapi.document import openapi_document

            await load(*_LOADS)
            document = await aside(openapi_document, self._rows(), self._operations())
            self._json, self._document = encode(document), document
        return self._document


def _file(request: Incoming, body: bytes, headers: Sequence[Header]) -> Whole:
    tag = b'"%b"' % hashlib.blake2b(body, digest_size=12).hexdigest().encode()
    headers = [*headers, (b"etag", tag), _ASK_AGAIN]
    if request.headers.get(b"if-none-match") == tag:
        return Whole(b"", 304, headers)
    return Whole(body, headers=headers)
