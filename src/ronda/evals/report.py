"""The result of an evaluation, as values and as JSON: every attempt, and what they add up to for each prompt and model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig
from ronda.evals.estimate import mean, pass_at, pass_hat

VERSION: Final = 1
Status: TypeAlias = Literal["passed", "failed", "error", "not_run"]


class CheckResult(Struct, frozen=True, omit_defaults=True):
    """`asked` is false of a judge that was not asked, because a free check had failed."""

    name: str
    passed: bool
    score: float
    reason: str = ""
    asked: bool = True


class CallMade(Struct, frozen=True, omit_defaults=True):
    name: str
    arguments: dict[str, Any]
    failed: bool = False


class AttemptResult(Struct, frozen=True, omit_defaults=True):
    """One case, asked once. `recorded`: its run was not made now, but found in a journal or a cassette."""

    case: str
    prompt: str
    model: str
    repeat: int
    status: Status
    score: float = 0.0
    checks: tuple[CheckResult, ...] = ()
    answer: str = ""
    calls: tuple[CallMade, ...] = ()
    rounds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    judge_cost: float = 0.0
    seconds: float = 0.0
    ended: str = ""
    seed: int | None = None  # that the model was given, if it was
    run_id: str = ""
    message: str = ""  # why there is an error, or why it was not run
    recorded: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.case, self.prompt, self.model

    @property
    def reasons(self) -> list[str]:
        """Why it did not pass, a line each."""
        if self.message:
            return [self.message]
        return [f"{check.name}: {check.reason}" for check in self.checks if check.asked and not check.passed]


class VariantSummary(Struct, frozen=True, omit_defaults=True):
    """One prompt with one model. `pass_at` and `pass_hat` are by k, averaged over the cases that were tried as often."""

    prompt: str
    model: str
    cases: int
    passed_cases: int
    attempts: int
    passed: int
    failed: int
    errors: int
    not_run: int
    pass_rate: float
    pass_at: dict[int, float]
    pass_hat: dict[int, float]
    tokens: int
    cost: float | None
    seconds: float  # the median of an attempt
    seed: int | None = None  # that of its attempts, if it is one for all


class EvalReport(Struct, frozen=True, omit_defaults=True):
    version: int
    ronda: str
    eval_id: str
    file: str
    started: float
    attempts: tuple[AttemptResult, ...]
    variants: tuple[VariantSummary, ...]
    stopped: str = ""  # why not all of it was run

    @property
    def pass_rate(self) -> float:
        made = [attempt for attempt in self.attempts if attempt.status != "not_run"]
        return mean([attempt.status == "passed" for attempt in made])

    def of(self, status: Status) -> list[AttemptResult]:
        return [attempt for attempt in self.attempts if attempt.status == status]


def by_case(attempts: Iterable[AttemptResult]) -> dict[tuple[str, str, str], list[AttemptResult]]:
    found: dict[tuple[str, str, str], list[AttemptResult]] = {}
    for attempt in attempts:
        found.setdefault(attempt.key, []).append(attempt)
    return found


def summarize(attempts: Sequence[AttemptResult]) -> tuple[VariantSummary, ...]:
    variants = dict.fromkeys((attempt.prompt, attempt.model) for attempt in attempts)
    return tuple(_summary(prompt, model, attempts) for prompt, model in variants)


def _summary(prompt: str, model: str, attempts: Sequence[AttemptResult]) -> VariantSummary:
    own = [attempt for attempt in attempts if (attempt.prompt, attempt.model) == (prompt, model)]
    made = [attempt for attempt in own if attempt.status in ("passed", "failed")]
    tries = [
        (len(some), sum(attempt.status == "passed" for attempt in some)) for some in by_case(made).values()
    ]  # of each case: how many there were, and how many passed
    largest = max((n for n, _ in tries), default=0)
    costs = [attempt.cost for attempt in own if attempt.ended]  # of those that had a run
    seeds = {attempt.seed for attempt in own if attempt.ended}
    judged = sum(attempt.judge_cost for attempt in own)
    known = [cost for cost in costs if cost is not None]
    return VariantSummary(
        prompt=prompt,
        model=model,
        cases=len(by_case(own)),
        passed_cases=sum(n == c for n, c in tries),
        attempts=len(own),
        passed=sum(attempt.status == "passed" for attempt in own),
        failed=sum(attempt.status == "failed" for attempt in own),
        errors=sum(attempt.status == "error" for attempt in own),
        not_run=sum(attempt.status == "not_run" for attempt in own),
        pass_rate=mean([c / n for n, c in tries]),
        pass_at={k: mean([pass_at(n, c, k) for n, c in tries if n >= k]) for k in range(1, largest + 1)},
        pass_hat={k: mean([pass_hat(n, c, k) for n, c in tries if n >= k]) for k in range(1, largest + 1)},
        tokens=sum(attempt.input_tokens + attempt.output_tokens for attempt in own),
        cost=sum(known) + judged if len(known) == len(costs) else None,
        seconds=median([attempt.seconds for attempt in made]) if made else 0.0,
        seed=seeds.pop() if len(seeds) == 1 else None,
    )


def to_json(report: EvalReport) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def read_report(path: str | os.PathLike[str]) -> EvalReport:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadConfig(f"cannot read the report {os.fspath(path)!r}: {error.strerror}") from error
    try:
        report = msgspec.json.decode(data, type=EvalReport)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadConfig(f"{os.fspath(path)!r} is no report of an evaluation (--json writes one): {error}") from error
    if report.version > VERSION:
        raise BadConfig(f"{os.fspath(path)!r} is of version {report.version}, and this Ronda reads up to {VERSION}")
    return report
