"""What each provider would answer to a tool's schema, by its error messages: the strict end of the wire, for tests.

Written from the messages, apart from the code that lowers, so that the two do not share a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from ronda.schema.validate import check_schema

Json = Any
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
EVERY_KEYWORD = {
    "maps": ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"),
    "lists": ("anyOf", "oneOf", "allOf", "prefixItems"),
    "one": ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
}


def nodes(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    yield path, schema
    if not isinstance(schema, dict):
        return
    for keyword in EVERY_KEYWORD["maps"]:
        for name, sub in (schema.get(keyword) or {}).items():
            yield from nodes(sub, f"{path}/{keyword}/{name}")
    for keyword in EVERY_KEYWORD["lists"]:
        for n, sub in enumerate(schema.get(keyword) or []):
            yield from nodes(sub, f"{path}/{keyword}/{n}")
    for keyword in EVERY_KEYWORD["one"]:
        if keyword in schema:
            yield from nodes(schema[keyword], f"{path}/{keyword}")


def _types(node: Json) -> list[str]:
    said = node.get("type", []) if isinstance(node, dict) else []
    return [said] if isinstance(said, str) else list(said)


def _openai(schema: Json) -> Iterator[str]:
    if schema.get("type") != "object" or schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}:
        yield "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
    if "properties" not in schema:
        yield "object schema missing properties"
    if problem := check_schema(schema):
        yield problem
    for path, node in nodes(schema):
        if "array" in _types(node) and "items" not in node:
            yield f"{path}: array schema missing items"


def _openai_strict(schema: Json) -> Iterator[str]:
    yield from _openai(schema)
    for path, node in nodes(schema):
        if not isinstance(node, dict):
            if not path.endswith("/additionalProperties"):
                yield f"{path}: not an object"
            continue
        if not node.keys() & {"type", "$ref", "anyOf"}:
            yield f"{path}: schema must have a 'type' key"
        if "object" in _types(node):
            if node.get("additionalProperties") is not False:
                yield f"{path}: 'additionalProperties' is required to be supplied and to be false"
            if set(node.get("required", [])) != set(node.get("properties", {})):
                yield f"{path}: 'required' is required to be supplied and to be an array including every key in properties"
        if "$ref" in node and node.keys() - {"$ref", "$defs"}:
            yield f"{path}: $ref cannot have keywords"
        for keyword in (
            "oneOf",
            "allOf",
            "not",
            "if",
            "minLength",
            "maxLength",
            "uniqueItems",
            "patternProperties",
        ):
            if keyword in node:
                yield f"{path}: '{keyword}' is not permitted"


def _anthropic(schema: Json) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "input_schema.type: Input should be 'object'"
    if schema.keys() & {"oneOf", "anyOf", "allOf"}:
        yield "input_schema does not support oneOf, allOf, or anyOf at the top level"
    for name in schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    if problem := check_schema(schema):
        yield f"JSON schema is invalid. It must match JSON Schema draft 2020-12: {problem}"


def _anthropic_strict(schema: Json) -> Iterator[str]:
    yield from _anthropic(schema)
    for path, node in nodes(schema):
        if isinstance(node, dict) and "object" in _types(node) and node.get("additionalProperties") is not False:
            yield f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        for keyword in ("minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "oneOf", "not"):
            if isinstance(node, dict) and keyword in node:
                yield f"{path}: For this type, property '{keyword}' is not supported"


_JSON_SCHEMA_WORDS = (
    {"type", "format", "title", "description", "default", "enum", "anyOf", "minimum", "maximum"}
    | {"properties", "additionalProperties", "required"}
    | {"items", "prefixItems", "minItems", "maxItems"}
)


def _gemini(schema: Json) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "parametersJsonSchema must describe an object"
    for path, node in nodes(schema):
        for keyword in (node if isinstance(node, dict) else {}).keys() - _JSON_SCHEMA_WORDS:
            yield f"{path}: unknown {keyword}"
        if isinstance(node, dict):
            for name in node.get("required", []):
                if name not in node.get("properties", {}):
                    yield f"{path}: required: property is not defined"
            if any(option in ("", None) for option in node.get("enum", [])):
                yield f"{path}: enum: cannot be empty"


def _mistral(schema: Json) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "parameters: not an object"
    if problem := check_schema({"$schema": DRAFT_7, **schema}):
        yield f"Invalid tool schema: {problem}"


_TAKERS: dict[str, tuple[Callable[[Json], Iterator[str]], Callable[[Json], Iterator[str]]]] = {
    "openai": (_openai, _openai_strict),
    "anthropic": (_anthropic, _anthropic_strict),
    "gemini": (_gemini, _gemini),
    "mistral": (_mistral, _openai_strict),
}


def refusals(provider: str, schema: Json, *, strict: bool) -> list[str]:
    """What the provider would say against a tool with this schema; empty when it takes it."""
    plain, strictly = _TAKERS[provider]
    return list((strictly if strict else plain)(schema))
