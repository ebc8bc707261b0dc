"""GET /v1/models: what answers here, and what agents want to be asked with. GET /v1/mcp: how its MCP servers fare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.drive.offload import aside
from ronda.server.doors.shapes import with_shape
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.rights import current_scopes
from ronda.server.services.models import Models
from ronda.server.services.toolbox import Toolbox, server_of
from ronda.store.values.scopes import Scopes
from ronda.wire.codec.json import encode
from ronda.wire.resources.files import FileShape, shape_of
from ronda.wire.resources.model_list import model_list, model_object

if TYPE_CHECKING:
    from ronda.prompty.model import Prompty
    from ronda.server.services.agents import AgentFolder
    from ronda.server.services.hosted_tools import OperatorServers


class ListingDoor:
    """`mcp`: the operator's MCP servers, if there are any."""

    def __init__(
        self,
        models: Models,
        toolbox: Toolbox,
        agent_folder: Callable[[], AgentFolder | None],
        mcp: Callable[[], OperatorServers | None],
    ) -> None:
        self._models = models
        self._toolbox = toolbox
        self._agent_folder = agent_folder
        self._mcp = mcp

    @with_shape(shape_of)
    async def list_models(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        tools = self._tools()
        names = self._models.names_open_to(current_scopes())
        if (folder := self._agent_folder()) is None:
            return Json(encode(model_list([_model_object(name, shape, tools) for name in names], shape)))
        return Json(await aside(_list_with_agents, names, folder, shape, tools))

    @with_shape(shape_of)
    async def get_model(self, incoming: Incoming, shape: FileShape) -> ASGIApp:
        name = incoming.places["name"]
        target = await self._models.find(name, incoming.owner)
        folder = self._agent_folder()
        if folder is not None and target.opener is not None and folder.has(name):
            return Json(encode(await aside(_agent_model, name, folder, shape, self._tools())))
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


def _list_with_agents(names: Sequence[str], folder: AgentFolder, shape: FileShape, tools: dict[str, Any]) -> bytes:
    """Every file is read, a third of a millisecond each: off the loop, since a folder may have thousands."""
    files = set(folder.names())
    listed = [
        _agent_model(name, folder, shape, tools) if name in files else _model_object(name, shape, tools)
        for name in names
    ]
    return encode(model_list(listed, shape))


def _agent_model(name: str, folder: AgentFolder, shape: FileShape, tools: dict[str, Any]) -> dict[str, Any]:
    """An agent of a file, by the file's name or by the name that it gives itself."""
    prompty = folder.prompty(name)
    if prompty is None:
        return model_object(name, shape, {"status": "broken", **tools})
    return _model_object(name, shape, {**tools, "agent": _agent_object(prompty)})


def _tool_rows(toolbox: Toolbox, scopes: Scopes) -> list[dict[str, Any]]:
    """Those that the caller's key may use."""
    offered = [spec for spec in toolbox.offered_specs if scopes.allows_tool(spec.name)]
    tools = toolbox.offered_tools
    rows = [_tool_row(spec, tools[spec.name], is_offered=True) for spec in offered]
    known = {spec.name for spec in offered}
    return rows + [
        _tool_row(spec, None, is_offered=False)
        for spec in toolbox.requested_specs
        if spec.name not in known and scopes.allows_tool(spec.name)
    ]


def _tool_row(spec: ToolSpec, tool: Tool | None, *, is_offered: bool) -> dict[str, Any]:
    server = "" if tool is None else server_of(tool)
    return {
        "object": "tool",
        "name": spec.name,
        "label": getattr(tool, "tool", spec.name) if server else spec.name,  # its name on its server
        "description": spec.description,
        "source": {
            "kind": spec.kind,
            "type": spec.tool_type or None,
            "server": server or None,
        },
        "labels": list(spec.labels),
        "approval": spec.approval,
        "parameters": spec.parameters,
        "offered": is_offered,
    }


def _model_object(name: str, shape: FileShape, more: dict[str, Any]) -> dict[str, Any]:
    return model_object(name, shape, {"status": "loaded", **more})


def _inputs_schema(prompty: Prompty) -> dict[str, Any]:
    """An input with a default may be left out. The default is not told: it may have come from the operator's environment."""
    from ronda.prompty.parameters import parameters_of

    inputs = [one for one in prompty.inputs if one.kind != "thread"]
    schema = parameters_of([replace(one, required=one.required and one.default is None) for one in inputs])
    for one in inputs:
        if one.example is not None:
            schema["properties"][one.name]["examples"] = [one.example]
    return schema


def _agent_object(prompty: Prompty) -> dict[str, Any]:
    """What a form for an agent is made of. A `thread` is the conversation itself, which no form has."""
    from ronda.server.services.agent_files import missing_question  # only servers with files of agents come here

    tools = [{"name": tool.name, "kind": tool.kind, "description": tool.description} for tool in prompty.tools]
    return {
        "title": prompty.display_name or prompty.name or None,
        "description": prompty.description or None,
        "inputs": _inputs_schema(prompty),
        "question": missing_question(prompty, {}),
        "tools": [*tools, *[{"name": name, "kind": "agent", "description": ""} for name in prompty.agents]],
    }
