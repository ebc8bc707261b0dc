"""The flags of `ronda eval`, and examples of how it is called."""

from __future__ import annotations

from typing import Final

from ronda.cli.flags import Flags

EXAMPLES: Final = """\
examples, with the flags behind 'ronda eval weather.eval.yaml':
  (none)                                  run every case; failures stand on top
  -m openai-chat:gpt-5.5 -m local:smollm2 two models side by side
  --repeat 5 -j 8                         each case five times: pass@5, pass^5
  --max-cost 0.50                         begin no case after half a dollar
  --resume                                continue where the last one stopped
  --json now.json --baseline before.json  what became better, what worse
  --journal runs.db                       keep the runs in a file of your own
  --from-journal runs.db                  score them again; no model is called

ends with:
  0  every case passed
  1  a check failed; with --baseline: a case became worse, or a new one fails
  2  the file is wrong, or a model or a judge could not be asked
  3  stopped at the cost limit before all cases were run
"""


def add_eval_flags(flags: Flags) -> None:
    flags.positional("file", "the evaluation", metavar="FILE.eval.yaml")
    flags.several(
        "-m, --model SPEC",
        "a model to ask in the place of the file's; 'script' plays each case's script; may be repeated",
    )
    flags.several("--tools FILE.py", "a Python file with real tools; may be repeated")
    flags.several("--case NAME", "only this case, or those that a pattern with * fits; may be repeated")
    flags.whole("--limit N", "only the first N cases")
    flags.whole("--repeat N", "ask each case N times (default 1, or what the file says)")
    flags.whole("-j, --jobs N", "cases at a time (default 4)")
    flags.number("--max-cost USD", "begin no case once so much was spent")
    flags.text("--judge-model SPEC", "the model of judges, in the place of the file's")
    flags.text("--journal FILE.db", "where the runs are kept (default: a file in your state folder)")
    flags.switch("--resume", "continue the last evaluation of this file: finished cases are not run again")
    flags.text(
        "--from-journal FILE.db|DIR",
        "score runs that were kept there, or in the data folder of a server; no model is called",
    )
    flags.text("--record DIR", "write a cassette of each run into this folder")
    flags.text(
        "--baseline FILE.json",
        "an earlier report: say what became better and worse, and end with 1 if something is worse",
    )
    flags.number("--min-pass-rate SHARE", "end with 0 if at least this share of attempts passed, from 0 to 1")
    flags.text("--json FILE", "write the report as JSON; '-' prints it instead of the table")
    flags.text("--junit FILE", "write the report as JUnit's XML; '-' prints it instead of the table")
