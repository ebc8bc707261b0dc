"""A report → text for a terminal: what failed first, with its reasons; then prompts and models side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from ronda.evals.compare import Change, Comparison
from ronda.evals.report import AttemptResult, EvalReport, Status, VariantSummary, by_case

_MARKS: Final[dict[Status, str]] = {"failed": "FAIL", "error": "ERROR", "not_run": "NOT RUN", "passed": "pass"}
_COLOURS: Final = {"FAIL": 31, "ERROR": 31, "NOT RUN": 33, "pass": 32}  # red, yellow, green
_MAX_NAME: Final = 40  # characters of a case's name in the table
_Figure: TypeAlias = Callable[[VariantSummary], str]
_ORDER: Final[tuple[Status, ...]] = ("error", "failed", "not_run")


def write_table(report: EvalReport, comparison: Comparison | None = None, colours: bool = False) -> str:
    lines: list[str] = []
    groups = by_case(report.attempts)
    alone = len(report.variants) == 1
    for status in _ORDER:
        for key, attempts in groups.items():
            of_status = [attempt for attempt in attempts if attempt.status == status]
            if of_status and status == _worst(attempts):
                lines += _failing(key, attempts, of_status, alone, colours)
    if lines:
        lines.append("")
    lines += _grid(_side_by_side(report, groups), colours)
    lines.append("")
    if comparison is not None:
        lines += [*_compared(comparison), ""]
    if report.stopped:
        lines.append(f"stopped: {report.stopped}")
    lines.append(_total(report))
    return "\n".join(lines) + "\n"


def _worst(attempts: Iterable[AttemptResult]) -> Status:
    statuses = {attempt.status for attempt in attempts}
    return next((status for status in _ORDER if status in statuses), "passed")


def _failing(
    key: tuple[str, str, str],
    attempts: Sequence[AttemptResult],
    failed: Sequence[AttemptResult],
    alone: bool,
    colours: bool,
) -> list[str]:
    case, prompt, model = key
    where = "" if alone else f"  ({prompt}, {model})"
    count = f"  {len(failed)} of {len(attempts)}" if len(attempts) > 1 else ""
    reasons = dict.fromkeys(reason for attempt in failed for reason in attempt.reasons)
    mark = _painted(_MARKS[failed[0].status], colours)
    return [f"{mark}  {case}{where}{count}", *[f"      {reason}" for reason in reasons]]


def _side_by_side(report: EvalReport, groups: dict[tuple[str, str, str], list[AttemptResult]]) -> list[list[str]]:
    """Cases down, a column for each prompt with each model; those that failed anywhere stand on top."""
    variants = report.variants
    several_prompts = len({one.prompt for one in variants}) > 1
    heads = [f"{one.prompt} · {one.model}" if several_prompts else one.model for one in variants]
    rows = [["", *heads]]
    cases = list(dict.fromkeys(attempt.case for attempt in report.attempts))
    worst = {case: _worst(one for one in report.attempts if one.case == case) for case in cases}
    for case in sorted(cases, key=lambda name: (*_ORDER, "passed").index(worst[name])):
        cells = [_cell(groups.get((case, one.prompt, one.model), [])) for one in variants]
        rows.append([case if len(case) <= _MAX_NAME else f"{case[: _MAX_NAME - 1]}…", *cells])
    rows += [[label, *[figure(one) for one in variants]] for label, figure in _figures(report)]
    return rows


def _cell(attempts: Sequence[AttemptResult]) -> str:
    if not attempts:
        return "-"
    if len(attempts) == 1:
        return _MARKS[attempts[0].status]
    return f"{sum(attempt.status == 'passed' for attempt in attempts)}/{len(attempts)}"


def _figures(report: EvalReport) -> list[tuple[str, _Figure]]:
    most = max((max(one.pass_at, default=0) for one in report.variants), default=0)
    found: list[tuple[str, _Figure]] = [("passed", lambda one: f"{one.passed}/{one.attempts}")]
    if any(one.errors for one in report.variants):
        label = "errors (not in pass@k)" if most > 1 else "errors"
        found.append((label, lambda one: str(one.errors)))
    if most > 1:
        found += [
            ("pass@1", lambda one: _share(one.pass_at.get(1))),
            (f"pass@{most}", lambda one: _share(one.pass_at.get(most))),
            (f"pass^{most}", lambda one: _share(one.pass_hat.get(most))),
        ]
    if any(one.seed is not None for one in report.variants):
        found.append(("seed", lambda one: "-" if one.seed is None else str(one.seed)))
    return [
        *found,
        ("tokens", lambda one: f"{one.tokens:,}"),
        ("cost", lambda one: "not known" if one.cost is None else f"${one.cost:.4f}"),
        ("seconds (median)", lambda one: f"{one.seconds:.2f}"),
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _grid(rows: Sequence[Sequence[str]], colours: bool) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *cells in rows:
        padded = [
            _painted(cell, colours) + " " * (width - len(cell)) for cell, width in zip(cells, widths[1:], strict=True)
        ]
        lines.append("  ".join([name.ljust(widths[0]), *padded]).rstrip())
    return lines


def _painted(mark: str, colours: bool) -> str:
    return f"\x1b[{_COLOURS[mark]}m{mark}\x1b[0m" if colours and mark in _COLOURS else mark


def _compared(comparison: Comparison) -> list[str]:
    lines = []
    for change in _CHANGES:
        for one in comparison.of(change) if change != "same" else ():
            before, now = (("-" if rate is None else f"{rate:.0%}") for rate in (one.before, one.now))
            lines.append(f"{change:<7} {one.case}  {before} → {now}")
    counts = ", ".join(f"{len(comparison.of(change))} {change}" for change in _CHANGES)
    return [*lines, f"against the baseline: {counts}"]


def _total(report: EvalReport) -> str:
    counts = [(len(report.of(status)), word) for status, word in _WORDS]
    return f"{', '.join(f'{count} {word}' for count, word in counts if count)} of {len(report.attempts)}"


_CHANGES: Final[tuple[Change, ...]] = ("worse", "better", "same", "new", "gone")
_WORDS: Final[tuple[tuple[Status, str], ...]] = (
    ("passed", "passed"),
    ("failed", "failed"),
    ("error", "with an error"),
    ("not_run", "not run"),
)
