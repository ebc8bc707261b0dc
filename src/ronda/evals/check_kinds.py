"""The kinds of checks: one row for each, with what its value looks like and who makes it. A judge's is made by `judge`.

promptfoo's names for the same checks stand in `promptfoo`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ronda.evals import run_checks, shapes, text_checks
from ronda.evals.outcome import Outcome
from ronda.evals.shapes import Shape
from ronda.evals.suite import Check
from ronda.evals.text_checks import Score


class Kind(NamedTuple):
    """`needs_threshold`: the check is nothing without one."""

    shape: Shape
    score: Callable[[Outcome, Check], Score]
    help: str
    needs_threshold: bool = False


def _no_score(outcome: Outcome, check: Check) -> Score:
    raise AssertionError("a judge is asked by `judge.ask`")


KINDS: Final[dict[str, Kind]] = {
    "equals": Kind(shapes.anything, text_checks.equals, "the answer is this text, or this JSON value"),
    "contains": Kind(shapes.text, text_checks.contains, "the answer has this text in it"),
    "contains-all": Kind(shapes.texts, text_checks.contains_all, "the answer has all of these texts in it"),
    "contains-any": Kind(shapes.texts, text_checks.contains_any, "the answer has one of these texts in it"),
    "icontains": Kind(shapes.text, text_checks.icontains, "as contains; capitals make no difference"),
    "icontains-all": Kind(shapes.texts, text_checks.icontains_all, "as contains-all; capitals make no difference"),
    "icontains-any": Kind(shapes.texts, text_checks.icontains_any, "as contains-any; capitals make no difference"),
    "starts-with": Kind(shapes.text, text_checks.starts_with, "the answer begins with this text"),
    "regex": Kind(shapes.pattern, text_checks.regex, "the regular expression is found in the answer"),
    "word-count": Kind(shapes.exactly, text_checks.word_count, "so many words; a number, or min and max"),
    "levenshtein": Kind(shapes.text, text_checks.levenshtein, "at most `threshold` (5) edits away from this text"),
    "is-json": Kind(shapes.maybe_schema, text_checks.is_json, "the answer is JSON, and fits the JSON Schema if one is given"),
    "contains-json": Kind(shapes.maybe_schema, text_checks.contains_json, "the same of JSON inside the answer"),
    "tool-used": Kind(shapes.used, run_checks.tool_used, "these tools were called; {name, min, max} says how often"),
    "tool-never": Kind(shapes.texts, run_checks.tool_never, "none of these tools was called"),
    "tool-order": Kind(shapes.steps, run_checks.tool_order, "the tools were called in this order; others may come between"),
    "tool-count": Kind(shapes.counts, run_checks.tool_count, "so many calls in all, or {TOOL: number}"),
    "tool-arguments": Kind(shapes.arguments, run_checks.tool_arguments, "a call of the tool had these arguments"),
    "tool-call-f1": Kind(shapes.texts, run_checks.tool_call_f1, "F1 of called and expected tools is at least `threshold` (1)"),
    "rounds": Kind(shapes.at_most, run_checks.rounds, "model calls, at most; or min and max"),
    "tokens": Kind(shapes.at_most, run_checks.tokens, "tokens in and out, at most; or min and max"),
    "cost": Kind(shapes.limit_or_threshold, run_checks.cost, "US dollars, at most"),
    "seconds": Kind(shapes.at_most, run_checks.seconds, "from the start of the run to its end, at most"),
    "latency": Kind(shapes.nothing, run_checks.latency, "milliseconds, at most `threshold`", needs_threshold=True),
    "ended": Kind(shapes.endings, run_checks.ended, "how the run ended: stop, length, limit, waiting, failed, …"),
    "judge": Kind(shapes.text, _no_score, "a model says whether the answer meets this criterion"),
}  # fmt: skip


def score_free(outcome: Outcome, check: Check) -> Score:
    """Of a check that needs no model."""
    found = KINDS[check.kind].score(outcome, check)
    if not check.negated:
        return found
    if check.kind == "cost" and outcome.cost is None:
        return found  # not known is neither
    holds = not found.passed
    return Score(holds, 1.0 - found.value, "" if holds else f"it is so, and must not be: {check.kind}")
