"""`ronda schedule`: runs that servers with --schedules start by the clock."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Raw

from ronda._extras import check_extra
from ronda.cli.storage import Storage, open_storage
from ronda.cli.table import local_time, print_table
from ronda.errors import BadConfig, BadRequest
from ronda.server.features.schedules.feature import BY_COMMAND, MAX_SCHEDULES, NewSchedule, make_schedule, next_due
from ronda.server.features.schedules.rows import TABLES, Firing, Schedule, ScheduleRows
from ronda.wire.codec.json import encode


def schedule(arguments: argparse.Namespace) -> int:
    check_extra("schedules", "'ronda schedule'")
    asyncio.run(_with_rows(arguments))
    return 0


async def _with_rows(arguments: argparse.Namespace) -> None:
    async with open_storage(arguments, "schedules") as storage:
        storage.catalog.add_tables("schedules", TABLES)
        rows = ScheduleRows(storage.catalog)
        match arguments.action:
            case "add":
                await _add(rows, arguments, storage.clock())
            case "remove":
                await _change(rows.remove(_id(arguments)), arguments.id, "is removed")
            case "pause":
                await _change(rows.set_due(_id(arguments), None), arguments.id, "is paused")
            case "resume":
                await _resume(rows, arguments, storage)
            case _:
                await _show(rows, arguments)


async def _add(rows: ScheduleRows, arguments: argparse.Namespace, now: float) -> None:
    if arguments.cron is None or arguments.input is None:
        raise BadConfig('when, and what? \'ronda schedule add --cron "0 9 * * 1-5" --input "What is new?"\'')
    request = {"model": arguments.model or "default", "input": arguments.input}
    if arguments.session is not None:
        request["session_id"] = arguments.session
    new = NewSchedule(arguments.cron, Raw(encode(request)), arguments.timezone, arguments.name, arguments.missed)
    try:
        made = make_schedule(new, arguments.owner or "", BY_COMMAND, now)
    except BadRequest as error:
        raise BadConfig(str(error)) from error
    if not await rows.add(made, MAX_SCHEDULES):
        raise BadConfig(f"this owner has {MAX_SCHEDULES} schedules already, which is the limit: remove one first")
    print(made.id)  # by itself, so that a script can take it
    print(f"servers with --schedules start it first at {_next(made)}", file=sys.stderr)


async def _resume(rows: ScheduleRows, arguments: argparse.Namespace, storage: Storage) -> None:
    schedule_id = _id(arguments)
    for one in await rows.all():
        if one.id == schedule_id:
            await rows.set_due(schedule_id, next_due(one, storage.clock()))
            print(f"the schedule {schedule_id} is resumed", file=sys.stderr)
            return
    raise _unknown(schedule_id)


async def _change(changed: Awaitable[bool], schedule_id: str, done: str) -> None:
    if not await changed:
        raise _unknown(schedule_id)
    print(f"the schedule {schedule_id} {done}", file=sys.stderr)


def _id(arguments: argparse.Namespace) -> str:
    if arguments.id is None:
        raise BadConfig("which schedule? Say its ID, as 'ronda schedule' shows it")
    return str(arguments.id)


def _unknown(schedule_id: str) -> BadConfig:
    return BadConfig(f"there is no schedule '{schedule_id[:100]}'; 'ronda schedule' shows the IDs of those there are")


async def _show(rows: ScheduleRows, arguments: argparse.Namespace) -> None:
    found = await rows.all(arguments.owner)
    if not found:
        print("no schedules yet: 'ronda schedule add' makes one")
        return
    firings = await rows.firings([one.id for one in found])
    lines = [("ID", "OWNER", "NAME", "CRON", "ZONE", "NEXT", "LAST")]
    lines += [
        (one.id, one.owner or "-", one.name or "-", one.cron, one.timezone, _next(one), _last(firings[one.id]))
        for one in found
    ]
    print_table(lines)


def _next(one: Schedule) -> str:
    """By the clocks of its zone."""
    if one.due is None:
        return "paused"
    return datetime.fromtimestamp(one.due, ZoneInfo(one.timezone)).strftime("%Y-%m-%d %H:%M %Z")


def _last(firings: list[Firing]) -> str:
    if not firings:
        return "-"
    last = firings[0]
    said = last.run or last.problem
    return f"{local_time(last.at)} {last.state}{said and f' {said[:80]}'}"
