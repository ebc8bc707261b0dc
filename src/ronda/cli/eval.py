"""`ronda eval FILE`: cases are run and scored; what failed is printed first. Ends with 0, 1, 2 or 3: see `docs/evaluate.md`."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from ronda.cli.files import is_file
from ronda.cli.terminal import answer_alone, has_colours
from ronda.errors import BadConfig
from ronda.evals import (
    AttemptResult,
    BadSuite,
    EvalReport,
    ModelChoice,
    Suite,
    compare,
    evaluate,
    last_eval_id,
    load_suite,
    read_report,
    to_json,
)
from ronda.evals.suite import SCRIPT
from ronda.providers import split_spec

if TYPE_CHECKING:
    from ronda.drive import Tool
    from ronda.evals import Comparison
    from ronda.journal.sqlite import SqliteJournal

PASSED: Final = 0
FAILED: Final = 1  # a check did not hold; with --baseline: something became worse
COULD_NOT_RUN: Final = 2  # the file, or a model, or a judge
INCOMPLETE: Final = 3  # stopped at the cost limit
KEEP_DAYS: Final = 90  # for which evaluations in the state folder can be continued


def eval(arguments: argparse.Namespace) -> int:  # noqa: A001  # the command's name, by which it is found
    if is_file(arguments.file):
        name = Path(arguments.file).name
        raise BadConfig(
            f"{arguments.file} is an agent and no evaluation; write a file with 'agent: {name}' and its cases"
        )
    try:
        suite = load_suite(arguments.file)
    except BadSuite as error:
        print(error, file=sys.stderr)
        return COULD_NOT_RUN
    _check_flags(arguments)
    baseline = None if arguments.baseline is None else read_report(arguments.baseline)
    models = [_model(spec) for spec in arguments.model or ()]
    if arguments.record is not None:
        Path(arguments.record).mkdir(parents=True, exist_ok=True)
    with answer_alone() as out:
        report = asyncio.run(_evaluate(suite, models, arguments))
        comparison = None if baseline is None else compare(baseline, report)
        _write(report, comparison, arguments, out)
    return _exit_code(report, comparison, arguments.min_pass_rate)


def _check_flags(arguments: argparse.Namespace) -> None:
    for name in ("repeat", "jobs", "limit"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise BadConfig(f"--{name} is {value}; it must be at least 1")
    if arguments.min_pass_rate is not None and not 0 <= arguments.min_pass_rate <= 1:
        raise BadConfig(f"--min-pass-rate is {arguments.min_pass_rate}; it is a number from 0 to 1")
    if arguments.resume and arguments.from_journal is not None:
        raise BadConfig("--resume runs what is missing, and --from-journal runs nothing; choose one")


def _model(spec: str) -> ModelChoice:
    if spec != SCRIPT:
        split_spec(spec)
    return ModelChoice(spec)


async def _evaluate(suite: Suite, models: list[ModelChoice], arguments: argparse.Namespace) -> EvalReport:
    journal = _open_journal(suite, arguments)
    try:
        eval_id = None
        if arguments.resume or arguments.from_journal is not None:
            eval_id = await last_eval_id(journal)
            if eval_id is None and not _names_runs(suite):
                raise BadConfig(f"{journal.path} has no evaluation to continue; run it without --resume first")
        return await evaluate(
            suite,
            journal=journal,
            tools=_tools([*suite.tools, *(arguments.tools or ())]),
            models=models or None,
            repeat=arguments.repeat,
            concurrency=arguments.jobs,
            max_cost=arguments.max_cost,
            eval_id=eval_id,
            calls_models=arguments.from_journal is None,
            record=arguments.record,
            judge_model=None if arguments.judge_model is None else _model(arguments.judge_model),
            only=arguments.case or (),
            limit=arguments.limit,
            on_result=_progress if sys.stderr.isatty() else None,
        )
    finally:
        await journal.close()


def _names_runs(suite: Suite) -> bool:
    return any(case.run is not None or case.cassette is not None for case in suite.cases)


def _tools(paths: list[str]) -> list[Tool]:
    if not paths:
        return []
    from ronda.server.services.tools_file import load_tools

    return list(load_tools(paths).tools)


def _open_journal(suite: Suite, arguments: argparse.Namespace) -> SqliteJournal:
    from ronda.journal.sqlite import SqliteJournal

    if arguments.from_journal is not None:
        path = Path(arguments.from_journal)
        path = path / "journal.db" if path.is_dir() else path  # the data folder of a server
        if not path.is_file():
            raise BadConfig(f"there is no journal at {path}")
        return SqliteJournal(path)
    if arguments.journal is not None:
        return SqliteJournal(arguments.journal)
    path = _usual_journal(suite.path)
    if arguments.resume and not path.is_file():
        raise BadConfig(f"no evaluation of {suite.path} was begun here; run it without --resume first")
    path.parent.mkdir(parents=True, exist_ok=True)
    return SqliteJournal(path, max_age=KEEP_DAYS * 86_400.0)


def _usual_journal(path: str) -> Path:
    """In the state folder, by the file's name and where it is."""
    from ronda.cli.serve import state_folder

    where = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=6).hexdigest()
    return state_folder() / "evals" / f"{Path(path).name.partition('.')[0]}-{where}.db"


def _progress(result: AttemptResult, done: int, total: int) -> None:
    mark = {"passed": ".", "failed": "F", "error": "E", "not_run": "-"}[result.status]
    line = f"{done}/{total} {mark} {result.case[:60]:<60}"
    sys.stderr.write(f"\r{line}")
    if done == total:  # the table says all of it
        sys.stderr.write(f"\r{' ' * len(line)}\r")
    sys.stderr.flush()


def _write(report: EvalReport, comparison: Comparison | None, arguments: argparse.Namespace, out: TextIO) -> None:
    from ronda.evals.junit import write_junit
    from ronda.evals.table import write_table

    shown = False
    for path, write in ((arguments.json, to_json), (arguments.junit, write_junit)):
        if path == "-":
            print(write(report), end="", file=out)
            shown = True
        elif path is not None:
            _write_file(path, write(report))
    if not shown:
        print(write_table(report, comparison, has_colours(out)), end="", file=out)


def _write_file(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, "utf-8")
    except OSError as error:
        raise BadConfig(f"cannot write {path}: {error.strerror}") from error


def _exit_code(report: EvalReport, comparison: Comparison | None, min_pass_rate: float | None) -> int:
    if report.of("error"):
        return COULD_NOT_RUN
    if comparison is not None:
        if comparison.is_worse:
            return FAILED
    elif min_pass_rate is not None:
        if report.pass_rate < min_pass_rate:
            return FAILED
    elif report.of("failed"):
        return FAILED
    return INCOMPLETE if report.of("not_run") else PASSED
