"""Inputs, outputs and parameters in any of their forms → `Property` values, and the two forms of everything with a name.

A list of mappings with names, or a mapping of names: both say the same. A plain value stands for a property whose default
it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ronda.errors import quote_names
from ronda.prompty.model import KINDS, Property
from ronda.prompty.report import At

_Named = TypeVar("_Named")

PROPERTY = Property.__struct_encode_fields__


def read_properties(at: At, what: str) -> tuple[Property, ...]:
    """A list of properties with names, or a mapping of names to properties or to values."""
    return read_named(at, what, _property)


def read_named(at: At, what: str, read: Callable[[At, str], _Named | None]) -> tuple[_Named, ...]:
    """The things of a list, each with its `name`, or of a mapping, each under its name. No name twice."""
    found: dict[str, _Named] = {}
    if isinstance(at.value, dict):
        for name, item in at.fields():
            if (one := read(item, name)) is not None:
                found[name] = one
        return tuple(found.values())
    if at.is_given and not isinstance(at.value, list):
        at.problem(f"a list of {_plural(what)} or a mapping is needed here")
    for item in at.items():
        if not isinstance(item.value, dict):
            item.problem(f"{_article(what)} of a list is a mapping with a name")
            continue
        name = item["name"].text()
        if not name:
            if not item["name"].is_given or item["name"].value == "":
                item.problem(f"{_article(what)} needs a name")
            continue
        if name in found:
            item["name"].problem(f"two {_plural(what)} are named '{name}'")
            continue
        if (one := read(item, name)) is not None:
            found[name] = one
    return tuple(found.values())


def _plural(what: str) -> str:
    return f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"


def _article(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _property(at: At, name: str = "") -> Property:
    value = at.value
    if not isinstance(value, dict) or not is_property(value):
        # The specification makes a plain value the default; its schema makes it the example, which then has no effect.
        return Property(name=name, kind=_kind_of(value), default=value)
    at.warn_unknown(PROPERTY, {"type": "it is 'kind'", "enum": "it is 'enumValues'"})
    kind = at["kind"].text() or _implied_kind(value)
    if kind not in KINDS:
        at["kind"].warn(f"unknown kind '{kind}'; there are {quote_names(KINDS)}")
    enum = at["enumValues"]
    if enum.is_given and not isinstance(enum.value, list):
        enum.problem("a list of values is needed here")
    one_of, any_of = _branches(at["oneOf"]), _branches(at["anyOf"])
    if kind == "union" and at["oneOf"].is_given == at["anyOf"].is_given:
        at.problem("a union needs either 'oneOf' or 'anyOf', with at least one property")
    found = Property(
        name=name,
        kind=kind,
        description=at["description"].text(),
        required=at["required"].flag(),
        nullable=at["nullable"].flag(),
        default=at["default"].value,
        example=at["example"].value,
        enum_values=tuple(enum.value) if isinstance(enum.value, list) else None,
        items=_items(at["items"]),
        properties=read_properties(at["properties"], "property") if at["properties"].is_given else None,
        one_of=one_of,
        any_of=any_of,
    )
    _check_default(at, found)
    return found


def is_property(value: dict[str, Any]) -> bool:
    """A mapping without a kind may be a property, or the default of an object: it is one if only its keys are used."""
    return isinstance(value.get("kind"), str) or (bool(value) and value.keys() <= set(PROPERTY))


def _implied_kind(value: dict[str, Any]) -> str:
    for key, kind in (("items", "array"), ("properties", "object"), ("oneOf", "union"), ("anyOf", "union")):
        if value.get(key) is not None:
            return kind
    values = [value.get("default"), value.get("example")]
    enum = value.get("enumValues")
    values += enum[:1] if isinstance(enum, list) else []
    return next((_kind_of(known) for known in values if known is not None), "string")


def _kind_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "float"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"


def _items(at: At) -> Property | None:
    if not at.is_given:
        return None
    if isinstance(at.value, str) and at.value in KINDS:
        return Property(kind=at.value)
    return _property(at) if at.is_mapping() else None


def _branches(at: At) -> tuple[Property, ...] | None:
    if not at.is_given:
        return None
    if not isinstance(at.value, list) or not at.value:
        at.problem("a list of properties is needed here")
        return None
    found = []
    for item in at.items():
        if isinstance(item.value, dict):
            name = item["name"].value  # it is not needed
            found.append(_property(item, name if isinstance(name, str) else ""))
        else:
            item.problem("a branch of a union is a property, written as a mapping")
    return tuple(found)


def _check_default(at: At, found: Property) -> None:
    default = found.default
    if default is None:
        return
    fits = {
        "string": isinstance(default, str),
        "integer": isinstance(default, int) and not isinstance(default, bool),
        "float": isinstance(default, int | float) and not isinstance(default, bool),
        "boolean": isinstance(default, bool),
        "array": isinstance(default, list),
        "object": isinstance(default, dict),
    }
    if not fits.get(found.kind, True) and at["default"].place not in at.report.referred:
        at["default"].warn(f"the default is not of kind '{found.kind}'")
    elif found.enum_values is not None and default not in found.enum_values:
        at["default"].warn("the default is not among 'enumValues'")
