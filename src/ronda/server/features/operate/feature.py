"""GET /v1/operate, /v1/operate/errors, /v1/operate/series and POST /v1/mcp/{name}/retry: the server as its operator sees it.

rows of runs, of files and of processes ──► figures, states, names of tools and codes of errors, of all owners

No run's events are read, and of its row neither its words nor what its questions are about. At rest it costs nothing: what is
told is looked up when it is asked for.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from starlette.types import ASGIApp

from ronda.errors import BadRequest, NotFound
from ronda.journal import ListedState, RunModel, RunQuery, RunStep, RunSummary
from ronda.server.config import ServerConfig
from ronda.server.doors.dialects import OWN
from ronda.server.features.budgets.settings import BudgetSettings
from ronda.server.features.contract import Feature, Services
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.query import Query
from ronda.server.http.routing import Route
from ronda.server.services.acting import note_act
from ronda.server.services.answers import Conflict
from ronda.server.services.hosted_tools import OperatorServers
from ronda.server.services.run_rows import write_usage
from ronda.server.services.run_states import queued_runs
from ronda.wire.codec.json import encode

if TYPE_CHECKING:
    from ronda.tools.mcp.servers import McpServers

PAGE: Final = 100
LONGEST_PAGE: Final = 500
MOST_STEPS: Final = 1500  # of a series: a day of minutes
LONGEST_SPAN: Final = 31 * 86400.0  # seconds
_HOUR: Final = 3600.0
_MINUTES: Final = 60  # pieces of the hour that the first look shows
_LATELY: Final = 5  # minutes that tokens a minute are the mean of: one alone jumps
_COST_SECONDS: Final = 30.0  # the cost of a day is looked up again after: it goes through all runs of the day
_OPEN: Final[tuple[ListedState, ...]] = ("queued", "running", "waiting")


class Operate(Feature):
    name = "operate"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._runs, self._catalog, self._provided = services.runs, services.catalog, services.provided
        self._others = services.answering.others
        self._clock = services.clock
        self._began = services.clock()
        self._timezone = settings.part(BudgetSettings).budgets.timezone
        self._cost_today: tuple[float, float | None] = (0.0, None)  # until when it holds, and the dollars

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
        journal, now = self._runs.journal, self._clock()
        queued = tuple(await queued_runs(self._catalog.queue, self._runs, None))
        under_way = RunQuery(None, _OPEN, before=before, limit=limit, queued=queued, children=False)
        page = await journal.list_runs(under_way)
        waiting = await journal.list_runs(RunQuery(None, ("waiting",), limit=LONGEST_PAGE, children=False))
        counts = await journal.count_runs(RunQuery(None, _OPEN, queued=queued, children=False), now - _HOUR, now, 1)
        survey = await journal.survey_runs(now - _HOUR, now, _MINUTES)
        files, file_bytes = await self._catalog.files.total(now)
        lately = survey.steps[-_LATELY:]
        processes = await self._processes()
        body: dict[str, Any] = {
            "object": "operate",
            "at": now,
            "uptime": now - self._began,
            "processes": len(processes),
            **{state: counts.states.get(state, 0) for state in _OPEN},
            "tokens_a_minute": sum([step.input + step.output for step in lately]) / _LATELY,
            "cost_today": await self._cost_of_day(now),
            "models": [_model(one) for one in survey.models],
            "series": {
                "tokens": [step.input + step.output for step in survey.steps],
                "cost": [step.cost or 0.0 for step in survey.steps],
            },
            "runs": [_row(one) for one in page.runs],
            "has_more": page.before is not None,
            "next": None if page.before is None else str(page.before),
            "approvals": _approvals([*waiting.runs, *page.runs], now),
            "process_list": processes,
            "journal": {"bytes": await journal.size()},
            "files": {"count": files, "bytes": file_bytes},
            "mcp": [] if (servers := self._servers()) is None else servers.status(),
        }
        return Json(encode(body))

    async def _cost_of_day(self, now: float) -> float | None:
        """Since midnight in the operator's time zone, as budgets count days; None where no price is known."""
        until, cost = self._cost_today
        if now >= until:
            midnight = last_midnight(now, self._timezone)
            survey = await self._runs.journal.survey_runs(min(midnight, now - 1.0), now, 1)
            cost = survey.steps[0].cost
            self._cost_today = now + _COST_SECONDS, cost
        return cost

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


def _row(one: RunSummary) -> dict[str, Any]:
    """Chosen member by member: what lists tell its owner of a run has words of theirs."""
    beginning, figures = one.beginning, one.figures
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
        "tools": sorted({open_question.question.tool for open_question in one.questions} - {""}),
        "created_at": one.started,
    }


def _model(one: RunModel) -> dict[str, Any]:
    """`first_token` is in no row of a run."""
    return {
        "name": one.model or "unknown",
        "runs": one.runs,
        "calls": one.calls,
        "failed": one.failed,
        "first_token": None,
        "cost": one.cost,
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
        },
        answer={
            "object": "operate",
            "at": float,
            "uptime": float,
            "processes": int,
            **dict.fromkeys(_OPEN, int),
            "tokens_a_minute": float,
            "cost_today": (float, None),
            "models": [
                {
                    "name": str,
                    "runs": int,
                    "calls": int,
                    "failed": int,
                    "first_token": (float, None),
                    "cost": (float, None),
                }
            ],
            "series": {"tokens": [float], "cost": [float]},
            "runs": [{"id": str, "object": "run", "owner": str, "state": str}],
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
