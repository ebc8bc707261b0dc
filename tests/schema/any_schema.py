"""Any schema over the words of JSON Schema, and values to try on it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = Any
SCALARS: list[Json] = [None, True, False, 0, 1, 2, 1.5, "", "x", "xy", "2024-02-03"]
VALUES: list[Json] = [*SCALARS, [], [1], ["x", 1], [1, 1, 1], {}, {"a": 1}, {"a": "x", "$b": 2}, {"c": {"a": 1}}]
OBJECTS: list[dict[str, Json]] = [
    {},
    *[{"a": value} for value in VALUES],
    *[{"$b": value} for value in ("x", 1, [1])],
    *[{"a": first, "$b": second} for first in (1, "x", {"a": 1}) for second in (2, "xy", None)],
    *[{"a": 1, "$b": 2, "c": value} for value in (1, "x", {"a": {"a": 1}})],
]
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, in_place: bool = True) -> Json:
    """Any schema over the words above. References only where the value gets smaller, so that checking ends."""
    if draw(st.integers(0, 12)) == 0:
        return draw(st.booleans())
    if not in_place and draw(st.integers(0, 6)) == 0:
        options: list[dict[str, Json]] = [{}, {"description": "d"}, {"type": "object"}, {"minProperties": 1}]
        beside = draw(st.sampled_from(options))
        return {"$ref": draw(st.sampled_from(["#", "#/$defs/d", "#/$defs/e"])), **beside}
    node: dict[str, Json] = {}
    for keyword in draw(st.lists(st.sampled_from(list(KEYWORDS) if depth else LEAF), max_size=3, unique=True)):
        node.update(KEYWORDS[keyword](draw, depth - 1))
    return node


def _sub(draw: st.DrawFn, depth: int) -> Json:
    return draw(schemas(max(depth, 0)))


def _child(draw: st.DrawFn, depth: int) -> Json:
    return draw(schemas(max(depth, 0), in_place=False))


def _some(draw: st.DrawFn, depth: int) -> list[Json]:
    return [_sub(draw, depth) for _ in range(draw(st.integers(1, 3)))]


def _names(draw: st.DrawFn) -> list[str]:
    return draw(st.lists(st.sampled_from(["a", "$b", "c"]), min_size=1, max_size=2, unique=True))


KEYWORDS: dict[str, Any] = {
    "type": lambda draw, depth: {
        "type": draw(st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    },
    "const": lambda draw, depth: {"const": draw(st.sampled_from(VALUES))},
    "enum": lambda draw, depth: {"enum": draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=4, unique_by=repr))},
    "exclusiveMinimum": lambda draw, depth: {"exclusiveMinimum": draw(st.integers(0, 1))},
    "minimum": lambda draw, depth: {"minimum": draw(st.integers(0, 1))},
    "maximum": lambda draw, depth: {"maximum": draw(st.integers(1, 2))},
    "minLength": lambda draw, depth: {"minLength": draw(st.integers(0, 2))},
    "pattern": lambda draw, depth: {"pattern": "^x"},
    "format": lambda draw, depth: {"format": draw(st.sampled_from(["date", "email"]))},
    "required": lambda draw, depth: {"required": _names(draw)},
    "minProperties": lambda draw, depth: {"minProperties": draw(st.integers(0, 2))},
    "uniqueItems": lambda draw, depth: {"uniqueItems": True},
    "dependentRequired": lambda draw, depth: {"dependentRequired": {"a": _names(draw)}},
    "properties": lambda draw, depth: {"properties": {name: _child(draw, depth) for name in _names(draw)}},
    "patternProperties": lambda draw, depth: {"patternProperties": {"^a": _child(draw, depth)}},
    "additionalProperties": lambda draw, depth: {"additionalProperties": draw(st.just(False)) or _child(draw, depth)},
    "closed": lambda draw, depth: {"additionalProperties": False},
    "unevaluatedProperties": lambda draw, depth: {"unevaluatedProperties": False},
    "propertyNames": lambda draw, depth: {"propertyNames": _sub(draw, depth)},
    "dependentSchemas": lambda draw, depth: {"dependentSchemas": {"a": _sub(draw, depth)}},
    "items": lambda draw, depth: {"items": _child(draw, depth)},
    "prefixItems": lambda draw, depth: {"prefixItems": [_child(draw, depth)]},
    "contains": lambda draw, depth: {
        "contains": _child(draw, depth), "maxContains": draw(st.integers(1, 2)), "minContains": draw(st.integers(0, 1))
    },
    "unevaluatedItems": lambda draw, depth: {"unevaluatedItems": False},
    "allOf": lambda draw, depth: {"allOf": _some(draw, depth)},
    "anyOf": lambda draw, depth: {"anyOf": _some(draw, depth)},
    "oneOf": lambda draw, depth: {"oneOf": _some(draw, depth)},
    "not": lambda draw, depth: {"not": _sub(draw, depth)},
    "if": lambda draw, depth: {"if": _sub(draw, depth), "then": _sub(draw, depth), "else": _sub(draw, depth)},
}  # fmt: skip
LEAF = list(KEYWORDS)[:13]


@st.composite
def object_schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, Json]:
    """What the branches of a union of objects look like."""
    node: dict[str, Json] = {"properties": {name: draw(schemas(1, in_place=False)) for name in _names(draw)}}
    for keyword in ("required", "closed", "additionalProperties", "patternProperties", "dependentRequired"):
        if draw(st.integers(0, 2)) == 0:
            node.update(KEYWORDS[keyword](draw, 1))
    if depth and draw(st.booleans()):
        branches = draw(st.lists(object_schemas(depth - 1), min_size=1, max_size=3))
        node[draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))] = branches
    return node


@st.composite
def tool_schemas(draw: st.DrawFn) -> dict[str, Json]:
    root = draw(schemas() | object_schemas())
    schema = root if isinstance(root, dict) else {}
    if draw(st.booleans()):
        schema = {"type": "object", **schema}
    return {**schema, "$defs": {"d": draw(schemas(2)), "e": draw(schemas(1))}}
