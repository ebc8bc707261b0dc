"""The rows of the app stream in the table of addresses, and its dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ronda.server.http.routing import WEBSOCKET, Dialect, Handler, Route
from ronda.wire.codec.json import encode
from ronda.wire.shared.failures import Failure

_DESIGN_SYSTEM: Final = "/api/design-systems/{id}"

# What is slow to import, and not needed by most servers.
_LOADS: Final = (
    "ronda.server.features.app_stream.socket",
    "ronda.server.features.app_stream.http_routes",
    "ronda.server.features.app_stream.state",
    "ronda.tools.page.capture",
    "ronda.tools.page.export",
)


def app_error(failure: Failure) -> bytes:
    """In the words of the framework that the front end's own backend is written with."""
    detail = {404: "Not Found", 405: "Method Not Allowed"}.get(failure.status) if failure.code is None else None
    return encode({"detail": failure.details or detail or failure.message})


APP: Final = Dialect("App stream", app_error, _LOADS, door="app")


def app_routes(generate_code: Handler, handler: Callable[[str], Handler]) -> Sequence[Route]:
    """`handler` finds who answers under a name in `http_routes`."""
    return [
        Route(WEBSOCKET, "/generate-code", APP, generate_code, "run"),
        Route("GET", "/api/capabilities", APP, handler("capabilities"), "read"),
        Route("POST", "/api/screenshot", APP, handler("screenshot"), "run"),
        Route("POST", "/api/export", APP, handler("export"), "run"),
        Route("GET", "/api/library", APP, handler("library"), "read"),
        Route("GET", "/api/design-systems", APP, handler("list_design_systems"), "read"),
        Route("POST", "/api/design-systems", APP, handler("create_design_system"), "write"),
        Route("PATCH", _DESIGN_SYSTEM, APP, handler("change_design_system"), "write"),
        Route("DELETE", _DESIGN_SYSTEM, APP, handler("delete_design_system"), "write"),
        Route("GET", "/local-assets/{name}", APP, handler("local_asset"), "public"),  # pages name them in <img>
    ]
