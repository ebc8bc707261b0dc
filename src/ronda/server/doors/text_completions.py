"""POST /v1/completions: one prompt, one text, plain or streamed. For programs that are older than chat."""

from __future__ import annotations

from starlette.types import ASGIApp

from ronda.server.answering.exchange import Answering
from ronda.server.answering.opening import Job
from ronda.server.doors.chat import chat_error
from ronda.server.http.incoming import Incoming
from ronda.server.services.models import Models
from ronda.wire.openai_completions.server_answer import TextAnswer
from ronda.wire.openai_completions.server_request import read_request


class TextCompletionsDoor:
    def __init__(self, answering: Answering, models: Models, max_body: int) -> None:
        self._answering = answering
        self._models = models
        self._max_body = max_body

    async def create(self, incoming: Incoming) -> ASGIApp:
        request = await incoming.read(self._max_body, read_request)
        target = await self._models.find(request.model, incoming.owner)
        return await self._answering.answer(incoming, Job(request, target), TextAnswer, chat_error)
