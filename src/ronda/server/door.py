"""What all doors share: a request that was read → n runs side by side → an answer, plain or streamed.

A door is a dialect's reader (bytes → `Asked`), its writer (events → bytes) and its way to say what went wrong. It knows
nothing of models, tools or journals; this knows nothing of any dialect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Raw
from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import Event
from ronda.core.limits import Limits
from ronda.core.parts import AssistantTurn, ToolTurn, Turn, UserTurn
from ronda.core.plan import Plan, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.core.transcript import repair
from ronda.drive import check_plan, enforces_format
from ronda.drive.aside import LIGHT_TURNS, aside, is_heavy
from ronda.errors import BadRequest, RondaError, UpstreamError
from ronda.host.run import LiveRun
from ronda.server.exchange import Header, Incoming, Json
from ronda.server.failure import ErrorWriter, failure_of, said, said_of_run
from ronda.server.follow import EventStream, Watch
from ronda.server.models import Opened, Served, beside
from ronda.server.runs import OtherIds, new_id
from ronda.server.toolbox import Offer
from ronda.wire.anthropic.counting import estimate
from ronda.wire.asked import AnswerOptions, Asked
from ronda.wire.capabilities import renamed
from ronda.wire.failures import BROKE_DOWN, Failure, failure_of_run

if TYPE_CHECKING:
    from ronda.server.app import Server


class Writer(Protocol):
    """Events → a dialect's bytes. Both ways are folds of the same events, so a stream adds up to the plain answer."""

    def feed(self, sibling: int, batch: Sequence[Event]) -> bytes:
        """The bytes of a stream for one batch of events of one of the runs."""

    def fold(self, sibling: int, batch: Sequence[Event]) -> None:
        """Take events for the plain answer."""

    def body(self) -> bytes: ...


# The runs, one per choice. What else a writer must know is kept with them; how a run ended it reads when it has.
MakeWriter: TypeAlias = Callable[[Sequence[Run]], Writer]


class Exchange:
    """One request and its answer."""

    _other_ids: OtherIds | None = None

    def __init__(
        self,
        server: Server,
        request: Incoming,
        asked: Asked,
        make_writer: MakeWriter,
        write_error: ErrorWriter,
        served: Served | None = None,  # what answers, where the door has found it already
    ) -> None:
        self._server = server
        self._served = served
        self._request = request
        self._asked = asked
        self._make_writer = make_writer
        self._write_error = write_error
        self._lives: list[LiveRun] = []
        self._writer: Writer
        self._client_left = False

    async def answer(self) -> ASGIApp:
        await self._prepare()
        if len(self._lives[0].run.turns) > LIGHT_TURNS:
            await asyncio.sleep(0)
        id = self._lives[0].run.id.encode()
        headers = [(b"x-request-id", id), (b"request-id", id)]  # the second is what Anthropic's SDKs read
        if self._asked.stream:
            return self._streamed(headers)
        watch = Watch(self._request.receive, self._gone)
        try:
            await self._drive_all()
        except asyncio.CancelledError:
            if not self._client_left and not self._server.runs.stopping and not self._cancelled_by_request():
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
        finally:
            watch.stop()
        return self._plain(headers)

    @property
    def _outlives_process(self) -> bool:
        """Whether the ids it shows must be found again after a crash: then they are journaled before they are shown."""
        return False

    def _cancelled_by_request(self) -> bool:
        """Somebody asked for the end of these runs through another request."""
        return any(live.cancel_was_asked for live in self._lives)

    def _streamed(self, headers: Sequence[Header]) -> ASGIApp:
        stream = EventStream(
            [live.follow() for live in self._lives],
            self._writer,
            headers,
            before_head=partial(self._keep_start, headers) if self._outlives_process else None,
            instead=partial(self._instead, headers),
            gone=self._gone,
        )
        for live in self._lives:
            live.start(self._finished)
        return stream

    def _finished(self, live: LiveRun) -> None:
        if live.error is not None:
            self._broken(live.error, live)

    def _instead(self, headers: Sequence[Header]) -> ASGIApp | None:
        """Where nothing was shown, and nothing will be: a status that says so."""
        failure = self._failure_of_all()
        return None if failure is None else said_of_run(failure, self._write_error, tuple(headers))

    async def _keep_start(self, headers: Sequence[Header]) -> ASGIApp | None:
        """Wait until what the stream's ids name is kept; if that cannot be, this is the answer."""
        try:
            for live in self._lives:
                await live.keep()
        except RondaError as error:
            return said(failure_of(error), self._write_error, tuple(headers))
        return None

    async def _drive_all(self) -> None:
        """One run is driven right here; several side by side."""
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
        return _as_ours(error)

    async def _prepare(self) -> None:
        server, asked = self._server, self._asked
        owner = self._request.owner
        served = self._served or await server.models.find(asked.model, owner)
        rounds, warning = server.config.rounds_for(asked.max_tool_rounds)
        turns: tuple[Turn, ...] = asked.turns
        parent: tuple[str, int] | None = asked.parent  # where the dialect names it, the door has put the turns together
        # A lone question is a beginning: there is nothing to join.
        if parent is None and not (len(turns) == 1 and type(turns[0]) is UserTurn):
            turns, parent = await server.runs.rejoin(asked.turns, owner)
        _check_pairs(turns)
        if len(turns) > LIGHT_TURNS:
            await asyncio.sleep(0)  # others have their turn
        opened, offer = await open_for(server, served, asked, turns, rounds)
        choice = renamed(_choice(asked, served), offer.stand_ins)
        check_choice(choice, offer.specs)
        options = served.options_under(asked.options)
        plan = Plan(
            model=served.spec,
            tools=offer.specs,
            choice=choice,
            options=options,
            limits=Limits(
                rounds=rounds,
                tool_calls=asked.max_tool_calls,
                seconds=server.config.max_run_seconds,
                repeats=server.config.max_identical_calls,
                answer_bytes=server.config.max_answer_bytes,
            ),
            retry=server.config.retry,
            parallel=options.parallel_tool_calls is not False,
            stream=asked.stream,
            # A provider that decodes under the format says so; others are checked when they are done.
            format_is_enforced=enforces_format(served.provider, options),
            tool_calls=server.config.tool_calls,
            truncates=asked.truncates,
        )
        check_plan(served.provider, plan)
        session = asked.session or new_id("sess")
        warnings = asked.answer.warnings if warning is None else (*asked.answer.warnings, warning)
        about = self._about(turns, opened, replace(asked.answer, model=served.name, warnings=warnings))
        for sibling, provider in enumerate(server.providers_for(served, plan, asked.n)):
            self._lives.append(
                server.runs.new(
                    plan,
                    opened,
                    provider=provider,
                    offer=offer,
                    owner=owner,
                    session=session,
                    parent=asked.parent or parent,
                    sibling=sibling,
                    about=about,
                    keep=asked.keep,
                    said=turns,
                    other_ids=self._other_ids,
                )
            )
        self._writer = self._make_writer([live.run for live in self._lives])

    def _about(self, turns: tuple[Turn, ...], opened: tuple[Turn, ...], answer: AnswerOptions) -> dict[str, Raw]:
        """What is kept with the run. `opened` is the conversation with what an agent says around it."""
        return {**self._asked.about, **answer.about}

    def _gone(self) -> None:
        self._client_left = True
        self._cancel()

    def _cancel(self) -> None:
        for live in self._lives:
            live.cancel()

    def _plain(self, headers: Sequence[Header]) -> ASGIApp:
        for live in self._lives:
            if (failure := self._failure_of(live)) is not None:
                return said_of_run(failure, self._write_error, tuple(headers))
            live.fold_into(self._writer)
        return Json(self._writer.body(), 200, headers)

    def _failure_of(self, live: LiveRun) -> Failure | None:
        """Why one of the runs has no answer."""
        return failure_of(_as_ours(live.error)) if live.error is not None else failure_of_run(live.run)

    def _failure_of_all(self) -> Failure | None:
        """Why none of them has one: the first that went wrong says it."""
        failures = [self._failure_of(live) for live in self._lives]
        return failures[0] if all(failures) else None


def _as_ours(error: BaseException) -> RondaError:
    """What is not ours is for the log alone."""
    return error if isinstance(error, RondaError) else RondaError(BROKE_DOWN.message)


async def open_for(
    server: Server, served: Served, asked: Asked, turns: tuple[Turn, ...], rounds: int
) -> tuple[tuple[Turn, ...], Offer]:
    """The conversation a run starts from, and the tools it gets: the agent's, the server's and the caller's."""
    if served.opener is None and not asked.inputs:
        opened = Opened(served.begin(turns), served.tools, served.declared)
    else:
        opened = await served.open(turns, asked.inputs)
    declared = (*beside(opened.declared, asked.tools), *asked.tools)
    needs = (*served.needs, *asked.needs)
    return opened.turns, server.toolbox.offer(declared, rounds, opened.tools, alone=opened.alone, needs=needs)


async def count(server: Server, served: Served, asked: Asked, turns: tuple[Turn, ...]) -> int:
    """How many tokens the model would be sent first, if this were a request for an answer.

    No model is called: an engine of ours counts with its tokenizer, an upstream that can be asked is asked, and for the rest
    it is an estimate.
    """
    rounds, _ = server.config.rounds_for(asked.max_tool_rounds)
    opened, offer = await open_for(server, served, asked, turns, rounds)
    options = served.options_under(asked.options)
    heavy = is_heavy(opened, offer.specs)
    repaired = await aside(repair, opened) if heavy else repair(opened)
    first = ModelRequest(
        repaired, offer.specs, renamed(_choice(asked, served), offer.stand_ins), options, False, "", 0, 1, {}
    )
    ask: Callable[[ModelRequest], Awaitable[int]] | None = getattr(served.provider, "count_tokens", None)
    if ask is not None:
        try:
            return await ask(first)
        except UpstreamError:  # it cannot say today, or its address knows no counting
            pass
    return await aside(estimate, repaired, first.tools) if heavy else estimate(repaired, first.tools)


def _choice(asked: Asked, served: Served) -> ToolChoice:
    return asked.choice if asked.choice != ToolChoice() else served.choice


def check_choice(choice: ToolChoice, tools: tuple[ToolSpec, ...]) -> None:
    """Whatever is chosen must be there: among the caller's tools or the server's."""
    if choice.mode != "required" and not choice.names:
        return
    names = {tool.name for tool in tools}
    if choice.mode == "required" and not names:
        raise BadRequest('tool_choice="required" requires at least one tool.', param="tool_choice")
    for name in choice.names:
        if name not in names:
            raise BadRequest(f"tool_choice references unknown function tool `{name}`.", param="tool_choice")


def _check_pairs(turns: tuple[Turn, ...]) -> None:
    """A result whose call is nowhere is the caller's mistake; a call without a result is repaired further in."""
    waiting: set[str] = set()
    for turn in turns:
        if type(turn) is ToolTurn:
            for result in turn.results:
                if result.call_id not in waiting:
                    raise BadRequest(
                        f"a tool result answers the call {result.call_id[:100]!r}, which no assistant message "
                        "just before it makes and no run waits for",
                        param="messages",
                    )
        else:
            waiting = {call.id for call in turn.calls} if type(turn) is AssistantTurn else set()
