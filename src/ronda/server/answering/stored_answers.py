"""Answers that outlive their requests, at the doors whose dialects have no API for that: the door's own object, under its own id.

GET PATH/{id}            how it stands; the answer, when there is one       ?stream=true follows it
POST PATH/{id}/cancel    DELETE PATH/{id}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from msgspec import Raw, Struct
from starlette.types import ASGIApp

from ronda.core.events import Event, RunStarted
from ronda.core.run import Run, rebuild
from ronda.errors import BadRequest, NotFound
from ronda.journal.siblings import siblings_of
from ronda.server.answering.chain import ChainWriter, read_chain
from ronda.server.answering.frames import LARGER_PIECES, STARTING_AFTER, NumberedFrames, frames_seen
from ronda.server.answering.kept_runs import KeptRuns
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.query import Query
from ronda.server.http.routing import Dialect, Route
from ronda.wire.codec.json import encode
from ronda.wire.own.background import progress, status_of_all
from ronda.wire.shared.failures import Failure, error_in_stream, failure_of_run

if TYPE_CHECKING:
    from ronda.server.answering.answer import Writer
    from ronda.server.answering.exchange import MakeWriter
    from ronda.server.services.background import Background
    from ronda.server.services.runs import Runs


@runtime_checkable
class FramedWriter(Protocol):
    def frame(self) -> dict[str, Any]: ...


class AnswerDoor(Struct, frozen=True):
    """`prefix`: of its ids. `key`: under which runs that came in by this door keep something of their own; `without` those of
    another, that also have it, keep something more."""

    path: str
    prefix: str
    object: str
    key: str
    make_writer: MakeWriter
    without: str = ""

    def id_of(self, run: str) -> str:
        return self.prefix + run.removeprefix("run_")

    def location(self, run: str) -> Header:
        return b"location", f"{self.path}/{self.id_of(run)}".encode()

    def later(self, writer: Writer, runs: Sequence[Run], position: int | None) -> bytes:
        return unfinished_body(writer, runs, position)

    def has(self, start: RunStarted) -> bool:
        """Whether a run came in by this door."""
        return self.key in start.about and not (self.without and self.without in start.about)


class StoredAnswers:
    """The addresses of a door's answers."""

    def __init__(self, door: AnswerDoor, runs: Runs, background: Background) -> None:
        self._door = door
        self._runs = runs
        self._background = background

    def routes(self, dialect: Dialect) -> tuple[Route, ...]:
        path = f"{self._door.path}/{self._door.prefix}" + "{id}"
        return (
            Route("GET", path, dialect, self.retrieve, "read", of_run="run_"),
            Route("DELETE", path, dialect, self.delete, "write", of_run="run_"),
            Route("POST", f"{path}/cancel", dialect, self.cancel, "write", of_run="run_"),
        )

    async def retrieve(self, incoming: Incoming) -> ASGIApp:
        found = await self._found(incoming)
        if Query(incoming).truth("stream"):
            return await follow_answer(self._runs, incoming, self._door.make_writer, found)
        if STARTING_AFTER in incoming.query:
            raise BadRequest(f"'{STARTING_AFTER}' goes with stream=true", param=STARTING_AFTER)
        return await show_answer(self._runs, self._background, self._door.make_writer, found)

    async def cancel(self, incoming: Incoming) -> ASGIApp:
        for events in await self._found(incoming):
            run = rebuild(events)
            if run.ended is None:
                await self._runs.end(run.id, incoming.owner)
        found = await self._found(incoming)
        if any(rebuild(events).ended is None for events in found):
            raise BadRequest(f"'{self._id(incoming)}' is driven by another process; it cannot be cancelled here")
        return await show_answer(self._runs, self._background, self._door.make_writer, found)

    async def delete(self, incoming: Incoming) -> ASGIApp:
        for events in await self._found(incoming):
            await self._runs.forget(rebuild(events).id, incoming.owner)
        return Json(encode({"id": self._id(incoming), "object": f"{self._door.object}.deleted", "deleted": True}))

    def _id(self, incoming: Incoming) -> str:
        return self._door.prefix + incoming.places["id"]

    async def _found(self, incoming: Incoming) -> list[list[Event]]:
        """The runs of an answer, one per choice; only for their owner."""
        run_id = self._id(incoming)
        name = "run_" + incoming.places["id"]
        first = await self._runs.read(name, incoming.owner)
        if not first or not self._door.has(start := _start_of(first)):
            raise NotFound(f"there is no {self._door.object} '{run_id[:100]}', or it is not kept any more", param="id")
        others = [other for other in siblings_of(start) if other != name]
        return [first, *[await self._runs.read(other, incoming.owner) for other in others]]


def _start_of(events: list[Event]) -> RunStarted:
    start = events[0]
    assert type(start) is RunStarted
    return start


async def follow_answer(
    all_runs: Runs, incoming: Incoming, make_writer: MakeWriter, found: Sequence[list[Event]]
) -> ASGIApp:
    """The stream of an answer, behind what its client has seen of it."""
    seen = frames_seen(incoming, len(found)) or [0] * len(found)
    kept = await KeptRuns.of(all_runs, found)
    if not kept.is_whole:
        seen = [0] * len(found)
    writer = make_writer(kept.runs)
    outlives = kept.runs[0].start.outlives
    frames = NumberedFrames(writer, seen, with_ids=outlives, is_whole=kept.is_whole)
    return kept.answer(writer, () if kept.is_whole else (LARGER_PIECES,), frames=frames, with_handoffs=True)


async def show_answer(
    all_runs: Runs, background: Background, make_writer: MakeWriter, found: Sequence[list[Event]]
) -> Json:
    """The door's own object: the answer, or how far it has come."""
    owner = _start_of(found[0]).owner
    choices = [await read_chain(all_runs, events, owner) for events in found]
    runs = [rebuild(legs[-1]) for legs in choices]
    writer = make_writer([rebuild(legs[0]) for legs in choices])
    position = None
    if any(run.ended is None for run in runs):
        position = await background.position(runs[0].id, runs[0].start.owner)
    failure = next((failure for run in runs if run.ended is not None and (failure := failure_of_run(run))), None)
    if failure is None and all(run.ended is not None or run.is_waiting for run in runs):
        for sibling, legs in enumerate(choices):
            writer.fold(sibling, legs[0][1:])
            for leg in legs[1:]:
                assert isinstance(writer, ChainWriter)
                writer.hand_over(sibling, rebuild(leg))
                writer.fold(sibling, leg[1:])
        return Json(_with(writer.body(), standing(runs, position)))
    return Json(unfinished_body(writer, runs, position, failure))


def unfinished_body(writer: Writer, runs: Sequence[Run], position: int | None, failure: Failure | None = None) -> bytes:
    assert isinstance(writer, FramedWriter)
    error = {} if failure is None else {"error": error_in_stream(failure)}
    return encode({**writer.frame(), **standing(runs, position), **error})


def standing(runs: Sequence[Run], position: int | None) -> dict[str, Any]:
    return {
        "status": status_of_all(runs),
        "progress": progress(runs, position),
        "session_id": runs[0].start.session,
    }


def _with(body: bytes, more: dict[str, Any]) -> bytes:
    """A JSON object with more members."""
    members: dict[str, Raw] = msgspec.json.decode(body, type=dict[str, Raw])
    return encode({**members, **more})
