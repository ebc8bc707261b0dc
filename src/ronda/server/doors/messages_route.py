"""The rows of Anthropic's Messages in the table of addresses. What answers is imported with the first request: the dialect
is large, and most servers hear one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from ronda.core.run import Run
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.http.incoming import Incoming
from ronda.wire.anthropic.server_error import write_error
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.doors.messages import MessagesDoor
    from ronda.server.services.models import Target
    from ronda.wire.anthropic.server_answer import MessageAnswer
    from ronda.wire.anthropic.server_request import MessagesRequest


def messages_error(failure: Failure) -> bytes:
    return write_error(failure.status, failure.message, failure.code)


def _write(runs: Sequence[Run]) -> MessageAnswer:
    from ronda.wire.anthropic.server_answer import MessageAnswer

    return MessageAnswer(runs)


MESSAGE_ANSWERS: Final = AnswerDoor("/v1/messages", "msg_", "message", "message", _write)


class MessagesRoute:
    """`make` makes the door, with the first request."""

    def __init__(self, make: Callable[[], MessagesDoor]) -> None:
        self._make = make
        self._made: MessagesDoor | None = None

    def _door(self) -> MessagesDoor:
        if self._made is None:
            self._made = self._make()
        return self._made

    async def read_job(self, incoming: Incoming) -> tuple[MessagesRequest, Target | None]:
        return await self._door().read_job(incoming)

    async def answer(self, incoming: Incoming) -> ASGIApp:
        return await self._door().answer(incoming)

    async def count_tokens(self, incoming: Incoming) -> ASGIApp:
        return await self._door().count_tokens(incoming)
