"""A run as lists show it → JSON: the rows of GET /v1/runs, which GET /v1/events has, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ronda.core.events import RunStarted
from ronda.journal import RunSummary
from ronda.journal.tally import Beginning, Figures
from ronda.wire.own.runs import write_summary


def write_row(one: RunSummary) -> dict[str, Any]:
    """A run in a list. What an older Ronda did not note is null."""
    beginning, figures = one.beginning, one.figures
    return {
        **write_summary(one.run, one.state, one.agent, one.session, one.started, one.ended),
        "model": None if beginning is None else beginning.model,
        "input": None if beginning is None else beginning.words,
        "parent": None if beginning is None else _parent(beginning),
        "group": None if beginning is None else beginning.group or None,
        "kept": one.kept,
        "rounds": None if figures is None else figures.rounds,
        "tool_calls": None if figures is None else figures.tool_calls,
        "usage": None if figures is None else write_usage(figures),
        "cost": None if figures is None else figures.cost,
        "end": None if figures is None or not figures.end else _end(figures),
        "questions": [
            {
                "id": open_question.question.id,
                "kind": open_question.question.kind,
                "tool": open_question.question.tool or None,
                "asked_at": open_question.question.at,
            }
            for open_question in one.questions
        ],
    }


def row_of_start(start: RunStarted) -> dict[str, Any]:
    """The row of a run that has just been queued."""
    return write_row(
        RunSummary(start.run, start.session, start.agent, "queued", start.at, None, Beginning.of(start), Figures())
    )


def _parent(beginning: Beginning) -> Mapping[str, str | None] | None:
    return {"run": beginning.parent, "call": beginning.call or None} if beginning.parent else None


def write_usage(figures: Figures) -> dict[str, int]:
    return {
        "input_tokens": figures.input,
        "output_tokens": figures.output,
        "cached_tokens": figures.cached,
        "reasoning_tokens": figures.reasoning,
    }


def _end(figures: Figures) -> dict[str, str | None]:
    is_limit = figures.end == "limit"
    code = figures.code or None
    return {"reason": figures.end, "limit": code if is_limit else None, "code": None if is_limit else code}
