"""What a schema says about each type by itself, and the values it lists → a shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ronda.schema.grammar.formats import PATTERNS
from ronda.schema.grammar.place import Place
from ronda.schema.grammar.shapes import (
    ANYTHING,
    EVERY_TYPE,
    NEVER,
    Array,
    Number,
    Object,
    Property,
    Shape,
    String,
    Unsupported,
    Values,
    array,
    obj,
    string,
    text_of,
    union,
)
from ronda.schema.grammar.strings import search

_STRING: Final = ("minLength", "maxLength", "pattern", "format")
_NUMBER: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY: Final = (
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
)
_OBJECT: Final = (
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
)
_TYPED: Final = (*_STRING, *_NUMBER, *_ARRAY, *_OBJECT)


def typed(place: Place) -> Shape:
    node = place.node
    names = node.get("type")
    listed = [names] if isinstance(names, str) else names if isinstance(names, list) else list(EVERY_TYPE)
    kinds = dict.fromkeys("number" if name == "integer" else name for name in listed if isinstance(name, str))
    if not any(kind in EVERY_TYPE for kind in kinds):
        if kinds and "any" not in kinds:
            raise Unsupported(f"{place.pointer}/type: {str(names)[:40]!r} is not a type")
        kinds = dict.fromkeys(EVERY_TYPE)
    is_open = len(kinds) == len(EVERY_TYPE) and not any(word in node for word in _TYPED)
    shape = ANYTHING if is_open else union([_of_type(place, kind, listed) for kind in kinds if kind in EVERY_TYPE])
    values = node["enum"] if isinstance(node.get("enum"), list) else None
    if "const" in node:
        values = (
            [node["const"]] if values is None else [one for one in values if text_of(one) == text_of(node["const"])]
        )
    if values is None:
        return shape
    try:
        return place.both(Values(tuple(dict.fromkeys(map(text_of, values)))), shape, "enum") if values else NEVER
    except (ValueError, OverflowError):
        raise Unsupported(f"{place.pointer}/enum: a value that is not JSON") from None


def _of_type(place: Place, kind: str, listed: Iterable[Any]) -> Shape:
    match kind:
        case "string":
            return _string(place)
        case "number":
            return _number(place, integer="number" not in listed)
        case "array":
            return _array(place)
        case "object":
            return _object(place)
        case _:
            return EVERY_TYPE[kind]


def _string(place: Place) -> Shape:
    node = place.node
    patterns = []
    if isinstance(pattern := node.get("pattern"), str) and not place.is_readable(pattern, "pattern"):
        pattern = None
    if isinstance(pattern, str):
        patterns.append(pattern)
    if not place.loose and isinstance(name := node.get("format"), str) and name in PATTERNS:
        patterns.append(PATTERNS[name])
    return string(String(place.size("minLength") or 0, place.size("maxLength"), tuple(patterns)))


def _number(place: Place, *, integer: bool) -> Shape:
    node = place.node
    low, high = place.fraction("minimum"), place.fraction("maximum")
    above = node.get("exclusiveMinimum") is True and low is not None  # how draft 4 said it
    below = node.get("exclusiveMaximum") is True and high is not None
    if (limit := place.fraction("exclusiveMinimum")) is not None and (low is None or limit >= low):
        low, above = limit, True
    if (limit := place.fraction("exclusiveMaximum")) is not None and (high is None or limit <= high):
        high, below = limit, True
    step = place.fraction("multipleOf")
    shape = Number(integer, low, high, above, below, step if step and step > 0 else None)
    return place.both(Number(), shape, "minimum")


def _array(place: Place) -> Shape:
    node = place.node
    items = node.get("items")
    first = node.get("prefixItems")
    rest: Any = node.get("items", True)
    if isinstance(items, list):  # how it was written before 2020-12
        first, rest = items, node.get("additionalItems", True)
    key = "prefixItems" if "prefixItems" in node else "items"
    prefix = [place.sub(one, key, n) for n, one in enumerate(first)] if isinstance(first, list) else []
    rest_key = "additionalItems" if isinstance(items, list) else "items"
    shape = Array(tuple(prefix), place.sub(rest, rest_key), place.size("minItems") or 0, place.size("maxItems"))
    if place.loose:
        return array(shape)
    wanted = (place.sub(node["contains"], "contains"),) if "contains" in node else ()
    if wanted and node.get("minContains") == 0:
        wanted = ()
    if wanted and ((place.size("minContains") or 1) > 1 or "maxContains" in node):
        raise Unsupported(f"{place.pointer}/contains: how often it may be contained cannot be enforced")
    return array(Array(shape.first, shape.rest, shape.least, shape.most, node.get("uniqueItems") is True, wanted))


def _object(place: Place) -> Shape:
    node = place.node
    written = place.members("patternProperties")
    declared = place.members("properties")
    required = [name for name in place.listed("required") if isinstance(name, str)]
    patterns = {
        pattern: place.sub(sub, "patternProperties", pattern)
        for pattern, sub in written.items()
        if place.is_readable(pattern, "patternProperties", pattern)
    }
    rest = place.sub(node.get("additionalProperties", True), "additionalProperties")
    if len(patterns) < len(written):  # only where more may be admitted
        rest, patterns = ANYTHING, {}
    others = Object((), tuple(patterns.items()), rest)
    properties = []
    for name in dict.fromkeys([*declared, *required]):
        if name in declared:
            shape = place.sub(declared[name], "properties", name)
            for pattern, more in patterns.items():
                if search(pattern, name):
                    shape = place.both(shape, more, "patternProperties")
        else:
            shape = place.document.algebra.value(others, name)
        properties.append(Property(name, shape, name in required))
    names = (place.sub(node["propertyNames"], "propertyNames"),) if "propertyNames" in node else ()
    return obj(
        Object(
            tuple(properties),
            others.patterns,
            rest,
            place.size("minProperties") or 0,
            place.size("maxProperties"),
            () if place.loose else names,
        )
    )
