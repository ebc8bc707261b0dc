"""Figures of requests, model calls, tools and runs, told to prometheus-client as they happen."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from starlette.types import ASGIApp

from ronda._extras import check_extra
from ronda.core.events import Asked, Event, ModelFinished, ModelRetried, Preview, RunFinished, ToolFinished, ToolStarted
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import BadRequest
from ronda.host.extension import Tap
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.contract import Chore, Feature, Finding, Refused, Services
from ronda.server.features.metrics.settings import MetricsSettings
from ronda.server.http.browser_guard import is_loopback
from ronda.server.http.incoming import Incoming, Whole
from ronda.server.http.operations import Operation
from ronda.server.http.routing import WEBSOCKET, Dialect, Route, is_housekeeping

if TYPE_CHECKING:
    from ronda.server.features.metrics.figures import Figures
    from ronda.server.features.metrics.port import MetricsPort

# The variable of prometheus-client: where the workers of a server keep their figures.
FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
_REFRESH_SECONDS: Final = 5.0  # figures of now, where another process may be the one that is asked
_OWN: Final = Dialect("Ronda", chat_error)
_MAX_MODELS: Final = 100
_MAX_TOOLS: Final = 200
_OTHER: Final = "other"  # the value of a label for all that come after those
_NONE: Final = "none"
_REASONS: Final = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}


class Bounded:
    """The values of a label that are told apart: the first ones that come. Prometheus keeps a series for each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def value(self, name: str) -> str:
        if name not in self._known:
            if len(self._known) >= self._most:
                return _OTHER
            self._known.add(name)
        return name


class Account:
    """What is known so far of one request."""

    __slots__ = ("began", "method", "model", "path", "shown")

    def __init__(self, method: str, path: str) -> None:
        self.began = time.monotonic()
        self.method = method
        self.path = path
        self.model = _NONE
        self.shown = False


_current: ContextVar[Account | None] = ContextVar("ronda_metrics", default=None)


class Metrics(Feature):
    name = "metrics"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        options = settings.part(MetricsSettings).metrics
        if options.port is not None and not 0 <= options.port <= 65535:
            yield Finding(f"--metrics-port is {options.port}; it can be 0 to 65535")
        elif options.port and (problem := _problem_of_port(options.port)) is not None:
            yield Finding(f"cannot listen on 127.0.0.1:{options.port}: {problem}; choose another with --metrics-port")
        if options.owners < 0:
            yield Finding(f"--metrics-owners is {options.owners}; it cannot be negative")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        check_extra("metrics", "--metrics")
        from prometheus_client import CollectorRegistry
        from prometheus_client.multiprocess import MultiProcessCollector

        from ronda.server.features.metrics.figures import Figures

        self._options = settings.part(MetricsSettings).metrics
        self._figures = Figures()
        self._keys, self._queue = services.catalog.keys, services.catalog.queue
        self._runs, self._clock = services.runs, services.clock
        self._all_figures = services.figures
        self._models, self._tools = Bounded(_MAX_MODELS), Bounded(_MAX_TOOLS)
        self._owners = Bounded(self._options.owners) if self._options.owners else None
        self._is_shared = bool(os.environ.get(FOLDER))
        self._shown = self._figures.registry
        if self._is_shared:
            self._shown = CollectorRegistry()
            collect: Any = MultiProcessCollector  # which has no types
            collect(self._shown)
        self.port: MetricsPort | None = None

    async def start(self) -> None:
        if self._options.port is not None:
            from ronda.server.features.metrics.port import MetricsPort

            self.port = MetricsPort(self._options.port, self._shown, is_shared=self._is_shared)

    async def stop(self) -> None:
        if self.port is not None:
            await asyncio.to_thread(self.port.close)

    def chores(self) -> Sequence[Chore]:
        return [Chore("the figures of now", _REFRESH_SECONDS, self.refresh)]

    async def refresh(self) -> None:
        self._figures.runs_live.set(len(self._runs.live))
        self._figures.queue.set(len(await self._queue.list(self._clock())))
        self._figures.journal_bytes.set(await self._runs.journal.size())
        self._figures.report(self._all_figures())

    # ---- /metrics ----------------------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/metrics", _OWN, self.show, "read", right="operate")] if self._options.enabled else ()

    def operations(self) -> Mapping[str, Operation]:
        summary = "Figures for Prometheus; the key needs the scope `operate`"
        return {"GET /metrics": Operation(summary=summary, answer=str, kind="text/plain")}

    async def show(self, request: Incoming) -> ASGIApp:
        from prometheus_client import generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        if not await self._keys.all() and not is_loopback(request.client):
            raise Refused("without API keys, figures are for callers on the server's machine", 403, code="not_local")
        await self.refresh()
        body = await asyncio.to_thread(generate_latest, self._shown)
        return Whole(body, 200, [(b"content-type", CONTENT_TYPE_PLAIN_0_0_4.encode())])

    # ---- a request ---------------------------------------------------------------------------------------------------

    def request_came(self, request: Incoming, route: Route) -> None:
        method = WEBSOCKET if route.method == WEBSOCKET else request.method
        if request.is_letter or is_housekeeping(method, route.path):
            _current.set(None)
            return
        _current.set(Account(method, route.path))
        self._figures.in_flight.labels(method, route.path).inc()

    def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
        account = _current.get()
        if account is None:
            return
        figures, labels = self._figures, (account.method, account.path, account.model)
        figures.in_flight.labels(account.method, account.path).dec()
        figures.requests.labels(*labels, status).inc()
        figures.request_seconds.labels(*labels, status).observe(seconds)
        if (length := request.header(b"content-length")) is not None and length.isdigit():
            figures.body_bytes.labels(*labels).observe(int(length[:15]))

    # ---- its runs ----------------------------------------------------------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        account, model = _current.get(), self._models.value(run.start.plan.model)
        if account is not None and account.model == _NONE:
            account.model = model
        return _Measured(provider, self._figures, model, account)

    def tap(self, run: Run) -> Tap | None:
        figures, model = self._figures, self._models.value(run.start.plan.model)
        owner = None if self._owners is None else self._owners.value(run.start.owner or _NONE)
        began: dict[str, tuple[str, float]] = {}

        def count(facts: Sequence[Event]) -> None:
            figures.journal_facts.inc(len(facts))
            for fact in facts:
                if isinstance(fact, ModelFinished):
                    usage, answered_by = fact.usage, self._models.value(fact.model) if fact.model else model
                    figures.tokens_processed.inc(usage.input + usage.output)
                    kinds = {"input": usage.input, "output": usage.output, "cached": usage.cached}
                    for kind, number in (kinds | {"reasoning": usage.reasoning}).items():
                        figures.tokens.labels(answered_by, kind).inc(number)
                    if usage.cost is not None:  # a price that is not known is not 0
                        figures.cost.labels(answered_by).inc(max(0.0, usage.cost))
                    if owner is not None:
                        figures.owner_tokens.labels(owner).inc(usage.input + usage.output)
                elif isinstance(fact, ModelRetried):
                    figures.model_retries.labels(model).inc()
                elif isinstance(fact, ToolStarted):
                    began[fact.call_id] = (self._tools.value(fact.name), fact.at)
                elif isinstance(fact, ToolFinished):
                    tool, at = began.pop(fact.result.call_id, (self._tools.value(fact.name), fact.at))
                    figures.tool_calls.labels(tool, "failed" if fact.result.failed else "ok").inc()
                    figures.tool_seconds.labels(tool).observe(max(0.0, fact.at - at))
                elif isinstance(fact, Asked):
                    figures.approvals.inc()
                elif isinstance(fact, RunFinished):
                    figures.runs_finished.labels(fact.reason).inc()
                    if owner is not None:
                        figures.owner_runs.labels(owner).inc()

        return count


def _problem_of_port(port: int) -> str | None:
    """Found before the server is made: later, it would have to end what it has begun."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if os.environ.get(FOLDER):  # a worker, beside others that listen on it
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror
    return None


class _Measured(Provider):
    """A provider whose calls are measured."""

    def __init__(self, provider: Provider, figures: Figures, model: str, account: Account | None) -> None:
        self._provider = provider
        self._figures = figures
        self._model = model
        self._account = account
        self.capabilities: Capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        figures, began = self._figures, time.monotonic()
        figures.calls_running.inc()
        reason, outcome = "error", "failed"
        try:
            finished = await self._provider.call(request, self._timed(show, began) if request.stream else show)
            reason, outcome = _REASONS.get(finished.turn.stop, "stop"), "ok"
            return finished
        except asyncio.CancelledError:
            reason = outcome = "canceled"
            raise
        except BadRequest:
            outcome = "refused"
            raise
        finally:
            figures.calls_running.dec()
            figures.calls_completed.labels(reason).inc()
            figures.model_seconds.labels(self._model, outcome).observe(time.monotonic() - began)

    def _timed(self, show: Show, began: float) -> Show:
        figures, account, last = self._figures, self._account, 0.0
        # What shows a token has the status 200: until then an answer has none.
        labels = (_NONE, _NONE) if account is None else (account.method, account.path)
        between = figures.between_tokens.labels(*labels, self._model, 200)

        def timed(previews: list[Preview]) -> bool | None:
            nonlocal last
            now = time.monotonic()
            if last:
                between.observe(now - last)
            else:
                figures.model_first_token.labels(self._model).observe(now - began)
                if account is not None and not account.shown:
                    account.shown = True
                    figures.first_token.labels(*labels, self._model, 200).observe(now - account.began)
            last = now
            return show(previews)

        return timed
