"""Checks of an answer's text and JSON: (outcome, check) → a score, and in words why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.evals.outcome import Outcome
from ronda.evals.suite import Check
from ronda.schema.validate import SchemaError, Validator

_SHOWN: Final = 160  # characters of an answer that a reason quotes
_MAX_STARTS: Final = 1_000  # brackets of an answer at which JSON is looked for
_MAX_EDITED: Final = 4_000  # characters of texts whose distance is measured: the time grows with their product
DEFAULT_DISTANCE: Final = 5.0  # promptfoo's for levenshtein


class Score(Struct, frozen=True):
    """`value` is from 0 to 1. `reason` is said of a check that failed, and of a judge's in any case."""

    passed: bool
    value: float
    reason: str = ""


def passed_if(holds: bool, reason: str) -> Score:
    return Score(holds, 1.0 if holds else 0.0, "" if holds else reason)


def quoted(text: str) -> str:
    line = " ".join(text.split())
    return json.dumps(line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…", ensure_ascii=False)


def equals(outcome: Outcome, check: Check) -> Score:
    expected = check.value
    if isinstance(expected, str):
        holds = outcome.answer.strip() == expected.strip()
    else:
        found = read_json(outcome.answer)
        holds = found is not None and found[0] == expected
        expected = msgspec.json.encode(expected).decode()
    return passed_if(holds, f"the answer is {quoted(outcome.answer)}, and not {quoted(expected)}")


def contains(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer, [check.value], all)


def icontains(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer.casefold(), [check.value.casefold()], all)


def contains_all(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer, check.value, all)


def contains_any(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer, check.value, any)


def icontains_all(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer.casefold(), [one.casefold() for one in check.value], all)


def icontains_any(outcome: Outcome, check: Check) -> Score:
    return _contains(outcome.answer, outcome.answer.casefold(), [one.casefold() for one in check.value], any)


def _contains(answer: str, text: str, wanted: list[str], how: Any) -> Score:
    missing = [one for one in wanted if one not in text]
    names = ", ".join(map(quoted, missing))
    return passed_if(how(one in text for one in wanted), f"the answer does not contain {names}: {quoted(answer)}")


def starts_with(outcome: Outcome, check: Check) -> Score:
    reason = f"the answer does not start with {quoted(check.value)}: {quoted(outcome.answer)}"
    return passed_if(outcome.answer.startswith(check.value), reason)


def regex(outcome: Outcome, check: Check) -> Score:
    reason = f"the answer does not match {check.value}: {quoted(outcome.answer)}"
    return passed_if(re.search(check.value, outcome.answer) is not None, reason)


def word_count(outcome: Outcome, check: Check) -> Score:
    count = len(outcome.answer.split())
    low, high = check.value["min"], check.value["max"]
    holds = (low is None or count >= low) and (high is None or count <= high)
    return passed_if(holds, f"the answer has {count} words")


def levenshtein(outcome: Outcome, check: Check) -> Score:
    limit = DEFAULT_DISTANCE if check.threshold is None else check.threshold
    distance = _distance(outcome.answer[:_MAX_EDITED], check.value[:_MAX_EDITED])
    return passed_if(distance <= limit, f"the answer is {distance} edits away, and at most {limit:g} are allowed")


def _distance(one: str, other: str) -> int:
    """Written out: the packages that have it are compiled ones, and it is needed in this one place."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        above, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (left != right))
    return row[-1]


# ---- JSON ---------------------------------------------------------------------------------------------------------------


def read_json(text: str) -> tuple[Any] | None:
    """A text that is JSON, with or without a Markdown fence around it; in a tuple, since null is a value, too."""
    text = text.strip()
    if fenced := re.fullmatch(r"```(?:json)?\s*\n(.*?)\n?```", text, re.DOTALL):
        text = fenced.group(1)
    try:
        return (msgspec.json.decode(text),)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _json_in(text: str) -> Iterator[Any]:
    """Objects and lists inside a text, from the left."""
    decoder = json.JSONDecoder()
    starts = [found.start() for found in re.finditer(r"[{\[]", text)]
    for start in starts[:_MAX_STARTS]:
        try:
            yield decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue


def is_json(outcome: Outcome, check: Check) -> Score:
    found = read_json(outcome.answer)
    if found is None:
        return passed_if(False, f"the answer is not JSON: {quoted(outcome.answer)}")
    if check.value is None:
        return passed_if(True, "")
    problem = explain(check.value, found[0])
    return passed_if(problem is None, f"the answer does not fit the schema: {problem}")


def contains_json(outcome: Outcome, check: Check) -> Score:
    problem = f"there is no JSON in the answer: {quoted(outcome.answer)}"
    for value in _json_in(outcome.answer):
        wrong = None if check.value is None else explain(check.value, value)
        if wrong is None:
            return passed_if(True, "")
        problem = f"the JSON in the answer does not fit the schema: {wrong}"
    return passed_if(False, problem)


def explain(schema: Any, value: Any) -> str | None:
    try:
        return Validator(schema).explain(value)
    except SchemaError as error:
        return f"the schema is wrong: {error}"
