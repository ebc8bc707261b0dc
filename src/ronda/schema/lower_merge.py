"""Schemas that hold together, or of which one holds → a single schema without `allOf`, `anyOf`, `oneOf`.

Never tighter than what went in: where two schemas cannot be said in one, the second gives way. `lost` is called each time
something got lost, so that the caller knows not to do this inside a `not`.

Both schemas are 2020-12. What is in them may be shared with the result, and is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ronda.schema.lower_draft import ANNOTATIONS
from ronda.schema.subschemas import Schema

Lost = Callable[[], None]

# Keywords that mean something only together: taken from one side or the other, never mixed.
_UNITS: Final = (
    ("if", "then", "else"),
    ("contains", "minContains", "maxContains"),
    ("$ref",),
    ("$dynamicRef",),
    ("not",),
    ("anyOf",),
    ("oneOf",),
    ("allOf",),
)
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas")
_SINGLE: Final = ("items", "additionalProperties", "propertyNames")
DEFINITIONS: Final = ("$defs", "definitions")
_NAMES: Final = ("$id", "$anchor", "$dynamicAnchor", "$schema", "$vocabulary")


def both(first: Any, second: Any, lost: Lost) -> Any:
    """A schema for what fits both. Their own `properties` and `additionalProperties` are pooled, which only allows more."""
    if first is False or second is False:
        return False
    if not isinstance(first, dict) or first == {}:
        return second if isinstance(second, dict) else first
    if not isinstance(second, dict) or first == second:
        return first
    merged = dict(first)
    for keyword in ("unevaluatedProperties", "unevaluatedItems"):
        if keyword in first or keyword in second:
            # Each looks at what its own side knows. Pooled they would see less, or more: in general it cannot be told.
            merged.pop(keyword, None)
            lost()
    taken = _take_units(merged, second, lost)
    for keyword, value in second.items():
        if keyword in taken or keyword in _NAMES or keyword in ("unevaluatedProperties", "unevaluatedItems"):
            continue
        if keyword not in merged:
            merged[keyword] = value
        elif merged[keyword] != value and keyword not in ANNOTATIONS:
            _merge(merged, keyword, value, lost)
    return merged


def _take_units(merged: Schema, second: Schema, lost: Lost) -> set[str]:
    taken: set[str] = set()
    for unit in _UNITS:
        taken.update(unit)
        if not any(keyword in second for keyword in unit):
            continue
        if not any(keyword in merged for keyword in unit):
            merged.update({keyword: second[keyword] for keyword in unit if keyword in second})
        elif any(merged.get(keyword) != second.get(keyword) for keyword in unit):
            lost()
    return taken


def _merge(merged: Schema, keyword: str, value: Any, lost: Lost) -> None:
    mine = merged[keyword]
    if keyword == "type":
        common = _common_types(_list_types(mine), _list_types(value))
        if common:
            merged[keyword] = common[0] if len(common) == 1 else common
        else:
            lost()  # nothing fits, which no provider has an equivalent of
    elif keyword == "required" and isinstance(mine, list) and isinstance(value, list):
        merged[keyword] = list(dict.fromkeys([*mine, *value]))
    elif keyword in _MAPS and isinstance(mine, dict) and isinstance(value, dict):
        merged[keyword] = {
            name: both(mine[name], value[name], lost) if name in mine and name in value else {**mine, **value}[name]
            for name in {**mine, **value}
        }
    elif keyword == "prefixItems" and isinstance(mine, list) and isinstance(value, list):
        longer, shorter = (mine, value) if len(mine) >= len(value) else (value, mine)
        merged[keyword] = [both(a, b, lost) for a, b in zip(mine, value, strict=False)] + longer[len(shorter) :]
    elif keyword in _SINGLE:
        merged[keyword] = both(mine, value, lost)
    elif keyword in DEFINITIONS and isinstance(mine, dict) and isinstance(value, dict):
        merged[keyword] = {**value, **mine}
    elif keyword == "dependentRequired" and isinstance(mine, dict) and isinstance(value, dict):
        merged[keyword] = {
            name: list(dict.fromkeys([*mine.get(name, ()), *value.get(name, ())])) for name in {**mine, **value}
        }
    elif keyword == "enum" and isinstance(mine, list) and isinstance(value, list):
        if common := [option for option in mine if any(same(option, other) for other in value)]:
            merged[keyword] = common
        else:
            lost()
    elif keyword in _LOWER and _numbers(mine, value):
        merged[keyword] = max(mine, value)
    elif keyword in _UPPER and _numbers(mine, value):
        merged[keyword] = min(mine, value)
    elif keyword == "uniqueItems":
        merged[keyword] = mine is True or value is True
    else:
        lost()


def either(branches: Sequence[Any], lost: Lost) -> Schema:
    """An object schema for whatever object fits one of the branches, which have no combinations at their own root.

    A property that some branch leaves open can be anything at all, so there only its description is left.
    """
    objects = [branch for branch in branches if _may_be_object(branch)]
    if not objects:
        return {}
    if len(objects) == 1:
        return dict(objects[0]) if isinstance(objects[0], dict) else {}
    known = [branch if isinstance(branch, dict) else {} for branch in objects]
    merged: Schema = {}
    names = list(dict.fromkeys(name for branch in known for name in _properties(branch)))
    if names:
        merged["properties"] = {name: _one_of_several(name, known) for name in names}
    required = [name for name in _required_names(known[0]) if all(name in _required_names(branch) for branch in known)]
    if required:
        merged["required"] = required
    if all(branch.get("additionalProperties") is False and "patternProperties" not in branch for branch in known):
        merged["additionalProperties"] = False
    lost()
    return merged


def _one_of_several(name: str, branches: list[Schema]) -> Any:
    options: list[Any] = []
    open_ended = False
    for branch in branches:
        properties = _properties(branch)
        rest = True if "patternProperties" in branch else branch.get("additionalProperties", True)
        option = properties.get(name, rest)
        if option is False:
            continue
        if name not in properties and not (isinstance(option, dict) and option):
            open_ended = True
        elif not any(same(option, other) for other in options):
            options.append(option)
    if open_ended:
        first = next((option for option in options if isinstance(option, dict)), {})
        return {key: value for key, value in first.items() if key in ("title", "description")}
    if not options:
        return False
    return options[0] if len(options) == 1 else {"anyOf": options}


# ---- small questions --------------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 1 and 1.0 are, 1 and true are not, although Python thinks so."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _common_types(mine: list[str], theirs: list[str]) -> list[str]:
    common = [name for name in mine if name in theirs or (name == "integer" and "number" in theirs)]
    if "integer" in theirs and "number" in mine and "integer" not in common:
        common.append("integer")
    return common


def _list_types(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else list(types) if isinstance(types, list) else []


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)


def _may_be_object(schema: Any) -> bool:
    if isinstance(schema, dict):
        return "type" not in schema or "object" in _list_types(schema["type"])
    return schema is not False


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _required_names(schema: Schema) -> list[str]:
    required = schema.get("required")
    return required if isinstance(required, list) else []
