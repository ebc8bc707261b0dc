"""Evaluations: a file of cases with checks → runs of agents, kept in a journal → a report.

    suite = load_suite("weather.eval.yaml")
    report = await evaluate(suite, journal=SqliteJournal("runs.db"))

Everything goes through the library's own doors (`run_agent`, `resume_agent`, journals, cassettes). Nothing here knows of a
terminal: `ronda eval` prints what this makes.
"""

from ronda.evals.compare import Comparison, compare
from ronda.evals.evaluate import evaluate, last_eval_id, new_eval_id
from ronda.evals.read import check_suite, is_suite, load_suite
from ronda.evals.report import AttemptResult, EvalReport, read_report, to_json
from ronda.evals.suite import BadSuite, ModelChoice, Suite

__all__ = [
    "AttemptResult",
    "BadSuite",
    "Comparison",
    "EvalReport",
    "ModelChoice",
    "Suite",
    "check_suite",
    "compare",
    "evaluate",
    "is_suite",
    "last_eval_id",
    "load_suite",
    "new_eval_id",
    "read_report",
    "to_json",
]
