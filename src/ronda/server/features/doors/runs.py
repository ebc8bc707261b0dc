"""Our own API: runs, what they ask people, and sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ronda.server.answering.page_runs import PageRuns
from ronda.server.doors.dialects import OWN
from ronda.server.doors.own.approvals import ApprovalsDoor
from ronda.server.doors.own.events import EventsDoor
from ronda.server.doors.own.run_lists import RunLists
from ronda.server.doors.own.run_start import RunStart
from ronda.server.doors.own.runs import RunsDoor
from ronda.server.doors.own.sessions import SessionsDoor
from ronda.server.doors.own.transcripts import RoundsDoor
from ronda.server.features.contract import Services
from ronda.server.features.doors.door import Door
from ronda.server.http.routing import Route
from ronda.server.services.agents import AgentFolder
from ronda.server.services.feed import Feed
from ronda.server.services.redaction import Redaction

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.http.operations import Operation

_RUN = "/v1/runs/{id}"
_SESSION = "/v1/sessions/{id:path}"


class Runs(Door):
    name = "runs"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        answering, runs, provided, limit = services.answering, services.runs, services.provided, settings.max_body
        audit, queue = services.catalog.audit, services.catalog.queue
        self._start = RunStart(answering, services.models, lambda: provided(PageRuns), limit)
        self._approvals = ApprovalsDoor(runs, answering.answers, answering.others, audit, limit)
        self._runs = RunsDoor(runs, queue, answering.answers, audit, lambda: provided(PageRuns), limit)
        self._rounds = RoundsDoor(
            runs, services.models, services.reopen, lambda: provided(AgentFolder), partial(_placeholders, provided)
        )
        self._lists = RunLists(runs, queue)
        self._feed = Feed(runs, queue, services.catalog.sessions, services.supervisor, answering.others)
        self._events = EventsDoor(runs, self._feed)
        self._sessions = SessionsDoor(services.sessions, runs, services.catalog, self._feed, limit)

    def operations(self) -> Mapping[str, Operation]:
        """Of all of our own API: one page describes it."""
        from ronda.server.doors.own.operations import OPERATIONS

        return OPERATIONS

    def routes(self) -> Sequence[Route]:
        runs, sessions = self._runs, self._sessions
        return (
            Route("POST", "/v1/runs", OWN, self._start.start_runs, "run"),
            Route("GET", "/v1/agent/approvals", OWN, self._approvals.list_approvals, "read"),
            Route("POST", "/v1/agent/approvals/{id}", OWN, self._approvals.decide, "write"),
            Route("GET", "/v1/runs", OWN, self._lists.list_runs, "read"),
            Route("GET", "/v1/events", OWN, self._events.follow_owner, "read"),
            Route("GET", "/v1/runs/summary", OWN, self._lists.summarize_runs, "read"),
            Route("GET", _RUN, OWN, runs.get_run, "read", of_run=""),
            Route("PATCH", _RUN, OWN, self._lists.mark_run, "write", of_run=""),
            Route("GET", f"{_RUN}/events", OWN, runs.follow_run, "read", of_run=""),
            Route("GET", _RUN + "/rounds/{round}/request", OWN, self._rounds.get_request, "read", of_run=""),
            Route("GET", f"{_RUN}/cassette", OWN, runs.get_cassette, "read", of_run=""),
            Route("POST", f"{_RUN}/cancel", OWN, runs.cancel_run, "write", of_run=""),
            Route("POST", f"{_RUN}/steer", OWN, runs.steer_run, "write", of_run=""),
            Route("POST", f"{_RUN}/answer", OWN, runs.answer_run, "write", of_run=""),
            Route("GET", "/v1/sessions", OWN, sessions.list_sessions, "read"),
            Route("POST", f"{_SESSION}/fork", OWN, sessions.fork_session, "write"),
            Route("GET", f"{_SESSION}/approvals", OWN, sessions.list_approved, "read"),
            Route("DELETE", f"{_SESSION}/approvals", OWN, sessions.take_back_approved, "write"),
            Route("GET", _SESSION, OWN, sessions.get_session, "read"),
            Route("PUT", _SESSION, OWN, sessions.put_session, "write"),
            Route("PATCH", _SESSION, OWN, sessions.patch_session, "write"),
            Route("DELETE", _SESSION, OWN, sessions.delete_session, "write"),
        )

    async def drain(self, seconds: float) -> None:
        self._feed.close()


def _placeholders(provided: Callable[[type[Any]], Any]) -> Sequence[str]:
    """What stands where words were that are not kept."""
    redaction: Redaction | None = provided(Redaction)
    return () if redaction is None else redaction.placeholders
