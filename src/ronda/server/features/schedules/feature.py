"""Schedules: rows that are due → background runs, each begun once over all processes that share the catalog.

A schedule holds the body of a Responses request. When it fires, the request is carried out for its owner as if it had just come,
with what its API key may do by then: a key that was revoked starts nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from starlette.types import ASGIApp, Message

from ronda._extras import check_extra
from ronda.errors import BadRequest, NotFound, RondaError
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.doors.responses.create import ResponsesDoor, Seals
from ronda.server.features.contract import Chore, Feature, Figure, Line, Services
from ronda.server.features.schedules.rows import OWNED, TABLES, Firing, Missed, Schedule, ScheduleRows
from ronda.server.features.schedules.times import Cron
from ronda.server.http.auth import Caller, Unauthorized
from ronda.server.http.incoming import Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.rights import use_rights
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.admission import NameTaken, named_run
from ronda.server.services.asking import CALLER_KEY
from ronda.server.services.hosted_tools import ServerNames
from ronda.server.services.notice_sink import NoticeSink
from ronda.store import StoreError
from ronda.wire.codec.json import UNREADABLE, encode
from ronda.wire.openai_responses.resource import response_id
from ronda.wire.openai_responses.server_request import read_request

MAX_SCHEDULES: Final = 100  # of one owner
MAX_NAME: Final = 100  # characters
BY_COMMAND: Final = "command"  # in the place of a key: the operator has made it with `ronda schedule`
_MAX_BODY: Final = 256 * 1024
_DAY: Final = 86400.0
_LOOK_SECONDS: Final = 1.0
_OWN: Final = Dialect("Ronda", chat_error)

log = logging.getLogger("ronda.server")


class NewSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    cron: str
    request: Raw
    timezone: str = "UTC"
    name: str = ""
    missed: Missed = "skip"


class Schedules(Feature):
    name = "schedules"
    tables = TABLES
    owned = OWNED

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        check_extra("schedules", "--schedules")
        self._rows = ScheduleRows(services.catalog)
        self._clock: Callable[[], float] = services.clock
        self._callers, self._models, self._runs = services.callers, services.models, services.runs
        self._notices: Callable[[], NoticeSink | None] = partial(services.provided, NoticeSink)
        self._seals = Seals(services.catalog)
        self._door = ResponsesDoor(
            services.answering,
            self._seals,
            services.models,
            services.toolbox,
            lambda: services.provided(ServerNames),
            services.settings,
        )
        self._counts = dict.fromkeys(("started", "failed", "missed"), 0)

    def chores(self) -> Sequence[Chore]:
        return [Chore("the schedules", _LOOK_SECONDS, self._look)]

    def figures(self) -> Iterable[Figure]:
        for state, count in self._counts.items():
            yield Figure(
                "ronda_schedule_firings",
                count,
                {"state": state},
                "counter",
                "Firings of schedules, by what became of them.",
            )

    async def doctor(self) -> Sequence[Line]:
        missed, failed = await self._rows.went_wrong(self._clock() - _DAY)
        if not missed and not failed:
            there = len(await self._rows.all())
            return [Line("schedules", "works", f"{there} of them; none was missed or failed in the last day")]
        text = f"in the last day {missed} were missed, and {failed} could not start"
        return [Line("schedules", "partly", text, "ronda schedule")]

    # ---- firing ------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        await self.fire_due(self._clock())

    async def fire_due(self, now: float) -> None:
        """Start what is due at a time, as far as no other process does."""
        claimed = await self._rows.claim(now)
        for schedule, at, count in claimed.missed:
            self._counts["missed"] += count
            log.warning("the schedule %s was missed %d times since %s", schedule.id, count, _iso(at))
            self._tell(schedule, "schedule.missed", at, count=count)
        await asyncio.gather(*[self._fire(schedule, at) for schedule, at in claimed.firings])

    async def _fire(self, schedule: Schedule, at: float) -> None:
        name = run_name(schedule.id, at)
        run = named_run(schedule.owner, name)
        try:
            # In a context of its own: what one schedule's key may do is nothing to the next.
            await asyncio.create_task(self._start(schedule, name), context=contextvars.copy_context())
        except NameTaken:
            pass  # a process has started it, and died before it could say so
        except StoreError:
            raise  # the claim ends, and a process that reaches the database claims it again
        except (RondaError, Unauthorized) as error:
            self._counts["failed"] += 1
            log.warning("the schedule %s could not start its run: %s", schedule.id, error)
            await self._rows.settle(schedule.id, at, "failed", "", str(error))
            self._tell(schedule, "schedule.failed", at, problem=str(error)[:500])
            return
        self._counts["started"] += 1
        await self._rows.settle(schedule.id, at, "started", run, "")

    async def _start(self, schedule: Schedule, name: str) -> None:
        """The run is journaled and queued when this returns."""
        rights, key = None, ""
        if schedule.key != BY_COMMAND:
            row = await self._callers.check_caller(Caller(schedule.owner, schedule.key))
            if row is not None:
                rights, key = row.rights, row.id
        use_rights(rights)
        CALLER_KEY.set(key)
        headers = [(b"x-ronda-run", name.encode())]
        scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": headers}
        incoming = Incoming(scope, _never, owner=schedule.owner)
        incoming.key, incoming.rights = key, rights
        sealer = await self._seals.sealer(schedule.owner)
        await self._door.answer(incoming, read_request(schedule.body, sealer))

    def _tell(self, schedule: Schedule, kind: str, at: float, **data: Any) -> None:
        if (notices := self._notices()) is not None:
            notices.notify(
                schedule.owner, kind, {"schedule": schedule.id, "name": schedule.name, "at": _iso(at), **data}
            )

    # ---- /v1/schedules -----------------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        one = "/v1/schedules/{schedule_id}"
        return [
            Route("GET", "/v1/schedules", _OWN, self.list_schedules, "read"),
            Route("POST", "/v1/schedules", _OWN, self.create, "write"),
            Route("GET", one, _OWN, self.show, "read"),
            Route("DELETE", one, _OWN, self.delete, "write"),
            Route("POST", f"{one}/pause", _OWN, self.pause, "write"),
            Route("POST", f"{one}/resume", _OWN, self.resume, "write"),
        ]

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.features.schedules.operations import OPERATIONS  # few ask for the document

        return OPERATIONS

    async def list_schedules(self, request: Incoming) -> ASGIApp:
        data = await self._shown(await self._rows.all(request.owner))
        return Json(encode({"object": "list", "data": data, "has_more": False}))

    async def show(self, request: Incoming) -> ASGIApp:
        return await self._answer(await self._find(request))

    async def create(self, request: Incoming) -> ASGIApp:
        new = await request.read(_MAX_BODY, read_schedule)
        caller = await self._callers.caller_of(request)
        schedule = make_schedule(new, request.owner, caller.key, self._clock())
        asked = read_request(schedule.body, await self._seals.sealer(request.owner))
        await self._models.find(asked.model, request.owner)  # refused now, and not at night
        if not await self._rows.add(schedule, MAX_SCHEDULES):
            raise BadRequest(
                f"there are {MAX_SCHEDULES} schedules already, which is the limit; delete one with "
                "DELETE /v1/schedules/ID",
                code="too_many_schedules",
            )
        return await self._answer(schedule, 201)

    async def delete(self, request: Incoming) -> ASGIApp:
        schedule = await self._find(request)
        await self._rows.remove(schedule.id, request.owner)
        return Json(encode({"object": "schedule.deleted", "id": schedule.id, "deleted": True}))

    async def pause(self, request: Incoming) -> ASGIApp:
        """It fires no more until it is resumed."""
        return await self._set_due(request, lambda schedule: None)

    async def resume(self, request: Incoming) -> ASGIApp:
        """From now on: what it would have fired meanwhile was not missed."""
        return await self._set_due(request, lambda schedule: next_due(schedule, self._clock()))

    async def _set_due(self, request: Incoming, due_of: Callable[[Schedule], float | None]) -> ASGIApp:
        schedule = await self._find(request)
        due = due_of(schedule)
        await self._rows.set_due(schedule.id, due, request.owner)
        return await self._answer(msgspec.structs.replace(schedule, due=due))

    async def _find(self, request: Incoming) -> Schedule:
        schedule_id = request.places["schedule_id"]
        for schedule in await self._rows.all(request.owner):
            if schedule.id == schedule_id:
                return schedule
        raise NotFound(
            f"there is no schedule '{schedule_id[:100]}'; GET /v1/schedules lists those there are", param="schedule_id"
        )

    async def _answer(self, schedule: Schedule, status: int = 200) -> ASGIApp:
        [shown] = await self._shown([schedule])
        return Json(encode(shown), status)

    async def _shown(self, schedules: Sequence[Schedule]) -> list[dict[str, Any]]:
        firings = await self._rows.firings([one.id for one in schedules])
        return [_shown(one, firings[one.id]) for one in schedules]


def read_schedule(body: bytes) -> NewSchedule:
    """Raises BadRequest."""
    try:
        return msgspec.json.decode(body, type=NewSchedule)
    except UNREADABLE as error:
        raise BadRequest(
            f'the body does not fit: {error}; it is {{"cron": "0 9 * * 1-5", "request": {{"model": …, "input": …}}}}'
        ) from error


def make_schedule(new: NewSchedule, owner: str, key: str, now: float) -> Schedule:
    """Raises BadRequest for times that cannot be, and for a request that cannot be queued."""
    if len(new.name) > MAX_NAME or not new.name.isprintable():
        raise BadRequest(f"'name' has at most {MAX_NAME} characters, and all of them can be printed", param="name")
    try:
        fields = msgspec.json.decode(new.request, type=dict[str, Raw])
    except UNREADABLE as error:
        raise BadRequest(f"'request' is no body of POST /v1/responses: {error}", param="request") from error
    for name in ("stream", "background", "store"):
        if name in fields:
            raise BadRequest(
                f"'request' cannot say '{name}': its runs are in the background, and kept", param="request"
            )
    fields["background"] = Raw(b"true")
    schedule_id = f"schedule_{secrets.token_hex(8)}"
    schedule = Schedule(schedule_id, owner, key, new.name, new.cron, new.timezone, new.missed, encode(fields), now)
    due = next_due(schedule, now)
    if due is None:
        raise BadRequest(f"'cron' is {new.cron[:100]!r}: there is no such date in the next years", param="cron")
    return msgspec.structs.replace(schedule, due=due)


def next_due(schedule: Schedule, now: float) -> float | None:
    return Cron(schedule.cron, schedule.timezone).after(now)


def run_name(schedule_id: str, at: float) -> str:
    """As clients name runs (`X-Ronda-Run`): the same for the same firing, whichever process starts it."""
    return f"run_{blake2b(f'{schedule_id} {at:.0f}'.encode(), digest_size=16).hexdigest()}"


def _shown(schedule: Schedule, firings: Sequence[Firing]) -> dict[str, Any]:
    return {
        "object": "schedule",
        "id": schedule.id,
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "missed": schedule.missed,
        "request": Raw(schedule.body),
        "created_at": schedule.created,
        "next_at": schedule.due,
        "firings": [
            {
                "at": one.at,
                "state": one.state,
                "run": one.run or None,
                "response": response_id(one.run) if one.run else None,
                "problem": one.problem or None,
                "count": one.count,
            }
            for one in firings
        ],
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


async def _never() -> Message:
    """No client waits, so none leaves."""
    never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    return await never
