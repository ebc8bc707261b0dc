"""GET /v1/events: what happens to an owner's runs and sessions, as one stream of server-sent events.

The events of runs that the client names (`?run=ID`) ride along, so that a page needs one connection. The id of each event says
how far the client has come with all of it: `EPOCH.NUMBER`, then `,RUN@POSITION` for each of those runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.types import ASGIApp

from ronda.core.events import Event
from ronda.errors import BadRequest, NotFound
from ronda.host.log import read_position
from ronda.server.answering.answer import Answer, Following
from ronda.server.doors.own.runs import Frames, follow_events
from ronda.server.http.cycle import EVENT_STREAM
from ronda.server.http.incoming import Incoming, Whole
from ronda.server.http.query import Query
from ronda.server.services.feed import Feed, FeedEvent
from ronda.wire.codec.json import encode
from ronda.wire.own.events import WireEvent
from ronda.wire.shared.failures import Failure

if TYPE_CHECKING:
    from ronda.server.services.runs import Runs

MOST_RUNS: Final = 8  # that ride along: what one page shows
LONGEST_POSITION: Final = 1000  # characters


class EventsDoor:
    def __init__(self, runs: Runs, feed: Feed) -> None:
        self._runs = runs
        self._feed = feed

    async def follow_owner(self, incoming: Incoming) -> ASGIApp:
        if incoming.method == "HEAD":  # which has an end
            return Whole(b"", headers=[EVENT_STREAM])
        query = Query(incoming)
        named = query.texts("run")
        if len(named) > MOST_RUNS:
            raise BadRequest(f"'run' names {len(named)} runs; {MOST_RUNS} can ride along", param="run")
        place, seen = _read_after(incoming, query)
        writer = FeedWriter(self._feed.epoch, {name: seen.get(name) for name in named})
        followers: list[Following] = []
        try:
            for name in named:
                events = await self._runs.read(name, incoming.owner)
                if not events:
                    message = f"the run '{name[:100]}' does not exist, or is not kept any more"
                    raise NotFound(message, param="run", code="run_not_found")
                after = None if (position := seen.get(name)) is None else read_position(position, "after")
                reader, frames = await follow_events(self._runs, events, after, "after", writer.frame_of(name))
                followers.append(reader)
                writer.frames.append(frames)
            follower = self._feed.follow(incoming.owner, place)
        except BaseException:
            for one in followers:
                one.close()
            raise
        return Answer([cast("Following", follower), *followers], writer, is_open=True)


def _read_after(incoming: Incoming, query: Query) -> tuple[str | None, Mapping[str, str]]:
    """How far the client has come: with the feed, and with each run."""
    name, text = "Last-Event-ID", incoming.header(b"last-event-id")
    if text is None:
        name, text = "after", query.text("after")
    if not text:
        return None, {}
    place, *runs = text.split(",")
    pairs = [one.partition("@") for one in runs]
    if len(text) > LONGEST_POSITION or "." not in place or not all(run and position for run, _, position in pairs):
        raise BadRequest(f"'{name}' is {text[:60]!r}; it must be the id of an event of this stream", param=name)
    return place, {run: position for run, _, position in pairs}


class FeedWriter:
    """Events of the feed (the first follower) and of runs (the others) → bytes."""

    def __init__(self, epoch: str, positions: dict[str, str | None]) -> None:
        self.frames: list[Frames] = []
        self._epoch = epoch
        self._number = 0
        self._positions = positions

    def feed(self, sibling: int, batch: Sequence[Event | Failure]) -> bytes:
        if sibling:
            return self.frames[sibling - 1].feed(0, batch)
        return b"".join([self._write(one) for one in cast("Sequence[FeedEvent | Failure]", batch)])

    def _write(self, event: FeedEvent | Failure) -> bytes:
        if isinstance(event, Failure):
            return b"event: error\ndata: %b\n\n" % encode({"type": "error", "message": event.message})
        self._number = event.number
        return self._frame(event.kind, event.data)

    def frame_of(self, run: str) -> Any:
        def write(position: str, event: WireEvent) -> bytes:
            self._positions[run] = position
            return self._frame(
                "run_event", encode({"type": "run_event", "run": run, "position": position, "event": event})
            )

        return write

    def _frame(self, kind: str, data: bytes) -> bytes:
        runs = "".join([f",{run}@{position}" for run, position in self._positions.items() if position is not None])
        place = f"{self._epoch}.{self._number}{runs}"
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (place.encode(), kind.encode(), data)
