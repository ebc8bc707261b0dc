"""GET /v1/models: what answers here. GET /v1/mcp: how its MCP servers fare."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from ronda.core.plan import ToolSpec
from ronda.drive.offload import aside
from ronda.server.doors.shapes import with_shape
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.rights import current_scopes
from ronda.server.services.models import Models
from ronda.server.services.toolbox import Toolbox
from ronda.store.scopes import Scopes
from ronda.wire.files import FileShape, shape_of
from ronda.wire.json import encode
from ronda.wire.model_list import model_list, model_object

if TYPE_CHECKING:
    from ronda.server.services.agent_files import AgentFiles
    from ronda.tools.mcp.servers import ServersPerLoop


class ListingDoor:
    """`mcp`: the operator's MCP servers, if there are any."""

    def __init__(
        self, models: Models, toolbox: Toolbox, agent_files: AgentFiles | None, mcp: Callable[[], ServersPerLoop | None]
    ) -> None:
        self._models = models
        self._toolbox = toolbox
        self._agent_files = agent_files
        self._mcp = mcp

    @with_shape(shape_of)
    async def list_models(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        tools = self._tools()
        if self._agent_files is None:
            return Json(self._list_models(shape, tools, current_scopes()))
        return Json(await aside(self._list_models, shape, tools, current_scopes()))

    def _list_models(self, shape: FileShape, tools: dict[str, Any], scopes: Scopes) -> bytes:
        """Every file is read, a third of a millisecond each: beside the loop, since a folder may have thousands."""
        broken = self._agent_files.problems() if self._agent_files is not None else {}
        listed = [
            _model_object(name, shape, tools, is_broken=name in broken) for name in self._models.names_for(scopes)
        ]
        return encode(model_list(listed, shape))

    @with_shape(shape_of)
    async def get_model(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        name = incoming.places["name"]
        await self._models.find(name, incoming.owner)
        return Json(encode(_model_object(name, shape, self._tools())))

    async def list_mcp_servers(self, incoming: Incoming) -> ASGIApp:
        return Json(encode({"servers": [] if (servers := self._mcp()) is None else servers.here().status()}))

    async def list_tools(self, incoming: Incoming) -> ASGIApp:
        """What models here may call: what every request is offered, and what one has to ask for."""
        return Json(encode({"object": "list", "data": _tool_rows(self._toolbox, current_scopes()), "has_more": False}))

    def _tools(self) -> dict[str, Any]:
        """What a model here has of tools, under mistral.rs's names."""
        available = {"tools_available": bool(self._toolbox.names)}
        if (mcp := self._mcp()) is None:
            return available
        servers = mcp.here()
        connected = [one for one in servers.status() if one.state == "connected"]
        return available | {"mcp_tools_count": len(servers.all_tools()), "mcp_servers_connected": len(connected)}


def _tool_rows(toolbox: Toolbox, scopes: Scopes) -> list[dict[str, Any]]:
    """Those that the caller's key may use."""
    offered = [spec for spec in toolbox.offered_specs if scopes.allows_tool(spec.name)]
    rows = [_tool_row(spec, is_offered=True) for spec in offered]
    known = {spec.name for spec in offered}
    return rows + [
        _tool_row(spec, is_offered=False)
        for spec in toolbox.requested_specs
        if spec.name not in known and scopes.allows_tool(spec.name)
    ]


def _tool_row(spec: ToolSpec, *, is_offered: bool) -> dict[str, Any]:
    origin = spec.origin
    return {
        "object": "tool",
        "name": spec.name,
        "label": spec.name if origin is None else origin.tool,
        "description": spec.description,
        "source": {
            "kind": spec.kind,
            "type": spec.tool_type or None,
            "server": None if origin is None else origin.server,
        },
        "labels": list(spec.labels),
        "approval": spec.approval,
        "parameters": spec.parameters,
        "offered": is_offered,
    }


def _model_object(name: str, shape: FileShape, tools: dict[str, Any], *, is_broken: bool = False) -> dict[str, Any]:
    return model_object(name, shape, {"status": "broken" if is_broken else "loaded", **tools})
