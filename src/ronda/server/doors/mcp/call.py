"""A call of a tool → runs, driven to their end: what is told on the way, and what comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ronda.core.events import Event, ToolFinished, ToolStarted
from ronda.core.parts import user
from ronda.core.transcript import final_text
from ronda.errors import BadRequest, RondaError
from ronda.host.run import LiveRun
from ronda.server.answering.exchange import Answering
from ronda.server.answering.opening import Job
from ronda.server.doors.mcp.tools import INPUT, AgentTool
from ronda.server.http.failure import failure_of
from ronda.server.services.models import Models
from ronda.wire.openai_chat.server_answer import ChatAnswer
from ronda.wire.openai_chat.server_request import read_request
from ronda.wire.shared.door_request import DoorRequest
from ronda.wire.shared.failures import BROKE_DOWN, failure_of_run

Tell: TypeAlias = Callable[[str], Awaitable[None]]


class CallResult(Struct, frozen=True):
    text: str
    failed: bool = False
    structured: dict[str, Any] | None = None


async def call(
    answering: Answering, models: Models, owner: str, tool: AgentTool, arguments: dict[str, Any], tell: Tell
) -> CallResult:
    """What goes wrong is a failed result that says why. Cancelled, it cancels its runs."""
    try:
        request = _door_request(tool, arguments)
        target = await models.find(request.model, owner)
        lives = await answering.opening.open_runs(owner, Job(request, target, waits=True))
    except RondaError as error:
        return CallResult(failure_of(error).message, failed=True)
    await _drive(lives, tell)
    for live in lives:
        if live.error is not None:
            answering.broke_down(live, live.error)
            return CallResult(BROKE_DOWN.message, failed=True)
        if (failure := failure_of_run(live.run)) is not None:
            return CallResult(failure.message, failed=True)
    text = "\n".join([final_text(live.run) for live in lives])
    return CallResult(text, structured=None if tool.agent else _completion(lives))


def _door_request(tool: AgentTool, arguments: dict[str, Any]) -> DoorRequest:
    if not tool.agent:
        return replace(read_request(msgspec.json.encode(arguments)), stream=False)
    if not tool.asks:
        return DoorRequest(model=tool.agent, turns=(), inputs=arguments)
    if not isinstance(text := arguments.get(INPUT, ""), str):
        raise BadRequest(f"'{INPUT}' must be a text that says what to ask", param=INPUT)
    return DoorRequest(model=tool.agent, turns=(user(text),) if text else ())


def _completion(lives: Sequence[LiveRun]) -> dict[str, Any]:
    """The whole answer, as the Chat door gives it."""
    writer = ChatAnswer([live.run for live in lives])
    for live in lives:
        live.fold_into(writer)
    whole: dict[str, Any] = msgspec.json.decode(writer.body())
    return whole


async def _drive(lives: Sequence[LiveRun], tell: Tell) -> None:
    """In tasks of their own: the SDK cancels this one again and again until it ends, and a run has an end to write."""
    news: asyncio.Queue[str | None] = asyncio.Queue()

    def take(batch: Sequence[Event]) -> None:
        for event in batch:
            if type(event) is ToolStarted:
                news.put_nowait(f"calling {event.name}")
            elif type(event) is ToolFinished:
                news.put_nowait(f"{event.name} {'failed' if event.result.failed else 'is done'}")

    for live in lives:
        live.add_tap(take)
        live.start()
    tasks = [live.task for live in lives if live.task is not None]
    teller = asyncio.create_task(_tell_all(news, tell))
    try:
        await asyncio.wait(tasks)
        news.put_nowait(None)
        await asyncio.wait([teller])
    except asyncio.CancelledError:
        for live in lives:
            live.cancel()
        raise
    finally:
        teller.cancel()


async def _tell_all(news: asyncio.Queue[str | None], tell: Tell) -> None:
    while (text := await news.get()) is not None:
        await tell(text)
