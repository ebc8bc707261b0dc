"""What a model would be sent: of a request of any dialect, and of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ronda.server.doors.dialects import OWN
from ronda.server.doors.messages_route import MessagesRoute
from ronda.server.doors.own.transcripts import TranscriptsDoor
from ronda.server.doors.responses.create import ResponsesDoor
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


class Transcripts(Door):
    name = "transcripts"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        provided = services.provided
        self._door = TranscriptsDoor(
            services.models,
            services.toolbox,
            services.answering.opening,
            lambda: provided(MessagesRoute),
            lambda: provided(ResponsesDoor),
            settings.max_body,
        )

    def routes(self) -> Sequence[Route]:
        door = self._door
        return (
            Route("POST", "/v1/render", OWN, door.render, "read"),
            Route("POST", "/v1/transcripts/check", OWN, door.check_transcript, "read"),
        )
