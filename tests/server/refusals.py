"""Requests to Chat Completions that must not reach a model."""

from __future__ import annotations

from typing import Any

from tests.interaction.doors import Door, Json, Raw, user

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, Usage
from ronda.core.request import ModelRequest
from ronda.drive import Show


class Nodding:
    """A model that says the same to anything, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.asked += 1
        if request.stream:
            show([TextDelta("{}")])
        return ModelFinished(AssistantTurn((Text("{}"),)), Usage(1, 1))


async def refused(door: Door, body: Json | bytes, headers: dict[str, str] | None = None) -> Raw:
    """Send what must not reach the model."""
    model = Nodding()
    async with door.serving(model, max_body=100_000) as served:
        answer = await served.post(body, headers=headers)
    assert model.asked == 0
    assert 400 <= answer.status < 500, answer.body
    assert answer.error["type"] == "invalid_request_error"
    return answer


def says(*messages: Any, **fields: Any) -> Json:
    return {"messages": list(messages) or [user("hi")], **fields}


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return q
