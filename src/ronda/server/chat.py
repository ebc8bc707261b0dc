"""POST /v1/chat/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from ronda.core.run import Run
from ronda.server.door import Exchange
from ronda.server.exchange import Incoming
from ronda.wire.failures import Failure
from ronda.wire.openai_chat.answer import ChatAnswer, write_error
from ronda.wire.openai_chat.server import read_request

if TYPE_CHECKING:
    from ronda.server.app import Server


async def chat_completions(server: Server, request: Incoming) -> ASGIApp:
    asked = await request.read(server.config.max_body, read_request)

    def writer(runs: Sequence[Run], model: str, warnings: Sequence[str]) -> ChatAnswer:
        return ChatAnswer(
            runs,
            model,
            include_usage=asked.include_usage,
            warnings=warnings,
            whole_calls=asked.whole_calls,
            user_agent=request.header(b"user-agent") or "",
        )

    return await Exchange(server, request, asked, writer, chat_error).answer()


def chat_error(failure: Failure) -> bytes:
    return write_error(failure.message, failure.type, failure.param, failure.code)
