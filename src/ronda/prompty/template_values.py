"""Values inside a template: what they are, which are true, how they read as text.

The portable leaf semantics of the Prompty subset, the same for Jinja and Mustache: `true` and `false` in lower case, floats as
short as they go, nothing for null and for what is not there. A template only ever sees plain data, so there is no attribute of
a Python object to reach.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence, Set
from typing import Any

import msgspec

from ronda.prompty.segments import Budget, Fragment, Rich, TemplateError


class Undefined:
    """What is not there: prints nothing, is false, and so is everything asked of it."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


def plain(value: Any) -> Any:
    """The value as JSON would have it. Objects give their fields; what has none gives its own `str`."""
    if value is None or type(value) in (str, int, float, bool) or isinstance(value, Rich):
        return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str | int) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str):
        return str(value)  # a subclass may be anything
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Sequence | Set):
        return [plain(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.structs.asdict(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    dump = getattr(type(value), "model_dump", None)  # a pydantic model
    return plain(dump(value)) if callable(dump) else str(value)


def bare(value: Any) -> Any:
    """The value behind what a template may be holding: a rich input's data, a fragment's text."""
    if isinstance(value, Rich):
        return plain(value.value)
    return value.text if isinstance(value, Fragment) else value


def truthy(value: Any) -> bool:
    """False are: the empty string, list and mapping, 0, 0.0, false, null, and what is not there."""
    if isinstance(value, Rich):
        return truthy(value.value) if isinstance(value.value, str | Sequence | Mapping) else value.value is not None
    if isinstance(value, Fragment):
        return any(segment.text for segment in value.segments)
    return bool(value)


def absent(value: Any) -> bool:
    return value is None or value is UNDEFINED


def text(value: Any, budget: Budget) -> str:
    """How a value reads. Lists and mappings read as JSON: the subset leaves them open, and a model reads JSON best."""
    if type(value) is str:
        return value
    if value is None or value is UNDEFINED:
        return ""
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Fragment):
        return value.text
    if isinstance(value, Rich):
        raise TemplateError(f"the {value.kind} '{value.name}' can be placed, not changed as text")
    if isinstance(value, dict | list | tuple):
        budget.weigh(value)
        return json.dumps(portable(value), ensure_ascii=False)
    raise TemplateError(f"{kind_of(value)} cannot be printed")


def number(value: float) -> str:
    """As short as it goes: 1, not 1.0."""
    if math.isfinite(value) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def portable(value: Any) -> Any:
    """What `json` can write, of whatever a template built."""
    if isinstance(value, dict):
        return {str(key): portable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [portable(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if value is UNDEFINED:
        return None
    if isinstance(value, Rich):
        return portable(plain(value.value))
    if isinstance(value, Fragment):
        return value.text
    if value is None or isinstance(value, str | int | float):
        return value
    raise TemplateError(f"{kind_of(value)} cannot be printed")


def kind_of(value: Any) -> str:
    """A word for messages."""
    if absent(value):
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str | Fragment):
        return "text"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, Rich):
        return f"the {value.kind} '{value.name}'"
    return "a list" if isinstance(value, list | tuple) else "a function"


def items_of(value: Any) -> list[Any]:
    """What a loop goes over: the items of a list, the keys of a mapping in their order, the characters of a text."""
    if isinstance(value, Rich) and isinstance(value.value, Sequence) and not isinstance(value.value, str | bytes):
        if value.kind == "thread":
            return [plain(item) for item in value.value]
        # A list of images is several images: each can be placed on its own.
        return [
            Rich(value.name, value.kind, item, f"{value.marker[:-2]}_{index}__")
            for index, item in enumerate(value.value)
        ]
    value = value.text if isinstance(value, Fragment) else value
    if absent(value):
        return []
    if isinstance(value, list | tuple | dict | str):
        return list(value)
    raise TemplateError(f"{kind_of(value)} has no items to go over")


def member(value: Any, key: Any) -> Any:
    """`a.b`, `a["b"]`, `a[0]`: a key of a mapping, a place in a list counted from 0; nothing else, never an error but one."""
    if isinstance(key, str) and key.startswith("__"):
        raise TemplateError(f"'{key}' cannot be reached from a template")
    if isinstance(value, Rich) and isinstance(key, int):
        items = items_of(value) if isinstance(value.value, Sequence) and not isinstance(value.value, str) else []
        return items[key] if 0 <= key < len(items) else UNDEFINED
    value = bare(value)
    if isinstance(value, dict):
        return value.get(key, UNDEFINED) if isinstance(key, str | int | float) else UNDEFINED
    if isinstance(value, list | tuple | str) and type(key) is int and 0 <= key < len(value):
        return value[key]  # no negative index: the subset has none
    return UNDEFINED
