"""GET /v1/operate, /v1/operate/errors, /v1/operate/series and POST /v1/mcp/{name}/retry: the server as its operator sees it.

rows of runs, of files and of processes ──► figures, states, names of tools and codes of errors, of all owners

Of a run's events only times are read, of the newest few runs; of one that this process drives, the names of the tools that run;
of its row neither its words nor what its questions are about. What is told is looked up when it is asked for, and what takes long
to look up is kept for a while; only how many runs are queued and wait is counted once a minute (`looks`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from zoneinfo import ZoneInfo

from msgspec import Struct
from starlette.types import ASGIApp

from ronda.core.events import ModelFinished, ModelStarted
from ronda.errors import BadRequest, NotFound
from ronda.journal import ListedState, RunCounts, RunModel, RunQuery, RunStep, RunSummary
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.features.budgets.settings import BudgetSettings
from ronda.server.features.contract import Chore, Feature, Services
from ronda.server.features.operate.looks import EVERY, Look, Looks
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.query import Query
from ronda.server.http.routing import Route
from ronda.server.services.acting import note_act
from ronda.server.services.answers import Conflict
from ronda.server.services.hosted_tools import OperatorServers
from ronda.server.services.models import CoolingModels
from ronda.server.services.run_rows import write_usage
from ronda.server.services.run_states import queued_entries
from ronda.server.services.spending import Spending
from ronda.wire.codec.json import encode

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.host.run import LiveRun
    from ronda.store.queue import QueueEntry
    from ronda.tools.mcp.servers import McpServers

_T = TypeVar("_T")

PAGE: Final = 100
LONGEST_PAGE: Final = 500
MOST_STEPS: Final = 1500  # of a series: a day of minutes
LONGEST_SPAN: Final = 31 * 86400.0  # seconds
_HOUR: Final = 3600.0
_PIECES: Final = 60  # of the span that is shown
_LATELY: Final = 5  # minutes that tokens a minute are the mean of: a single one jumps
# What goes through all runs of a day or a month, or through events, is looked up again after.
_KEPT_SECONDS: Final = 30.0
_TIMED_RUNS: Final = 40  # the newest: their events say how long the first token took
_MOST_OWNERS: Final = 200  # each is counted by itself
_MOST_TIMES: Final = 60  # of the newest calls: what a narrow picture shows
_OPEN: Final[tuple[ListedState, ...]] = ("queued", "running", "waiting")


class NewestCalls(Struct, frozen=True):
    """Of the newest runs: when something of each call was first shown, in the order of the calls, with its model; and how much of
    what went in came from caches (None: nothing went in)."""

    first_tokens: list[tuple[str, float]]
    cached_share: float | None


class Operate(Feature):
    name = "operate"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._runs, self._catalog, self._provided = services.runs, services.catalog, services.provided
        self._others = services.answering.others
        self._clock = services.clock
        self._began = services.clock()
        self._timezone = settings.part(BudgetSettings).budgets.timezone
        self._kept: dict[str, tuple[float, Any]] = {}  # until when it holds, and what was found
        self._looks = Looks()

    def chores(self) -> Sequence[Chore]:
        return [Chore("the count of runs that are queued or wait", EVERY, self._look)]

    async def _look(self) -> None:
        now = self._clock()
        _, counts = await self._count(now)
        self._looks.add(now, _look(counts))

    async def _count(self, now: float) -> tuple[list[QueueEntry], RunCounts]:
        """What is queued, and the runs that are open."""
        entries = await queued_entries(self._catalog.queue, self._runs, None)
        queued = tuple([entry.run for entry in entries])
        query = RunQuery(None, _OPEN, queued=queued, children=False)
        return entries, await self._runs.journal.count_runs(query, now - _HOUR, now, 1)

    def routes(self) -> Sequence[Route]:
        return [
            Route("GET", "/v1/operate", OWN, self.show, "read", right="operate"),
            Route("GET", "/v1/operate/errors", OWN, self.list_errors, "read", right="operate"),
            Route("GET", "/v1/operate/series", OWN, self.list_steps, "read", right="operate"),
            Route("POST", "/v1/mcp/{name}/retry", OWN, self.retry, "write", right="operate:write"),
        ]

    def operations(self) -> Mapping[str, Operation]:
        return _OPERATIONS

    async def show(self, request: Incoming) -> ASGIApp:
        query = Query(request)
        limit = query.whole("limit", PAGE, 1, LONGEST_PAGE) or PAGE
        before = query.whole("before", None, 0, None)
        span = query.span("span", "1h", LONGEST_SPAN)
        journal, now = self._runs.journal, self._clock()
        entries, counts = await self._count(now)
        queued = tuple([entry.run for entry in entries])
        under_way = RunQuery(None, _OPEN, before=before, limit=limit, queued=queued, children=False)
        page = await journal.list_runs(under_way)
        waiting = await journal.list_runs(RunQuery(None, ("waiting",), limit=LONGEST_PAGE, children=False))
        survey = await journal.survey_runs(now - span, now, _PIECES)
        files, file_bytes = await self._catalog.files.total(now)
        lately = (await journal.survey_runs(now - _LATELY * 60, now, 1)).steps[0]
        looks = self._looks.most(now - span, now, _PIECES, _look(counts))
        processes = await self._processes()
        newest = await self._kept_for_a_while("newest calls", self._newest_calls)
        times = [seconds for _, seconds in newest.first_tokens]
        all_times = sorted(times)
        approvals = _approvals([*waiting.runs, *page.runs], now)
        cooling: CoolingModels | None = self._provided(CoolingModels)
        cool = {} if cooling is None else cooling.seconds_to_cool()
        body: dict[str, Any] = {
            "object": "operate",
            "at": now,
            "uptime": now - self._began,
            "processes": len(processes),
            **{state: counts.states.get(state, 0) for state in _OPEN},
            "oldest_queued": max([now - entry.at for entry in entries], default=None),
            "oldest_waiting": approvals[0]["age"] if approvals else None,
            "first_token_median": _quantile(all_times, 0.5),
            "first_token_95": _quantile(all_times, 0.95),
            "tokens_a_minute": (lately.input + lately.output) / _LATELY,
            "cached_share": newest.cached_share,
            "cost_today": await self._kept_for_a_while("cost", self._cost_of_day),
            "models": [_model(one, newest.first_tokens, cool.get(one.model)) for one in survey.models],
            "owners": await self._kept_for_a_while("owners", self._owners),
            "series": {
                "open": open_runs(survey.steps, sum([counts.states.get(state, 0) for state in _OPEN])),
                "queued": [None if look is None else look.queued for look in looks],
                "waiting": [None if look is None else look.waiting for look in looks],
                "tokens": [step.input + step.output for step in survey.steps],
                "cost": [step.cost for step in survey.steps],
                "first_token": times[-_MOST_TIMES:],
            },
            "runs": [_row(one, self._runs.live) for one in page.runs],
            "has_more": page.before is not None,
            "next": None if page.before is None else str(page.before),
            "approvals": approvals,
            "process_list": processes,
            "journal": {"bytes": await journal.size()},
            "files": {"count": files, "bytes": file_bytes},
            "mcp": [] if (servers := self._servers()) is None else servers.status(),
        }
        return Json(encode(body))

    async def _kept_for_a_while(self, name: str, find: Callable[[float], Awaitable[_T]]) -> _T:
        now = self._clock()
        until, found = self._kept.get(name, (0.0, None))
        if now >= until:
            found = await find(now)
            self._kept[name] = now + _KEPT_SECONDS, found
        return cast("_T", found)

    async def _cost_of_day(self, now: float) -> float | None:
        """Since midnight in the operator's time zone, as budgets count days; None where no price is known."""
        midnight = last_midnight(now, self._timezone)
        survey = await self._runs.journal.survey_runs(min(midnight, now - 1.0), now, 1)
        return survey.steps[0].cost

    async def _newest_calls(self, now: float) -> NewestCalls:
        journal = self._runs.journal
        page = await journal.list_runs(RunQuery(None, since=now - _HOUR, limit=_TIMED_RUNS))
        found: list[tuple[float, str, float]] = []
        for one in page.runs:
            began = 0.0
            for event in await journal.read(one.run):
                if isinstance(event, ModelStarted):
                    began = event.at
                elif isinstance(event, ModelFinished) and 0.0 < began <= event.first_at:
                    model = "" if one.beginning is None else one.beginning.model
                    found.append((began, model, event.first_at - began))
        figures = [one.figures for one in page.runs if one.figures is not None]
        read = sum([one.input for one in figures])
        cached = sum([min(one.cached, one.input) for one in figures])
        return NewestCalls([(model, seconds) for _, model, seconds in sorted(found)], cached / read if read else None)

    async def _owners(self, now: float) -> list[dict[str, Any]]:
        """Who may use the server, what runs of theirs, and what they spent since the month began, of which limit."""
        keys = [key for key in await self._catalog.keys.all() if key.is_good(now)]
        owners = sorted({key.owner for key in keys})[:_MOST_OWNERS]
        month = first_of_month(now, self._timezone)
        spending: Spending | None = self._provided(Spending)
        told = []
        for owner in owners:
            counts = await self._runs.journal.count_runs(RunQuery(owner, children=False, since=month), month, now, 1)
            spent = None if spending is None else await spending.of_month(owner)
            told.append(
                {
                    "owner": owner,
                    "running": counts.states.get("running", 0) + counts.states.get("queued", 0),
                    "waiting": counts.states.get("waiting", 0),
                    "runs": sum(counts.states.values()),
                    "spent": None if spent is None else spent.spent,
                    "reserved": 0.0 if spent is None else spent.reserved,
                    "budget": None if spent is None else spent.limit,
                }
            )
        return told

    async def list_errors(self, request: Incoming) -> ASGIApp:
        until = self._clock()
        since = until - Query(request).span("span", "1h", LONGEST_SPAN)
        survey = await self._runs.journal.survey_runs(since, until, 1)
        data = [
            {
                "code": one.code or None,
                "model": one.model or None,
                "agent": one.agent or None,
                "count": one.count,
                "last_at": one.last,
            }
            for one in survey.errors
        ]
        failed = sum([step.failed for step in survey.steps])
        return Json(encode({"object": "list", "since": since, "until": until, "failed": failed, "data": data}))

    async def list_steps(self, request: Incoming) -> ASGIApp:
        query = Query(request)
        span, step = query.span("span", "1h", LONGEST_SPAN), query.whole("step", 60, 1, None) or 60
        pieces = max(1, round(span / step))
        if pieces > MOST_STEPS:
            raise BadRequest(
                f"'step' is too short: {span:.0f} seconds have {pieces} of them, and {MOST_STEPS} can be told",
                param="step",
            )
        until = self._clock()
        since = until - pieces * step
        survey = await self._runs.journal.survey_runs(since, until, pieces)
        data = [_step(since + number * step, one) for number, one in enumerate(survey.steps)]
        return Json(encode({"object": "list", "since": since, "until": until, "step": step, "data": data}))

    async def retry(self, request: Incoming) -> ASGIApp:
        """Of this process's connection: each has its own."""
        name = request.places["name"]
        servers = self._servers()
        connection = None if servers is None else servers.connection(name)
        if connection is None:
            raise NotFound(f"there is no MCP server '{name[:100]}'; GET /v1/mcp lists those there are", param="name")
        await note_act(self._catalog.audit, request, "mcp.retry", name)
        if not connection.retry():
            raise Conflict(f"the MCP server '{name}' is {connection.state}: there is nothing to try", code="no_retry")
        return Json(encode({"object": "mcp_server", "name": name, "state": connection.state}), 202)

    def _servers(self) -> McpServers | None:
        return None if (servers := self._provided(OperatorServers)) is None else servers.here()

    async def _processes(self) -> list[dict[str, Any]]:
        if (replicas := self._others.replicas) is not None:
            found = await replicas.processes()
            return [{"name": one.name, "since": one.since, "is_this": one.is_this} for one in found]
        return [{"name": f"{socket.gethostname()} {os.getpid()}", "since": self._began, "is_this": True}]


def last_midnight(now: float, timezone: str) -> float:
    """When the day began that it is there. A day on which clocks are changed has another length than others."""
    today = datetime.fromtimestamp(now, ZoneInfo(timezone))
    return today.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def first_of_month(now: float, timezone: str) -> float:
    today = datetime.fromtimestamp(now, ZoneInfo(timezone))
    return today.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()


def _quantile(times: Sequence[float], share: float) -> float | None:
    return times[min(len(times) - 1, int(share * len(times)))] if times else None


def open_runs(steps: Sequence[RunStep], open_now: int) -> list[int]:
    """How many runs were under way at the end of each piece of time: counted back from now."""
    found = [max(0, open_now)]
    for step in reversed(steps[1:]):
        found.append(max(0, found[-1] - step.started + step.ended))
    return found[::-1]


def _look(counts: RunCounts) -> Look:
    return Look(counts.states.get("queued", 0), counts.states.get("waiting", 0))


def _doing(one: RunSummary, run: Run | None) -> tuple[str | None, list[str]]:
    """What a run does, and the tools whose calls are under way. Of a run that another process drives, `run` is None, and the
    journal tells no more than that it waits."""
    if one.state == "queued":
        return "next", []
    if one.state == "waiting":
        return "waits", []
    if run is None or run.ended is not None:
        return None, []
    if run.model_is_running:
        return "model", []
    asking = {question.call_id for question in run.questions}
    tools = {call.name for call in run.open_calls if call.id not in asking}
    return ("tools", sorted(tools)) if tools else (None, [])


def _row(one: RunSummary, live: Mapping[str, LiveRun]) -> dict[str, Any]:
    """Chosen member by member: what lists tell its owner of a run has words of theirs."""
    beginning, figures = one.beginning, one.figures
    here = live.get(one.run)
    doing, calls = _doing(one, None if here is None else here.run)
    return {
        "id": one.run,
        "object": "run",
        "owner": one.owner,
        "state": one.state,
        "agent": one.agent or None,
        "model": None if beginning is None else beginning.model,
        "rounds": None if figures is None else figures.rounds,
        "tool_calls": None if figures is None else figures.tool_calls,
        "usage": None if figures is None else write_usage(figures),
        "cost": None if figures is None else figures.cost,
        "doing": doing,
        "calls": calls,
        "tools": sorted({open_question.question.tool for open_question in one.questions} - {""}),
        "created_at": one.started,
    }


def _model(one: RunModel, first_tokens: Iterable[tuple[str, float]], cools_for: float | None) -> dict[str, Any]:
    """`first_token` is the median of the newest calls."""
    times = sorted([seconds for model, seconds in first_tokens if model == one.model])
    return {
        "name": one.model or "unknown",
        "runs": one.runs,
        "calls": one.calls,
        "failed": one.failed,
        "first_token": _quantile(times, 0.5),
        "cost": one.cost,
        "cools_for": cools_for,
    }


def _approvals(runs: Iterable[RunSummary], now: float) -> list[dict[str, Any]]:
    """The oldest first."""
    found = {
        (one.run, open_question.question.id): {
            "run": one.run,
            "owner": one.owner,
            "tool": open_question.question.tool or None,
            "asked_at": open_question.question.at,
            "age": max(0.0, now - open_question.question.at),
        }
        for one in runs
        for open_question in one.questions
    }
    return sorted(found.values(), key=lambda one: one["asked_at"])


def _step(at: float, one: RunStep) -> dict[str, Any]:
    return {
        "at": at,
        "started": one.started,
        "ended": one.ended,
        "failed": one.failed,
        "input_tokens": one.input,
        "output_tokens": one.output,
        "cost": one.cost,
    }


_SPAN: Final = (str, "how far back, such as 15m, 1h or 7d; 1h if left out")
_SERIES: Final = {"object": "list", "since": float, "until": float}
_OPERATIONS: Final[dict[str, Operation]] = {
    "GET /v1/operate": Operation(
        name="show_operation",
        summary="The server as its operator sees it: runs, approvals, processes, figures of all owners",
        query={
            "limit": (int, f"of runs, up to {LONGEST_PAGE}; {PAGE} if left out"),
            "before": (int, "`next` of the page before"),
            "span": _SPAN,
        },
        answer={
            "object": "operate",
            "at": float,
            "uptime": float,
            "processes": int,
            **dict.fromkeys(_OPEN, int),
            "oldest_queued": (float, None),
            "oldest_waiting": (float, None),
            "first_token_median": (float, None),
            "first_token_95": (float, None),
            "tokens_a_minute": float,
            "cached_share": (float, None),
            "cost_today": (float, None),
            "models": [
                {
                    "name": str,
                    "runs": int,
                    "calls": int,
                    "failed": int,
                    "first_token": (float, None),
                    "cost": (float, None),
                    "cools_for": (float, None),
                }
            ],
            "owners": [
                {
                    "owner": str,
                    "running": int,
                    "waiting": int,
                    "runs": int,
                    "spent": (float, None),
                    "reserved": float,
                    "budget": (float, None),
                }
            ],
            "series": {
                "open": [int],
                "queued": [(int, None)],
                "waiting": [(int, None)],
                "tokens": [float],
                "cost": [(float, None)],
                "first_token": [float],
            },
            "runs": [{"id": str, "object": "run", "owner": str, "state": str, "doing": (str, None), "calls": [str]}],
            "has_more": bool,
            "next": (str, None),
            "approvals": [{"run": str, "owner": str, "tool": (str, None), "asked_at": float, "age": float}],
            "process_list": [{"name": str, "since": float, "is_this": bool}],
            "journal": {"bytes": (int, None)},
            "files": {"count": int, "bytes": int},
            "mcp": [{"name": str, "state": str}],
        },
    ),
    "GET /v1/operate/errors": Operation(
        name="list_errors",
        summary="What failed, by code, model and agent",
        query={"span": _SPAN},
        answer={
            **_SERIES,
            "failed": int,
            "data": [
                {
                    "code": (str, None),
                    "model": (str, None),
                    "agent": (str, None),
                    "count": int,
                    "last_at": (float, None),
                }
            ],
        },
    ),
    "GET /v1/operate/series": Operation(
        name="list_steps",
        summary="Runs, tokens and cost over time",
        query={"span": _SPAN, "step": (int, "seconds of a step; 60 if left out")},
        answer={
            **_SERIES,
            "step": int,
            "data": [
                {
                    "at": float,
                    "started": int,
                    "ended": int,
                    "failed": int,
                    "input_tokens": int,
                    "output_tokens": int,
                    "cost": (float, None),
                }
            ],
        },
    ),
    "POST /v1/mcp/{name}/retry": Operation(
        name="retry_mcp_server",
        summary="Connect to an MCP server that failed",
        answer={"object": "mcp_server", "name": str, "state": str},
        status=202,
    ),
}
