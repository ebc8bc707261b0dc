"""Budgets around model calls: each is reserved before it is made and settled after, in the ledger that all processes share.

A run has accounts: its own, its session's, its key's and its owner's; the runs that it starts spend from the same. Where a limit
leaves no room for a call, the run answers a last time with tools off: what that takes was reserved with its first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from starlette.types import ASGIApp

from ronda.core.events import Event, RunFinished
from ronda.core.run import Run
from ronda.drive import Provider
from ronda.host.extension import Tap
from ronda.host.supervisor import done_or_reported
from ronda.providers.prices import load_prices
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.budgets.budgeted_model import BudgetedModel
from ronda.server.features.budgets.ledger import OWNED, TABLES, Account, Ledger, Standing, plain, tightest
from ronda.server.features.budgets.settings import BudgetOptions, BudgetSettings
from ronda.server.features.contract import Feature, Finding, Refused, Services
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.asking import CALLER_KEY
from ronda.server.services.notice_sink import NoticeSink
from ronda.server.services.spending import Spending
from ronda.wire.shared.failures import BUDGET

HEADER: Final = b"x-ronda-budget"
_OWN: Final = Dialect("Ronda", chat_error)


class Budgets(Feature):
    name = "budgets"
    after = ("prices",)  # whose prices its calls have
    tables = TABLES
    owned = OWNED
    counts_calls = True

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        options = settings.part(BudgetSettings).budgets
        try:
            ZoneInfo(options.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield Finding(f"[budgets] timezone is {options.timezone!r:.100}; no such time zone is known here")
        for number, limit in enumerate(options.limits, 1):
            if not limit.amounts:
                yield Finding(
                    f"limit {number} of [budgets] limits nothing: give usd, tokens, rounds, tool_calls or seconds"
                )
            if any(not 0 <= amount < 1e15 for amount in limit.amounts.values()):
                yield Finding(f"limit {number} of [budgets] is no number from 0 on")
            if limit.scope == "run" and (limit.name != "*" or limit.per != "total"):
                yield Finding(f"limit {number} of [budgets]: a run has no name before it begins, and no days")

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        options: BudgetOptions = settings.part(BudgetSettings).budgets
        self._allows_unknown = options.unknown_price == "allow"
        self.ledger = Ledger(services.catalog, options.limits, options.timezone, services.clock)
        self._notices: Callable[[], NoticeSink | None] = partial(services.provided, NoticeSink)
        self._roots: dict[str, tuple[str, str]] = {}  # run → the run that it was started for, and that one's key
        self._settling: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        await load_prices()

    async def runs_ended(self) -> None:
        while self._settling:
            await asyncio.wait(set(self._settling))

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        if route.scope == "public":
            return ()
        CALLER_KEY.set(request.key)
        if route.scope != "run":
            return ()
        standings = await self.ledger.standings(_accounts(request.owner, request.key))
        if not standings:
            return ()
        used_up = [one for one in standings if one.spent >= one.limit]
        if used_up:
            raise Refused(used_up[0].used_up, 402, code=BUDGET, headers=[_header(used_up[0])])
        found = tightest(standings)
        return () if found is None else [_header(found)]

    def routes(self) -> Sequence[Route]:
        return [Route("GET", "/v1/budgets", _OWN, self.show, "read")]

    def provides(self) -> Mapping[type, object]:
        return {Spending: self.ledger}

    def operations(self) -> Mapping[str, Operation]:
        from ronda.server.doors.own.operations import BUDGET

        answer = {"object": "list", "data": [BUDGET], "spent": {"*": {"*": Any}}}
        return {
            "GET /v1/budgets": Operation(name="list_budgets", summary="Your limits, and what was spent", answer=answer)
        }

    async def show(self, request: Incoming) -> ASGIApp:
        """The limits of the caller, and what was spent."""
        accounts = _accounts(request.owner, request.key)
        standings = await self.ledger.standings(accounts)
        spent = {
            account.scope: {
                per: msgspec.to_builtins(await self.ledger.spent(account, per)) for per in ("day", "month", "total")
            }
            for account in accounts
        }
        body = {"object": "list", "data": [one.budget for one in standings], "spent": spent}
        return Json(msgspec.json.encode(body))

    # ---- runs --------------------------------------------------------------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        start = run.start
        root, key = run.id, start.key
        if start.call and start.parent is not None:
            root, key = self._roots.get(start.parent[0], (start.parent[0], key))
        self._roots[run.id] = (root, key)
        accounts = [Account("run", root), *_accounts(start.owner, key)]
        if start.session:
            accounts.insert(1, Account("session", start.session, start.owner))
        return BudgetedModel(
            self.ledger,
            run,
            provider,
            accounts,
            allows_unknown=self._allows_unknown,
            tell_exhausted=partial(self._tell_exhausted, run),
            later=self._later,
        )

    def tap(self, run: Run) -> Tap | None:
        def look(facts: Sequence[Event]) -> None:
            if facts and type(facts[-1]) is RunFinished:
                self._roots.pop(run.id, None)
                self._later(done_or_reported("the end of a reservation", self.ledger.close(run.id, is_over=True)))

        return look

    def _tell_exhausted(self, run: Run, standing: Standing) -> None:
        """To the owner: a call did not fit into what is left of a budget."""
        if (notices := self._notices()) is not None:
            notices.budget_used(run.start, standing.budget, is_exhausted=True)

    def _later(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """In a task of its own, which the end of the run's does not end."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task


def _accounts(owner: str, key: str) -> list[Account]:
    accounts = [Account("owner", owner)]
    return [Account("key", key), *accounts] if key else accounts


def _header(standing: Standing) -> Header:
    fields = msgspec.to_builtins(standing.budget)
    words = [
        f"{name}={plain(value)}" if isinstance(value, float) else f"{name}={value}"
        for name, value in fields.items()
        if value is not None
    ]
    return HEADER, "; ".join(words).encode()
