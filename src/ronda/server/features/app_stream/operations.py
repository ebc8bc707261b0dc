"""The addresses of the app stream, described. Its requests and answers are those of the front end that it is for."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.operations import Operation

_DESIGN_SYSTEM: Final = {"id": str, "name": str, "content": str}
_FIELDS: Final = {"name": (str, "of the design system"), "content": (str, "what models are told about it")}

OPERATIONS: Final[dict[str, Operation]] = {
    "WEBSOCKET /generate-code": Operation(summary="Build a page: what the front end asks, and what it is shown"),
    "GET /api/capabilities": Operation(summary="What the front end may offer", answer={"screenshot_preview": bool}),
    "POST /api/screenshot": Operation(
        summary="A picture of a page of the web",
        fields={"url": (str, "of the page"), "apiKey": (str, "never read")},
        needs=("url", "apiKey"),
        answer={"url": str},
    ),
    "POST /api/export": Operation(
        summary="A page as an archive, with its pictures",
        fields={"code": (str, "the page"), "baseUrl": (str, "where its pictures are")},
        needs=("code",),
        answer=Any,
        kind="application/zip",
    ),
    "GET /api/library": Operation(
        summary="A file of a CDN, from the copies that 'ronda page setup' keeps",
        query={"url": (str, "where a page would load it from")},
        answer=Any,
        kind="*/*",
        others={204: None},
    ),
    "GET /api/design-systems": Operation(summary="List your design systems", answer=[_DESIGN_SYSTEM]),
    "POST /api/design-systems": Operation(
        summary="Make a design system", fields=_FIELDS, needs=("name", "content"), answer=_DESIGN_SYSTEM
    ),
    "PATCH /api/design-systems/{id}": Operation(
        summary="Change a design system", fields=_FIELDS, answer=_DESIGN_SYSTEM
    ),
    "DELETE /api/design-systems/{id}": Operation(summary="Delete a design system", answer=None, status=204),
    "GET /local-assets/{name}": Operation(summary="A picture of a page", answer=Any, kind="*/*"),
}
