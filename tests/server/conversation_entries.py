"""A conversation's entries without what differs from run to run."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.server.mistral_doors import function

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text
from ronda.core.request import ModelRequest
from ronda.drive import Show

WEATHER = function("weather", city="string")


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


def brief(entries: list[Any]) -> list[tuple[str, Any]]:
    """What matters of entries, read by the SDK."""
    return [
        (
            entry.type,
            getattr(entry, "content", None) or getattr(entry, "arguments", None) or getattr(entry, "result", None),
        )
        for entry in entries
    ]


class Slow:
    """Answers the first at once, and the next when it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()
        self.count = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.count += 1
        if self.count == 2:
            if request.stream:
                show([TextDelta("so ")])
            self.asked.set()
            await self.let.wait()
        return ModelFinished(AssistantTurn((Text(f"so {self.count}"),)))
