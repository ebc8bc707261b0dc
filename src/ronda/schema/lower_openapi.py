"""A schema in the keywords of OpenAPI 3.0 → one that also has its shape.

One type per schema, and only the keywords of that type beside it; null is `nullable`; `anyOf` stands alone, since Vertex
refuses anything beside it, be it a description. Where a schema allows several types, each becomes an alternative.
"""

from __future__ import annotations

from typing import Any, Final

from ronda.schema.lower_draft import Schema
from ronda.schema.lower_merge import Lost, both
from ronda.schema.lower_walk import types_of

_OF_TYPE: Final = {
    "string": ("enum", "minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "format"),
    "integer": ("minimum", "maximum", "format"),
    "boolean": (),
    "array": ("items", "minItems", "maxItems"),
    "object": ("properties", "required", "minProperties", "maxProperties"),
}
_SPECIFIC: Final = frozenset(keyword for keywords in _OF_TYPE.values() for keyword in keywords)
_EVERY_TYPE: Final = ["string", "number", "boolean", "array", "object", "null"]
_SAID: Final = ("title", "description", "default")


def shaped(schema: Any, lost: Lost) -> Schema:
    """The schema in the shape of OpenAPI. Whatever fitted still fits, if `nullable` is read as: or null."""
    options, nullable = _options(schema, lost)
    for option in options:
        if "type" not in option:  # says nothing, so the others say nothing either
            return option
    distinct = [option for n, option in enumerate(options) if option not in options[:n]]
    if nullable:
        distinct = distinct or [{"type": "string"}]  # null and nothing else: the least there is
        distinct[0] = {**distinct[0], "nullable": True}
    return distinct[0] if len(distinct) == 1 else {"anyOf": distinct}


def _options(schema: Any, lost: Lost) -> tuple[list[Schema], bool]:
    """The alternatives, one type each and none of them null; and whether null is one."""
    if not isinstance(schema, dict):
        return [{}], True
    node = {key: value for key, value in schema.items() if key != "anyOf"}
    branches = schema.get("anyOf")
    if isinstance(branches, list) and branches:
        # What stands beside alternatives holds for each of them.
        parts = [_options(both(branch, node, lost), lost) for branch in branches if branch is not False]
        return [option for options, _ in parts for option in options], any(nullable for _, nullable in parts)
    types = types_of(node)
    if not types:
        if not node.keys() & _SPECIFIC:
            return [node], True
        types = _EVERY_TYPE
    if "number" in types:
        types = [name for name in types if name != "integer"]
    return [_of_type(node, name, lost) for name in types if name in _OF_TYPE], "null" in types


def _of_type(node: Schema, name: str, lost: Lost) -> Schema:
    option = {"type": name, **{key: node[key] for key in node if key in _SAID or key in _OF_TYPE[name]}}
    if name == "array":
        option["items"] = shaped(option.get("items", {}), lost)
    elif isinstance(properties := option.get("properties"), dict):
        option["properties"] = {key: shaped(sub, lost) for key, sub in properties.items()}
    return option
