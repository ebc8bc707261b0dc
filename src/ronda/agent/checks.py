"""What people give to an agent or to a run, by name → nothing, or an error that names it and says what to write instead.

A value of the wrong kind is refused here, before a model is called, and not where it is first used. What is read into something
else (tools, options, limits, guardrails) is checked where it is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ronda.agent.cancel import Cancel
from ronda.core.limits import Retry, Timeouts
from ronda.core.plan import PermissionRule
from ronda.core.steering import Steering


class Kind(NamedTuple):
    fits: Callable[[Any], bool]
    way_out: str


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_rules(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(rule, PermissionRule) for rule in value)


def _is_position(value: object) -> bool:
    return isinstance(value, tuple) and [type(one) for one in value] == [str, int]


def _is_extension(value: object) -> bool:
    return hasattr(value, "around") and hasattr(value, "tap") and not isinstance(value, type)


_TEXT: Final = Kind(_of(str), "it is a text")
_SWITCH: Final = Kind(_of(bool), "it is True or False")
_RETRY: Final = Kind(_of(Retry), "write retry=Retry(tries=3)")
_FOLDER: Final = Kind(_of(str, os.PathLike), "it is the path of a folder")

AGENT_FIELDS: Final[Mapping[str, Kind]] = {
    "base_url": _TEXT,
    "api_key": _TEXT,
    "instructions": _TEXT,
    "retry": _RETRY,
    "timeouts": Kind(_of(Timeouts), "write timeouts=Timeouts(connect=10, first_byte=600, silence=120)"),
    "api_version": _TEXT,
    "vision": _SWITCH,
    "transport": Kind(lambda value: hasattr(value, "routes"), "write transport=Transport(proxy='http://HOST:PORT')"),
    "name": _TEXT,
    "description": _TEXT,
}

RUN_OPTIONS: Final[Mapping[str, Kind]] = {
    "on_event": Kind(callable, "give a function that is called with each event"),
    "cancel": Kind(_of(Cancel), "write cancel=Cancel(), and keep it to cancel the run"),
    "parallel_tool_calls": _SWITCH,
    "retry": _RETRY,
    "session": _TEXT,
    "owner": _TEXT,
    "journal": Kind(
        lambda value: hasattr(value, "barrier"), "write journal=SqliteJournal('runs.db'), from ronda.journal.sqlite"
    ),
    "parent": Kind(_is_position, "it is the id of a run and the number of its events, as ('run_…', 12)"),
    "steering": Kind(_of(Steering), "write steering=Steering(), and keep it to send messages"),
    "context_budget": Kind(lambda value: type(value) is int, "it is a number of characters"),
    "compaction": Kind(
        lambda value: callable(value) or isinstance(value, (str, os.PathLike)) or hasattr(value, "model"),
        "give a function of the turns to sum up, or an agent",
    ),
    "approve": Kind(callable, "give a function that is called with each question, and returns True or False"),
    "permissions": Kind(_is_rules, "write permissions=[PermissionRule('ask', tool='NAME')]"),
    "workspace": _FOLDER,
    "result_files": Kind(
        lambda value: isinstance(value, (str, os.PathLike)) or hasattr(value, "limits"), "it is the path of a folder"
    ),
    "record": Kind(_of(str, os.PathLike), "it is the path of the cassette to write"),
    "extensions": Kind(
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_extension, value)),
        "it is a list of objects with the methods 'around' and 'tap', such as [MyHooks()]",
    ),
}


def misfit(given: Mapping[str, Any], kinds: Mapping[str, Kind]) -> tuple[str, str] | None:
    """The first value that is not what it should be: its name, and what is wrong with it. None stands for no value."""
    for name, value in given.items():
        kind = kinds.get(name)
        if value is not None and kind is not None and not kind.fits(value):
            shown = f"a {type(value).__name__}" if name == "api_key" else f"{value!r:.200}"
            return name, f"{name} is {shown}; {kind.way_out}"
    return None


def unknown_name(given: Iterable[str], known: Iterable[str]) -> tuple[str, str] | None:
    """The first name that is not known, and which was meant, or which there are."""
    if not (unknown := set(given).difference(known)):
        return None
    from ronda.agent.other_names import meant  # for mistakes only

    name, names = min(unknown), sorted(known)
    closest = meant(name, names)
    return name, f"there is {', '.join(names)}" if closest is None else f"did you mean {closest!r}?"
