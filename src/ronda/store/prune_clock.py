"""The time by which old entries are forgotten. It follows the system's clock a little at a time.

A clock that is once 40 days ahead (a wrong time server, a machine that wakes up wrong) would make everything too old at once. So
a store keeps the time of its last pruning, and the next one is at most `STEP` and the time that this process has measured since
later. The first goes by the newest entry, and by the time at which the store was opened: a clock that jumps in between may have
dated the newest entry itself. When the clock is right again, little is lost; where weeks have really passed, what is
too old goes in the course of a day.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from ronda.store.sql import Sql

STEP: Final = 6 * 3600.0  # seconds; entries are pruned at most every ten minutes
TABLE: Final = "CREATE TABLE prune_clock (what {text} PRIMARY KEY, at {number})"

_log = logging.getLogger(__name__)


class PruneClock:
    """Of one kind of entries: `what` names it in the table and in the log."""

    def __init__(
        self,
        what: str,
        opened: float,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        table: str = "prune_clock",
    ) -> None:
        self._what = what
        self._opened = opened
        self._table = table
        self._monotonic = monotonic
        self._advanced: float | None = None  # when, by the time that this process measures
        self._is_reported = False

    def advance(self, db: Sql, now: float, newest: float | None) -> float:
        """The time to prune by, in the caller's transaction; `newest` is when the newest entry came, None if there is none."""
        row = db.execute(f"SELECT at FROM {self._table} WHERE what = ?", (self._what,)).fetchone()
        before: float | None = row[0] if row is not None else None if newest is None else min(newest, self._opened)
        measured = self._monotonic()
        passed = 0.0 if self._advanced is None else measured - self._advanced
        at = now if before is None else min(now, before + STEP + passed)
        self._report(now - at)
        self._advanced = measured
        statement = (
            f"INSERT INTO {self._table} (what, at) VALUES (?, ?) ON CONFLICT (what) DO UPDATE SET at = excluded.at"
        )
        db.execute(statement, (self._what, at))
        return at

    def _report(self, ahead: float) -> None:
        if ahead <= 0:
            self._is_reported = False
        elif not self._is_reported:
            self._is_reported = True
            _log.warning(
                "the clock is %.1f days ahead of what was kept last, so old %s are forgotten a little at a time; check the clock",
                ahead / 86400,
                self._what,
            )
