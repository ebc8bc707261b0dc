"""Chat Completions, and the older text completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.answering.stored_answers import StoredAnswers
from ronda.server.doors import chat as chat_door
from ronda.server.doors.dialects import CHAT
from ronda.server.doors.text_completions import TextCompletionsDoor
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door, vendor_operations
from ronda.server.http.routing import Route

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation


class Chat(Door):
    name = "chat"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self.door = chat_door.ChatDoor(services.answering, services.models, settings.max_body)
        self._stored = StoredAnswers(chat_door.CHAT_ANSWERS, services.runs, services.answering.background)
        self._text = TextCompletionsDoor(services.answering, services.models, settings.max_body)

    def operations(self) -> Mapping[str, Operation]:
        return vendor_operations("CHAT")

    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", "/v1/chat/completions", CHAT, self.door.chat_completions, "run"),
            *self._stored.routes(CHAT),
            Route("POST", "/v1/completions", CHAT, self._text.create, "run"),
        )
