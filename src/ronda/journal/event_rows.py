"""What both databases do alike with the rows of runs: rows of `event` become events, and rows of `run` a page of a list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import asdict

from ronda.core.events import Event, RunStarted
from ronda.journal import RunPage, RunQuery, RunSummary, UnfinishedRun
from ronda.store import StoreError
from ronda.store.sql import Sql

_log = logging.getLogger(__name__)


class DamagedRun(StoreError):
    """A row of a run that cannot be read."""

    def __init__(self, place: str, run: str, number: int, why: object) -> None:
        super().__init__(place, f"event {number} of run {run!r} cannot be read: {why}")


class TornRow(DamagedRun):
    """A row that was not written to its end. `events` are those before it."""

    def __init__(self, place: str, run: str, events: list[Event], why: object) -> None:
        super().__init__(place, run, len(events), why)
        self.events = events


def read_events(
    place: str,
    run: str,
    rows: Iterable[tuple[int, bytes]],
    decode: Callable[[bytes], list[Event]],
    restore_start: Callable[[Event], Event],
) -> list[Event]:
    """Rows of a number and a body, in order. Raises DamagedRun where one is missing or cannot be read."""
    events: list[Event] = []
    for number, body in rows:
        try:
            if number != len(events):
                raise LookupError("it is not there")
            some = decode(body)
            if number == 0:
                some[0] = restore_start(some[0])
        except msgspec.ValidationError as error:
            # Good JSON, but no event known here: to drop it would lose what a newer Ronda wrote.
            raise DamagedRun(place, run, number, f"{error}; was it written by a newer Ronda?") from error
        except (msgspec.DecodeError, UnicodeError) as error:
            raise TornRow(place, run, events, error) from error
        except LookupError as error:
            raise DamagedRun(place, run, len(events), error) from error
        events += some
    return events


def read_unfinished(runs: Iterable[tuple[str, bool]], read: Callable[[str], list[Event]]) -> list[UnfinishedRun]:
    """Those of these runs that can be read. Each is a name, and whether it waits for people."""
    unfinished = []
    for run, is_waiting in runs:
        try:
            events = read(run)
        except StoreError as error:  # one that cannot be read must not keep the others from going on
            _log.error("left alone: %s", error)
            continue
        if events and type(start := events[0]) is RunStarted:
            unfinished.append(UnfinishedRun(run, len(events), start, is_waiting))
    return unfinished


_PAGE: Final = """SELECT id, name, session, agent, coalesce(state, 'running'), started, ended FROM run
    WHERE id < :before AND owner = :owner AND (CAST(:state AS TEXT) IS NULL OR coalesce(state, 'running') = :state)
        AND (CAST(:session AS TEXT) IS NULL OR session = :session) AND (CAST(:agent AS TEXT) IS NULL OR agent = :agent)
        AND {is_named}
    ORDER BY id DESC LIMIT :limit"""


def list_runs(db: Sql, query: RunQuery, is_named: str, write_names: Callable[[tuple[str, ...]], object]) -> RunPage:
    """One page of an owner's runs, backwards by id. Lists of names are the database's own: the condition that a name is
    one of `:among` and none of `:without`, and what is written for these."""
    values = asdict(query) | {
        "before": 2**63 - 1 if query.before is None else query.before,
        "limit": query.limit + 1,
        "among": None if query.among is None else write_names(query.among),
        "without": write_names(query.without),
    }
    rows = db.execute(_PAGE.format(is_named=is_named), values).fetchall()
    limit = query.limit
    runs = [RunSummary(*row[1:]) for row in rows[:limit]]
    return RunPage(runs, rows[limit - 1][0] if len(rows) > limit else None)
