"""Settings of schedules."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Struct

from ronda.server.setting import Setting

_schedules = partial(Setting, "schedules")


class SchedulesSettings(Struct, frozen=True):
    schedules: Annotated[
        bool,
        _schedules(
            "--schedules",
            "start runs by the clock, as POST /v1/schedules and 'ronda schedule add' say",
            details="See [schedules](operate.md#schedules).",
        ),
    ] = False
