"""A JSON Schema of any draft → the same schema in draft 2020-12, which is what providers check against.

The same values pass before and after. A keyword that the schema's own draft does not know was ignored there, so it goes:
in 2020-12 it would begin to mean something. Without `$schema` a schema is taken for 2020-12, except where its shape can
only be older (`items` as a list, `exclusiveMinimum: true`), since generators forget to say so. The input is not touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from ronda.schema.subschemas import SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS, Schema, each_schema, everywhere, follow

ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "example",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "discriminator",
    }
)

_DRAFTS: Final = (("draft-04", 4), ("draft-06", 6), ("draft-07", 7), ("2019-09", 8))
_MODERN: Final = 9

# The draft each keyword came with, where that is not the fourth.
_SINCE: Final = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 8,
    "dependentSchemas": 8,
    "minContains": 8,
    "maxContains": 8,
    "unevaluatedItems": 8,
    "unevaluatedProperties": 8,
    "$anchor": 8,
    "$recursiveRef": 8,
    "$recursiveAnchor": 8,
    "prefixItems": _MODERN,
    "$dynamicRef": _MODERN,
    "$dynamicAnchor": _MODERN,
}


def modern(schema: Schema) -> Schema:
    """The schema in draft 2020-12, without `$schema`."""
    draft = draft_of(schema)
    upgrade = _upgrade(draft)
    upgraded: Schema = upgrade(schema)
    upgraded.pop("$schema", None)
    return _with_moved_targets(schema, upgraded, upgrade)


def is_dynamic(schema: Schema) -> bool:
    """Whether it is a 2019-09 schema whose references mean something else wherever it is used: not said in 2020-12."""
    return draft_of(schema) == 8 and any(node.get("$recursiveAnchor") is True for node in everywhere(schema))


def draft_of(schema: Schema) -> int:
    """4, 6, 7, 8 for 2019-09, 9 for 2020-12 and for a schema that does not say."""
    named = schema.get("$schema")
    if isinstance(named, str):
        for part, draft in _DRAFTS:
            if part in named:
                return draft
    return _MODERN


# ---- shapes -----------------------------------------------------------------------------------------------------------

# A keyword whose value has another shape means nothing. The validator says so to the client that declares the tool; here nothing
# may break over it.


def _any(value: Any) -> bool:
    return True


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_SHAPES: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(SCHEMA_MAPS, _is_map),
    **dict.fromkeys(SCHEMA_LISTS, _is_list),
    **dict.fromkeys(SCHEMAS, _is_schema),
    "enum": lambda value: isinstance(value, list),
    "items": lambda value: isinstance(value, (dict, bool, list)),  # a list before 2020-12
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor", "$id", "$schema"), _is_text),
    **dict.fromkeys(("title", "description", "pattern", "format"), _is_text),
    **dict.fromkeys(("minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"), _is_number),
    **dict.fromkeys(("minContains", "maxContains", "minProperties", "maxProperties"), _is_number),
    **dict.fromkeys(
        ("exclusiveMinimum", "exclusiveMaximum"), lambda value: isinstance(value, bool) or _is_number(value)
    ),
    "required": _are_names,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_are_names, value.values())),
    "type": lambda value: isinstance(value, str) or _are_names(value),
}


def are_types(value: Any) -> bool:
    """Whether a `type` names types that there are."""
    names = [value] if isinstance(value, str) else value
    return bool(names) and _TYPES.issuperset(names)


# ---- upgrading --------------------------------------------------------------------------------------------------------


def _upgrade(draft: int) -> Callable[[Any], Any]:
    def upgrade(node: Any) -> Any:
        if not isinstance(node, dict):
            return node if isinstance(node, bool) else True
        node = {key: value for key, value in node.items() if _SHAPES.get(key, _any)(value)}
        if draft < 8 and isinstance(node.get("$ref"), str):
            # Next to a reference nothing counted, yet definitions were found there.
            keywords = {"$ref", "$schema", "definitions", *ANNOTATIONS}
            node = {key: value for key, value in node.items() if key in keywords}
        if draft < _MODERN:
            node = {key: value for key, value in node.items() if _SINCE.get(key, 4) <= draft}
        node = _identifiers(node, draft)
        node = _bounds(node)
        node = _arrays(node)
        node = _dependencies(node)
        if "$recursiveRef" in node:  # without an anchor a plain reference to the root
            node = {("$ref" if key == "$recursiveRef" else key): value for key, value in node.items()}
        return each_schema(node, upgrade)

    return upgrade


def _identifiers(node: Schema, draft: int) -> Schema:
    if draft == 4 and isinstance(node.get("id"), str):
        node = {("$id" if key == "id" else key): value for key, value in node.items()}
    name = node.get("$id")
    if draft < 8 and isinstance(name, str) and name.startswith("#"):
        node = {("$anchor" if key == "$id" else key): value for key, value in node.items()}
        node["$anchor"] = name[1:]
        if not re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", name[1:]):
            del node["$anchor"]
    return node


def _bounds(node: Schema) -> Schema:
    """`{"minimum": 3, "exclusiveMinimum": true}` → `{"exclusiveMinimum": 3}`."""
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        found = node.get(exclusive)
        if isinstance(found, bool):
            node = {key: value for key, value in node.items() if key != exclusive}
            if found and plain in node:
                node = {(exclusive if key == plain else key): value for key, value in node.items()}
    return node


def _arrays(node: Schema) -> Schema:
    """A list of `items` → `prefixItems`, and `additionalItems` → `items`."""
    rest = node.get("additionalItems")
    positional = isinstance(node.get("items"), list)
    if not positional and rest is None:
        return node
    upgraded: Schema = {}
    for key, value in node.items():
        if key == "items" and positional:
            if value:  # an empty list says nothing, and is no `prefixItems`
                upgraded["prefixItems"] = value
            if rest is not None:
                upgraded["items"] = rest
        elif key != "additionalItems":
            upgraded[key] = value
    return upgraded


def _dependencies(node: Schema) -> Schema:
    """No longer in 2020-12, but the validator still minds it there, so it is said in the new words."""
    dependencies = node.get("dependencies")
    if not isinstance(dependencies, dict):
        return node
    node = {key: value for key, value in node.items() if key != "dependencies"}
    names = {name: needs for name, needs in dependencies.items() if _are_names(needs)}
    schemas = {name: needs for name, needs in dependencies.items() if not isinstance(needs, list)}
    if names:
        node["dependentRequired"] = {**node.get("dependentRequired", {}), **names}
    if schemas:
        node["dependentSchemas"] = {**node.get("dependentSchemas", {}), **schemas}
    return node


def _with_moved_targets(original: Schema, upgraded: Schema, upgrade: Callable[[Any], Any]) -> Schema:
    """References by path to what is now elsewhere (`#/items/0`, `#/dependencies/x`) get a definition of their own."""
    moved: dict[str, Any] = {}
    names: dict[str, str] = {}

    def aim(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and follow(upgraded, reference[1:]) is None:
            target = follow(original, reference[1:])
            if target is not None and reference not in names:
                names[reference] = f"moved-{len(names) + 1}"
                moved[names[reference]] = {}  # a place, in case it refers to itself
                moved[names[reference]] = aim(upgrade(target))
            if reference in names:
                node = {**node, "$ref": f"#/$defs/{names[reference]}"}
        return each_schema(node, aim)

    aimed: Schema = aim(upgraded)
    if moved:
        aimed["$defs"] = {**aimed.get("$defs", {}), **moved}
    return aimed
