"""A suite → a report: every case with every prompt and model, as often as is asked for, several at a time, within a cost."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from msgspec.structs import replace

from ronda._suggest import did_you_mean
from ronda._version import __version__
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.evals.attempts import OWN_MODEL, Attempt, Attempter, session_of
from ronda.evals.report import VERSION, AttemptResult, EvalReport, summarize
from ronda.evals.suite import Case, ModelChoice, Suite
from ronda.journal import Journal, RunQuery

CONCURRENCY: Final = 4  # promptfoo's
PREFIX: Final = "eval-"  # of the sessions that evaluations keep their runs in
OnResult: TypeAlias = Callable[[AttemptResult, int, int], None]


def new_eval_id() -> str:
    return f"{PREFIX}{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"


async def last_eval_id(journal: Journal) -> str | None:
    """Of the evaluation that was begun or continued last."""
    before: int | None = None
    while True:
        page = await journal.list_runs(RunQuery(owner="", before=before, limit=100))
        for run in page.runs:
            if run.session.startswith(PREFIX):
                return run.session.partition("/")[0]
        if page.before is None:
            return None
        before = page.before


async def evaluate(
    suite: Suite,
    *,
    journal: Journal,
    tools: Sequence[Tool] = (),
    models: Sequence[ModelChoice] | None = None,
    repeat: int | None = None,
    concurrency: int | None = None,
    max_cost: float | None = None,
    eval_id: str | None = None,
    calls_models: bool = True,
    record: str | os.PathLike[str] | None = None,
    judge_model: ModelChoice | None = None,
    only: Sequence[str] = (),
    limit: int | None = None,
    on_result: OnResult | None = None,
) -> EvalReport:
    """Run an evaluation, or continue one.

    Args:
        suite: What `load_suite` read.
        journal: Where runs are kept. All of them are scored from there.
        tools: Real tools, beside those that prompty files declare. Mocks of the suite go before them.
        models: Models to ask in the place of the suite's.
        repeat: How often each case is asked; a case may say otherwise in the file.
        concurrency: Attempts at a time.
        max_cost: US dollars: no attempt begins once so much was spent. Those under way are finished.
        eval_id: An earlier evaluation in this journal to continue: its finished runs are not made again.
        calls_models: False scores recorded runs and calls no model at all.
        record: A folder for a cassette of each run.
        judge_model: Asked in the place of the judge's own model.
        only: Names of cases, or patterns with `*`; all others are left out.
        limit: The first so many cases.
        on_result: Called with each result, how many there are now, and how many there will be.
    """
    started = time.time()
    name = eval_id or new_eval_id()
    attempts = list(_attempts(suite, name, models, repeat, _chosen(suite, only, limit)))
    attempter = Attempter(
        suite,
        journal,
        tools,
        resumes=eval_id is not None,
        calls_models=calls_models,
        record=record,
        judge_model=judge_model,
    )
    most = suite.max_cost if max_cost is None else max_cost
    work = _Work(attempter, attempts, most, on_result)
    workers = min(concurrency or suite.concurrency or CONCURRENCY, max(1, len(attempts)))
    await asyncio.gather(*[work.run() for _ in range(workers)])
    results = work.all_results()
    return EvalReport(VERSION, __version__, name, suite.path, started, results, summarize(results), work.stopped)


def _chosen(suite: Suite, only: Sequence[str], limit: int | None) -> list[Case]:
    cases = [case for case in suite.cases if not only or any(fnmatchcase(case.name, one) for one in only)]
    names = [case.name for case in suite.cases]
    for one in only:
        if not any(fnmatchcase(name, one) for name in names):
            raise BadConfig(f"there is no case '{one}'; {did_you_mean(one, names, 'the file has others')}")
    return cases if limit is None else cases[:limit]


def _attempts(
    suite: Suite, eval_id: str, models: Sequence[ModelChoice] | None, repeat: int | None, cases: Sequence[Case]
) -> Iterator[Attempt]:
    asked: Sequence[ModelChoice | None] = models or suite.models or (None,)
    for case in cases:
        times = case.repeat or repeat or suite.repeat
        for prompt in suite.prompts:
            for model in asked:
                if model is not None and case.models and not _is_for(case, model):
                    continue
                for index in range(times):
                    session = session_of(eval_id, case, prompt, model, index)
                    yield Attempt(case, prompt, model, index, session)


def _is_for(case: Case, model: ModelChoice) -> bool:
    return any(fnmatchcase(name, one) for one in case.models for name in (model.label, model.spec, OWN_MODEL) if name)


class _Work:
    """The attempts that are left, and what was spent. Each worker takes the next one."""

    def __init__(
        self, attempter: Attempter, attempts: list[Attempt], max_cost: float | None, on_result: OnResult | None
    ) -> None:
        self._attempter = attempter
        self._attempts = attempts
        self._left = iter(enumerate(attempts))
        self._max_cost = max_cost
        self._on_result = on_result
        self._results: dict[int, AttemptResult] = {}
        self._spent = 0.0
        self.stopped = ""

    async def run(self) -> None:
        for index, attempt in self._left:
            if self.stopped:
                return
            result = await self._attempter.make(attempt)
            self._results[index] = result
            self._pay(result)
            if self._on_result is not None:
                self._on_result(result, len(self._results), len(self._attempts))

    def _pay(self, result: AttemptResult) -> None:
        self._spent += (result.cost or 0.0) + result.judge_cost
        if self._max_cost is None or self.stopped:
            return
        if result.cost is None and result.status in ("passed", "failed"):
            self.stopped = (
                f"what '{result.model}' costs is not known, so that the limit of ${self._max_cost:g} cannot be kept; "
                "give 'prices' in the file"
            )
        elif self._spent >= self._max_cost:
            self.stopped = f"${self._spent:.4f} were spent, and the limit is ${self._max_cost:g}"

    def all_results(self) -> tuple[AttemptResult, ...]:
        return tuple(
            self._results.get(index) or _not_run(attempt, self.stopped) for index, attempt in enumerate(self._attempts)
        )


def _not_run(attempt: Attempt, why: str) -> AttemptResult:
    plain = AttemptResult(attempt.case.name, attempt.prompt.label, attempt.model_name, attempt.repeat, "not_run")
    return replace(plain, message=why)
