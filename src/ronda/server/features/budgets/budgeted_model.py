"""A provider whose calls are paid for: reserved in the ledger before each is made, and settled by what it has used.

Where a call does not fit, the run answers a last time with tools off, from the share that was reserved with its first call.
Without such a share the call is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall, Usage
from ronda.core.plan import NONE, Options
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.errors import BadRequest
from ronda.providers.output_limits import largest_limit, limited, max_output
from ronda.providers.prices import ways_to_a_price
from ronda.server.features.budgets.ledger import Account, Amounts, Ledger, Standing, Verdict
from ronda.server.features.budgets.settings import Unit
from ronda.server.services.models import NEVER_SENT
from ronda.wire.anthropic.counting import BYTES_A_TOKEN, estimate
from ronda.wire.shared.failures import BUDGET

LEAST_LAST: Final = 256  # output tokens of a last answer, where a budget has less left: enough for a few sentences
USED_UP: Final = "I stopped here: the budget of this run is used up."


class BudgetExceeded(BadRequest):
    status_hint = 402

    def __init__(self, message: str) -> None:
        super().__init__(message, code=BUDGET)


class BudgetedModel:
    def __init__(
        self,
        ledger: Ledger,
        run: Run,
        provider: Provider,
        accounts: Sequence[Account],
        *,
        allows_unknown: bool,
        tell_exhausted: Callable[[Standing], None],
        later: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
    ) -> None:
        """`allows_unknown`: also calls whose price is not known, where money is limited. `later` starts a task that does not end
        with the run's own."""
        self._ledger = ledger
        self._run = run
        self._provider = provider
        self._accounts = accounts
        self._allows_unknown = allows_unknown
        self._tell_exhausted = tell_exhausted
        self._later = later
        self._own_tools = {name for name, spec in run.tools.items() if spec.kind != "caller"}
        self._calls = 0
        self._since = time.monotonic()
        self._has_begun = False
        self.capabilities: Capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if not self._has_begun:
            self._has_begun = True
            if self._run.round > 1 or request.attempt > 1 or self._run.start.outlives:  # it may have been driven before
                await self._ledger.close(self._run.id, is_over=False)
        self._calls += 1
        call_name = f"{request.round}.{request.attempt}.{self._calls}"
        expected = Usage(estimate(request.turns, request.tools), max_output(self._provider, request.options))
        verdict = await self._reserve(call_name, expected)
        if verdict.is_last:
            request = replace(request, choice=NONE, options=_at_most(request.options, verdict.room))
        shown = _Shown(show) if request.stream else None
        try:
            finished = await self._provider.call(request, show if shown is None else shown)
        except BaseException as error:
            used = _used_by_then(error, expected, shown)
            await asyncio.shield(self._later(self._settle(call_name, used, 0)))
            raise
        usage = _used_by_answer(finished, expected)
        if verdict.is_last:
            finished = _without_calls(finished)
        tool_calls = sum([call.name in self._own_tools for call in finished.turn.calls])
        standing = await asyncio.shield(self._later(self._settle(call_name, usage, tool_calls)))
        warnings = finished.warnings
        if verdict.is_last and standing is not None:
            self._tell_exhausted(standing)
            warnings = (*warnings, f"{_why_last(standing)}; this is the last answer, with tools off")
        return replace(finished, budget=None if standing is None else standing.budget, warnings=warnings)

    async def _reserve(self, call_name: str, expected: Usage) -> Verdict:
        """Sets aside what the call is expected to take. Raises BudgetExceeded where there is no room for it."""
        wanted = Amounts(self._cost(expected), expected.total, 1)
        await self._refuse_unknown(expected)
        keeps_last = self._run.runs_tools and bool(self._own_tools) and not self._run.start.call
        verdict = await self._ledger.reserve(
            self._run.id,
            call_name,
            self._accounts,
            wanted,
            keeps_last=keeps_last,
            room_for=lambda left: self._room(left, expected),
        )
        if verdict.refused_by is not None:
            self._tell_exhausted(verdict.refused_by)
            raise BudgetExceeded(_refusal(verdict.refused_by, wanted))
        return verdict

    async def _refuse_unknown(self, expected: Usage) -> None:
        able = self.capabilities.cost
        if self._allows_unknown or (able is not None and able(expected) is not None):
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

    def _room(self, left: Mapping[Unit, float], expected: Usage) -> int:
        """How long a last answer may be, that not much more is spent than is left."""
        room = float(expected.output)
        if "tokens" in left:
            room = min(room, left["tokens"] - expected.input)
        each = self._cost(Usage(0, 1_000_000)) / 1_000_000
        if "usd" in left and each:
            room = min(room, (left["usd"] - self._cost(Usage(expected.input, 0))) / each)
        return max(min(LEAST_LAST, expected.output), int(room))

    async def _settle(self, call_name: str, usage: Usage | None, tool_calls: int) -> Standing | None:
        """`usage` None: nothing was spent."""
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        if usage is None:
            used = Amounts(seconds=seconds)
        else:
            cost = usage.cost if usage.cost is not None else self._cost(usage) if self.capabilities.cost else None
            used = Amounts(cost or 0.0, usage.total, 1, tool_calls, seconds, int(cost is None))
        return await self._ledger.settle(self._run.id, call_name, self._accounts, used)


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


def _used_by_answer(finished: ModelFinished, expected: Usage) -> Usage:
    usage = finished.usage
    if usage.total:
        return usage
    # The provider does not say: then it is what it seems to be.
    text = sum([len(part.text) for part in finished.turn.parts if isinstance(part, Text)])
    return Usage(expected.input, text // BYTES_A_TOKEN + 1, cost=usage.cost)


def _used_by_then(error: BaseException, reserved: Usage, shown: _Shown | None) -> Usage | None:
    """What a call had used that broke off, or whose client went away. None: nothing."""
    if shown is not None and shown.chars:
        return Usage(reserved.input, shown.chars // BYTES_A_TOKEN + 1)
    if not isinstance(error, asyncio.CancelledError) or NEVER_SENT in getattr(error, "__notes__", ()):
        return None
    # What was sent was read; and of a plain answer it is not known how much of it was written.
    return reserved if shown is None else Usage(reserved.input, 0)


def _why_last(standing: Standing) -> str:
    if not standing.remaining:
        return standing.used_up
    return f"the budget of {standing.words} has no room for another call of this size"


def _refusal(standing: Standing, wanted: Amounts) -> str:
    """Of a call that does not fit into what is left, although something is."""
    if standing.unit not in ("usd", "tokens") or not standing.remaining:
        return standing.used_up
    return (
        f"this call may take {standing.amount(getattr(wanted, standing.unit))}, and {standing.amount(standing.remaining)} "
        f"are left of the budget of {standing.words}; a smaller limit of output tokens may fit"
    )


def _at_most(options: Options, room: int | None) -> Options:
    if room is None or 0 < (largest_limit(options) or 0) <= room:
        return options
    return limited(options, room)


def _without_calls(finished: ModelFinished) -> ModelFinished:
    """A model that calls tools although they are off is not heard."""
    turn = finished.turn
    if not turn.calls:
        return finished
    parts = tuple([part for part in turn.parts if not isinstance(part, ToolCall)])
    if not turn.text:
        parts = (*parts, Text(USED_UP))
    return replace(finished, turn=AssistantTurn(parts, "stop"))
