"""Requests that ask too much of the engine's grammar compiler, each by its name: what a Chat request says beside its messages."""

from __future__ import annotations

import json
from typing import Any

Body = dict[str, Any]


def closed(**properties: Any) -> Body:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def array(items: Any, **bounds: int) -> Body:
    return {"type": "array", "items": items, **bounds}


def chained(count: int, link: Any = lambda inner: closed(x=inner)) -> Body:
    """So many definitions, each of which leads to the next."""
    links = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(count)}
    return closed(a={"$ref": "#/$defs/d0"}) | {"$defs": links | {f"d{count}": {"type": "string"}}}


def rules(count: int) -> str:
    return "start: r0\n" + "".join([f"r{n}: r{n + 1}\n" for n in range(count)]) + f'r{count}: "a"\n'


INTEGER: Body = {"type": "integer"}
ENDLESS = closed(a=array(INTEGER, maxItems=1_000_000_000))
SQUARE = closed(a=array(array(INTEGER, minItems=2000, maxItems=2000), minItems=2000, maxItems=2000))
ALTERNATIVES = chained(90, lambda inner: {"anyOf": [array(inner), INTEGER]})


def answer(schema: Any) -> Body:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}}


def grammar(type: str, value: Any) -> Body:
    return {"grammar": {"type": type, "value": value}}


def lark_json(schema: Any) -> str:
    return f"start: %json {json.dumps(schema)}"


# What is sent, and what the refusal must say: the thing, and the limit.
HOSTILE: dict[str, tuple[Body, str, str]] = {
    "3000 chained rules": (grammar("lark", rules(3000)), "rules", "500"),
    "101 chained rules": (grammar("lark", rules(101)), "rules", "100"),
    "1000 chained definitions": (answer(chained(1000)), "properties", "1000"),
    "100 chained definitions": (answer(chained(100)), "levels deep", "250"),
    "5000 parts": (answer(closed(a={"anyOf": [INTEGER] * 5000})), "schema", "4000"),
    "300 bare references": (answer(chained(300, lambda inner: inner)), "levels deep", "250"),
    "alternatives of arrays, 90 deep": (answer(ALTERNATIVES), "levels deep", "250"),
    "a billion items": (answer(ENDLESS), "maxItems", "10000"),
    "a billion items, by grammar": (grammar("json_schema", ENDLESS), "maxItems", "10000"),
    "a billion items, by Lark": (grammar("lark", lark_json(ENDLESS)), "maxItems", "10000"),
    "a billion items, by llguidance": (
        grammar("llguidance", {"grammars": [{"json_schema": ENDLESS}]}),
        "maxItems",
        "10000",
    ),
    "a billion items at least": (answer(closed(a=array(INTEGER, minItems=10**9))), "minItems", "10000"),
    "2000 times 2000 items": (answer(SQUARE), "items", "100000"),
    "2000 times 2000 items, by grammar": (grammar("json_schema", SQUARE), "items", "100000"),
    "2000 times 2000 items, by Lark": (grammar("lark", lark_json(SQUARE)), "items", "100000"),
    "2000 times 2000 repetitions": (grammar("lark", 'start: r{2000}\nr: ("a" | "b"){2000}'), "4000000", "10000"),
    "ten arrays of many": (
        answer(closed(**{f"a{n}": array(INTEGER, maxItems=9000) for n in range(10)})),
        "maxItems",
        "20000",
    ),
    "a billion states": (grammar("regex", "((a{1000}){1000}){1000}"), "states", "20000"),
    "a billion states, by Lark": (grammar("lark", "start: /((a{1000}){1000}){1000}/"), "states", "20000"),
    "brackets in brackets": (grammar("regex", "(" * 3000 + "a" + ")" * 3000), "brackets", "100"),
    "an enum of 5 MB": (answer(closed(a={"enum": [f"{n:050}" for n in range(100_000)]})), "bytes", "131072"),
    "2000 values": (answer(closed(a={"enum": [*range(2000)]})), "enum", "1000"),
    "2000 properties": (answer(closed(**{f"p{n}": INTEGER for n in range(2000)})), "properties", "1000"),
    "a grammar of 70 kB": (grammar("lark", "start: " + '"a" ' * 17_000), "characters", "65536"),
    "100,000 sequence breakers": (
        {"dry_multiplier": 0.5, "dry_sequence_breakers": [f"w{n}" for n in range(100_000)]},
        "dry_sequence_breakers",
        "65536",
    ),
    "100 sequence breakers": ({"dry_sequence_breakers": ["a"] * 100}, "dry_sequence_breakers", "64"),
    "a long sequence breaker": ({"dry_sequence_breakers": ["a" * 100]}, "dry_sequence_breakers", "40"),
    "100 stops": ({"stop": [f"w{n}" for n in range(100)]}, "stop", "64"),
    "2000 biases": ({"logit_bias": {str(n): 1 for n in range(2000)}}, "logit_bias", "1024"),
}
