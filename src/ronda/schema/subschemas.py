"""A JSON Schema → the schemas in it, by the keywords that hold them in any draft; and where a JSON pointer leads.

And the walk that sums up what may lead to itself, for all that bounds what clients send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

Schema = dict[str, Any]
Node = TypeVar("Node")
Sum = TypeVar("Sum")

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


def sum_up(
    roots: Iterable[Node],
    key: Callable[[Node], Hashable],
    below: Callable[[Node], Sequence[Sequence[Node]]],
    add: Callable[[Node, list[list[Sum]]], Sum],
    again: Sum,
) -> dict[Hashable, Sum]:
    """The sum of each node, by its key. `below`: what a node leads to, in groups; `add`: a node and the sums of those → its own.

    Each is summed once. `again` is the sum of one that is open above: there the walk comes back to itself. The stack is our own,
    since a chain of references may be longer than Python's.
    """
    done: dict[Hashable, Sum] = {}
    opened: dict[Hashable, Sequence[Sequence[Node]]] = {}
    stack = list(roots)
    while stack:
        node = stack[-1]
        if key(node) in done:
            stack.pop()
        elif key(node) not in opened:
            groups = opened[key(node)] = below(node)
            stack += [child for group in groups for child in group if key(child) not in opened]
        else:
            stack.pop()
            groups = opened[key(node)]
            done[key(node)] = add(node, [[done.get(key(child), again) for child in group] for group in groups])
    return done
