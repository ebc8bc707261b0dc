"""A run, live or recorded → what checks look at: the answer, the calls, how it ended and what it used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ronda.agent.result import CalledTool, Result
from ronda.core.events import Event, ModelStarted, RunFinished
from ronda.core.parts import Usage
from ronda.core.run import Run, rebuild
from ronda.core.transcript import final_text
from ronda.evals.suite import SCRIPT, ModelChoice, Price

Ended: TypeAlias = Literal[
    "stop", "length", "content_filter", "tool_calls", "limit", "failed", "cancelled", "interrupted", "waiting"
]
ENDINGS: Final[tuple[Ended, ...]] = (
    "stop", "length", "content_filter", "tool_calls", "limit", "failed", "cancelled", "interrupted", "waiting",
)  # fmt: skip

# The model could not be asked: nothing is known of the agent, so the case has an error and has not failed.
_NOT_THE_AGENT: Final = frozenset({"model_failed", "model_interrupted", "crash_loop"})


class Outcome(Struct, frozen=True):
    """`cost` is None where no price is known. `error` says why the model could not be asked, if it could not."""

    run_id: str
    answer: str
    calls: Sequence[CalledTool]
    rounds: int
    usage: Usage
    cost: float | None
    seconds: float
    ended: Ended
    seed: int | None = None  # that the model was given
    message: str = ""
    error: str | None = None

    @property
    def tokens(self) -> int:
        return self.usage.input + self.usage.output


def outcome_of(events: list[Event], prices: Mapping[str, Price], model: ModelChoice | None = None) -> Outcome:
    """`model` is what was asked; None: what the agent's own file names, and the plan of the run."""
    run = rebuild(events)
    end = run.ended
    usage = run.usage
    last = next((at for event in reversed(events) if (at := getattr(event, "at", 0.0))), run.start.at)
    calls = Result(None, run).tool_calls
    is_error = end is not None and end.reason == "failed" and end.code in _NOT_THE_AGENT
    return Outcome(
        run_id=run.id,
        answer=(end.answer if end is not None else None) or final_text(run),
        calls=calls,
        rounds=sum(type(event) is ModelStarted for event in events),
        usage=usage,
        cost=_cost(usage, _price(prices, run.plan.model if model is None else model.spec, model)),
        seconds=max(0.0, last - run.start.at) if run.start.at else 0.0,
        ended=_ended(run, end),
        seed=run.plan.options.seed,
        message=(end.message if end is not None else None) or "",
        error=(end.message or "the model could not be asked") if is_error and end is not None else None,
    )


def _ended(run: Run, end: RunFinished | None) -> Ended:
    if end is None:
        return "waiting" if run.is_waiting else "interrupted"
    return end.reason


def _price(prices: Mapping[str, Price], spec: str, model: ModelChoice | None) -> Price | None:
    """Models that run here, and scripts, cost nothing."""
    if spec == SCRIPT or spec.startswith(("local:", "script:")):
        return Price()
    return prices.get(spec) or prices.get("" if model is None else model.label)


def _cost(usage: Usage, price: Price | None) -> float | None:
    """What the provider says goes before a table of prices."""
    if usage.cost is not None:
        return usage.cost
    if price is not None:
        return (usage.input * price.input + usage.output * price.output) / 1_000_000
    return 0.0 if not (usage.input or usage.output) else None
