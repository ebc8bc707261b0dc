"""What a check is given in a file → its value in one form. What does not fit is reported with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ronda._suggest import did_you_mean
from ronda.errors import quote_names
from ronda.evals.outcome import ENDINGS
from ronda.prompty.report import At
from ronda.schema.validate import check_schema

Shape: TypeAlias = Callable[[At], Any]


def refuse_unknown(at: At, known: tuple[str, ...], hints: dict[str, str] | None = None) -> None:
    """A misspelt key would be a check that is never made: it is an error, not a warning."""
    for key, item in at.fields():
        if key not in known:
            hint = (hints or {}).get(key) or did_you_mean(key, known, f"there is {quote_names(known)}")
            item.problem(f"unknown key '{key[:60]}'; {hint}")


def text(at: At) -> str:
    if isinstance(at.value, int | float) and not isinstance(at.value, bool):
        return str(at.value)  # promptfoo takes numbers for text
    if not at.is_given:
        at.problem("a text is needed here")
    return at.text()


def texts(at: At) -> list[str]:
    if isinstance(at.value, str | int | float) and not isinstance(at.value, bool):
        return [text(at)]
    if not isinstance(at.value, list) or not at.value:
        at.problem("a text, or a list of texts, is needed here")
        return []
    return [text(item) for item in at.items()]


def anything(at: At) -> Any:
    if not at.is_given:
        at.problem("a value is needed here")
    return at.value


def pattern(at: At) -> str:
    found = text(at)
    try:
        re.compile(found)
    except re.error as error:
        at.problem(f"{found!r} is no regular expression: {error}")
    return found


def maybe_schema(at: At) -> Any:
    if not at.is_given or at.value is True:
        return None
    if not isinstance(at.value, dict):
        at.problem("a JSON Schema, which is a mapping, is needed here")
        return None
    if (wrong := check_schema(at.value)) is not None:
        at.problem(f"the schema is wrong: {wrong}")
    return at.value


def nothing(at: At) -> None:
    if at.is_given and at.value is not True:
        at.problem("nothing belongs here; the limit stands in 'threshold'")


_RANGE: Final = ("min", "max")


def _range(at: At, exactly: bool) -> dict[str, Any]:
    if isinstance(at.value, dict):
        refuse_unknown(at, _RANGE)
        low, high = at["min"].number(), at["max"].number()
        if low is None and high is None:
            at.problem("'min', 'max' or both are needed here")
        return {"min": low, "max": high}
    found = at.number()
    if found is None and not at.is_given:
        at.problem("a number, or a mapping with 'min' and 'max', is needed here")
    return {"min": found if exactly else None, "max": found}


def at_most(at: At) -> dict[str, Any]:
    """A number is a limit: at most so much."""
    return _range(at, exactly=False)


def exactly(at: At) -> dict[str, Any]:
    return _range(at, exactly=True)


def limit_or_threshold(at: At) -> dict[str, Any]:
    """Of cost: promptfoo gives it as `threshold`, and then there is no value."""
    return {"min": None, "max": None} if not at.is_given else at_most(at)


def endings(at: At) -> list[str]:
    found = texts(at)
    for one in found:
        if one not in ENDINGS:
            at.problem(
                f"a run cannot end with '{one}'; {did_you_mean(one, ENDINGS, f'there is {quote_names(ENDINGS)}')}"
            )
    return found


# ---- tools --------------------------------------------------------------------------------------------------------------


def used(at: At) -> list[dict[str, Any]]:
    """A name, a list of names, or {name | pattern, min, max}."""
    if isinstance(at.value, dict):
        refuse_unknown(at, ("name", "pattern", *_RANGE))
        low, high = at["min"].integer(), at["max"].integer()
        return [{"pattern": _name(at), "min": 1 if low is None else low, "max": high}]
    if isinstance(at.value, list) and any(isinstance(item.value, dict) for item in at.items()):
        return [row for item in at.items() for row in used(item)]
    return [{"pattern": name, "min": 1, "max": None} for name in texts(at)]


def _name(at: At) -> str:
    name = at["name"].text() or at["pattern"].text()
    if not name:
        at.problem("'name' (or 'pattern') says which tool is meant")
    return name


def counts(at: At) -> list[dict[str, Any]]:
    """A number of calls in all; or by name; or {pattern, min, max}."""
    if not isinstance(at.value, dict) or set(at.value) <= {*_RANGE}:
        return [{"pattern": "*", **exactly(at)}]
    if "pattern" in at.value or "name" in at.value:
        return used(at)
    return [{"pattern": name, **exactly(item)} for name, item in at.fields()]


def steps(at: At) -> dict[str, Any]:
    if isinstance(at.value, dict):
        refuse_unknown(at, ("steps", "mode"))
        found = at["steps"]
        names = [_name(item) if isinstance(item.value, dict) else text(item) for item in found.items()]
        if not names:
            found.problem("a list of tool names is needed here")
        return {"steps": names, "mode": at["mode"].one_of(("in_order", "exact"), "in_order")}
    return {"steps": texts(at), "mode": "in_order"}


_ARGUMENT_KEYS: Final = ("name", "pattern", "args", "arguments", "mode", "defaults", "ignore", "any_of")


def arguments(at: At) -> list[dict[str, Any]]:
    """promptfoo's {name, args, mode, defaults, ignore}; or {TOOL: arguments}; or a list of either."""
    if isinstance(at.value, list):
        return [row for item in at.items() for row in arguments(item)]
    if not at.is_mapping() or not at.value:
        if isinstance(at.value, dict) or not at.is_given:
            at.problem("a mapping of tools and their arguments is needed here")
        return []
    if "args" in at.value or "arguments" in at.value:
        refuse_unknown(at, _ARGUMENT_KEYS)
        given = at["args"] if at["args"].is_given else at["arguments"]
        is_any_of = at["any_of"].flag()
        if is_any_of:
            for _, item in given.fields():
                if not isinstance(item.value, list):
                    item.problem("with 'any_of', a list of accepted values is needed here")
        ignore = at["ignore"]
        return [
            {
                "pattern": _name(at),
                "arguments": given.mapping(),
                "mode": at["mode"].one_of(("partial", "exact"), "partial"),
                "defaults": at["defaults"].mapping(),
                "ignore": texts(ignore) if ignore.is_given else [],
                "any_of": is_any_of,
            }
        ]
    rows: list[dict[str, Any]] = []
    for name, item in at.fields():
        several = list(item.items()) if isinstance(item.value, list) else [item]
        rows += [{**_PLAIN, "pattern": name, "arguments": one.mapping()} for one in several]
    return rows


_PLAIN: Final[dict[str, Any]] = {"mode": "partial", "defaults": {}, "ignore": [], "any_of": False}
