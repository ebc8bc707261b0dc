"""Settings of the figures for Prometheus."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_metrics = partial(Setting, "figures for Prometheus")


class MetricsOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """`enabled`: at /metrics of the server's own port. `port`: on a port of this machine only. `owners`: how many
    owners are told apart; 0 names none."""

    enabled: bool = False
    port: int | None = None
    owners: int = 0


class MetricsSettings(Struct, frozen=True):
    metrics: Annotated[
        MetricsOptions,
        _metrics(
            "",
            "figures for Prometheus: enabled, port, owners; see [figures](operate.md#figures-for-prometheus)",
            members={
                "enabled": _metrics("--metrics", "serve figures at /metrics of the server's own port"),
                "port": _metrics("--metrics-port N", "serve figures on this port of this machine, at /metrics"),
                "owners": _metrics("--metrics-owners N", "how many owners have figures of their own"),
            },
        ),
    ] = MetricsOptions()
