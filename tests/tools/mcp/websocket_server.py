"""An MCP server behind a WebSocket, as servers of the SDK's first version were: one message per text frame."""

from __future__ import annotations

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect


def websocket_app(server: MCPServer) -> Starlette:
    async def serve(socket: WebSocket) -> None:
        await socket.accept(subprotocol="mcp")
        arriving, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        leaving, to_send = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            async with arriving:
                try:
                    while True:
                        text = await socket.receive_text()
                        await arriving.send(SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False)))
                except (WebSocketDisconnect, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    return

        async def write() -> None:
            async with to_send:
                async for message in to_send:
                    await socket.send_text(message.message.model_dump_json(by_alias=True, exclude_unset=True))

        inner = server._lowlevel_server
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(write)
            async with received, leaving:
                await inner.run(received, leaving, inner.create_initialization_options())
            group.cancel_scope.cancel()

    return Starlette(routes=[WebSocketRoute("/ws", serve)])
