"""`cases` (promptfoo: `tests`) → cases, with the suite's defaults under each, from the file itself or from files of rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from ronda.errors import BadConfig
from ronda.evals.files import MAX_CASES, SuiteFiles
from ronda.evals.promptfoo import OPTION_KEYS, UNSUPPORTED_CASE_KEYS
from ronda.evals.read_checks import CheckReader
from ronda.evals.shapes import refuse_unknown
from ronda.evals.suite import Case, Check, Mock, MockAnswer
from ronda.prompty.report import At
from ronda.prompty.segments import TemplateError
from ronda.prompty.template import render
from ronda.providers.script_file import Script

DEFAULT_KEYS: Final = (
    "inputs", "vars", "expect", "assert", "mocks", "repeat", "threshold", "approve", "options", "metadata",
)  # fmt: skip
CASE_KEYS: Final = (
    "name", "description", "input", "messages", "script", "cassette", "run", "models", "providers", "tags", *DEFAULT_KEYS,
)  # fmt: skip
MAX_REPEAT: Final = 1_000
_SHORT_NAME: Final = 48
_MOCK_KEYS: Final = ("returns", "fails", "answers", "sequence", "description", "parameters")


class Defaults:
    """What holds for every case, unless the case says otherwise."""

    def __init__(self, at: At) -> None:
        at.is_mapping()
        refuse_unknown(at, DEFAULT_KEYS, UNSUPPORTED_CASE_KEYS)
        self.at = at
        self.inputs = {**at["vars"].mapping(), **at["inputs"].mapping()}
        self.mocks = read_mocks(at["mocks"])


def read_cases(
    listed: At, defaults: Defaults, mocks: dict[str, Mock], files: SuiteFiles, checks: CheckReader
) -> list[Case]:
    cases: list[Case] = []
    taken: dict[str, int] = {}
    for item in _listed(listed, files):
        if not item.is_mapping():
            continue
        refuse_unknown(item, CASE_KEYS, UNSUPPORTED_CASE_KEYS)
        refuse_unknown(item["options"], OPTION_KEYS)
        for inputs in _expanded(item, defaults, files):
            case = _case(item, inputs, defaults, mocks, files, checks, len(cases))
            count = taken[case.name] = taken.get(case.name, 0) + 1
            if count > 1 and item["name"].is_given:
                item["name"].problem(f"two cases are named '{case.name}'")
            cases.append(case if count == 1 else _renamed(case, f"{case.name} #{count}"))
            if len(cases) > MAX_CASES:
                listed.problem(f"there are more than {MAX_CASES} cases")
                return cases
    return cases


def _listed(listed: At, files: SuiteFiles) -> Iterator[At]:
    """The cases in the file, and those in the files that it names."""
    if isinstance(listed.value, str):
        yield from files.rows(listed)
        return
    if not isinstance(listed.value, list):
        listed.problem("a list of cases, or the name of a file of them, is needed here")
        return
    for item in listed.items():
        if isinstance(item.value, str):
            yield from files.rows(item)
        else:
            yield item


def _expanded(item: At, defaults: Defaults, files: SuiteFiles) -> Iterator[dict[str, Any]]:
    """promptfoo's `vars` with lists are a case for each combination. `inputs` are taken as they are."""
    own = {name: files.resolve(value).value for name, value in _mapping(files.resolve(item["vars"])).fields()}
    inputs = {name: files.resolve(value).value for name, value in _mapping(item["inputs"]).fields()}
    if isinstance(text := item["input"].value, str):
        inputs["input"] = text
    lists = {name: value for name, value in own.items() if isinstance(value, list)}
    if not lists or item["options"]["disableVarExpansion"].flag():
        yield {**defaults.inputs, **own, **inputs}
        return
    for chosen in itertools.islice(itertools.product(*lists.values()), MAX_CASES):
        yield {**defaults.inputs, **own, **dict(zip(lists, chosen, strict=True)), **inputs}


def _mapping(at: At) -> At:
    """The same; what is none is reported."""
    at.is_mapping()
    return at


def _case(
    item: At,
    inputs: dict[str, Any],
    defaults: Defaults,
    mocks: dict[str, Mock],
    files: SuiteFiles,
    checks: CheckReader,
    index: int,
) -> Case:
    filled = _filled(item, inputs)
    usual = _filled(defaults.at, inputs)
    found: tuple[Check, ...] = (*checks.read(usual), *checks.read(filled))
    cassette = item["cassette"].maybe_text()
    if not any(at[key].is_given for at in (item, defaults.at) for key in ("expect", "assert")):
        item.problem("the case has no check: give it 'expect' or 'assert'")
    script = item["script"]
    if script.is_given:
        _check_script(script)
    repeat = _first(item, defaults, "repeat").integer()
    if repeat is not None and not 1 <= repeat <= MAX_REPEAT:
        item["repeat"].problem(f"repeat is {repeat}; it is a number from 1 to {MAX_REPEAT}")
    return Case(
        name=_name(item, inputs, index),
        inputs=inputs,
        messages=tuple(_messages(item["messages"])),
        checks=found,
        mocks=tuple({**mocks, **defaults.mocks, **read_mocks(item["mocks"])}.values()),
        script=tuple(script.value) if isinstance(script.value, list) else (),
        repeat=repeat,
        threshold=_first(item, defaults, "threshold").number(),
        approve=_approve(_first(item, defaults, "approve")),
        cassette=None if cassette is None else str(files.find(cassette)),
        run=item["run"].maybe_text(),
        models=_patterns(item["models"] if item["models"].is_given else item["providers"]),
    )


def _check_script(script: At) -> None:
    if not isinstance(script.value, list):
        script.problem("a list of turns is needed here, as in a file of script:")
        return
    try:
        Script.of(script.value, "it")
    except BadConfig as error:
        script.problem(f"the model cannot play this: {error}")


def _first(item: At, defaults: Defaults, key: str) -> At:
    return item[key] if item[key].is_given else defaults.at[key]


def _name(item: At, inputs: dict[str, Any], index: int) -> str:
    if name := item["name"].text() or item["description"].text():
        return name
    words = ", ".join(str(value) for value in inputs.values() if isinstance(value, str | int | float))
    line = " ".join(words.split())
    return (line if len(line) <= _SHORT_NAME else f"{line[: _SHORT_NAME - 1]}…") or f"case {index + 1}"


def _renamed(case: Case, name: str) -> Case:
    return replace(case, name=name)


def _messages(at: At) -> Iterator[dict[str, Any]]:
    if at.is_given and not isinstance(at.value, list):
        at.problem("a list of messages, {role: …, content: …}, is needed here")
    for item in at.items():
        if item.is_mapping():
            if item["role"].value not in ("system", "developer", "user", "assistant", "tool"):
                item.problem("a message has a 'role': system, user, assistant or tool")
            yield item.mapping()


def _patterns(at: At) -> tuple[str, ...]:
    return (at.text(),) if isinstance(at.value, str) else at.texts() or ()


def _approve(at: At) -> bool | dict[str, bool] | None:
    if isinstance(at.value, dict):
        return {name: item.flag() for name, item in at.fields()}
    return at.maybe_flag()


# ---- templates in checks ------------------------------------------------------------------------------------------------


def _filled(item: At, inputs: dict[str, Any]) -> At:
    """The same case with `{{name}}` in its checks filled in, as promptfoo does."""
    if not isinstance(item.value, dict):
        return item
    value = dict(item.value)
    for key in ("expect", "assert"):
        if key in value:
            try:
                value[key] = _rendered(value[key], inputs)
            except TemplateError as error:
                item[key].problem(f"a template in it cannot be filled in: {error}")
    return At(value, item.place, item.report)


def _rendered(value: Any, inputs: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return str(render(value, inputs)) if "{{" in value else value
    if isinstance(value, list):
        return [_rendered(one, inputs) for one in value]
    if isinstance(value, dict):
        return {name: _rendered(one, inputs) for name, one in value.items()}
    return value


# ---- mocks --------------------------------------------------------------------------------------------------------------


def read_mocks(at: At) -> dict[str, Mock]:
    """`get_weather: 22 degrees`; or a mapping with `returns`, `fails` or `answers`."""
    if not at.is_given or not at.is_mapping():
        return {}
    return {name: _mock(name, item) for name, item in at.fields()}


def _mock(name: str, at: At) -> Mock:
    if not isinstance(at.value, dict) or not set(at.value) & set(_MOCK_KEYS):
        return Mock(name, (MockAnswer(returns=at.value),))
    refuse_unknown(at, _MOCK_KEYS)
    ways = [key for key in ("returns", "fails", "answers", "sequence") if key in at.value]
    if len(ways) != 1:
        at.problem("a mock has one of 'returns', 'fails', 'answers' and 'sequence'")
    answers: list[MockAnswer] = []
    match ways[:1]:
        case ["answers"]:
            answers = [_answer(item, with_arguments=True) for item in at["answers"].items()]
        case ["sequence"]:
            answers = [
                _answer(item) if isinstance(item.value, dict) else MockAnswer(returns=item.value)
                for item in at["sequence"].items()
            ]
        case _:
            answers = [MockAnswer(returns=at["returns"].value, fails=at["fails"].maybe_text())]
    if not answers:
        at.problem("a list of answers is needed here")
    parameters = at["parameters"]
    return Mock(
        name,
        tuple(answers),
        ways == ["sequence"],
        at["description"].text(),
        parameters.mapping() if parameters.is_given else None,
    )


def _answer(at: At, with_arguments: bool = False) -> MockAnswer:
    keys = ("returns", "fails", "arguments") if with_arguments else ("returns", "fails")
    if not set(at.mapping()) & set(keys):
        return MockAnswer(returns=at.value)
    refuse_unknown(at, keys)
    arguments = at["arguments"]
    return MockAnswer(
        at["returns"].value, at["fails"].maybe_text(), arguments.mapping() if arguments.is_given else None
    )
