"""The rows of Anthropic's Messages in the table of addresses. What answers is imported when somebody asks: the dialect is large,
and most servers hear one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from ronda.core.run import Run
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.http.incoming import Incoming
from ronda.wire.anthropic.server_error import write_error
from ronda.wire.failures import Failure

if TYPE_CHECKING:
    from ronda.server.app import Server
    from ronda.wire.anthropic.server_answer import MessageAnswer


def messages_error(failure: Failure) -> bytes:
    return write_error(failure.status, failure.message, failure.code)


def _write(runs: Sequence[Run]) -> MessageAnswer:
    from ronda.wire.anthropic.server_answer import MessageAnswer

    return MessageAnswer(runs)


MESSAGE_ANSWERS: Final = AnswerDoor("/v1/messages", "msg_", "message", "message", _write)


async def messages(server: Server, incoming: Incoming) -> ASGIApp:
    from ronda.server.doors import messages as door

    return await door.answer(server, incoming)


async def count_tokens(server: Server, incoming: Incoming) -> ASGIApp:
    from ronda.server.doors import messages as door

    return await door.count_tokens(server, incoming)
