"""What happens, told to tracers: spans, their backends, and what is kept back from them.

    Tracer          backends under their names: `Tracer.add("console", console)`
    trace, span     a function, or a block, as a span
    run_spans       a run's events → a span for each model call and each tool call
    console, Tracy  backends: lines on stderr, a `.tracy` file per trace
    OpenTelemetry   an extension of runs: spans and metrics for a collector, with the conventions for generative AI

Where no backend is registered nothing is traced, and nothing is paid for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ronda.trace.decorator import trace as trace
    from ronda.trace.otel import OpenTelemetry as OpenTelemetry
    from ronda.trace.plain import redact as redact
    from ronda.trace.plain import to_dict as to_dict
    from ronda.trace.run import RunSpans as RunSpans
    from ronda.trace.run import run_spans as run_spans
    from ronda.trace.spans import Backend as Backend
    from ronda.trace.spans import Emit as Emit
    from ronda.trace.spans import Span as Span
    from ronda.trace.spans import Tracer as Tracer
    from ronda.trace.spans import current_span as current_span
    from ronda.trace.spans import span as span
    from ronda.trace.terminal import console as console
    from ronda.trace.tracy import Tracy as Tracy

# Where each name lives. Imported when first used: a program that only renders a template needs no event loop for it.
_HOMES = {
    "Backend": "spans",
    "Emit": "spans",
    "OpenTelemetry": "otel",
    "RunSpans": "run",
    "Span": "spans",
    "Tracer": "spans",
    "Tracy": "tracy",
    "console": "terminal",
    "current_span": "spans",
    "redact": "plain",
    "run_spans": "run",
    "span": "spans",
    "to_dict": "plain",
    "trace": "decorator",
}

__all__ = [*_HOMES]  # the table above is the list


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ronda.trace' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"ronda.trace.{home}"), name)
    globals()[name] = value
    return value
