"""Runs over HTTP, in our own words: what became of one, what happens in it, and a say in it. Which there are is in `run_lists`.

A run is its owner's: to other owners it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import (
    PREVIEWS,
    Answered,
    Asked,
    CallDelta,
    Checked,
    Event,
    ModelFinished,
    ModelInterrupted,
    ModelStarted,
    RunFinished,
    RunStarted,
    Steered,
    ToolFinished,
)
from ronda.core.parts import AssistantTurn, user
from ronda.core.plan import ToolSpec
from ronda.core.run import Run, rebuild
from ronda.drive.offload import load
from ronda.errors import BadRequest, NotFound
from ronda.host.log import ALL_PREVIEWS, FellBehind, Follower, OnNews, Position, read_position, write_position
from ronda.host.run import LiveRun
from ronda.journal.siblings import group_of
from ronda.server.answering.answer import Answer, Source
from ronda.server.answering.page_runs import PageRuns
from ronda.server.http.incoming import Incoming, Json, NoContent, Whole
from ronda.server.http.query import Query
from ronda.server.services.acting import note_act, owner_for
from ronda.server.services.answers import Answers, Conflict
from ronda.server.services.run_states import QueuePlaces, queued_among, state_of
from ronda.server.services.runs import Runs
from ronda.store.audit import Audit
from ronda.store.queue import Queue
from ronda.wire.codec.json import encode
from ronda.wire.own.events import NO_TOOLS, WriteFrame, write_frame, write_preview
from ronda.wire.own.runs import write_run
from ronda.wire.shared import updates
from ronda.wire.shared.failures import BROKE_DOWN, RUN_IS_WAITING, Failure
from ronda.wire.shared.fields import field, read_fields
from ronda.wire.shared.showing import Showing
from ronda.wire.web import citations
from ronda.wire.web.search import WEB_TOOLS

_PREVIEW_SOURCES: Final = frozenset({CallDelta, ModelStarted, ModelFinished, Checked, Asked, Answered})


class RunsDoor:
    """`pages`: what has runs build pages, if anything does."""

    def __init__(
        self,
        runs: Runs,
        queue: Queue,
        answers: Answers,
        audit: Audit,
        pages: Callable[[], PageRuns | None],
        max_body: int,
    ) -> None:
        self._runs = runs
        self._queue = queue
        self._answers = answers
        self._audit = audit
        self._pages = pages
        self._max_body = max_body

    async def get_run(self, incoming: Incoming) -> ASGIApp:
        events = await self._find_events(incoming)
        run = rebuild(events)
        return await self._run_object(
            run, len(events), events, await queued_among(self._queue, self._runs, incoming.owner, run)
        )

    async def follow_run(self, incoming: Incoming) -> ASGIApp:
        """What happened in a run after a position, and what will. A client that comes back says the last one it has seen; where
        nothing comes after that, 204 tells an EventSource not to come again."""
        events = await self._find_events(incoming)
        after, param = _after(incoming)
        if after is not None and type(events[-1]) is RunFinished and after[0] == len(events) - 1:
            return NoContent()
        reader, frames = await follow_events(self._runs, events, after, param)
        live = self._runs.live.get(incoming.places["id"])
        return Answer([reader], frames, _LiveSource(live), is_open=True)

    async def get_cassette(self, incoming: Incoming) -> ASGIApp:
        """A run as a file that can be played again."""
        await load("ronda.agent.cassettes.export")
        from ronda.agent.cassettes.export import export_run  # few ask for one

        events = await self._find_events(incoming)
        previews = await self._runs.journal.previews(incoming.places["id"])
        cassette = await export_run(events, previews)
        return Whole(cassette, headers=[(b"content-type", b"application/jsonl")])

    async def cancel_run(self, incoming: Incoming) -> ASGIApp:
        """End a run that is under way, and say how it stands when it has; of another owner's, only that it was ended."""
        if (owner := owner_for(incoming, "operate:write")) != incoming.owner:
            run = incoming.places["id"]
            await note_act(self._audit, incoming, "run.cancel", run, f"owner {owner}")
            if not await self._runs.end(run, owner):
                raise NotFound(f"no run '{run[:100]}' of this owner is under way", param="id")
            return Json(encode({"id": run, "object": "run", "owner": owner, "state": "cancelled"}))
        if not await self._runs.end(incoming.places["id"], incoming.owner):
            await self._check_under_way(incoming)  # which says why not
        return await self.get_run(incoming)

    async def steer_run(self, incoming: Incoming) -> ASGIApp:
        """Say something to a run under way: the model hears it with its next call. A run that waits for a person keeps it until
        then, also where no process drives the run."""
        events = await self._find_events(incoming)
        text = await incoming.read(self._max_body, _read_steering)
        if (run := incoming.places["id"]) not in self._runs.live:
            _check_no_call(events, "steer it")
        live = await self._answers.steer(run, incoming.owner, Steered(user(text)))
        return await self._run_object(live.run, live.facts, live.log.facts if live.log is not None else (), {})

    async def answer_run(self, incoming: Incoming) -> ASGIApp:
        """Decide what a run waits for."""
        events = await self._find_events(incoming)
        answer = replace(await incoming.read(self._max_body, _read_answer), by=incoming.owner)
        _check_no_call(events, "answer")
        live = await self._answers.answer_question(incoming.places["id"], incoming.owner, answer)
        return await self._run_object(live.run, live.facts, live.log.facts if live.log is not None else (), {})

    async def _check_under_way(self, incoming: Incoming) -> None:
        run_id = incoming.places["id"]
        events = await self._find_events(incoming)
        if run_id in self._runs.live:
            return
        if type(events[-1]) is RunFinished:
            raise Conflict(f"the run '{run_id}' is over already", code="run_is_over")
        if rebuild(events).is_waiting:
            raise Conflict(
                f"the run '{run_id}' waits for an answer: POST /v1/runs/{run_id}/answer", code=RUN_IS_WAITING
            )
        raise Conflict(f"the run '{run_id}' is driven by another process", code="run_is_elsewhere")

    async def _has_previews(self, run: str) -> bool:
        """Whether what was shown of it piece by piece can be followed again."""
        if run in self._runs.live or self._runs.logs.previews(run):
            return True
        return (await self._runs.journal.extent(run))[1] > 0

    async def _run_object(self, run: Run, facts: int, events: Iterable[Event], queued: QueuePlaces) -> Json:
        state = state_of(run, queued)
        members = {
            **write_run(run, state, facts, events),
            "group": group_of(run.start),
            "previews": "kept" if await self._has_previews(run.id) else "gone",
        }
        pages: PageRuns | None = self._pages()
        if pages is not None and (files := await pages.files_of(list(events) or [run.start])) is not None:
            members["files"] = files
        if state == "queued":
            members["queue_position"] = queued[run.id]
        return Json(encode(members))

    async def _find_events(self, incoming: Incoming) -> list[Event]:
        run_id = incoming.places["id"]
        events = await self._runs.read(run_id, incoming.owner)
        if not events:
            raise NotFound(
                f"the run '{run_id[:100]}' does not exist, or is not kept any more", param="id", code="run_not_found"
            )
        return events


def _check_no_call(events: Sequence[Event], what: str) -> None:
    """Raises Conflict for the run of an agent that another run has called: what people say to it goes to that run."""
    start = events[0]
    if type(start) is RunStarted and start.call and start.parent is not None:
        raise Conflict(
            f"the run '{start.run}' is a call of the run '{start.parent[0]}': {what} there", code="run_is_a_call"
        )


def _read_steering(body: bytes) -> str:
    text: str = field(read_fields(body), "text", str, "")
    if not text:
        raise BadRequest("'text' is missing: what the model is to hear", param="text")
    return text


def _read_answer(body: bytes) -> Answered:
    fields = read_fields(body)
    question_id: str = field(fields, "id", str, "")
    decision: Literal["approve", "deny"] | None = field(fields, "decision", Literal["approve", "deny"], None)
    if not question_id or decision is None:
        missing = "decision" if question_id else "id"
        raise BadRequest(f"'{missing}' is missing", param=missing)
    arguments = fields.get("arguments")
    return Answered(
        question_id,
        decision,
        arguments=None if arguments is None else bytes(arguments).decode(),
        message=field(fields, "message", str, None),
        remember=field(fields, "remember", bool, False),
    )


async def follow_events(
    runs: Runs, events: list[Event], after: Position | None, param: str, write: WriteFrame | None = None
) -> tuple[Reader, Frames]:
    """What comes after a position in a run, of which `events` are what the journal has, and who writes it."""
    start = events[0]
    assert type(start) is RunStarted
    # A preview goes on from the pieces before it: a client that comes back within a turn has them read again.
    is_watched = any(tool.preview for tool in start.plan.tools)
    run, follower = await runs.follow(events, after, param)
    since = _turn_of(events, after) if is_watched and after is not None else after
    if since is not None and since != after:
        follower.close()
        follower = follower.at(since)
    frames = Frames(after, "output" in start.plan.guards, Showing(run) if is_watched else None, since, write)
    frames.tools = {tool.name: tool for tool in start.plan.tools}
    frames.cites = start.plan.options.response_format is None  # an answer that is JSON cites nothing
    if since is not None and frames.cites:
        for event in events[: since[0] + 1]:
            frames.note_sources(event)
    return Reader(follower), frames


class _LiveSource(Source):
    """A run that its events tell about, all but one thing: that something of ours broke while it was driven."""

    def __init__(self, live: LiveRun | None) -> None:
        self._live = live

    def why_unended(self, sibling: int) -> Failure | None:
        return BROKE_DOWN if self._live is not None and self._live.error is not None else None


class Reader:
    """A follower that does without previews that are not kept any more: the facts behind them say all they said."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    @property
    def is_over(self) -> bool:
        return self._follower.is_over

    def pull(self) -> list[Event]:
        try:
            return self._follower.pull()
        except FellBehind:
            fact, _ = self._follower.position
            self._follower.close()
            self._follower = self._follower.at((fact, ALL_PREVIEWS))
            return self._follower.pull()

    def on_news(self, call: OnNews) -> None:
        self._follower.on_news(call)

    def close(self) -> None:
        self._follower.close()


class Frames:
    """Events → server-sent events, numbered by their positions. Of a run that is `guarded` they do not say what the model said:
    a guardrail may still refuse it. What it allows comes as deltas, and with the run's result.

    With a `showing`, events that add to arguments worth watching are followed by what they add; what was seen of the turn
    that `after` is in is then read again, from `since` on, and not written."""

    def __init__(
        self,
        after: Position | None,
        guarded: bool = False,
        showing: Showing | None = None,
        since: Position | None = None,
        write: WriteFrame | None = None,
    ) -> None:
        self.tools: Mapping[str, ToolSpec] = (
            NO_TOOLS  # of the run: what is asked about their calls has their parameters
        )
        self.cites = True
        self._sources: tuple[citations.Source, ...] = ()  # that the model was shown, and may speak of
        self._write = write
        self._seen = (-1, 0) if after is None else after
        self._fact, self._preview = self._seen if since is None else since
        self._guarded = guarded
        self._showing = showing

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        return b"".join([self._frame(event) for event in batch])

    def note_sources(self, event: Event) -> None:
        if type(event) is ToolFinished and event.name in WEB_TOOLS and self.cites:
            self._sources = citations.add_sources(self._sources, event.details)

    def _frame(self, event: Event | Failure) -> bytes:
        if isinstance(event, Failure):  # without an id: who comes back goes on from the last event that it was sent
            return b"event: error\ndata: %b\n\n" % encode({"type": "error", "message": event.message})
        if type(event) in PREVIEWS:
            self._preview += 1
        else:
            self._fact, self._preview = self._fact + 1, 0
            self.note_sources(event)
            if self._guarded and isinstance(event, ModelFinished | ModelInterrupted):
                event = replace(event, turn=AssistantTurn((), event.turn.stop))
        update = self._showing.take(event) if self._showing is not None and type(event) in _PREVIEW_SOURCES else None
        here = (self._fact, self._preview)
        if here <= self._seen:
            return b""
        position = write_position(here)
        frame = write_frame(position, event, self._write, self.tools, self._sources)
        if isinstance(update, updates.CallsGrew | updates.TurnClosed):
            frame += b"".join([write_preview(position, patches, self._write) for patches in update.previews])
        return frame


def _turn_of(events: Sequence[Event], after: Position) -> Position:
    """Where the turn begins that a position is in. Facts may lie in between: what people said meanwhile."""
    numbers = range(min(after[0], len(events) - 1), 0, -1)
    return next((number for number in numbers if type(events[number]) is ModelStarted), after[0]), 0


def _after(incoming: Incoming) -> tuple[Position | None, str]:
    """The last position that the client has seen, and where it says so. A browser that comes back asks for the same address, and
    says in a header what it has seen since."""
    name, text = "Last-Event-ID", incoming.header(b"last-event-id")
    if text is None:
        name, text = "after", Query(incoming).text("after")
    return None if text is None else read_position(text, name), name
