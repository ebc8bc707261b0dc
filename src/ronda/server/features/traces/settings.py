"""Settings of traces. Where they go is said by OpenTelemetry's own variables, `OTEL_EXPORTER_OTLP_ENDPOINT` and the like."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_traces = partial(Setting, "traces")


class TracesSettings(Struct, frozen=True):
    otel: Annotated[
        bool,
        _traces(
            "--otel",
            "send traces and metrics of runs to a collector of OpenTelemetry; the variables OTEL_* say where and how",
            details="See [traces](operate.md#traces).",
        ),
    ] = False
    otel_content: Annotated[
        bool,
        _traces(
            "--otel-content", "with --otel: send messages, arguments and results, too; without it, no content is sent"
        ),
    ] = False
