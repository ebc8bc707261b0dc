"""Traces of a server's runs: `ronda.trace.otel`, with the trace of the request that starts a run as its parent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from ronda._extras import check_extra, has_extra
from ronda.core.run import Run
from ronda.drive import Provider, Tool
from ronda.host.extension import Tap
from ronda.server.config import ServerConfig
from ronda.server.features.contract import Feature, Finding, Line, Services
from ronda.server.features.traces.settings import TracesSettings
from ronda.server.http.incoming import Incoming
from ronda.server.http.routing import Route
from ronda.server.services.redaction import Redaction

if TYPE_CHECKING:
    from ronda.trace.otel import OpenTelemetry

_LONGEST: Final = 512  # characters of a header: a tracestate has 512 at most, by the W3C
_parent: ContextVar[Mapping[str, Raw]] = ContextVar("ronda_traceparent", default=MappingProxyType({}))


class Traces(Feature):
    name = "traces"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        options = settings.part(TracesSettings)
        if options.otel_content and not options.otel:
            yield Finding("--otel-content says what traces have in them, and there are none without --otel")
        if options.otel and has_extra("otel"):  # without it there is no server; that says so
            from ronda.trace.collector import problems_with_exporters

            yield from map(Finding, problems_with_exporters())

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        check_extra("otel", "--otel")
        self._options = settings.part(TracesSettings)
        self._redact: Callable[[], Redaction | None] = partial(services.provided, Redaction)
        self._otel: OpenTelemetry | None = None

    async def start(self) -> None:
        from ronda.trace.otel import OpenTelemetry

        # Off the loop: the SDK is slow to import.
        make = partial(OpenTelemetry, content=True if self._options.otel_content else None, redact=self._redact())
        self._otel = await asyncio.to_thread(make)

    async def stop(self) -> None:
        if self._otel is not None:
            await asyncio.to_thread(self._otel.close)

    async def doctor(self) -> Sequence[Line]:
        from ronda.trace.collector import ask_collector

        found = await asyncio.to_thread(ask_collector)
        return [_line(signal, place, takes) for signal, (place, takes) in found.items()]

    def request_came(self, request: Incoming, route: Route) -> None:
        from ronda.trace.otel import keep_parent

        names = ("traceparent", "tracestate")
        headers = {name: value for name in names if (value := request.header(name.encode())) and len(value) <= _LONGEST}
        _parent.set(keep_parent(headers))

    def run_state(self) -> Mapping[str, Raw]:
        return _parent.get()

    def around(self, run: Run, provider: Provider) -> Provider:
        return provider if self._otel is None else self._otel.around(run, provider)

    def around_tool(self, run: Run, tool: Tool) -> Tool:
        return tool if self._otel is None else self._otel.around_tool(run, tool)

    def tap(self, run: Run) -> Tap | None:
        return None if self._otel is None else self._otel.tap(run)


def _line(signal: str, place: str, takes: bool | None) -> Line:
    name = f"otel {signal}"
    if takes is None:
        return Line(name, "missing", place)
    if takes:
        return Line(name, "works", f"{place} takes them")
    helps = (
        f"OTEL_EXPORTER_OTLP_ENDPOINT says where a collector is; OTEL_{signal.upper()}_EXPORTER=none leaves them out"
    )
    return Line(name, "fails", f"{place} does not take them", helps)
