"""GET /v1/models: what answers here. GET /health: that the server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from ronda.drive.aside import aside
from ronda.server.incoming import Incoming, Json
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server


async def list_models(server: Server, request: Incoming) -> ASGIApp:
    return Json(_listed(server) if server.agent_files is None else await aside(_listed, server))


def _listed(server: Server) -> bytes:
    """Every file is read, a third of a millisecond each: beside the loop, since a folder may have thousands."""
    broken = server.agent_files.problems() if server.agent_files is not None else {}
    listed = [_described(server, name, is_broken=name in broken) for name in server.models.listed]
    return encode({"object": "list", "data": listed})


async def get_model(server: Server, request: Incoming) -> ASGIApp:
    name = request.places["name"]
    await server.models.find(name, request.owner)
    return Json(encode(_described(server, name)))


async def health(server: Server, request: Incoming) -> ASGIApp:
    return PlainTextResponse("OK")


def _described(server: Server, name: str, *, is_broken: bool = False) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "local",
        "status": "broken" if is_broken else "loaded",
        "tools_available": bool(server.toolbox.names),
    }
