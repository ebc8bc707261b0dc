"""One case, asked once: its run is found in the journal, continued or made, and scored from its events.

Whatever a run came from, its events are read from a journal or a cassette and scored in one way: now, later, and without a model.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ronda.agent import RunOptions, run_agent_async
from ronda.agent.cassettes.cassette import read_cassette
from ronda.agent.resume import resume_agent_async
from ronda.core.events import Asked, Event
from ronda.drive import Tool
from ronda.errors import NotFound, RondaError, RunEnded
from ronda.evals.check_kinds import score_free
from ronda.evals.judge import NoVerdict, judge_inputs, judge_key, open_judge, verdict
from ronda.evals.outcome import Outcome, outcome_of
from ronda.evals.report import AttemptResult, CallMade, CheckResult, Status
from ronda.evals.subjects import Subject, open_subject
from ronda.evals.suite import Case, Check, Judge, ModelChoice, Prompt, Suite, digest
from ronda.evals.text_checks import Score
from ronda.journal import Journal, RunQuery, RunSummary

OWN_MODEL: Final = "its own"  # how a model is called that a prompty file names itself
_FINE: Final = ("stop", "tool_calls")  # how a run may end where a case says nothing of it
_AGAIN: Final = ("cancelled", "interrupted")  # an evaluation that was stopped left these: they were not finished

log = logging.getLogger("ronda.evals")


class Attempt(Struct, frozen=True):
    case: Case
    prompt: Prompt
    model: ModelChoice | None
    repeat: int
    session: str  # under which the journal has its runs

    @property
    def model_name(self) -> str:
        return OWN_MODEL if self.model is None else self.model.name


def session_of(eval_id: str, case: Case, prompt: Prompt, model: ModelChoice | None, repeat: int) -> str:
    """The same for the same question: by what the model is asked, not by what is checked. Checks may change, and the run is the
    same."""
    text = Path(prompt.file).read_text("utf-8", "replace") if prompt.file is not None else prompt.text
    asked = (case.name, case.inputs, case.messages, case.mocks, case.script, text, model, repeat)
    return f"{eval_id}/{digest(*asked)}"


class NotRecorded(Exception):
    """No model may be called, and there is nothing to score."""


class Judged(Struct, frozen=True):
    """`cost` None: not known."""

    results: list[CheckResult]
    weights: list[float]
    error: str | None = None
    cost: float | None = 0.0


class Attempter:
    """What all attempts of an evaluation share. `resumes`: earlier runs of the evaluation are looked for. `calls_models` is
    false where only recorded runs are scored."""

    def __init__(
        self,
        suite: Suite,
        journal: Journal,
        tools: Sequence[Tool] = (),
        *,
        resumes: bool = False,
        calls_models: bool = True,
        record: str | os.PathLike[str] | None = None,
        judge_model: ModelChoice | None = None,
    ) -> None:
        self._suite = suite
        self._journal = journal
        self._tools = tools
        self._resumes = resumes
        self._calls_models = calls_models
        self._record = None if record is None else Path(record)
        self._judge_model = judge_model

    async def make(self, attempt: Attempt) -> AttemptResult:
        try:
            events, is_recorded = await self._events(attempt)
        except NotRecorded as error:
            return self._result(attempt, "not_run", message=str(error))
        except RondaError as error:  # said by the library before the run began: an agent, an input, a file
            return self._result(attempt, "error", message=str(error))
        outcome = outcome_of(events, self._suite.prices, attempt.model)
        return await self._score(attempt, outcome, events, is_recorded)

    # ---- its run ----------------------------------------------------------------------------------------------------------

    async def _events(self, attempt: Attempt) -> tuple[list[Event], bool]:
        case = attempt.case
        if case.cassette is not None:
            cassette = read_cassette(case.cassette)
            return [cassette.start, *cassette.facts], True
        if case.run is not None:
            if not (events := await self._journal.read(case.run)):
                raise NotFound(f"the journal has no run '{case.run}'; --from-journal says where it is")
            return events, True
        found = await self._newest(attempt.session) if self._resumes else None
        if found is not None and (events := await self._finished(found, attempt)):
            return events, True
        if not self._calls_models:
            raise NotRecorded("no run of this case is recorded")
        subject = open_subject(attempt.prompt, attempt.model, case, self._tools)
        if found is not None and found.state == "running":
            return await self._go_on(found.run, subject), False
        return await self._run(attempt, subject), False

    async def _newest(self, session: str) -> RunSummary | None:
        page = await self._journal.list_runs(RunQuery(owner="", session=session, limit=1))
        return page.runs[0] if page.runs else None

    async def _finished(self, found: RunSummary, attempt: Attempt) -> list[Event]:
        """Its events, if there is nothing left to do: a model that could not be reached is asked again."""
        if found.state in _AGAIN or (found.state == "running" and self._calls_models):
            return []
        events = await self._journal.read(found.run)
        outcome = outcome_of(events, {}, attempt.model)
        return [] if outcome.error is not None and self._calls_models else events

    async def _run(self, attempt: Attempt, subject: Subject) -> list[Event]:
        options = self._options(attempt.case, attempt.session)
        asked = {} if self._suite.max_tokens is None else {"max_tokens": self._suite.max_tokens}
        if attempt.model is not None:
            asked |= attempt.model.options
        if asked:
            options["options"] = asked  # type: ignore[typeddict-item]  # `run_agent` checks it
        if self._record is not None:
            options["record"] = self._record / f"{_file_name(attempt)}.jsonl"
        try:
            result = await run_agent_async(subject.agent, subject.inputs, subject.tools or None, **options)
            run_id = result.run_id
        except RunEnded as error:
            run_id = error.run
        return await self._journal.read(run_id)

    async def _go_on(self, run_id: str, subject: Subject) -> list[Event]:
        """Calls that were finished are not made again."""
        log.info("run '%s' goes on", run_id)
        with contextlib.suppress(RunEnded):  # how it ended is in its events
            await resume_agent_async(run_id, journal=self._journal, agent=subject.agent, tools=subject.tools or None)
        return await self._journal.read(run_id)

    def _options(self, case: Case, session: str) -> RunOptions:
        suite = self._suite
        options: RunOptions = {"journal": self._journal, "session": session}
        if suite.max_iterations is not None:
            options["max_iterations"] = suite.max_iterations
        if suite.max_seconds is not None:
            options["max_seconds"] = suite.max_seconds
        if (approve := case.approve) is not None:

            async def decide(question: Asked) -> bool:
                return approve if isinstance(approve, bool) else approve.get(question.tool, False)

            options["approve"] = decide
        return options

    # ---- its score --------------------------------------------------------------------------------------------------------

    async def _score(self, attempt: Attempt, outcome: Outcome, events: list[Event], is_recorded: bool) -> AttemptResult:
        case = attempt.case
        free = [check for check in case.checks if check.is_free]
        scores = [(check, score_free(outcome, check)) for check in free]
        if not any(check.kind == "ended" for check in free) and outcome.ended not in _FINE:
            if outcome.error is not None:
                return self._result(attempt, "error", outcome, message=outcome.error, is_recorded=is_recorded)
            scores.append((Check("ended", list(_FINE)), score_free(outcome, Check("ended", list(_FINE)))))
        results = [CheckResult(check.name, one.passed, one.value, one.reason) for check, one in scores]
        weights = [check.weight for check, _ in scores]
        all_hold = all(one.passed for _, one in scores)
        judged = await self._judge(attempt, outcome, events, is_needed=all_hold or case.threshold is not None)
        results += judged.results
        weights += judged.weights
        if judged.error is not None:
            return self._result(
                attempt, "error", outcome, results, message=judged.error, judged=judged, is_recorded=is_recorded
            )
        total = sum(weights)
        score = sum(weight * one.score for weight, one in zip(weights, results, strict=True)) / total if total else 1.0
        passed = all(one.passed for one in results) if case.threshold is None else score >= case.threshold
        status: Status = "passed" if passed else "failed"
        return self._result(attempt, status, outcome, results, score, judged=judged, is_recorded=is_recorded)

    async def _judge(self, attempt: Attempt, outcome: Outcome, events: list[Event], *, is_needed: bool) -> Judged:
        results: list[CheckResult] = []
        weights: list[float] = []
        cost: float | None = 0.0
        for check in attempt.case.checks:
            if check.is_free:
                continue
            weights.append(check.weight)
            if not is_needed:
                results.append(CheckResult(check.name, False, 0.0, "not asked: a free check has failed", asked=False))
                continue
            try:
                score, paid = await self._ask_judge(attempt, check, outcome, events)
            except (NoVerdict, RondaError) as error:
                results.append(CheckResult(check.name, False, 0.0, str(error)))
                return Judged(results, weights, str(error), cost)
            cost = None if cost is None or paid is None else cost + paid
            results.append(CheckResult(check.name, score.passed, score.value, score.reason))
        return Judged(results, weights, None, cost)

    async def _ask_judge(
        self, attempt: Attempt, check: Check, outcome: Outcome, events: list[Event]
    ) -> tuple[Score, float | None]:
        judge = check.judge or self._suite.judge
        if self._judge_model is not None:
            judge = Judge(judge.file, self._judge_model)
        file = open_judge(judge)
        inputs = judge_inputs(file, check, outcome, events)
        eval_id = attempt.session.partition("/")[0]
        # Each attempt has a verdict of its own: that the answers are equal does not make the judge ask once.
        session = f"{eval_id}/{judge_key(judge, inputs)}-{digest(attempt.session)}"
        found = await self._newest(session) if self._resumes else None
        said: list[Event] = []
        if found is not None and found.state == "finished":
            said = await self._journal.read(found.run)
        elif not self._calls_models:
            raise NoVerdict("the judge's verdict is not recorded, and no model is asked here")
        else:
            try:
                run_id = (await run_agent_async(file, inputs, journal=self._journal, session=session)).run_id
            except RunEnded as error:
                raise NoVerdict(f"the judge could not be asked: {error}") from error
            said = await self._journal.read(run_id)
        spoken = outcome_of(said, self._suite.prices, judge.model)
        return verdict(spoken.answer, check), spoken.cost

    def _result(
        self,
        attempt: Attempt,
        status: Status,
        outcome: Outcome | None = None,
        checks: Sequence[CheckResult] = (),
        score: float = 0.0,
        message: str = "",
        judged: Judged | None = None,
        is_recorded: bool = False,
    ) -> AttemptResult:
        judge_cost = (judged.cost or 0.0) if judged is not None else 0.0
        plain = AttemptResult(
            case=attempt.case.name,
            prompt=attempt.prompt.label,
            model=attempt.model_name,
            repeat=attempt.repeat,
            status=status,
            score=score,
            checks=tuple(checks),
            message=message,
            recorded=is_recorded,
            judge_cost=judge_cost,
        )
        if outcome is None:
            return plain
        return replace(
            plain,
            answer=outcome.answer,
            calls=tuple(CallMade(call.name, call.arguments, call.failed) for call in outcome.calls),
            rounds=outcome.rounds,
            input_tokens=outcome.usage.input,
            output_tokens=outcome.usage.output,
            cost=outcome.cost,
            seconds=outcome.seconds,
            ended=outcome.ended,
            seed=outcome.seed,
            run_id=outcome.run_id,
        )


def _file_name(attempt: Attempt) -> str:
    """A name that a person recognises, and that no other attempt has."""
    words = re.sub(r"[^\w.-]+", "-", f"{attempt.case.name}-{attempt.model_name}")[:80].strip("-.")
    return f"{words}-{attempt.repeat}-{digest(attempt.session)[:8]}"
