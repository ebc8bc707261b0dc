"""Schemas that are made to cost: what becomes of them is small, or they are refused."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from ronda.errors import BadRequest
from ronda.local.grammar import BoundedSchema
from ronda.schema.bounds import SchemaError


def nested(levels: int, around: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


def chained(links: int, link: Callable[[dict[str, str]], Any]) -> Any:
    defs = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(links)}
    return {"$defs": {**defs, f"d{links}": {"type": "string"}}, "$ref": "#/$defs/d0"}


COSTLY: Final[dict[str, Any]] = {
    "arrays": nested(97, lambda inner: {"type": "array", "items": inner}),
    "alternatives of arrays": nested(30, lambda inner: {"anyOf": [{"type": "array", "items": inner}]}),
    "negations": nested(97, lambda inner: {"not": inner}),
    "required": nested(48, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]}),
    "all of all of": nested(45, lambda inner: {"allOf": [inner, {"minLength": 1}]}),
    "chain": chained(1000, lambda inner: inner),
    "chain of arrays": chained(90, lambda inner: {"anyOf": [{"type": "array", "items": inner}, {"type": "null"}]}),
    "chain of objects": chained(1000, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]}),
    "chain of allOf": chained(1000, lambda inner: {"allOf": [inner, {"minLength": 1}]}),
    "two trees in one": {
        "$defs": {
            "a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/b"}}},
            "b": {"type": "object", "properties": {"x": {"$ref": "#/$defs/b"}, "y": {"$ref": "#/$defs/a"}}},
        },
        "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    },
    "itself and more": {"allOf": [{"$ref": "#"}, {"type": "object"}]},
    "values beside a circle": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
        "$ref": "#/$defs/a",
        "enum": [1, {"a": [2]}],
    },
    "alternatives of alternatives": {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"{n}{m}": {"type": "null"}}} for m in range(9)]}
            for n in range(9)
        ]
    },
    "many items of many": {"type": "array", "minItems": 2000, "items": {"type": "array", "minItems": 2000}},
    "an endless list": {"type": "array", "maxItems": 10**9, "items": {"type": "array", "maxItems": 10**9}},
    "an endless text": {"type": "string", "minLength": 10**400},
    "groups": {"type": "string", "pattern": "(" * 200 + "a" + ")" * 200},
    "names that match slowly": {
        "type": "object",
        "patternProperties": {"^(a+)+$": {}},
        "properties": {"a" * 60 + "b": {}},
    },
}


@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_schema_becomes_a_small_grammar_or_is_refused(name: str) -> None:
    schema = COSTLY[name]
    try:
        read = BoundedSchema(schema)
        size = len(json.dumps(read.schema())) + len(json.dumps(read.fit(max(2000, read.needed)).schema))
    except BadRequest:
        size = 0
    assert size < 10 * len(json.dumps(schema)) + 20_000


def test_references_to_references_are_not_written_out_without_end() -> None:
    """Each level holds two of the next: 24 of them would be 16 million strings."""
    levels: dict[str, Any] = {}
    for n in range(24):
        inner = {"$ref": f"#/$defs/d{n + 1}"}
        levels[f"d{n}"] = {"type": "object", "properties": {"x": inner, "y": inner}, "required": ["x", "y"]}
    schema = {"$ref": "#/$defs/d0", "$defs": {**levels, "d24": {"type": "string"}}}

    with pytest.raises(SchemaError, match="at most 65536 can be enforced"):
        BoundedSchema(schema).fit(10**9)
    assert BoundedSchema(schema).schema()["$defs"]  # without limits they stay references


def test_nothing_is_fitted_to_more_tokens_than_a_model_has() -> None:
    assert BoundedSchema({"type": "array", "items": {"type": "integer"}}).fit(10**9).tokens <= 65_536
