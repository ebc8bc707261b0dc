"""Choices that one upstream call did not give → one call for each of them, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show

Call = Callable[[ModelRequest, Show], Awaitable[ModelFinished]]


async def with_missing(
    finished: list[ModelFinished], call: Call, request: ModelRequest, shows: list[Show]
) -> list[ModelFinished]:
    """As many choices as there are `shows`: those that are there, and the rest by `call`. Some servers ignore `n`."""
    missing = shows[len(finished) :]
    others = [call(replace(request, scratch={}), show) for show in missing]
    return [*finished[: len(shows)], *await asyncio.gather(*others)]
