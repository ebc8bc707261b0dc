"""Budgets around model calls: each is reserved before it is made and settled after, in the ledger that all processes share.

A run has accounts: its own, its session's, its key's and its owner's; the runs that it starts spend from the same. Where a limit
leaves no room for a call, the run answers a last time with tools off: what that takes was reserved with its first call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec.structs import replace
from starlette.types import ASGIApp

from ronda.core.events import (
    CallDelta,
    Event,
    ModelFinished,
    Preview,
    ReasoningDelta,
    RunFinished,
    TextDelta,
)
from ronda.core.parts import AssistantTurn, Text, ToolCall, Usage
from ronda.core.plan import NONE
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import BadRequest
from ronda.host.extension import Tap
from ronda.host.supervisor import done_or_reported
from ronda.providers.prices import load_prices, ways_to_a_price
from ronda.server.config import ServerConfig
from ronda.server.doors.chat import chat_error
from ronda.server.features.budgets.ledger import OWNED, TABLES, Account, Amounts, Ledger, Standing, plain, tightest
from ronda.server.features.budgets.settings import BudgetOptions, BudgetSettings, Unit
from ronda.server.features.contract import Feature, Finding, Refused, Services
from ronda.server.http.incoming import Header, Incoming, Json
from ronda.server.http.operations import Operation
from ronda.server.http.routing import Dialect, Route
from ronda.server.services.asking import CALLER_KEY
from ronda.server.services.models import NEVER_SENT
from ronda.server.services.notice_sink import NoticeSink
from ronda.server.services.spending import Spending
from ronda.wire.anthropic.counting import BYTES_A_TOKEN, estimate
from ronda.wire.shared.failures import BUDGET

HEADER: Final = b"x-ronda-budget"
# Output tokens of a call that names no limit: what most models write at most unless they are told to.
MODEL_CAP: Final = 4096
LEAST_LAST: Final = 256  # output tokens of a last answer, where a budget has less left: enough for a few sentences
USED_UP: Final = "I stopped here: the budget of this run is used up."
_OWN: Final = Dialect("Ronda", chat_error)


class BudgetExceeded(BadRequest):
    status_hint = 402

    def __init__(self, message: str) -> None:
        super().__init__(message, code=BUDGET)


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
        self.allows_unknown = options.unknown_price == "allow"
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
            raise Refused(_why(used_up[0]), 402, code=BUDGET, headers=[_header(used_up[0])])
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
        return BudgetedModel(self, run, provider, accounts)

    def tap(self, run: Run) -> Tap | None:
        def look(facts: Sequence[Event]) -> None:
            if facts and type(facts[-1]) is RunFinished:
                self._roots.pop(run.id, None)
                self.later(done_or_reported("the end of a reservation", self.ledger.close(run.id, is_over=True)))

        return look

    def tell_exhausted(self, run: Run, standing: Standing) -> None:
        """To the owner: a call did not fit into what is left of a budget."""
        if (notices := self._notices()) is not None:
            notices.budget_used(run.start, standing.budget, is_exhausted=True)

    def later(self, work: Any) -> asyncio.Task[Any]:
        """In a task of its own, which the end of the run's does not end."""
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)
        return task


class BudgetedModel:
    """A provider whose calls are reserved and settled."""

    def __init__(self, budgets: Budgets, run: Run, provider: Provider, accounts: Sequence[Account]) -> None:
        self._budgets = budgets
        self._ledger = budgets.ledger
        self._run = run
        self._provider = provider
        self._accounts = accounts
        self._own_tools = {name for name, spec in run.tools.items() if spec.kind != "caller"}
        self._calls = 0
        self._since = time.monotonic()
        self._is_fresh = False
        self.capabilities: Capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        run = self._run.id
        if not self._is_fresh:
            self._is_fresh = True
            if self._run.round > 1 or request.attempt > 1 or self._run.start.outlives:  # it may have been driven before
                await self._ledger.close(run, is_over=False)
        self._calls += 1
        name = f"{request.round}.{request.attempt}.{self._calls}"
        size = estimate(request.turns, request.tools)
        most = request.options.max_tokens or MODEL_CAP
        wanted = Amounts(self._cost(Usage(size, most)), size + most, 1)
        await self._refuse_unknown(Usage(size, most))
        keeps_last = self._run.runs_tools and bool(self._own_tools) and not self._run.start.call
        verdict = await self._ledger.reserve(
            run, name, self._accounts, wanted, keeps_last=keeps_last, room_for=lambda left: self._room(left, size, most)
        )
        if verdict.refused_by is not None:
            self._budgets.tell_exhausted(self._run, verdict.refused_by)
            raise BudgetExceeded(_why_refused(verdict.refused_by, wanted))
        if verdict.is_last:
            request = replace(request, choice=NONE, options=_at_most(request.options, verdict.room))
        shown = _Shown(show) if request.stream else None
        try:
            finished = await self._provider.call(request, show if shown is None else shown)
        except BaseException as error:
            partial = _used_by_then(error, Usage(size, most), shown)
            await asyncio.shield(self._budgets.later(self._settle(name, partial, 0)))
            raise
        usage = finished.usage
        if not usage.total:  # the provider does not say: then it is what it seems to be
            text = sum([len(part.text) for part in finished.turn.parts if isinstance(part, Text)])
            usage = Usage(size, text // BYTES_A_TOKEN + 1, cost=usage.cost)
        if verdict.is_last:
            finished = _without_calls(finished)
        calls = sum([call.name in self._own_tools for call in finished.turn.calls])
        standing = await asyncio.shield(self._budgets.later(self._settle(name, usage, calls)))
        warnings = finished.warnings
        if verdict.is_last and standing is not None:
            self._budgets.tell_exhausted(self._run, standing)
            warnings = (*warnings, f"{_why_last(standing)}; this is the last answer, with tools off")
        return replace(finished, budget=None if standing is None else standing.budget, warnings=warnings)

    async def _refuse_unknown(self, wanted: Usage) -> None:
        able = self.capabilities.cost
        if self._budgets.allows_unknown or (able is not None and able(wanted) is not None):
            return
        limited = [one for one in await self._ledger.standings(self._accounts) if one.unit == "usd"]
        if limited:
            raise BudgetExceeded(
                f"the price of '{self._run.plan.model}', or of a model that it falls back to, is not known, and there is a "
                f"budget of {limited[0].words}; the operator can {ways_to_a_price()}, or allow it with "
                'unknown_price = "allow"'
            )

    def _cost(self, usage: Usage) -> float:
        able = self.capabilities.cost
        return (able(usage) or 0.0) if able is not None else 0.0

    def _room(self, left: Mapping[Unit, float], size: int, most: int) -> int:
        """How long a last answer may be, that not much more is spent than is left."""
        room = float(most)
        if "tokens" in left:
            room = min(room, left["tokens"] - size)
        each = self._cost(Usage(0, 1_000_000)) / 1_000_000
        if "usd" in left and each:
            room = min(room, (left["usd"] - self._cost(Usage(size, 0))) / each)
        return max(min(LEAST_LAST, most), int(room))

    async def _settle(self, call: str, usage: Usage | None, calls: int) -> Standing | None:
        """`usage` None: nothing was spent."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        if usage is None:
            used = Amounts(seconds=seconds)
        else:
            cost = usage.cost if usage.cost is not None else self._cost(usage) if self.capabilities.cost else None
            used = Amounts(cost or 0.0, usage.total, 1, calls, seconds, int(cost is None))
        return await self._ledger.settle(self._run.id, call, self._accounts, used)


class _Shown:
    """Counts what is shown."""

    __slots__ = ("_show", "chars")

    def __init__(self, show: Show) -> None:
        self._show = show
        self.chars = 0

    def __call__(self, previews: list[Preview]) -> bool | None:
        for one in previews:
            if isinstance(one, TextDelta | ReasoningDelta):
                self.chars += len(one.text)
            elif isinstance(one, CallDelta):
                self.chars += len(one.arguments)
        return self._show(previews)


def _used_by_then(error: BaseException, reserved: Usage, shown: _Shown | None) -> Usage | None:
    """What a call had used that broke off, or whose client went away. None: nothing."""
    if shown is not None and shown.chars:
        return Usage(reserved.input, shown.chars // BYTES_A_TOKEN + 1)
    if not isinstance(error, asyncio.CancelledError) or NEVER_SENT in getattr(error, "__notes__", ()):
        return None
    # What was sent was read; and of a plain answer it is not known how much of it was written.
    return reserved if shown is None else Usage(reserved.input, 0)


def _accounts(owner: str, key: str) -> list[Account]:
    accounts = [Account("owner", owner)]
    return [Account("key", key), *accounts] if key else accounts


def _why(standing: Standing) -> str:
    return f"the budget of {standing.words} is used up"


def _why_last(standing: Standing) -> str:
    if not standing.remaining:
        return _why(standing)
    return f"the budget of {standing.words} has no room for another call of this size"


def _why_refused(standing: Standing, wanted: Amounts) -> str:
    """Of a call that does not fit into what is left, although something is."""
    if standing.unit not in ("usd", "tokens") or not standing.remaining:
        return _why(standing)
    return (
        f"this call may take {standing.amount(getattr(wanted, standing.unit))}, and {standing.amount(standing.remaining)} "
        f"are left of the budget of {standing.words}; a smaller limit of output tokens may fit"
    )


def _header(standing: Standing) -> Header:
    fields = msgspec.to_builtins(standing.budget)
    words = [
        f"{name}={plain(value)}" if isinstance(value, float) else f"{name}={value}"
        for name, value in fields.items()
        if value is not None
    ]
    return HEADER, "; ".join(words).encode()


def _at_most(options: Any, room: int | None) -> Any:
    if room is None or (options.max_tokens is not None and options.max_tokens <= room):
        return options
    extra = dict(options.extra)
    for name in ("max_tokens", "max_completion_tokens"):
        if name in extra:
            extra[name] = msgspec.Raw(b"%d" % room)
    return replace(options, max_tokens=room, extra=extra)


def _without_calls(finished: ModelFinished) -> ModelFinished:
    """A model that calls tools although they are off is not heard."""
    turn = finished.turn
    if not turn.calls:
        return finished
    parts = tuple([part for part in turn.parts if not isinstance(part, ToolCall)])
    if not turn.text:
        parts = (*parts, Text(USED_UP))
    return replace(finished, turn=AssistantTurn(parts, "stop"))
