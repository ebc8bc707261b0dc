"""POST /v1/chat/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.server.detached.continuation import continue_answer
from ronda.server.detached.stored_answers import AnswerDoor
from ronda.server.exchange.answer import Exchange
from ronda.server.exchange.opening import Job
from ronda.server.http.incoming import Incoming
from ronda.wire.failures import Failure
from ronda.wire.openai_chat.server_answer import ChatAnswer, ChatOptions, write_error
from ronda.wire.openai_chat.server_request import read_request

if TYPE_CHECKING:
    from ronda.server.app import Server


CHAT_ANSWERS: Final = AnswerDoor("/v1/chat/completions", "chatcmpl-", "chat.completion", ChatOptions.key, ChatAnswer)


async def chat_completions(server: Server, request: Incoming) -> ASGIApp:
    asked = await request.read(server.config.max_body, read_request)
    if asked.decisions:
        return await continue_answer(server, request, asked.decisions, asked.stream, CHAT_ANSWERS, chat_error)
    user_agent = request.header(b"user-agent") or ""
    if (answer := asked.answer.for_client(user_agent, asked.options)) is not asked.answer:
        asked = replace(asked, answer=answer)
    served = await server.models.find(asked.model, request.owner)
    return await Exchange(server, request, Job(asked, served), ChatAnswer, chat_error, door=CHAT_ANSWERS).answer()


def chat_error(failure: Failure) -> bytes:
    return write_error(failure.message, failure.type, failure.param, failure.code)
