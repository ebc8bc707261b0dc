"""The rows of the app stream in the table of addresses. What answers is imported when somebody asks: most servers see no app."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.server.http.incoming import Incoming
from ronda.server.http.routing import Handler
from ronda.wire.failures import Failure
from ronda.wire.json import encode

if TYPE_CHECKING:
    from ronda.server.app import Server


def app_error(failure: Failure) -> bytes:
    """In the words of the framework that the front end's own backend is written with."""
    detail = {404: "Not Found", 405: "Method Not Allowed"}.get(failure.status) if failure.code is None else None
    return encode({"detail": failure.details or detail or failure.message})


def http_route(name: str) -> Handler:
    """Who answers under this name in `http_routes`."""

    async def handle(server: Server, incoming: Incoming) -> ASGIApp:
        from ronda.server.doors.app_stream import http_routes

        handler: Handler = getattr(http_routes, name)
        return await handler(server, incoming)

    return handle


async def generate_code(server: Server, incoming: Incoming) -> ASGIApp:
    from ronda.server.doors.app_stream.socket import Connection

    async def connection(scope: Scope, receive: Receive, send: Send) -> None:
        task, connections = asyncio.current_task(), server.app_stream.connections
        assert task is not None
        connections.add(task)
        try:
            await Connection(server, incoming, receive, send).run()
        finally:
            connections.discard(task)

    return connection
