"""GET /v1/runs and GET /v1/runs/summary: an owner's runs in rows and in numbers. No run's events are read for it.

the query of an address → RunQuery ── journal ──► RunSummary, RunCounts → JSON
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import RunStarted
from ronda.errors import BadRequest, NotFound
from ronda.journal import ListedState, RunQuery
from ronda.journal.siblings import first_of_group, group_of, siblings_of
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.query import Query
from ronda.server.services.run_rows import write_row
from ronda.server.services.run_states import SHOWN_STATES, queued_runs
from ronda.wire.codec.json import encode
from ronda.wire.shared.fields import field, read_fields

if TYPE_CHECKING:
    from ronda.server.services.runs import Runs
    from ronda.store.queue import Queue

PAGE: Final = 20
LONGEST_PAGE: Final = 100
LONGEST_SPAN: Final = 366 * 86400.0  # seconds: a year
PIECES: Final = 48  # of a histogram: half an hour each, of a day
MOST_PIECES: Final = 200

_MARK_BYTES: Final = 4096  # of the body of a mark
_OPEN: Final = ("queued", "running", "waiting")


class RunLists:
    def __init__(self, runs: Runs, queue: Queue) -> None:
        self._runs = runs
        self._queue = queue

    async def list_runs(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        wanted = await self._wanted(incoming.owner, query)
        page = await self._runs.journal.list_runs(
            replace(
                wanted,
                before=query.whole("before", None, 0, None),
                limit=query.whole("limit", PAGE, 1, LONGEST_PAGE) or PAGE,
            )
        )
        rows = page.runs
        if wanted.group is not None:
            rows = rows[::-1]  # in the order of the variants
            if not rows and (
                names := await _names_of_group(self._runs, wanted.group, incoming.owner)
            ):  # of an older Ronda
                of_names = replace(wanted, group=None, names=names, limit=LONGEST_PAGE)
                rows = (await self._runs.journal.list_runs(of_names)).runs[::-1]
        after = None if page.before is None else str(page.before)
        body = {
            "object": "list",
            "data": [write_row(one) for one in rows],
            "has_more": after is not None,
            "next": after,
        }
        return Json(encode(body))

    async def mark_run(self, incoming: Incoming) -> ASGIApp:
        """`kept`: its owner chose this run among its variants. Only lists show it."""
        run, owner = incoming.places["id"], incoming.owner
        kept = await incoming.read(_MARK_BYTES, _read_mark)
        if not await self._runs.journal.mark_kept(run, owner, kept=kept):
            raise NotFound(
                f"the run '{run[:100]}' does not exist, or is not kept any more", param="id", code="run_not_found"
            )
        queued = tuple(await queued_runs(self._queue, self._runs, owner))
        [row] = (await self._runs.journal.list_runs(RunQuery(owner, names=(run,), queued=queued))).runs
        return Json(encode(write_row(row)))

    async def summarize_runs(self, incoming: Incoming) -> ASGIApp:
        query = Query(incoming)
        wanted = await self._wanted(incoming.owner, query)
        span = query.span("span", "24h", LONGEST_SPAN)
        pieces = query.whole("pieces", PIECES, 1, MOST_PIECES) or PIECES
        until = wanted.until if wanted.until is not None else self._runs.clock()
        since = until - span
        counts = await self._runs.journal.count_runs(replace(wanted, since=None, until=None), since, until, pieces)
        width = span / pieces
        body = {
            "object": "run_summary",
            "since": since,
            "until": until,
            "step": width,
            "states": {state: counts.states.get(state, 0) for state in SHOWN_STATES},
            "histogram": [
                {"at": since + number * width, "states": of_piece} for number, of_piece in enumerate(counts.pieces)
            ],
        }
        return Json(encode(body))

    async def _wanted(self, owner: str, query: Query) -> RunQuery:
        states: tuple[ListedState, ...] = query.words("state", SHOWN_STATES)
        may_be_queued = not states or any(state in _OPEN for state in states)
        queued = await queued_runs(self._queue, self._runs, owner) if may_be_queued else {}
        return RunQuery(
            owner,
            states=states,
            queued=tuple(queued),
            session=query.text("session"),
            agents=query.texts("agent"),
            models=query.texts("model"),
            words=(query.text("q") or "").strip(),
            since=query.time("since"),
            until=query.time("until"),
            min_cost=query.number("min_cost"),
            children=query.word("children", "true", ("true", "false", "1", "0")) in ("true", "1"),
            parent=query.text("parent"),
            root=query.text("root"),
            group=query.text("group"),
            kept=None if (kept := query.word("kept", "", ("", "true", "false"))) == "" else kept == "true",
        )


async def _names_of_group(runs: Runs, group: str, owner: str) -> tuple[str, ...]:
    """The names of its runs, in their order; none for a group that is not there."""
    first = first_of_group(group)
    events = [] if first is None else await runs.read(first, owner)
    if not events or type(events[0]) is not RunStarted or group_of(events[0]) != group:
        return ()
    return tuple(siblings_of(events[0]))


def _read_mark(body: bytes) -> bool:
    fields = read_fields(body)
    if unknown := sorted(fields.keys() - {"kept"}):
        raise BadRequest(f"'{unknown[0][:60]}' cannot be changed; 'kept' can", param=unknown[0][:60])
    kept: bool | None = field(fields, "kept", bool, None)
    if kept is None:
        raise BadRequest("'kept' is missing: true or false", param="kept")
    return kept
