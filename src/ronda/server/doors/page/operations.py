"""The addresses of the page, described."""

from __future__ import annotations

from typing import Any, Final

from ronda.server.http.operations import Operation

_HTML: Final = "text/html"

OPERATIONS: Final[dict[str, Operation]] = {
    "GET /": Operation(summary="OK; a browser is sent to the page", answer=str, kind="text/plain", others={302: None}),
    "GET /ui": Operation(summary="The page", answer=str, kind=_HTML, others={304: None, 503: str}),
    "GET /ui/frame": Operation(summary="What previews are shown in", answer=str, kind=_HTML, others={503: str}),
    "GET /ui/server": Operation(
        summary="What the page must know of its server",
        answer={"version": str, "model": str, "owner": str, "has_keys": bool, "tools": [str], "features": {"*": Any}},
    ),
    "GET /ui/{path:path}": Operation(
        summary="A file of the page", answer=Any, kind="*/*", others={304: None, 503: str}
    ),
}
