"""The root of a tool's schema → an object with properties, since arguments are one and providers want to see it.

References and combinations at the root are pooled into one object; what does not go in is said in the description.
Properties whose names a provider refuses get others.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ronda.schema.lower_draft import ANNOTATIONS
from ronda.schema.lower_merge import DEFINITIONS, both, either
from ronda.schema.lower_names import allowed_names
from ronda.schema.lower_rules import Rules
from ronda.schema.lower_walk import Walk, say, types_of
from ronda.schema.subschemas import Schema, follow

_COMBINED: Final = ("$ref", "allOf", "anyOf", "oneOf")
_MAX_DEPTH: Final = 20
# What still holds when properties have other names.
_NAMELESS: Final = frozenset({"type", "title", "description", "properties", "required", "minProperties"}) | {
    "maxProperties",
    "additionalProperties",
    *DEFINITIONS,
}


class Root:
    """`schema` is what a walk made of the whole."""

    def __init__(self, schema: Any, walk: Walk, rules: Rules) -> None:
        self._schema = schema
        self._walk = walk
        self._rules = rules

    @property
    def changes_shape(self) -> bool:
        """Whether a reference to the root, or through it, would lead to something else afterwards."""
        schema = self._schema
        if not isinstance(schema, dict) or schema.get("type") not in self._rules.root_types:
            return True
        return self._is_combined(schema) or bool(self._refused(schema))

    def lowered(self) -> tuple[Schema, dict[str, str]]:
        """An object schema, and the provider's name of each renamed property → the tool's own."""
        root = self._schema
        if isinstance(root, dict) and self._is_combined(root):
            root = self._flat(root, 0)
        if not isinstance(root, dict):
            if root is not True:
                self._walk.loosen()  # nothing fits: any object does now
            root = {}
        for keyword in ("not", "enum"):
            if keyword in root and keyword in self._rules.not_at_root:
                self._walk.loosen()
                root = _with_note(
                    {key: value for key, value in root.items() if key != keyword}, {keyword: root[keyword]}
                )
        root = self._typed(root)
        return self._renamed(root) if self._refused(root) else (root, {})

    def _is_combined(self, schema: Schema) -> bool:
        return "$ref" in schema or any(
            keyword in schema and keyword in self._rules.not_at_root for keyword in _COMBINED
        )

    def _typed(self, root: Schema) -> Schema:
        if root.get("type") not in self._rules.root_types:
            if "type" in root and "object" not in types_of(root):
                self._walk.loosen()  # arguments are always an object
                root = {key: value for key, value in root.items() if key in ANNOTATIONS or key in DEFINITIONS}
            root = {"type": "object", **{key: value for key, value in root.items() if key != "type"}}
        if self._rules.properties_needed and root["type"] == "object" and "properties" not in root:
            root = {**root, "properties": {}}
        return root

    # ---- combinations ----------------------------------------------------------------------------------------------------

    def _flat(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        if depth > _MAX_DEPTH:
            self._walk.loosen()
            return {}
        lost = self._walk.loosen
        flat: Any = {key: value for key, value in schema.items() if key not in _COMBINED}
        if isinstance(reference := schema.get("$ref"), str):
            target = follow(self._schema, reference[1:]) if reference.startswith("#") else None
            if target is None:
                lost()  # it leads nowhere in this schema
            else:
                flat = both(flat, self._flat(target, depth + 1), lost)
        for part in _list_of(schema, "allOf"):
            flat = both(flat, self._flat(part, depth + 1), lost)
        for keyword in ("anyOf", "oneOf"):
            if branches := _list_of(schema, keyword):
                flat = both(flat, either([self._flat(branch, depth + 1) for branch in branches], lost), lost)
                if isinstance(flat, dict):
                    flat = _with_note(flat, {keyword: branches})
        return flat

    # ---- names -------------------------------------------------------------------------------------------------------------

    def _refused(self, root: Schema) -> list[str]:
        allowed, properties = self._rules.property_name, root.get("properties")
        if allowed is None or not isinstance(properties, dict):
            return []
        return [name for name in properties if not re.fullmatch(allowed, name)]

    def _renamed(self, root: Schema) -> tuple[Schema, dict[str, str]]:
        assert self._rules.property_name is not None
        called = allowed_names(list(root["properties"]), self._rules.property_name)
        named = {key: value for key, value in root.items() if key in _NAMELESS}
        if "patternProperties" in root:
            named.pop("additionalProperties", None)
        if root.keys() - named.keys() - ANNOTATIONS:
            self._walk.loosen()  # these speak of properties by their names, and they have others now
        named["properties"] = {
            called[name]: sub if called[name] == name or not isinstance(sub, dict) else _with_real_name(sub, name)
            for name, sub in root["properties"].items()
        }
        if isinstance(required := root.get("required"), list):
            named["required"] = [called.get(name, name) for name in required]
        return named, {new: name for name, new in called.items() if new != name}


def _with_real_name(schema: Schema, name: str) -> Schema:
    """A renamed property, with its real name in the description: that is what the rest of the prompt may call it."""
    value = schema.get("description")
    note = f"The tool calls this {name!r}."
    return {**schema, "description": f"{value}\n\n{note}" if isinstance(value, str) and value else note}


def _with_note(schema: Schema, dropped: Schema) -> Schema:
    noted = dict(schema)
    say(noted, dropped)
    return noted


def _list_of(schema: Schema, keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []
