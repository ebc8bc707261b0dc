"""The schemas of an OpenAPI document → JSON Schema (draft 2020-12), as arguments are checked against and models are shown.

What a schema refers to goes under `$defs`, once, so that circles stay what they are. OpenAPI 3.0 has a dialect of its own
(`nullable`, limits that are flags), 3.1 has none. What the API only ever answers with (`readOnly`) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ronda.tools.openapi.document import BadDocument, Document, Json, Place

Schema: TypeAlias = dict[str, Any]

MAX_NODES: Final = 10_000  # of one operation; one that has more is shown without the rest
MAX_DEPTH: Final = 60

_ONE: Final = ("not", "additionalProperties", "items", "contains", "propertyNames", "if", "then", "else")
_ONE_MORE: Final = ("unevaluatedProperties", "unevaluatedItems")
_LIST: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
# Said of the document, of XML or of an answer: of no use to a model that writes arguments.
_DROPPED: Final = frozenset(
    {"xml", "externalDocs", "discriminator", "example", "examples", "deprecated", "readOnly", "writeOnly", "nullable"}
    | {"$id", "$anchor", "$schema", "$dynamicAnchor", "$dynamicRef", "$comment", "$vocabulary", "$defs", "definitions"}
)


class Schemas:
    """The schemas of one operation. `defs` is what they have referred to so far."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.defs: dict[str, Schema | bool] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._nodes = 0

    def convert(self, place: Place, depth: int = 0) -> Schema | bool:
        value = place.value
        if isinstance(value, bool):
            return value
        self._nodes += 1
        if not isinstance(value, Mapping) or self._nodes > MAX_NODES or depth > MAX_DEPTH:
            return {}
        reference = value.get("$ref")
        if isinstance(reference, str):
            beside = {key: value[key] for key in ("description", "title", "default") if key in value}
            return {"$ref": f"#/$defs/{self._define(reference, place.file, depth)}", **beside}
        return self._node(place, value, depth)

    def _define(self, reference: str, file: str, depth: int) -> str:
        target = self._document.find(reference, file)
        known = self._names.get((target.file, target.pointer))
        if known is not None:
            return known
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", target.pointer.rpartition("/")[2]) or "schema"
        taken = set(self._names.values())
        name = next(one for one in (name, *(f"{name}_{n}" for n in range(2, len(taken) + 3))) if one not in taken)
        self._names[target.file, target.pointer] = name  # before it is converted: it may lead back here
        self.defs[name] = {}
        self.defs[name] = self.convert(target, depth + 1)
        return name

    def _node(self, place: Place, value: Mapping[str, Json], depth: int) -> Schema:
        schema: Schema = {}
        for key, member in value.items():
            if not isinstance(key, str) or key in _DROPPED or key.startswith("x-"):
                continue
            inner = place.at(key)
            if key in _NAMED:
                schema[key] = {
                    name: self.convert(one, depth + 1) for name, one in inner.items() if not self._is_answer_only(one)
                }
            elif key in _LIST and isinstance(member, list):
                schema[key] = [self.convert(one, depth + 1) for one in inner.each()]
            elif key in (*_ONE, *_ONE_MORE):
                schema[key] = self.convert(inner, depth + 1)
            else:
                schema[key] = member
        if isinstance(schema.get("required"), list):
            hidden = {name for name, one in place.at("properties").items() if self._is_answer_only(one)}
            schema["required"] = [name for name in schema["required"] if name not in hidden]
        return _modern(schema, value) if self._document.is_old else schema

    def _is_answer_only(self, place: Place) -> bool:
        try:
            value = self._document.follow(place).value
        except BadDocument:  # a circle of nothing but references
            return False
        return isinstance(value, Mapping) and value.get("readOnly") is True


def _modern(schema: Schema, old: Mapping[str, Json]) -> Schema:
    for limit, flag in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        value = schema.get(flag)
        if isinstance(value, bool):
            del schema[flag]
            if value and limit in schema:
                schema[flag] = schema.pop(limit)
    if old.get("nullable") is True:
        if isinstance(schema.get("type"), str):
            schema["type"] = [schema["type"], "null"]
        elif any(key in schema for key in ("allOf", "anyOf", "oneOf")):
            schema = {"anyOf": [schema, {"type": "null"}]}
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    return schema
