"""A JSON Schema → the schemas in it, by the keywords that hold them in any draft; and where a JSON pointer leads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

Schema = dict[str, Any]

SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")  # `items` was a list before 2020-12
SCHEMAS: Final = (
    *("not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)


class Spot(NamedTuple):
    """A subschema and how it is reached. Its pointer is only put together when asked for: names may be long, and many."""

    node: Schema
    above: Spot | None
    steps: tuple[str, ...]
    length: int  # of the pointer

    def step(self, node: Schema, *steps: str) -> Spot:
        return Spot(node, self, steps, self.length + sum(map(len, steps)))

    def pointer(self) -> str:
        spot: Spot | None = self
        steps: list[str] = []
        while spot is not None:
            steps += reversed(spot.steps)
            spot = spot.above
        return "".join(f"/{escape(step)}" for step in reversed(steps))


def subschemas(root: Schema) -> Iterator[Spot]:
    """The schema and all in it; parents come first."""
    todo = [Spot(root, None, (), 0)]
    while todo:
        spot = todo.pop()
        yield spot
        todo += [spot.step(sub, *steps) for steps, sub in _children(spot.node)]


def everywhere(root: Schema) -> Iterator[Schema]:
    """The schema and all in it."""
    return (spot.node for spot in subschemas(root))


def direct(node: Schema) -> Iterator[Schema]:
    """The direct subschemas, those that are true or false aside."""
    return (sub for _, sub in _children(node))


def _children(node: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
    for keyword in SCHEMA_MAPS:
        if isinstance(members := node.get(keyword), dict):
            yield from (((keyword, str(name)), sub) for name, sub in members.items() if isinstance(sub, dict))
    for keyword in SCHEMA_LISTS:
        if isinstance(items := node.get(keyword), list):
            yield from (((keyword, str(n)), sub) for n, sub in enumerate(items) if isinstance(sub, dict))
    for keyword in SCHEMAS:
        if isinstance(sub := node.get(keyword), dict):
            yield (keyword,), sub


def each_schema(node: Schema, rewrite: Callable[[Any], Any]) -> Schema:
    """A copy of a schema whose direct subschemas were rewritten; everything else is shared with the original."""
    copy = dict(node)
    for keyword in SCHEMA_MAPS:
        if isinstance(members := node.get(keyword), dict):
            copy[keyword] = {name: rewrite(sub) for name, sub in members.items()}
    for keyword in SCHEMA_LISTS:
        if isinstance(items := node.get(keyword), list):
            copy[keyword] = [rewrite(sub) for sub in items]
    for keyword in SCHEMAS:
        if isinstance(sub := node.get(keyword), dict):
            copy[keyword] = rewrite(sub)
    return copy


def escape(name: str) -> str:
    """One step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def follow(node: Any, pointer: str) -> Schema | bool | None:
    """What a JSON pointer, percent-encoded as in a reference, leads to; None when that is no schema."""
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and re.fullmatch("[0-9]{1,9}", name) and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node if isinstance(node, (dict, bool)) else None
