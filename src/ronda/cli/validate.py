"""`ronda validate FILE…`: every problem of prompty files and evaluations, with its line. Ends with 2 if there is one."""

from __future__ import annotations

import argparse

from ronda.cli.files import environment
from ronda.prompty.report import Problem


def validate(arguments: argparse.Namespace) -> int:
    failed = False
    for file in arguments.files:
        problems = _problems(file)
        for problem in problems:
            place = file if problem.line is None else f"{file}:{problem.line}"
            text = problem.message if problem.severity == "error" else f"warning: {problem.message}"
            print(": ".join(part for part in (place, problem.field, text) if part))
            failed = failed or problem.severity == "error" or arguments.strict
        if not problems:
            print(f"{file}: no problems")
    return 2 if failed else 0


def _problems(file: str) -> list[Problem]:
    from ronda.evals.read import check_suite, is_suite

    if is_suite(file):
        return check_suite(file)
    from ronda.prompty.validate import validate as problems_of

    return problems_of(file, env=environment(file))
