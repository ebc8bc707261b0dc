"""POST /v1/chat/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ronda.core.events import Event
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.errors import BadRequest
from ronda.server.bodies import read_body
from ronda.server.follow import EventStream, Watch
from ronda.server.runs import LiveRun, new_id
from ronda.wire.openai_chat.answer import ChatAnswer, write_error
from ronda.wire.openai_chat.server import ChatRequest, check_choice, read_request

if TYPE_CHECKING:
    from ronda.server.app import Server


async def chat_completions(server: Server, request: Request) -> Response:
    asked = read_request(await read_body(request, server.config.max_body))
    return await _Exchange(server, request, asked).answer()


def owner_of(request: Request) -> str:
    """Whose request it is. While no keys are configured any is accepted, but one bearer never finds another's runs."""
    said = request.headers.get("authorization", "")
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest() if said else ""


class _Exchange:
    """One request and its answer: n runs side by side, one choice each."""

    def __init__(self, server: Server, request: Request, asked: ChatRequest) -> None:
        self._server = server
        self._request = request
        self._asked = asked
        self._lives: list[LiveRun] = []
        self._open = 0
        self._writer: ChatAnswer
        self._stream: EventStream | None = None
        self._all_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def answer(self) -> Response:
        await self._start()
        headers = [(b"x-request-id", self._lives[0].run.id.encode())]
        if self._asked.stream:
            self._stream = EventStream(headers)
            self._stream.gone = self._cancel
            return self._stream
        watch = Watch(self._request.receive, self._cancel)
        try:
            await self._all_over
        except asyncio.CancelledError:
            self._cancel()
            raise
        finally:
            watch.stop()
        return self._plain(headers)

    async def _start(self) -> None:
        server, asked = self._server, self._asked
        served = server.models.find(asked.model)
        rounds, warning = server.config.rounds_for(asked.max_tool_rounds)
        offer = server.toolbox.offer(asked.tools, rounds)
        check_choice(asked.choice, offer.names)
        owner = owner_of(self._request)
        turns, parent = await server.runs.rejoin(asked.turns, owner)
        _check_pairs(turns)
        plan = Plan(
            model=served.spec,
            tools=offer.specs,
            choice=asked.choice,
            options=asked.options,
            limits=Limits(
                rounds=rounds,
                seconds=server.config.max_run_seconds,
                # Whoever says how many rounds a run may have means it, even of a tool that is polled.
                repeats=Limits().repeats if asked.max_tool_rounds is None else max(Limits().repeats, rounds + 1),
            ),
            retry=server.config.retry,
            parallel=asked.options.parallel_tool_calls is not False,
            stream=asked.stream,
            tool_calls=server.config.tool_calls,
        )
        session = asked.session or new_id("sess")
        providers = server.providers_for(served, plan, asked.n)
        self._open = asked.n
        for sibling, provider in enumerate(providers):
            self._lives.append(
                server.runs.start(
                    plan,
                    turns,
                    provider=provider,
                    offer=offer,
                    sink=self._take,
                    finished=self._finished,
                    owner=owner,
                    session=session,
                    parent=parent,
                    sibling=sibling,
                )
            )
        self._writer = ChatAnswer(
            [live.run for live in self._lives],
            served.name,
            include_usage=asked.include_usage,
            warnings=[warning] if warning is not None else [],
        )

    # ---- while it runs -----------------------------------------------------------------------------------------------

    def _take(self, sibling: int, batch: Sequence[Event]) -> None:
        if not self._asked.stream:
            self._writer.fold(sibling, batch)
        elif (data := self._writer.feed(sibling, batch)) and self._stream is not None:
            self._stream.put(data)

    def _finished(self, live: LiveRun) -> None:
        self._open -= 1
        if not live.task.cancelled() and (error := live.task.exception()) is not None:
            self._server.report(error, live.run)
        if self._open:
            return
        if self._stream is not None:
            self._stream.end()
        if not self._all_over.done():
            self._all_over.set_result(None)

    def _cancel(self) -> None:
        for live in self._lives:
            live.cancel()

    # ---- when it is over ---------------------------------------------------------------------------------------------

    def _plain(self, headers: Sequence[tuple[bytes, bytes]]) -> Response:
        for live in self._lives:
            if (failed := _failure(live.run)) is not None:
                status, kind, message = failed
                return _json(write_error(message, kind, code="upstream_error"), status, headers, [_DO_NOT_RETRY])
        return _json(self._writer.body(), 200, headers)


# The client's library would repeat a request that answered 5xx; we have tried often enough, and tools may have run.
_DO_NOT_RETRY = (b"x-should-retry", b"false")


def _json(body: bytes, status: int, *headers: Sequence[tuple[bytes, bytes]]) -> Response:
    response = Response(body, status, media_type="application/json")
    for more in headers:
        response.raw_headers.extend(more)
    return response


def _failure(run: Run) -> tuple[int, str, str] | None:
    """Status, type and message of a run that has no answer."""
    end = run.ended
    if end is None:
        return 500, "server_error", "the run broke down; the server's log says why"
    if end.reason == "cancelled":
        return 499, "server_error", "the run was cancelled"
    if end.reason != "failed":
        return None
    message = end.message or "the run failed"
    status = run.failure.status if run.failure is not None else None
    if status in (400, 404, 413, 422):
        return 400, "invalid_request_error", message  # the upstream's word on what the caller sent
    if status == 429:
        return 429, "rate_limit_error", message
    return 502, "server_error", message


def _check_pairs(turns: tuple[Turn, ...]) -> None:
    """A result whose call is nowhere is the caller's mistake; a call without a result is repaired further in."""
    waiting: set[str] = set()
    for turn in turns:
        if type(turn) is ToolTurn:
            for result in turn.results:
                if result.call_id not in waiting:
                    raise BadRequest(
                        f"a message with role 'tool' answers the call {result.call_id[:100]!r}, which no assistant message "
                        "just before it makes and no run waits for",
                        param="messages",
                    )
        else:
            waiting = {call.id for call in turn.calls} if type(turn) is AssistantTurn else set()
