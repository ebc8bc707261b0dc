"""Declared properties → JSON Schema: a tool's parameters, and what an agent's answer must be.

    parameters_of(properties)                 as declared: what is not required may be left out
    parameters_of(properties, strict=True)    every property required, optional ones nullable, and nothing else allowed

The strict form is what providers that hold a model to a schema ask for, at every depth. An unknown kind constrains
nothing. Bound parameters are left out: the model neither sees nor fills them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import Property

_TYPES: Final = {
    "string": "string",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "boolean": "boolean",
    "array": "array",
    "object": "object",
}
_NULL: Final = {"type": "null"}


def parameters_of(
    properties: Sequence[Property], *, strict: bool = False, without: Collection[str] = ()
) -> dict[str, Any]:
    """An object with these properties; `required` is left out where nothing is."""
    shown = [one for one in properties if one.name not in without]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one.name: _member(one, strict) for one in shown},
    }
    if required := [one.name for one in shown if one.required or strict]:
        schema["required"] = required
    if strict:
        schema["additionalProperties"] = False
    return schema


def without_bound(schema: Mapping[str, Any], bound: Collection[str]) -> dict[str, Any]:
    """A schema from elsewhere, without the bound parameters."""
    rest = dict(schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        rest["properties"] = {name: one for name, one in properties.items() if name not in bound}
    if isinstance(required := schema.get("required"), list):
        rest["required"] = [name for name in required if name not in bound]
    return rest


def schema_of(declared: Property, *, strict: bool = False) -> dict[str, Any]:
    """One value. A property that is `nullable` may be null in either form."""
    schema = _describe(declared, strict)
    return _or_null(schema) if declared.nullable else schema


def _member(declared: Property, strict: bool) -> dict[str, Any]:
    schema = schema_of(declared, strict=strict)
    return _or_null(schema) if strict and not declared.required else schema


def _describe(declared: Property, strict: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if (value := _TYPES.get(declared.kind)) is not None:
        schema["type"] = value
    if declared.description:
        schema["description"] = declared.description
    if declared.enum_values is not None:
        schema["enum"] = list(declared.enum_values)
    if declared.kind == "array" and declared.items is not None:
        schema["items"] = schema_of(declared.items, strict=strict)
    elif declared.kind == "object" and (declared.properties is not None or strict):
        schema |= parameters_of(declared.properties or (), strict=strict)
    elif declared.kind == "union":
        schema |= _union(declared, strict)
    return schema


def _union(declared: Property, strict: bool) -> dict[str, Any]:
    if bool(declared.one_of) == bool(declared.any_of):
        raise BadPrompty(f"the union '{declared.name}' needs oneOf or anyOf, and not both", field=declared.name)
    key, branches = ("oneOf", declared.one_of) if declared.one_of else ("anyOf", declared.any_of)
    return {key: [schema_of(branch, strict=strict) for branch in branches or ()]}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null. What is not constrained may be null as it is."""
    for key in ("oneOf", "anyOf"):
        if key in schema:
            return schema if _NULL in schema[key] else {**schema, key: [*schema[key], _NULL]}
    type_name = schema.get("type")
    if isinstance(type_name, str):
        schema = {**schema, "type": [type_name, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    return schema
