"""One line for each request, written when its answer has ended.

What a request's runs cost is added up by taps. They find the request by a context variable: a run is driven in the task of its
request, or in one that this task has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final

from ronda.core.events import Event, ModelFinished
from ronda.core.run import Run
from ronda.host.extension import Tap
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Services
from ronda.server.features.request_log.lines import Line, Tokens, now, without_secrets, write_line
from ronda.server.features.request_log.output import LineOutput
from ronda.server.features.request_log.settings import RequestLogSettings
from ronda.server.http.incoming import REQUEST_ID, Header, Incoming, is_request_id
from ronda.server.http.routing import WEBSOCKET, Route, is_housekeeping
from ronda.server.services.runs import new_id

_RUNS: Final = b"x-ronda-run"  # the header of an answer that names its runs

_MAX_RUNS: Final = 8  # that a line names: a WebSocket may have had thousands


class Account:
    """What is known so far of one request."""

    __slots__ = ("cost", "input", "model", "output", "request_id", "runs")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id  # "": the client gave none, and no answer has begun
        self.runs: list[str] = []
        self.model = ""
        self.input = self.output = 0
        self.cost: float | None = 0.0  # None: that of some call is not known

    def add_cost(self, cost: float | None) -> None:
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def add_run(self, run: str) -> None:
        if len(self.runs) < _MAX_RUNS and run not in self.runs:
            self.runs.append(run)


_current: ContextVar[Account | None] = ContextVar("ronda_request_log", default=None)


class RequestLog(Feature):
    name = "request_log"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings = settings.part(RequestLogSettings)
        self._output = LineOutput()

    def begin(self) -> None:
        self._output.open()

    async def stop(self) -> None:
        await self._output.close()

    # ---- a request ---------------------------------------------------------------------------------------------------

    def request_came(self, request: Incoming, route: Route) -> None:
        given = request.headers.get(REQUEST_ID, b"")
        _current.set(Account(given.decode() if is_request_id(given) else ""))

    def answer_headers(self, request: Incoming, route: Route, headers: list[Header]) -> list[Header]:
        account = _current.get()
        if account is None:
            return headers
        identity = {name: value.decode("latin-1") for name, value in headers if name in (REQUEST_ID, _RUNS)}
        for run in identity.get(_RUNS, "").split(", ")[:_MAX_RUNS]:
            if run:
                account.add_run(run)
        # The id that an answer of a run has anyway is the run's: it stays, unless the client has its own.
        account.request_id = account.request_id or identity.get(REQUEST_ID, "") or new_id("req")
        others = [header for header in headers if header[0] != REQUEST_ID]
        if self._settings.disable_request_id_header:
            return others if REQUEST_ID in request.headers else headers
        return [*others, (REQUEST_ID, account.request_id.encode())]

    def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
        account = _current.get()
        method = WEBSOCKET if route.method == WEBSOCKET else request.method
        if account is None or request.is_letter or self._settings.disable_access_log:
            return
        if is_housekeeping(method, route.path) and not self._settings.access_log_health:
            return
        has_tokens = bool(account.input or account.output)
        line = Line(
            now(),
            method,
            route.path,
            status,
            round(seconds * 1000, 3),
            account.request_id or new_id("req"),
            ",".join(account.runs) or None,
            without_secrets(request.owner) or None,
            without_secrets(account.model) or None,
            Tokens(account.input, account.output) if has_tokens else None,
            account.cost if has_tokens else None,
        )
        self._output.write(write_line(line, self._settings.access_log_format))

    # ---- its runs ----------------------------------------------------------------------------------------------------

    def tap(self, run: Run) -> Tap | None:
        account = _current.get()
        if account is None:  # no request drives it
            return None
        if not run.start.call:  # else it is a child, and its parent is named
            account.add_run(run.id)
            account.model = account.model or run.start.plan.model

        def count(facts: Sequence[Event]) -> None:
            for fact in facts:
                if isinstance(fact, ModelFinished):
                    account.input += fact.usage.input
                    account.output += fact.usage.output
                    account.add_cost(fact.usage.cost)

        return count
