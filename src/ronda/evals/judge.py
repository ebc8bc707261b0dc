"""A judge: a prompty file that is told the criterion, the question, the answer and the calls, and gives `{score, reason}`.

It is a run as any other, kept in the evaluation's journal: an evaluation that goes on does not ask for a verdict twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ronda.core.events import Event, RunStarted
from ronda.core.parts import Text, UserTurn
from ronda.errors import BadConfig
from ronda.evals.outcome import Outcome
from ronda.evals.subjects import load_file, with_model
from ronda.evals.suite import DEFAULT_JUDGE_THRESHOLD, Check, Judge, digest
from ronda.evals.text_checks import Score, quoted, read_json
from ronda.prompty.model import Prompty

_MAX_TEXT: Final = 20_000  # characters of an answer, or of a call's result, that a judge is shown


class NoVerdict(Exception):
    """The judge could not be asked, or what it said is no verdict."""


def open_judge(judge: Judge) -> Prompty:
    path = judge.file or str(resources.files("ronda.evals").joinpath("judge.prompty"))
    file = with_model(load_file(path), judge.model, None)
    if file.model is None:
        raise BadConfig("the judge has no model; name one: 'judge: {model: …}' in the file, or --judge-model")
    return file


def judge_key(judge: Judge, inputs: Mapping[str, Any]) -> str:
    """The same for the same judge, model and inputs."""
    text = Path(judge.file).read_text("utf-8") if judge.file is not None else ""
    return digest("judge", text, judge.model, dict(inputs))


def judge_inputs(file: Prompty, check: Check, outcome: Outcome, events: list[Event]) -> dict[str, Any]:
    """What the file declares of these; a file that declares nothing gets all."""
    start = events[0]
    question = _question(start) if isinstance(start, RunStarted) else ""
    known = {
        "criterion": str(check.value),
        "question": question[:_MAX_TEXT],
        "answer": outcome.answer[:_MAX_TEXT],
        "calls": _calls(outcome) or "none",
    }
    declared = {one.name for one in file.inputs}
    return {name: value for name, value in known.items() if name in declared} if declared else known


def _question(start: RunStarted) -> str:
    texts = [
        part.text for turn in start.turns if type(turn) is UserTurn for part in turn.parts if isinstance(part, Text)
    ]
    return "\n".join(texts)


def _calls(outcome: Outcome) -> str:
    return "\n".join(f"{call.name}({call.arguments}) → {(call.content or '')[:_MAX_TEXT]}" for call in outcome.calls)


def verdict(answer: str, check: Check) -> Score:
    """Raises `NoVerdict` for what is none."""
    found = read_json(answer)
    value = found[0] if found is not None else None
    if not isinstance(value, dict) or not ("score" in value or "pass" in value):
        raise NoVerdict(f"the judge did not answer with {{score, reason}}: {quoted(answer)}")
    passes, score = value.get("pass", True), value.get("score", 1.0 if value.get("pass") else 0.0)
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        raise NoVerdict(f"the judge's score is {score!r}; it is a number from 0 to 1")
    limit = DEFAULT_JUDGE_THRESHOLD if check.threshold is None else check.threshold
    holds = bool(passes) and score >= limit
    reason = str(value.get("reason", "")) or (
        "" if holds else f"the score is {score:g}, and at least {limit:g} is needed"
    )
    if check.negated:
        return Score(not holds, 1.0 - score, reason)
    return Score(holds, float(score), reason)
