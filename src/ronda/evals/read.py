"""A file → a `Suite`, or all that is wrong with it, with lines.

promptfoo's words are taken where Ronda has the same thing: `providers` is `models`, `tests` is `cases`, `vars` is `inputs`,
`defaultTest` is `defaults`. What of promptfoo is not supported is an error that says so: a check that is silently left out
would always pass.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ronda.evals.files import SuiteFiles, Unreadable
from ronda.evals.promptfoo import IGNORED_KEYS, UNSUPPORTED_KEYS
from ronda.evals.read_cases import MAX_REPEAT, Defaults, read_cases, read_mocks
from ronda.evals.read_checks import CheckReader
from ronda.evals.read_models import read_model, read_models, read_prompts
from ronda.evals.shapes import refuse_unknown, texts
from ronda.evals.suite import BadSuite, Judge, Price, Prompt, Suite, describe_problem
from ronda.prompty.report import At, Problem, Report
from ronda.prompty.yaml_tree import BadYaml, parse_yaml

TOP: Final = (
    "description", "name", "agent", "prompts", "models", "providers", "targets", "tools", "mocks", "judge", "defaults",
    "defaultTest", "cases", "tests", "repeat", "concurrency", "max_cost", "max_iterations", "max_seconds", "max_tokens",
    "prices", "evaluateOptions", *IGNORED_KEYS,
)  # fmt: skip
SUFFIXES: Final = (".eval.yaml", ".eval.yml", ".eval.json")
_RUN_KEYS: Final = ("maxConcurrency", "repeat", "showProgressBar", "cache", "delay")
_INPUT: Final = Prompt("input", text="{{input}}")  # cases may bring all there is to ask


def is_suite(path: str) -> bool:
    """Whether a file is an evaluation by its name."""
    return path.endswith(SUFFIXES) or Path(path).name in ("promptfooconfig.yaml", "promptfooconfig.yml")


def load_suite(path: str | os.PathLike[str]) -> Suite:
    """Read an evaluation. Raises `BadSuite` with every problem of the file."""
    suite, problems = look(os.fspath(path))
    errors = [problem for problem in problems if problem.severity == "error"]
    if suite is None or errors:
        raise BadSuite(os.fspath(path), errors)
    return suite


def check_suite(path: str | os.PathLike[str]) -> list[Problem]:
    """Every problem of a file, in the order of its lines. Raises nothing."""
    return look(os.fspath(path))[1]


def look(path: str) -> tuple[Suite | None, list[Problem]]:
    files = SuiteFiles(Path(path).parent)
    report = Report(path)
    try:
        report.tree = parse_yaml(files.text(Path(path).name))
    except Unreadable as error:
        return None, [Problem(None, "", str(error))]
    except BadYaml as error:
        return None, [Problem(error.line, "", str(error))]
    for fault in report.tree.faults:
        report.add(fault.place, fault.message)
    top = At(report.tree.value, (), report)
    if not isinstance(top.value, dict):
        return None, [Problem(1, "", "an evaluation is a mapping with 'agent' (or 'prompts') and 'cases'")]
    suite = _suite(top, files, path)
    problems = report.problems()
    for other in files.reports:
        problems += [Problem(None, "", describe_problem(str(other.path), problem)) for problem in other.problems()]
    return suite, problems


def _suite(top: At, files: SuiteFiles, path: str) -> Suite:
    refuse_unknown(top, TOP, UNSUPPORTED_KEYS)
    providers = next((top[key] for key in ("providers", "targets") if top[key].is_given), None)
    models = read_models(top["models"], files, theirs=False)
    if providers is not None:
        models = (*models, *read_models(providers, files, theirs=True))
    listed = top["cases"] if top["cases"].is_given else top["tests"]
    if not listed.is_given:
        top.problem("there are no cases: give 'cases'")
    default_at = top["defaults"] if top["defaults"].is_given else top["defaultTest"]
    judge = _judge(top["judge"], default_at["options"], files)
    options = top["evaluateOptions"]
    options.is_mapping()
    refuse_unknown(options, _RUN_KEYS)
    repeat = (top["repeat"] if top["repeat"].is_given else options["repeat"]).integer()
    if repeat is not None and not 1 <= repeat <= MAX_REPEAT:
        top["repeat"].problem(f"repeat is {repeat}; it is a number from 1 to {MAX_REPEAT}")
    concurrency = (top["concurrency"] if top["concurrency"].is_given else options["maxConcurrency"]).integer()
    if concurrency is not None and concurrency < 1:
        top["concurrency"].problem(f"concurrency is {concurrency}; it must be at least 1")
    defaults = Defaults(default_at)
    cases = (
        read_cases(listed, defaults, read_mocks(top["mocks"]), files, CheckReader(files, judge))
        if listed.is_given
        else []
    )
    if listed.is_given and not cases and not listed.report.errors:
        listed.problem("there are no cases")
    return Suite(
        path=path,
        prompts=_prompts(top, files),
        cases=tuple(cases),
        models=models,
        tools=tuple(str(files.find(one)) if one.endswith(".py") else one for one in _tools(top["tools"])),
        judge=judge,
        repeat=repeat or 1,
        concurrency=concurrency,
        max_cost=top["max_cost"].number(),
        max_iterations=top["max_iterations"].integer(),
        max_seconds=top["max_seconds"].number(),
        max_tokens=top["max_tokens"].integer(),
        prices=_prices(top["prices"]),
    )


def _tools(at: At) -> list[str]:
    return texts(at) if at.is_given else []


def _prompts(top: At, files: SuiteFiles) -> tuple[Prompt, ...]:
    agent, prompts = top["agent"], top["prompts"]
    found = (read_prompts(agent, files) if agent.is_given else ()) + (
        read_prompts(prompts, files) if prompts.is_given else ()
    )
    labels = [prompt.label for prompt in found]
    if len(set(labels)) < len(labels):
        prompts.problem("two prompts have the same label; give each a 'label' of its own")
    return found or (_INPUT,)


def _judge(at: At, options: At, files: SuiteFiles) -> Judge:
    """`judge: FILE.prompty`, or {file, model}; promptfoo names the judge's model in `defaultTest.options.provider`."""
    model = None
    if options["provider"].is_given:
        model = read_model(options["provider"], files, theirs=True)
    if not at.is_given:
        return Judge(model=model)
    if isinstance(at.value, dict):
        refuse_unknown(at, ("file", "model"))
        if at["model"].is_given:
            model = read_model(at["model"], files, theirs=False)
        name, where = at["file"].maybe_text(), at["file"]
    else:
        name, where = at.maybe_text(), at
    if name is not None and not files.find(name).is_file():
        where.problem(f"there is no file {files.find(name)}")
    return Judge(None if name is None else str(files.find(name)), model)


def _prices(at: At) -> dict[str, Price]:
    """US dollars for a million tokens, by the model's name."""
    prices: dict[str, Price] = {}
    at.is_mapping()
    for name, item in at.fields():
        if item.is_mapping():
            refuse_unknown(item, ("input", "output"))
            prices[name] = Price(item["input"].number() or 0.0, item["output"].number() or 0.0)
    return prices
