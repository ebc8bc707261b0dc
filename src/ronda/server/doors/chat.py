"""POST /v1/chat/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.server.answering.continuation import continue_answer
from ronda.server.answering.exchange import Answering
from ronda.server.answering.opening import Job
from ronda.server.answering.stored_answers import AnswerDoor
from ronda.server.http.incoming import Incoming
from ronda.server.services.models import Models
from ronda.wire.openai_chat.server_answer import ChatAnswer, ChatOptions, write_error
from ronda.wire.openai_chat.server_request import read_request
from ronda.wire.shared.failures import Failure

CHAT_ANSWERS: Final = AnswerDoor("/v1/chat/completions", "chatcmpl-", "chat.completion", ChatOptions.key, ChatAnswer)


class ChatDoor:
    def __init__(self, answering: Answering, models: Models, max_body: int) -> None:
        self._answering = answering
        self._models = models
        self._max_body = max_body

    async def chat_completions(self, incoming: Incoming) -> ASGIApp:
        request = await incoming.read(self._max_body, read_request)
        if request.decisions:
            return await continue_answer(
                self._answering, incoming, request.decisions, request.stream, CHAT_ANSWERS, chat_error
            )
        user_agent = incoming.header(b"user-agent") or ""
        if (answer := request.answer.for_client(user_agent)) is not request.answer:
            request = replace(request, answer=answer)
        target = await self._models.find(request.model, incoming.owner)
        return await self._answering.answer(incoming, Job(request, target), ChatAnswer, chat_error, door=CHAT_ANSWERS)


def chat_error(failure: Failure) -> bytes:
    return write_error(failure.message, failure.type, failure.param, failure.code, failure.details)
