"""What an evaluation is made of, as values: a suite, its cases, their checks and mocks. `read` makes them; nothing here runs."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from ronda.errors import BadConfig
from ronda.prompty.report import Problem

DEFAULT_JUDGE_THRESHOLD: Final = 0.5  # promptfoo's for a judge's score, where a file says none
SCRIPT: Final = "script"  # the model of this name plays the `script` of each case
SCRIPT_EXECUTOR: Final = "ronda-eval-"  # how the scripts of cases are registered, for prompty files
JUDGE_KINDS: Final = frozenset({"judge"})  # checks that ask a model; all others are free

Json: TypeAlias = Any


class BadSuite(BadConfig):
    """A file that is no evaluation. `problems` has all that is wrong with it."""

    def __init__(self, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        super().__init__("\n".join(describe_problem(path, problem) for problem in problems))


def describe_problem(path: str, problem: Problem) -> str:
    """`weather.eval.yaml:7: cases[0].expect: …`"""
    location = path if problem.line is None else f"{path}:{problem.line}"
    text = problem.message if problem.severity == "error" else f"warning: {problem.message}"
    return ": ".join(part for part in (location, problem.field, text) if part)


class Judge(Struct, frozen=True):
    """A prompty file that scores answers. `file` is None for Ronda's own judge; `model` goes before the file's own."""

    file: str | None = None
    model: ModelChoice | None = None


class Check(Struct, frozen=True):
    """One thing that must hold. `kind` names a row of `check_kinds.KINDS`; `value` was checked against that row."""

    kind: str
    value: Json = None
    threshold: float | None = None
    negated: bool = False
    weight: float = 1.0
    judge: Judge | None = None

    @property
    def name(self) -> str:
        return f"not-{self.kind}" if self.negated else self.kind

    @property
    def is_free(self) -> bool:
        return self.kind not in JUDGE_KINDS


class MockAnswer(Struct, frozen=True):
    """What a mock gives. `arguments` None: for any call; else for calls that have these among theirs."""

    returns: Json = None
    fails: str | None = None
    arguments: dict[str, Json] | None = None


class Mock(Struct, frozen=True):
    """A tool that is not called: what it gives stands in the file. `sequence`: the n-th call gets the n-th answer, and
    later calls the last. `description` and `parameters` are for tools that nothing else declares."""

    name: str
    answers: tuple[MockAnswer, ...] = ()
    sequence: bool = False
    description: str = ""
    parameters: dict[str, Json] | None = None


class ModelChoice(Struct, frozen=True):
    """A model to ask. `spec` is Ronda's name for it, or `script`."""

    spec: str
    label: str = ""
    base_url: str | None = None
    options: dict[str, Json] = {}

    @property
    def name(self) -> str:
        return self.label or self.spec


class Prompt(Struct, frozen=True):
    """What is asked: a prompty file (`file`), or a template for the one user message (`text`)."""

    label: str
    file: str | None = None
    text: str | None = None


class Case(Struct, frozen=True):
    """`inputs` fill the prompt in; `messages` are the conversation itself. `cassette` and `run` name a run that is
    scored instead of a new one."""

    name: str
    inputs: dict[str, Json] = {}
    messages: tuple[dict[str, Json], ...] = ()
    checks: tuple[Check, ...] = ()
    mocks: tuple[Mock, ...] = ()
    script: tuple[Json, ...] = ()
    repeat: int | None = None
    threshold: float | None = None
    approve: bool | dict[str, bool] | None = None
    cassette: str | None = None
    run: str | None = None
    models: tuple[str, ...] = ()  # patterns; empty: all of the suite's


class Price(Struct, frozen=True):
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0


class Suite(Struct, frozen=True):
    path: str
    prompts: tuple[Prompt, ...]
    cases: tuple[Case, ...]
    models: tuple[ModelChoice, ...] = ()  # empty: each file's own
    tools: tuple[str, ...] = ()  # Python files with real tools
    judge: Judge = Judge()
    repeat: int = 1
    concurrency: int | None = None
    max_cost: float | None = None
    max_iterations: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None  # of each answer, where the options of its model do not say it
    prices: Mapping[str, Price] = {}
    warnings: tuple[Problem, ...] = ()


def digest(*values: Json) -> str:
    """A short name for values that are equal: whichever process asks, it is the same."""
    encoded = msgspec.json.encode(values, order="sorted")
    return blake2b(encoded, digest_size=10).hexdigest()
