"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ronda.server.answering.stored_answers import StoredAnswers
from ronda.server.doors.dialects import MESSAGES
from ronda.server.doors.messages_route import MESSAGE_ANSWERS, MessagesRoute
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door, vendor_operations
from ronda.server.http.routing import Route
from ronda.server.services.hosted_tools import ServerNames

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.doors.messages import MessagesDoor
    from ronda.server.http.operations import Operation


class Messages(Door):
    name = "messages"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, models, toolbox = services.answering, services.models, services.toolbox
        provided, current = services.provided, services.settings

        def make() -> MessagesDoor:
            from ronda.server.doors.messages import MessagesDoor  # the dialect is large, and most servers hear one

            return MessagesDoor(answering, models, toolbox, lambda: provided(ServerNames), current)

        self._door = MessagesRoute(make)
        self._stored = StoredAnswers(MESSAGE_ANSWERS, services.runs, answering.background)

    def provides(self) -> Mapping[type, object]:
        return {MessagesRoute: self._door}

    def operations(self) -> Mapping[str, Operation]:
        return vendor_operations("MESSAGES")

    def routes(self) -> Sequence[Route]:
        return (
            Route("POST", "/v1/messages", MESSAGES, self._door.answer, "run"),
            *self._stored.routes(MESSAGES),
            Route("POST", "/v1/messages/count_tokens", MESSAGES, self._door.count_tokens, "read"),
        )
