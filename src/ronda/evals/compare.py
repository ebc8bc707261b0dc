"""Two reports → what became better, and what worse."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ronda.evals.estimate import mean
from ronda.evals.report import AttemptResult, EvalReport, by_case

Change: TypeAlias = Literal["better", "worse", "same", "new", "gone"]


class Compared(Struct, frozen=True):
    """The share of attempts that passed, before and now; None where there were none."""

    case: str
    prompt: str
    model: str
    change: Change
    before: float | None
    now: float | None


class Comparison(Struct, frozen=True):
    cases: tuple[Compared, ...]

    def of(self, change: Change) -> list[Compared]:
        return [one for one in self.cases if one.change == change]

    @property
    def is_worse(self) -> bool:
        """A case got worse, or a new one does not pass."""
        return bool(self.of("worse")) or any(one.now is not None and one.now < 1 for one in self.of("new"))


def compare(before: EvalReport, now: EvalReport) -> Comparison:
    """By case, prompt and model. Where each report has one prompt and one model, these may differ: it is how two are compared."""
    alone = len(before.variants) == 1 and len(now.variants) == 1
    old, new = _rates(before, alone), _rates(now, alone)
    names = {key if not alone else (key[0], "", ""): key for key in by_case(now.attempts)}
    found: list[Compared] = []
    for key in [*new, *(key for key in old if key not in new)]:
        case, prompt, model = names.get(key, key)
        was, is_now = old.get(key), new.get(key)
        found.append(Compared(case, prompt, model, _change(was, is_now), was, is_now))
    return Comparison(tuple(found))


def _rates(report: EvalReport, alone: bool) -> dict[tuple[str, str, str], float]:
    groups = by_case(attempt for attempt in report.attempts if attempt.status != "not_run")
    return {(key[0], "", "") if alone else key: _rate(some) for key, some in groups.items()}


def _rate(attempts: list[AttemptResult]) -> float:
    return mean([attempt.status == "passed" for attempt in attempts])


def _change(before: float | None, now: float | None) -> Change:
    if before is None:
        return "new"
    if now is None:
        return "gone"
    return "same" if before == now else "better" if now > before else "worse"
