"""GET /v1/models: what answers here. GET /v1/mcp: how its MCP servers fare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from ronda.drive.offload import aside
from ronda.server.doors.shapes import with_shape
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.rights import current_scopes
from ronda.store.scopes import Scopes
from ronda.wire.files import FileShape, shape_of
from ronda.wire.json import encode
from ronda.wire.model_list import model_list, model_object

if TYPE_CHECKING:
    from ronda.server.app import Server


@with_shape(shape_of)
async def list_models(server: Server, incoming: Incoming, shape: FileShape) -> ASGIApp:
    tools = _tools(server)
    if server.agent_files is None:
        return Json(_list_models(server, shape, tools, current_scopes()))
    return Json(await aside(_list_models, server, shape, tools, current_scopes()))


def _list_models(server: Server, shape: FileShape, tools: dict[str, Any], scopes: Scopes) -> bytes:
    """Every file is read, a third of a millisecond each: beside the loop, since a folder may have thousands."""
    broken = server.agent_files.problems() if server.agent_files is not None else {}
    listed = [_model_object(name, shape, tools, is_broken=name in broken) for name in server.models.names_for(scopes)]
    return encode(model_list(listed, shape))


@with_shape(shape_of)
async def get_model(server: Server, incoming: Incoming, shape: FileShape) -> ASGIApp:
    name = incoming.places["name"]
    await server.models.find(name, incoming.owner)
    return Json(encode(_model_object(name, shape, _tools(server))))


async def list_mcp_servers(server: Server, incoming: Incoming) -> ASGIApp:
    return Json(encode({"servers": [] if server.mcp is None else server.mcp.here().status()}))


def _model_object(name: str, shape: FileShape, tools: dict[str, Any], *, is_broken: bool = False) -> dict[str, Any]:
    return model_object(name, shape, {"status": "broken" if is_broken else "loaded", **tools})


def _tools(server: Server) -> dict[str, Any]:
    """What a model here has of tools, under mistral.rs's names."""
    available = {"tools_available": bool(server.toolbox.names)}
    if server.mcp is None:
        return available
    servers = server.mcp.here()
    connected = [one for one in servers.status() if one.state == "connected"]
    return available | {"mcp_tools_count": len(servers.all_tools()), "mcp_servers_connected": len(connected)}
