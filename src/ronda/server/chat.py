"""POST /v1/chat/completions: the whole loop inside one request, plain or streamed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from ronda.core.events import Event
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, ToolTurn, Turn
from ronda.core.plan import Plan
from ronda.core.run import Run
from ronda.drive import check_plan
from ronda.errors import BadRequest, RondaError
from ronda.server.exchange import Header, Incoming, Json
from ronda.server.follow import EventStream, Watch
from ronda.server.runs import LiveRun, Sink, new_id
from ronda.wire.openai_chat.answer import ChatAnswer, write_error
from ronda.wire.openai_chat.server import ChatRequest, check_choice, read_request

if TYPE_CHECKING:
    from ronda.server.app import Server


async def chat_completions(server: Server, request: Incoming) -> ASGIApp:
    asked = read_request(await request.json_body(server.config.max_body))
    return await _Exchange(server, request, asked).answer()


def owner_of(request: Incoming) -> str:
    """Whose request it is. While no keys are configured any is accepted, but one bearer never finds another's runs."""
    said = request.authorization
    return hashlib.blake2b(said, digest_size=16).hexdigest() if said else ""


class _Exchange:
    """One request and its answer: n runs side by side, one choice each."""

    def __init__(self, server: Server, request: Incoming, asked: ChatRequest) -> None:
        self._server = server
        self._request = request
        self._asked = asked
        self._lives: list[LiveRun] = []
        self._writer: ChatAnswer
        self._sink: Sink
        self._client_left = False

    async def answer(self) -> ASGIApp:
        await self._prepare()
        headers = [(b"x-request-id", self._lives[0].run.id.encode())]
        if self._asked.stream:
            return self._streamed(headers)
        watch = Watch(self._request.receive, self._gone)
        try:
            await self._drive_all()
        except asyncio.CancelledError:
            if not self._client_left and not self._server.runs.stopping:
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        finally:
            watch.stop()
        return self._plain(headers)

    def _streamed(self, headers: Sequence[Header]) -> ASGIApp:
        stream = EventStream(headers)
        open_runs = len(self._lives)

        def take(sibling: int, batch: Sequence[Event]) -> None:
            if data := self._writer.feed(sibling, batch):
                stream.put(data)

        def finished(live: LiveRun) -> None:
            nonlocal open_runs
            open_runs -= 1
            if live.error is not None:
                stream.put(self._writer.broke_down(live.run.start.sibling))
                self._server.report(live.error, live.run)
            if not open_runs:
                stream.end()

        self._sink = take
        for live in self._lives:
            live.start(finished)
        stream.gone = self._gone
        return stream

    async def _drive_all(self) -> None:
        """One run is driven right here; several side by side."""
        self._sink = self._writer.fold
        if len(self._lives) == 1:
            try:
                await self._lives[0].drive()
            except Exception as error:
                raise self._broken(error, self._lives[0]) from error
            return
        done = asyncio.get_running_loop().create_future()
        still = len(self._lives)

        def finished(live: LiveRun) -> None:
            nonlocal still
            still -= 1
            if not still and not done.done():
                done.set_result(None)

        for live in self._lives:
            live.start(finished)
        try:
            await done
        except asyncio.CancelledError:
            self._cancel()
            raise
        for live in self._lives:
            if live.error is not None:
                raise self._broken(live.error, live) from live.error

    def _broken(self, error: BaseException, live: LiveRun) -> RondaError:
        self._server.report(error, live.run)
        return error if isinstance(error, RondaError) else RondaError("the run broke down; the server's log says why")

    async def _prepare(self) -> None:
        server, asked = self._server, self._asked
        served = server.models.find(asked.model)
        rounds, warning = server.config.rounds_for(asked.max_tool_rounds)
        offer = server.toolbox.offer(asked.tools, rounds)
        check_choice(asked.choice, offer.specs)
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
            # A provider that decodes under the format says so; others are checked when they are done.
            format_is_enforced=getattr(served.provider, "enforces_format", False),
            tool_calls=server.config.tool_calls,
        )
        check_plan(served.provider, plan)
        session = asked.session or new_id("sess")
        providers = server.providers_for(served, plan, asked.n)
        for sibling, provider in enumerate(providers):
            self._lives.append(
                server.runs.new(
                    plan,
                    turns,
                    provider=provider,
                    offer=offer,
                    sink=self._take,
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

    def _take(self, sibling: int, batch: Sequence[Event]) -> None:
        self._sink(sibling, batch)

    def _gone(self) -> None:
        self._client_left = True
        self._cancel()

    def _cancel(self) -> None:
        for live in self._lives:
            live.cancel()

    # ---- when it is over ---------------------------------------------------------------------------------------------

    def _plain(self, headers: Sequence[Header]) -> ASGIApp:
        for live in self._lives:
            if (failed := _failure(live.run)) is not None:
                status, kind, message = failed
                return Json(write_error(message, kind, code="upstream_error"), status, [*headers, _DO_NOT_RETRY])
        return Json(self._writer.body(), 200, headers)


# The client's library would repeat a request that answered 5xx; we have tried often enough, and tools may have run.
_DO_NOT_RETRY = (b"x-should-retry", b"false")


def _failure(run: Run) -> tuple[int, str, str] | None:
    """Status, type and message of a run that has no answer."""
    end = run.ended
    assert end is not None
    if end.reason == "cancelled":
        return 503, "server_error", "the run was cancelled: the server is stopping"
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
