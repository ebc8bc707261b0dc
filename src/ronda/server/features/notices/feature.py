"""Notices: facts of runs → rows in the catalog → signed requests to addresses that the runs' owner has named.

    run.finished  run.failed  run.waiting      of every run, but for those that are calls of another
    response.completed  .failed  .incomplete  .cancelled    of background responses, in OpenAI's words
    budget.warning  budget.exhausted           from who counts what an owner spends (`services.notice_sink`)
    schedule.missed  schedule.failed           from who starts runs by the clock

They go to the addresses that the owner has named for all runs (`POST /v1/notices`), and to the one that a request names for its
own (`x-ronda-notify`). A notice says what happened to which run, and nothing of what was said in it. It is signed as Standard
Webhooks are (standardwebhooks.com), and sent until the address takes it: at least once, by one process of those that share the
catalog.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Raw, Struct
from starlette.types import ASGIApp

from ronda.core.events import Asked, Budget, Event, ModelFinished, RunFinished, RunStarted
from ronda.core.run import Run
from ronda.errors import BadRequest, NotFound
from ronda.host.extension import Tap
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.budgets.settings import BudgetSettings
from ronda.server.features.contract import Chore, Feature, Line, Services
from ronda.server.features.notices.rows import OWNED, TABLES, Due, NewNotice, NoticeAddress, NoticeRows, Undelivered
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.notice_sink import NoticeSink
from ronda.wire.codec.json import UNREADABLE, encode
from ronda.wire.openai_responses.resource import StoredOptions

if TYPE_CHECKING:
    from ronda.tools.fetch.fetcher import Fetcher

KINDS: Final = (
    "run.finished", "run.failed", "run.waiting", "response.completed", "response.failed", "response.incomplete",
    "response.cancelled", "budget.warning", "budget.exhausted", "schedule.missed", "schedule.failed",
)  # fmt: skip
# Seconds before the next try; after the last of them a notice is given up. As standardwebhooks.com recommends: over three days.
WAITS: Final = (5.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0, 50400.0, 72000.0, 86400.0)
MAX_ADDRESSES: Final = 20  # of one owner
_MAX_URL: Final = 2000  # characters: what servers commonly take
_MAX_BODY: Final = 65_536
_WARNED: Final = 0.8  # of a budget: what is left is enough to act upon
_MAX_TOLD: Final = 10_000  # budgets that are remembered; beyond them a notice may come twice
# Notices that are on their way at a time: an address may take its time, and then no other waits for it.
_AT_ONCE: Final = 100
_OF_OWNER: Final = 10
_OF_ADDRESS: Final = 2
_GONE: Final = "HTTP 410"  # Standard Webhooks: the address wants no more of it
_SECONDS: Final = 15.0  # that an address may take: as standardwebhooks.com recommends
_LOOK_SECONDS: Final = 1.0
_KEPT_SECONDS: Final = 7 * 86400.0  # of what was given up
_TOLD_SECONDS: Final = 35 * 86400.0  # for which a fact is not told again: longer than a month, which budgets may last
_SECRET: Final = "notices"  # the catalog's secret that all others are made from
NOTIFY: Final = b"x-ronda-notify"  # of a request: the address that hears of its runs …
NOTIFY_EVENTS: Final = b"x-ronda-notify-events"  # … and of which events; all, unless it says
_STATE: Final = "notify"  # where a run keeps both
_OWN: Final = Dialect("Ronda", chat_error)
_NOT_KEPT: Final[Header] = (b"cache-control", b"no-store")
_RESPONSES: Final = {"limit": "incomplete", "failed": "failed", "interrupted": "failed", "cancelled": "cancelled"}


class _NewAddress(Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    events: tuple[str, ...] = ()  # none: all


class RequestAddress(Struct, frozen=True):
    """Where a request wants to hear of its own runs; kept in their first fact."""

    url: str
    events: tuple[str, ...] = ()


_current: ContextVar[Mapping[str, Raw]] = ContextVar("ronda_notify", default=MappingProxyType({}))


class Notices(Feature):
    name = "notices"
    tables = TABLES
    owned = OWNED

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._catalog, self._clock, self._supervisor = services.catalog, services.clock, services.supervisor
        self._rows = NoticeRows(services.catalog)
        self._settings = settings
        self._fetcher: Fetcher | None = None
        self._keeping: set[asyncio.Task[None]] = set()
        self._sending: set[str] = set()  # ids of notices that are on their way
        timezone = settings.part(BudgetSettings).budgets.timezone
        self._zone = UTC if timezone == "UTC" else ZoneInfo(timezone)
        self._told: set[str] = set()  # budgets that notices were sent of: most calls need not ask the catalog

    def provides(self) -> Mapping[type, object]:
        return {NoticeSink: self}

    def chores(self) -> Sequence[Chore]:
        return [
            Chore("the sending of notices", _LOOK_SECONDS, self.send_due, per="all"),
            Chore("the forgetting of notices", 3600.0, self.forget, per="all"),
        ]

    async def doctor(self) -> Sequence[Line]:
        again, given_up = await self._rows.not_taken()
        if not again and not given_up:
            return [Line("notices", "works", "every notice was taken")]
        text = f"{again} were not taken yet, {given_up} were given up"
        return [Line("notices", "partly", text, "GET /v1/notices tells each owner why")]

    # ---- the address of a request ------------------------------------------------------------------------------------

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        """The address is checked before anything is started."""
        _current.set({})
        url = request.header(NOTIFY)
        if url is None or route.scope != "run":
            return ()
        words = [word.strip() for word in (request.header(NOTIFY_EVENTS) or "").split(",")]
        address = RequestAddress(url, tuple([word for word in words if word]))
        _check_url(url, NOTIFY.decode())
        _check_kinds(address.events, NOTIFY_EVENTS.decode())
        await self._check_reachable(url, NOTIFY.decode())
        _current.set({_STATE: Raw(encode(msgspec.to_builtins(address)))})
        return ()

    def run_state(self) -> Mapping[str, Raw]:
        return _current.get()

    # ---- what is worth a notice --------------------------------------------------------------------------------------

    def tap(self, run: Run) -> Tap | None:
        start = run.start
        if start.call:  # it is a call of another run, whose end is reported
            return None

        def take(facts: Sequence[Event]) -> None:
            for fact in facts:
                if isinstance(fact, RunFinished):
                    self._finished(start, fact)
                elif isinstance(fact, ModelFinished) and fact.budget is not None:
                    self.budget_used(start, fact.budget, is_exhausted=False)
                elif isinstance(fact, Asked):
                    data = {**_about(start), "question": fact.id, "tool": fact.tool}
                    self._send(start.owner, "run.waiting", data, f"{start.run} {fact.id}", _address_of(start))

        return take

    def _finished(self, start: RunStarted, end: RunFinished) -> None:
        kind = "run.failed" if end.reason in ("failed", "interrupted") else "run.finished"
        data = {**_about(start), "reason": end.reason, "code": end.code}
        address = _address_of(start)
        self._send(start.owner, kind, data, f"{start.run} {kind}", address)
        if start.outlives and StoredOptions.key in start.about:
            name = f"response.{_RESPONSES.get(end.reason, 'completed')}"
            response = {"id": start.run.replace("run_", "resp_", 1)}
            self._send(start.owner, name, response, f"{start.run} {name}", address)

    def budget_used(self, start: RunStarted, budget: Budget, *, is_exhausted: bool) -> None:
        share = budget.spent / budget.limit if budget.limit else 1.0
        if share >= 1 or is_exhausted:
            kind = "budget.exhausted"
        elif share >= _WARNED:
            kind = "budget.warning"
        else:
            return
        of = {"run": start.run, "session": start.session}.get(budget.scope, "")
        day = datetime.fromtimestamp(self._clock(), self._zone)  # in which the ledger counts days, too
        period = {"day": f"{day:%Y-%m-%d}", "week": f"{day:%G-%V}", "month": f"{day:%Y-%m}"}.get(budget.per, "")
        known_by = f"{start.owner} {kind} {budget.scope} {of} {budget.per} {period} {budget.unit} {budget.limit}"
        if known_by in self._told:
            return
        if len(self._told) >= _MAX_TOLD:
            self._told.clear()
        self._told.add(known_by)
        data = {
            "scope": budget.scope,
            "per": budget.per,
            "unit": budget.unit,
            "limit": budget.limit,
            "spent": budget.spent,
        }
        self._send(start.owner, kind, {**data, "remaining": budget.remaining, "run": start.run}, known_by)

    def notify(self, owner: str, kind: str, data: Mapping[str, Any]) -> None:
        self._send(owner, kind, data, secrets.token_hex(12))

    def _send(
        self, owner: str, kind: str, data: Mapping[str, Any], known_by: str, named: RequestAddress | None = None
    ) -> None:
        task = self._supervisor.do("the keeping of a notice", self._keep(owner, kind, data, known_by, named))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def runs_ended(self) -> None:
        """What the last runs had to tell is kept before the server ends."""
        if self._keeping:
            await asyncio.wait(set(self._keeping))

    async def _keep(
        self, owner: str, kind: str, data: Mapping[str, Any], known_by: str, named: RequestAddress | None
    ) -> None:
        """A row for each address that wants it. A fact that is told twice is one notice: its id is made from it."""
        now = self._clock()
        wanting = [one for one in await self._rows.addresses(owner) if not one.kinds or kind in one.kinds]
        of_request: NoticeAddress | None = None
        if named is not None and (not named.events or kind in named.events):
            of_request = NoticeAddress(f"request_{_digest(f'{owner} {named.url}')}", owner, named.url, (), now)
            wanting.append(of_request)
        rows = []
        for address in wanting:
            notice_id = "evt_" + _digest(f"{address.id} {known_by}")
            rows.append(NewNotice(notice_id, address.id, kind, _body(notice_id, kind, data, now), now))
        await self._rows.add(rows, of_request)

    # ---- on their way ------------------------------------------------------------------------------------------------

    async def send_due(self) -> list[asyncio.Task[None]]:
        """Begin to send what is due, and wait for no address. What was begun earlier, and has not ended, is not begun again."""
        under_way = set(self._sending)  # of before the question: what ends during it was still due when it was asked
        due = await self._rows.due(self._clock(), _AT_ONCE, of_owner=_OF_OWNER, of_address=_OF_ADDRESS)
        begun = []
        for one in due:
            if one.id in under_way or len(self._sending) >= _AT_ONCE:
                continue
            self._sending.add(one.id)
            begun.append(self._supervisor.do("the sending of a notice", self._deliver(one)))
        return begun

    async def _deliver(self, due: Due) -> None:
        try:
            problem = await self._post(due)
            if problem is None:
                await self._rows.delivered(due.id)
            else:
                wait = WAITS[due.tries] if due.tries < len(WAITS) and problem != _GONE else None
                await self._rows.failed(due.id, problem, None if wait is None else self._clock() + wait)
        finally:
            self._sending.discard(due.id)

    async def forget(self) -> None:
        now = self._clock()
        await self._rows.forget(now - _KEPT_SECONDS, now - _TOLD_SECONDS)

    async def _post(self, due: Due) -> str | None:
        """Why it was not taken; None if it was."""
        from ronda.tools.fetch.fetcher import FetchFailed

        at = int(self._clock())
        key = await self._key(_owners(due.owner) if due.of_request else due.address)
        signed = hmac.new(key, f"{due.id}.{at}.".encode() + due.body, hashlib.sha256).digest()
        headers = {
            "Content-Type": "application/json",
            "webhook-id": due.id,
            "webhook-timestamp": str(at),
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }
        try:
            status = await self._open_fetcher().post(due.url, due.body, headers)
        except FetchFailed as error:
            return str(error)[:500]
        return None if 200 <= status < 300 else f"HTTP {status}"

    def _open_fetcher(self) -> Fetcher:
        if self._fetcher is None:
            from ronda.tools.fetch.addresses import AllowList
            from ronda.tools.fetch.fetcher import Fetcher

            config = self._settings
            self._fetcher = Fetcher(AllowList.parse(config.fetch_allow), seconds=_SECONDS, routes=config.fetch_routes)
        return self._fetcher

    async def _key(self, of: str) -> bytes:
        """Of an address; or of an owner, for the addresses that requests name."""
        return hmac.new(
            await self._catalog.secret(_SECRET), of.encode("utf-8", "surrogatepass"), hashlib.sha256
        ).digest()

    async def _check_reachable(self, url: str, param: str) -> None:
        from ronda.tools.fetch.fetcher import FetchFailed, parse_url

        try:
            await self._open_fetcher().check(parse_url(url))
        except FetchFailed as error:
            raise BadRequest(f"'{param}' cannot be used: {error}", param=param, code=error.code) from error

    # ---- /v1/notices -------------------------------------------------------------------------------------------------

    def routes(self) -> Sequence[Route]:
        loads = ("ronda.tools.fetch.fetcher",)
        return [
            Route("GET", "/v1/notices", _OWN, self.list_addresses, "read"),
            Route("GET", "/v1/notices/secret", _OWN, self.show_secret, "write"),
            Route("POST", "/v1/notices", _OWN, self.create, "write", loads=loads),
            Route("DELETE", "/v1/notices/{address_id}", _OWN, self.delete, "write"),
        ]

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.features.notices.operations import OPERATIONS  # few ask for the document

        return OPERATIONS

    async def list_addresses(self, request: Incoming) -> ASGIApp:
        rows = await self._rows.addresses(request.owner)
        waiting: dict[str, list[dict[str, Any]]] = {row.id: [] for row in rows}
        of_requests: list[dict[str, Any]] = []
        for one in await self._rows.undelivered(request.owner, 100):
            if one.of_request:
                of_requests.append({**_waiting(one), "url": one.url})
            else:
                waiting[one.address].append(_waiting(one))
        data = [{**_shown(row), "undelivered": waiting[row.id]} for row in rows]
        return Json(encode({"object": "list", "data": data, "has_more": False, "undelivered_of_requests": of_requests}))

    async def show_secret(self, request: Incoming) -> ASGIApp:
        """What notices to the addresses of requests are signed with: the same for all of an owner's."""
        secret = await self._key(_owners(request.owner))
        return Json(encode({"object": "notice.secret", "secret": _written(secret)}), 200, [_NOT_KEPT])

    async def create(self, request: Incoming) -> ASGIApp:
        """The answer is the one place where the secret is."""
        wish = await request.read(_MAX_BODY, _read_address)
        await self._check_reachable(wish.url, "url")
        row = NoticeAddress(f"notice_{secrets.token_hex(8)}", request.owner, wish.url, wish.events, self._clock())
        if not await self._rows.add_address(row, MAX_ADDRESSES):
            raise BadRequest(
                f"there are {MAX_ADDRESSES} addresses already, which is the most; delete one with DELETE /v1/notices/ID",
                code="too_many_notices",
            )
        secret = _written(await self._key(row.id))
        return Json(encode({**_shown(row), "secret": secret}), 201, [_NOT_KEPT])

    async def delete(self, request: Incoming) -> ASGIApp:
        address_id = request.places["address_id"]
        if not await self._rows.delete_address(request.owner, address_id):
            raise NotFound(
                f"there is no address '{address_id[:100]}'; GET /v1/notices lists those there are", param="address_id"
            )
        return Json(encode({"object": "notice.deleted", "id": address_id, "deleted": True}))


def _read_address(body: bytes) -> _NewAddress:
    try:
        wish = msgspec.json.decode(body, type=_NewAddress)
    except UNREADABLE as error:
        raise BadRequest(f'the body does not fit: {error}; it is {{"url": …, "events": […]}}') from error
    _check_url(wish.url, "url")
    _check_kinds(wish.events, "events")
    return wish


def _check_url(url: str, param: str) -> None:
    if len(url) > _MAX_URL or "@" in url.partition("://")[2].partition("/")[0]:
        raise BadRequest(
            f"'{param}' has at most {_MAX_URL} characters, and no name and password in it: notices are signed",
            param=param,
        )


def _check_kinds(kinds: Sequence[str], param: str) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise BadRequest(f"there is no event '{kind[:100]}'; there are {', '.join(KINDS)}", param=param)


def _address_of(start: RunStarted) -> RequestAddress | None:
    kept = start.about.get(_STATE)
    return None if kept is None else msgspec.json.decode(kept, type=RequestAddress)


def _owners(owner: str) -> str:
    """By which an owner's secret is known; no address has such an id."""
    return f"owner {owner}"


def _written(key: bytes) -> str:
    """As Standard Webhooks write a secret."""
    return "whsec_" + base64.b64encode(key).decode()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _waiting(one: Undelivered) -> dict[str, Any]:
    return {
        "id": one.id,
        "event": one.kind,
        "created_at": one.created,
        "tries": one.tries,
        "problem": one.problem,
        "next_try_at": one.due,
    }


def _about(start: RunStarted) -> dict[str, Any]:
    return {"run": start.run, "session": start.session or None, "agent": start.agent or None}


def _body(notice_id: str, kind: str, data: Mapping[str, Any], now: float) -> bytes:
    at = datetime.fromtimestamp(now, UTC).isoformat()
    common = {"id": notice_id, "object": "event", "created_at": int(now), "type": kind}  # as OpenAI's events are
    return encode({**common, "timestamp": at, "data": dict(data)})


def _shown(row: NoticeAddress) -> dict[str, Any]:
    return {
        "object": "notice",
        "id": row.id,
        "url": row.url,
        "events": list(row.kinds or KINDS),
        "created_at": row.created,
    }
