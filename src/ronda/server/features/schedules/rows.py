"""Schedules and their firings, in tables of the catalog.

    schedule           whose, when, what; `due` is when it fires next
    schedule_firing    (schedule, time) → what has become of it: claimed, started, failed or missed

A firing is claimed in one transaction, of which one is under way at a time wherever its process is: no two processes claim the
same. If a process dies before its run has begun, the claim ends, and another process claims the firing again. A run has a name
that is made from its firing, so the second start of one finds the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

from ronda.errors import BadRequest
from ronda.server.features.schedules.times import Cron
from ronda.store.owners import OwnerRows
from ronda.store.sql import Sql, TableStore

TABLES: Final = (
    (
        """CREATE TABLE schedule (
            id {text} PRIMARY KEY, owner {text}, key {text}, name {text}, cron {text}, timezone {text}, missed {text},
            body {bytes}, created {number}, due {any_number}
        ){by_key}""",
        "CREATE INDEX schedule_owner ON schedule (owner, created)",
        "CREATE INDEX schedule_due ON schedule (due)",
        """CREATE TABLE schedule_firing (
            schedule {text}, at {number}, state {text}, claim_ends {number}, run {text}, problem {text}, count {big},
            PRIMARY KEY (schedule, at)
        ){by_key}""",
        "CREATE INDEX schedule_firing_state ON schedule_firing (state, claim_ends)",
    ),
)

OWNED: Final = (
    OwnerRows("schedule_firing", "schedule IN (SELECT id FROM schedule WHERE owner = :owner)"),
    OwnerRows("schedule"),
)

Missed: TypeAlias = Literal["skip", "once", "all"]
State: TypeAlias = Literal["claimed", "started", "failed", "missed"]

ON_TIME: Final = 60.0  # seconds: a firing that is later than this was missed, since no server was there
CLAIM_SECONDS: Final = 60.0  # until a firing that its process has not started is another's
MAX_MADE_UP: Final = 24  # firings that `missed="all"` makes up at once; earlier ones stay missed
MAX_COUNTED: Final = 10_000  # missed firings that are counted: a week of every minute. Later ones only of the last day
_DAY: Final = 86400.0
_MAX_KEPT: Final = 50  # firings of a schedule
_AT_ONCE: Final = 50  # schedules of one look
_ALONE: Final = "schedules"
_COLUMNS: Final = "id, owner, key, name, cron, timezone, missed, body, created, due"


class Schedule(Struct, frozen=True):
    """`key`: the API key that it was made with, as processes name callers to each other. `due` None: it is paused, or over."""

    id: str
    owner: str
    key: str
    name: str
    cron: str
    timezone: str
    missed: Missed
    body: bytes
    created: float
    due: float | None = None


class Firing(Struct, frozen=True):
    schedule: str
    at: float
    state: State
    run: str
    problem: str
    count: int  # of those that were missed in a row from `at` on


class Claimed(Struct, frozen=True):
    """What this process is to start, and what no process has."""

    firings: tuple[tuple[Schedule, float], ...] = ()
    missed: tuple[tuple[Schedule, float, int], ...] = ()  # from when on, and how many


class ScheduleRows(TableStore):
    async def add(self, schedule: Schedule, max_schedules: int) -> bool:
        """False if the owner has as many as there may be."""

        def add(db: Sql) -> bool:
            (there,) = db.execute("SELECT count(*) FROM schedule WHERE owner = ?", (schedule.owner,)).fetchone()
            if there >= max_schedules:
                return False
            values = tuple([getattr(schedule, name) for name in _COLUMNS.split(", ")])
            db.execute(f"INSERT INTO schedule ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            return True

        return await self._tables.write(add, _ALONE)

    async def all(self, owner: str | None = None) -> list[Schedule]:
        """Of one owner, or of every owner; the oldest first."""
        where, values = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
        rows = await self._rows(f"SELECT {_COLUMNS} FROM schedule {where} ORDER BY created, id", values)
        return list(map(_schedule, rows))

    async def firings(self, schedules: Sequence[str]) -> dict[str, list[Firing]]:
        """The newest first."""
        found: dict[str, list[Firing]] = {schedule: [] for schedule in schedules}
        question = (
            "SELECT schedule, at, state, run, problem, count FROM schedule_firing WHERE schedule = ? ORDER BY at DESC"
        )
        for schedule in schedules:
            found[schedule] = [Firing(*row) for row in await self._rows(question, (schedule,))]
        return found

    async def went_wrong(self, since: float) -> tuple[int, int]:
        """Of all owners: how many firings were missed, and how many failed."""
        rows = await self._rows(
            "SELECT state, SUM(count) FROM schedule_firing WHERE at >= ? AND state <> 'started' GROUP BY state",
            (since,),
        )
        counts = {state: int(count) for state, count in rows}
        return counts.get("missed", 0), counts.get("failed", 0)

    async def remove(self, schedule_id: str, owner: str | None = None) -> bool:
        """`owner` None: whosesoever it is."""

        def remove(db: Sql) -> bool:
            if not _is_there(db, schedule_id, owner):
                return False
            db.execute("DELETE FROM schedule_firing WHERE schedule = ?", (schedule_id,))
            db.execute("DELETE FROM schedule WHERE id = ?", (schedule_id,))
            return True

        return await self._tables.write(remove, _ALONE) if self._tables.is_there else False

    async def set_due(self, schedule_id: str, due: float | None, owner: str | None = None) -> bool:
        def change(db: Sql) -> bool:
            if not _is_there(db, schedule_id, owner):
                return False
            db.execute("UPDATE schedule SET due = ? WHERE id = ?", (due, schedule_id))
            return True

        return await self._tables.write(change, _ALONE) if self._tables.is_there else False

    # ---- firing ------------------------------------------------------------------------------------------------------

    async def claim(self, now: float) -> Claimed:
        """What is due, for this process only. Its schedules are due at their next times from then on."""
        if not self._tables.is_there or not await self._is_due(now):
            return Claimed()

        def claim(db: Sql) -> Claimed:
            firings: list[tuple[Schedule, float]] = []
            missed: list[tuple[Schedule, float, int]] = []
            left = db.execute(
                "SELECT schedule, at FROM schedule_firing WHERE state = 'claimed' AND claim_ends < ?", (now,)
            ).fetchall()
            for schedule_id, at in left:
                row = db.execute(f"SELECT {_COLUMNS} FROM schedule WHERE id = ?", (schedule_id,)).fetchone()
                db.execute(
                    "UPDATE schedule_firing SET claim_ends = ? WHERE schedule = ? AND at = ?",
                    (now + CLAIM_SECONDS, schedule_id, at),
                )
                firings.append((_schedule(row), at))
            question = f"SELECT {_COLUMNS} FROM schedule WHERE due <= ? ORDER BY due LIMIT ?"
            for schedule in map(_schedule, db.execute(question, (now, _AT_ONCE)).fetchall()):
                due, late, following = _due(schedule, now)
                db.execute("UPDATE schedule SET due = ? WHERE id = ?", (following, schedule.id))
                for at in due:
                    _put(db, Firing(schedule.id, at, "claimed", "", "", 1), now + CLAIM_SECONDS)
                    firings.append((schedule, at))
                if late:
                    _put(db, Firing(schedule.id, late[0], "missed", "", "no server was there", len(late)), 0.0)
                    missed.append((schedule, late[0], len(late)))
                _forget(db, schedule.id)
            return Claimed(tuple(firings), tuple(missed))

        return await self._tables.write(claim, _ALONE)

    async def _is_due(self, now: float) -> bool:
        """Asked every second, by every process: a look costs no lock."""
        question = """SELECT 1 FROM schedule WHERE due <= ? UNION ALL
            SELECT 1 FROM schedule_firing WHERE state = 'claimed' AND claim_ends < ? LIMIT 1"""
        return bool(await self._rows(question, (now, now)))

    async def settle(self, schedule_id: str, at: float, state: State, run: str, problem: str) -> None:
        await self._change(
            "UPDATE schedule_firing SET state = ?, run = ?, problem = ? WHERE schedule = ? AND at = ?",
            (state, run, problem[:500], schedule_id, at),
        )


def _due(schedule: Schedule, now: float) -> tuple[list[float], list[float], float | None]:
    """The times that are to fire now, those that were missed, and the next."""
    try:
        cron = Cron(schedule.cron, schedule.timezone)
    except BadRequest:  # its zone is not known any more
        return [], [], None
    assert schedule.due is not None
    past = [schedule.due, *islice(_until(now, cron.times(schedule.due)), MAX_COUNTED)]
    if len(past) > MAX_COUNTED:  # the newest count in any case: one of them may be on time
        past += [at for at in _until(now, cron.times(now - _DAY)) if at > past[-1]]
    late = [at for at in past if at < now - ON_TIME]
    due = past[len(late) :]
    if late and schedule.missed != "skip":
        made_up = 1 if schedule.missed == "once" else MAX_MADE_UP
        late, due = late[:-made_up], [*late[-made_up:], *due]
    return due, late, cron.after(now)


def _until(now: float, times: Iterator[float]) -> Iterator[float]:
    return takewhile(lambda at: at <= now, times)


def _put(db: Sql, firing: Firing, claim_ends: float) -> None:
    db.execute(
        """INSERT INTO schedule_firing (schedule, at, state, claim_ends, run, problem, count) VALUES (?, ?, ?, ?, ?, ?, ?)
           ON CONFLICT (schedule, at) DO NOTHING""",
        (firing.schedule, firing.at, firing.state, claim_ends, firing.run, firing.problem, firing.count),
    )


def _forget(db: Sql, schedule: str) -> None:
    rows = db.execute("SELECT at FROM schedule_firing WHERE schedule = ? ORDER BY at DESC", (schedule,)).fetchall()
    if len(rows) > _MAX_KEPT:
        oldest = rows[_MAX_KEPT - 1][0]
        db.execute(
            "DELETE FROM schedule_firing WHERE schedule = ? AND at < ? AND state <> 'claimed'", (schedule, oldest)
        )


def _is_there(db: Sql, schedule_id: str, owner: str | None) -> bool:
    row = db.execute("SELECT owner FROM schedule WHERE id = ?", (schedule_id,)).fetchone()
    return row is not None and (owner is None or row[0] == owner)


def _schedule(row: Any) -> Schedule:
    values = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return Schedule(**{**values, "body": bytes(values["body"])})
