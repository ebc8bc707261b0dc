"""A cron expression and a time zone → the times at which it fires, in seconds since 1970.

`croniter` is asked for times of a clock on the wall, which knows no summer. Each of them becomes a moment here: one that the
clocks of the zone skip is the first moment after the gap, and one that they show twice is the first of the two. So a daily run
comes once a day, on the two odd days of a year, too. (`croniter` with time zones of its own skips or repeats some of these.)
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ronda.errors import BadRequest

MAX_CRON: Final = 200  # characters: a list of every minute of an hour has 170
_MAX_YEARS: Final = 8  # without a time: the 29th of February may be so far away, and nothing else is
_DETAIL: Final = timedelta(seconds=1)  # to which the end of a gap is looked for: time zones change at whole seconds


class Cron:
    """Raises BadRequest for an expression or a zone that is none."""

    def __init__(self, text: str, timezone: str) -> None:
        self.text = text
        self.zone = _zone(timezone)
        check_cron(text)

    def after(self, moment: float) -> float | None:
        """The first time after a moment; None if there is none."""
        return next(self.times(moment), None)

    def times(self, moment: float) -> Iterator[float]:
        """All times after a moment, each once."""
        from croniter import CroniterBadDateError, croniter

        wall = datetime.fromtimestamp(moment, self.zone).replace(tzinfo=None)
        ticks: Any = croniter(self.text, wall, ret_type=datetime, max_years_between_matches=_MAX_YEARS)
        last = moment
        while True:
            try:
                found = self._moment(ticks.get_next(datetime))
            except (CroniterBadDateError, OverflowError):
                return
            if found > last:  # else the clocks show it for the second time, or another time led to the same moment
                last = found
                yield found

    def _moment(self, wall: datetime) -> float:
        there = wall.replace(tzinfo=self.zone, fold=0)
        if _wall(there.astimezone(UTC), self.zone) == wall:
            return there.timestamp()
        # The clocks skip it. Read with the offsets of before and of after the gap, it lies on both sides of the gap's end.
        late = there.timestamp()
        early = wall.replace(tzinfo=self.zone, fold=1).timestamp()
        while late - early > _DETAIL.total_seconds():
            middle = (early + late) // 2
            if _wall(datetime.fromtimestamp(middle, UTC), self.zone) < wall:
                early = middle
            else:
                late = middle
        return late


def check_cron(text: str) -> None:
    from croniter import croniter

    words = text.split()
    problem = ""
    if len(text) > MAX_CRON:
        problem = f"it has more than {MAX_CRON} characters"
    elif len(words) != 5 and not (len(words) == 1 and text.startswith("@")):
        problem = "it has five fields: minute, hour, day of the month, month, day of the week"
    elif any(word[:1] in "RrHh" for word in words if not text.startswith("@")):
        problem = "fields that are left to chance would differ from process to process"
    elif not croniter.is_valid(text):
        problem = "a field is out of its range, or no date ever fits"
    if problem:
        raise BadRequest(
            f"'cron' is {text[:100]!r}: {problem}; '0 9 * * 1-5' is nine o'clock on weekdays", param="cron"
        )


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadRequest(
            f"'timezone' is {name[:100]!r}, which is no time zone that is known here; 'Europe/Berlin' is one",
            param="timezone",
        ) from None


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
