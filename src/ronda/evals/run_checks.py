"""Checks of what a run did: its tools, their arguments, order and number; its rounds, tokens, cost, time and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ronda.agent.result import CalledTool
from ronda.evals.outcome import Outcome
from ronda.evals.suite import Check
from ronda.evals.text_checks import Score, passed_if

# ---- tools --------------------------------------------------------------------------------------------------------------


def tool_used(outcome: Outcome, check: Check) -> Score:
    """`value`: rows of {pattern, min, max}."""
    for row in check.value:
        count = sum(fnmatchcase(call.name, row["pattern"]) for call in outcome.calls)
        low, high = row["min"], row["max"]
        if count < low or (high is not None and count > high):
            wanted = f"at least {low}" if count < low else f"at most {high}"
            times = "never called" if not count else f"called {count} times"
            return passed_if(False, f"'{row['pattern']}' was {times}, and not {wanted} times; {_calls(outcome)}")
    return passed_if(True, "")


def tool_never(outcome: Outcome, check: Check) -> Score:
    found = [call.name for call in outcome.calls if any(fnmatchcase(call.name, one) for one in check.value)]
    return passed_if(not found, f"'{found[0] if found else ''}' was called; {_calls(outcome)}")


def tool_order(outcome: Outcome, check: Check) -> Score:
    """`value`: {steps, mode}. In order: others may come between them."""
    names = [call.name for call in outcome.calls]
    steps: Sequence[str] = check.value["steps"]
    if check.value["mode"] == "exact":
        holds = len(names) == len(steps) and all(map(fnmatchcase, names, steps))
    else:
        rest = iter(names)
        holds = all(any(fnmatchcase(name, step) for name in rest) for step in steps)
    return passed_if(holds, f"the calls are not in the order {' → '.join(steps)}; {_calls(outcome)}")


def tool_count(outcome: Outcome, check: Check) -> Score:
    """`value`: rows of {pattern, min, max}; a pattern of '*' counts all calls."""
    for row in check.value:
        count = sum(fnmatchcase(call.name, row["pattern"]) for call in outcome.calls)
        low, high = row["min"], row["max"]
        if (low is not None and count < low) or (high is not None and count > high):
            what = "tools were" if row["pattern"] == "*" else f"'{row['pattern']}' was"
            return passed_if(False, f"{what} called {count} times; {_calls(outcome)}")
    return passed_if(True, "")


def tool_arguments(outcome: Outcome, check: Check) -> Score:
    """`value`: rows of {pattern, arguments, mode, defaults, ignore, any_of}. Each row needs a call of its own: two rows for
    one tool mean two calls of it."""
    calls = list(outcome.calls)
    for row in check.value:
        of_tool = [call for call in calls if fnmatchcase(call.name, row["pattern"])]
        fitting = next((call for call in of_tool if arguments_fit(call, row)), None)
        if fitting is None:
            if not of_tool:
                return passed_if(False, f"'{row['pattern']}' was never called; {_calls(outcome)}")
            return passed_if(False, f"no call of '{row['pattern']}' has {row['arguments']}; {_calls(outcome)}")
        calls.remove(fitting)
    return passed_if(True, "")


def arguments_fit(call: CalledTool, row: Mapping[str, Any]) -> bool:
    defaults, ignore = row["defaults"], row["ignore"]
    actual = {
        name: value
        for name, value in call.arguments.items()
        if not (name in defaults and defaults[name] == value) and not any(fnmatchcase(name, one) for one in ignore)
    }
    expected = {
        name: value for name, value in row["arguments"].items() if not any(fnmatchcase(name, one) for one in ignore)
    }
    if row["any_of"]:  # for each argument the values that are right; one that may be left out has "" among them
        return all(_is_one_of(actual, name, accepted) for name, accepted in expected.items()) and (
            row["mode"] != "exact" or set(actual) <= set(expected)
        )
    return actual == expected if row["mode"] == "exact" else _is_part(expected, actual)


def _is_one_of(actual: Mapping[str, Any], name: str, accepted: Sequence[Any]) -> bool:
    return "" in accepted if name not in actual else any(_same(actual[name], one) for one in accepted)


def _same(value: Any, accepted: Any) -> bool:
    if isinstance(value, str) and isinstance(accepted, str):
        return value.strip().casefold() == accepted.strip().casefold()
    if isinstance(value, Mapping) and isinstance(accepted, Mapping):
        return set(value) <= set(accepted) and all(
            _is_one_of(value, name, one if isinstance(one, list) else [one]) for name, one in accepted.items()
        )
    if isinstance(value, list) and isinstance(accepted, list):
        return len(value) == len(accepted) and all(map(_same, value, accepted))
    return bool(value == accepted)


def _is_part(expected: Any, actual: Any) -> bool:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and _is_part(value, actual[name]) for name, value in expected.items())
    return bool(expected == actual)


def tool_call_f1(outcome: Outcome, check: Check) -> Score:
    """How well the set of tools that were called agrees with the set that was expected."""
    actual, expected = {call.name for call in outcome.calls}, set(check.value)
    both = len(actual & expected)
    value = 2 * both / (len(actual) + len(expected)) if both else 0.0
    holds = value >= (1.0 if check.threshold is None else check.threshold)
    return Score(holds, value, "" if holds else f"F1 is {value:.2f}; {_calls(outcome)}")


def _calls(outcome: Outcome) -> str:
    if not outcome.calls:
        return "no tool was called"
    counts = Counter(call.name for call in outcome.calls)
    if len(outcome.calls) > 6:
        return "called were " + ", ".join(f"{name} ({count})" for name, count in counts.items())
    return "called were " + ", ".join(f"{call.name}({_shown(call.arguments)})" for call in outcome.calls)


def _shown(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= 80 else f"{text[:79]}…"


# ---- the run ------------------------------------------------------------------------------------------------------------


def rounds(outcome: Outcome, check: Check) -> Score:
    return _within(outcome.rounds, check, f"it took {outcome.rounds} rounds")


def tokens(outcome: Outcome, check: Check) -> Score:
    return _within(outcome.tokens, check, f"it used {outcome.tokens} tokens")


def seconds(outcome: Outcome, check: Check) -> Score:
    return _within(outcome.seconds, check, f"it took {outcome.seconds:.2f} seconds")


def latency(outcome: Outcome, check: Check) -> Score:
    """promptfoo's: milliseconds, in `threshold`."""
    took = outcome.seconds * 1000
    limit = check.threshold or 0.0
    return passed_if(took <= limit, f"it took {took:.0f} milliseconds, and at most {limit:g} are allowed")


def cost(outcome: Outcome, check: Check) -> Score:
    if outcome.cost is None:
        return passed_if(False, "what it cost is not known: the provider does not say; give 'prices' in the file")
    if check.threshold is not None:
        reason = f"it cost ${outcome.cost:.6f}, and at most ${check.threshold:g} are allowed"
        return passed_if(outcome.cost <= check.threshold, reason)
    return _within(outcome.cost, check, f"it cost ${outcome.cost:.6f}")


def ended(outcome: Outcome, check: Check) -> Score:
    message = f": {outcome.message}" if outcome.message else ""
    return passed_if(outcome.ended in check.value, f"the run ended with '{outcome.ended}'{message}")


def _within(value: float, check: Check, what: str) -> Score:
    low, high = check.value["min"], check.value["max"]
    if low is not None and value < low:
        return passed_if(False, f"{what}, and at least {low:g} are expected")
    return passed_if(high is None or value <= high, f"{what}, and at most {high} are allowed")
