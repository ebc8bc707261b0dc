"""Responses, over HTTP and over a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import RESPONSES
from ronda.server.doors.responses.create import ResponsesDoor, Seals
from ronda.server.doors.responses.stored_responses import StoredResponses
from ronda.server.doors.responses.websocket import ResponsesSocket
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door, vendor_operations
from ronda.server.http.routing import WEBSOCKET, Route
from ronda.server.services.hosted_tools import ServerNames

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation

_RESPONSE = "/v1/responses/{id}"


class Responses(Door):
    name = "responses"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        seals = Seals(services.catalog)
        answering, provided = services.answering, services.provided
        self._door = ResponsesDoor(
            answering, seals, services.models, services.toolbox, lambda: provided(ServerNames), services.settings
        )
        self._stored = StoredResponses(services.runs, answering.background, seals)
        self.socket = ResponsesSocket(self._door, self._stored, seals, services.runs, services.callers)

    def provides(self) -> Mapping[type, object]:
        return {ResponsesDoor: self._door}

    def operations(self) -> Mapping[str, Operation]:
        return vendor_operations("RESPONSES")

    def routes(self) -> Sequence[Route]:
        door, stored = self._door, self._stored
        return (
            Route("POST", "/v1/responses", RESPONSES, door.create_response, "run"),
            Route(WEBSOCKET, "/v1/responses", RESPONSES, self.socket.connect, "read"),
            Route("POST", "/v1/responses/compact", RESPONSES, door.compact_response, "run"),
            Route("POST", "/v1/responses/input_tokens", RESPONSES, door.count_input, "read"),
            Route("GET", _RESPONSE, RESPONSES, stored.retrieve, "read", of_run="run_"),
            Route("DELETE", _RESPONSE, RESPONSES, stored.delete, "write", of_run="run_"),
            Route("POST", f"{_RESPONSE}/cancel", RESPONSES, stored.cancel, "write", of_run="run_"),
            Route("GET", f"{_RESPONSE}/input_items", RESPONSES, stored.list_input, "read", of_run="run_"),
        )
