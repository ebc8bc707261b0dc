"""A JSON Schema → how much work checking values against it can be, before it is compiled.

A few hundred bytes of `allOf` over `$ref` that each use the next one twice are 2ⁿ checks of one value, and the compiler
itself takes its time over some of them. Schemas come from clients, so the sum is done first: each
subschema costs itself, everything applied to the same value, and the dearest thing applied to one of its children.

Only an upper bound, in units of the simplest check (some 16 ns), and only the shape is read: whether the schema is a
valid one is not known here. References are followed, since what cannot be followed cannot be summed up.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from ronda.errors import BadRequest
from ronda.schema.subschemas import Schema, Spot, follow, subschemas, sum_up

MAX_DEPTH: Final = 100  # of the JSON text; the compiler gives up at 255
MAX_SUBSCHEMAS: Final = 10_000  # compiling is quadratic in the number of references
MAX_POINTERS: Final = 10_000_000  # characters: the compiler keeps the pointer of every subschema
MAX_LINKS: Final = 100_000  # from one subschema to another
MAX_WORK: Final = 1_000_000
MAX_STATES: Final = 20_000  # of all patterns together; one state may take 2 kB when compiled

LOOK_AROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k<")  # what a linear engine cannot match


class SchemaError(BadRequest):
    """Not a JSON Schema that can be checked against. The message begins with the place."""


def missing_reference(place: str, reference: str) -> SchemaError:
    return SchemaError(f'{place}: "{reference[:200]}" is not in this schema, and nothing is fetched from outside')


class Bounds(msgspec.Struct, frozen=True):
    work: int  # checks of one value, at most
    growth: int  # how many ways lead from a recursive schema back to itself, one level of the value further down
    states: int  # of all patterns together: how much memory they take
    unions: bool  # whether an error may carry the errors of several alternatives
    look_around: bool


def measure(schema: Schema | bool) -> Bounds:
    """Sum up a schema. Raises SchemaError for one that is too deep, too big or too much work."""
    if isinstance(schema, bool):
        return Bounds(1, 0, 0, unions=False, look_around=False)
    if is_too_deep(schema):
        raise SchemaError(f"nested deeper than {MAX_DEPTH} levels")
    return _Survey(schema).bounds()


# ---- what the keywords apply their schemas to ----------------------------------------------------------------------------

_SAME_VALUE_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SAME_VALUE: Final = ("not", "if", "then", "else")
_SAME_VALUE_MAPS: Final = ("dependentSchemas", "dependencies")
_ANY_CHILD: Final = (
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
)
_ONE_CHILD_LISTS: Final = ("prefixItems", "items")  # `items` was a list before 2020-12
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def is_too_deep(schema: Any) -> bool:
    level, depth = [schema], 0
    while level := [
        item
        for node in level
        for item in (node.values() if isinstance(node, dict) else node)
        if isinstance(item, (dict, list))
    ]:
        depth += 1
        if depth >= MAX_DEPTH:
            return True
    return False


class _Survey:
    """One document: where its references lead, and what everything in it costs."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._spots: dict[int, Spot] = {}
        self._homes: dict[int, list[Schema]] = {}  # what "#" may mean there: the root, or a subschema with an `$id`
        self._ids: dict[str, list[Schema]] = {}
        self._anchors: dict[str, list[Schema]] = {}
        self._states = 0
        self._unions = self._look_around = False

    def bounds(self) -> Bounds:
        self._index()
        cost, growth = self._sum()
        # Containers are checked once per recursive schema, their scalar children once per way that leads there.
        work = cost * (1 + growth)
        if work > MAX_WORK:
            raise SchemaError(f"one value would take more than {MAX_WORK} checks; use fewer combinations of references")
        if self._states > MAX_STATES:
            raise SchemaError(f"the patterns have more than {MAX_STATES} states; repeat less in them")
        return Bounds(work, growth, self._states, self._unions, self._look_around)

    def _index(self) -> None:
        length = 0
        for count, spot in enumerate(subschemas(self._root)):
            if count >= MAX_SUBSCHEMAS:
                raise SchemaError(f"more than {MAX_SUBSCHEMAS} subschemas")
            node = spot.node
            length += spot.length
            if length > MAX_POINTERS:
                raise SchemaError("names too long for so many subschemas")
            self._spots[id(node)] = spot
            self._homes[id(node)] = [self._root] if spot.above is None else self._homes[id(spot.above.node)]
            if isinstance(name := node.get("$id", node.get("id")), str):
                if name.startswith("#"):  # how anchors were written before 2019-09
                    self._anchors.setdefault(name[1:], []).append(node)
                else:
                    self._ids.setdefault(_last(name.partition("#")[0]), []).append(node)
                    self._homes[id(node)] = [*self._homes[id(node)], node]
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(keyword), str):
                    self._anchors.setdefault(name, []).append(node)
            if node.get("$recursiveAnchor") is True:
                self._anchors.setdefault("", []).append(node)

    def _sum(self) -> tuple[int, int]:
        """Cost and growth of the root."""
        links = 0

        def below(node: Schema) -> tuple[list[Schema], list[Schema]]:
            nonlocal links
            groups = self._children(node)
            links += sum(map(len, groups))
            if links > MAX_LINKS:
                raise SchemaError(f"more than {MAX_LINKS} links between subschemas")
            return groups

        # The schema comes back to one that is above it one level of the value later.
        return sum_up([self._root], id, below, self._add, (1, 1))[id(self._root)]

    def _add(self, node: Schema, sums: list[list[tuple[int, int]]]) -> tuple[int, int]:
        added, either = sums
        cost = self._weight(node) + sum(cost for cost, _ in added) + max((cost for cost, _ in either), default=0)
        growth = sum(growth for _, growth in added) + max((growth for _, growth in either), default=0)
        if "unevaluatedProperties" in node or "unevaluatedItems" in node:
            cost *= cost  # asks every other subschema again what it has seen
        return min(cost, MAX_WORK + 1), min(growth, MAX_WORK)

    def _weight(self, node: Schema) -> int:
        weight = 1
        for keyword in ("required", "properties"):  # looked up one by one
            if isinstance(names := node.get(keyword), (list, dict)):
                weight += len(names) // 10
        if isinstance(options := node.get("enum"), list) and not all(isinstance(option, str) for option in options):
            scalars = not any(isinstance(option, (dict, list)) for option in options)
            weight += len(options) // 4 if scalars else len(options) * 5  # compared one by one, unlike strings
        patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
        if isinstance(named := node.get("patternProperties"), dict):
            patterns += [pattern for pattern in named if isinstance(pattern, str)]
        for pattern in patterns:
            states = count_states(pattern)
            self._states += states
            weight += 10 + states // 2  # linear, but each character may meet each state
            if LOOK_AROUND.search(pattern):
                self._look_around = True
                weight += len(pattern)
        if "anyOf" in node or "oneOf" in node:
            self._unions = True
        return weight

    def _children(self, node: Schema) -> tuple[list[Schema], list[Schema]]:
        """Subschemas that all apply, to this value or the same child of it; and those of which one child meets one."""
        every: list[Any] = [node.get(keyword) for keyword in (*_SAME_VALUE, *_ANY_CHILD)]
        for keyword in _SAME_VALUE_LISTS:
            if isinstance(items := node.get(keyword), list):
                every += items
        for keyword in (*_SAME_VALUE_MAPS, "patternProperties"):
            if isinstance(members := node.get(keyword), dict):
                every += members.values()
        for keyword in REFERENCES:
            if isinstance(reference := node.get(keyword), str):
                every += self._targets(node, reference, keyword)
        one: list[Any] = list(members.values()) if isinstance(members := node.get("properties"), dict) else []
        for keyword in _ONE_CHILD_LISTS:
            if isinstance(items := node.get(keyword), list):
                one += items
        every, one = ([child for child in group if isinstance(child, dict)] for group in (every, one))
        for child in (*every, *one):  # reached by a reference into some unknown keyword: at home where we are
            self._homes.setdefault(id(child), self._homes[id(node)])
        return every, one

    # ---- references ----------------------------------------------------------------------------------------------------

    def _targets(self, node: Schema, reference: str, keyword: str) -> list[Schema]:
        """Where a reference may lead: too many places rather than too few, since the sum must not come out too low.

        Addresses are compared by their last segment instead of being resolved, and an anchor counts wherever it is.
        """
        if reference.startswith(_STANDARD):
            return []  # the compiler has these built in, and they are harmless
        address, _, fragment = reference.partition("#")
        homes = self._ids.get(_last(address), []) if address else self._homes[id(node)]
        found: list[Schema] = []
        if fragment == "" or fragment.startswith("/"):
            targets = [follow(home, fragment) for home in homes]
            found = [_ANYTHING if isinstance(one, bool) else one for one in targets if one is not None]
        if not fragment.startswith("/") and (fragment or keyword == "$recursiveRef"):
            found += self._anchors.get(unquote(fragment), ())
        if not found:
            place = self._spots[id(node)].pointer() if id(node) in self._spots else ""
            raise missing_reference(f"{place}/{keyword}", reference)
        return list({id(target): target for target in found}.values())


_STANDARD: Final = ("http://json-schema.org/", "https://json-schema.org/")
_ANYTHING: Final[Schema] = {}


def _last(address: str) -> str:
    return re.split("[/:]", address.rstrip("/"))[-1]


_REGEX_TOKEN: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*+\]?|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)


def count_states(pattern: str) -> int:
    """About how many states a pattern has: `(ab{10}){5}` is five times one and ten."""
    groups, last = [0], 0
    for token in _REGEX_TOKEN.finditer(pattern):
        if token[0] == "(":
            groups.append(1)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token[1]:
            more = last * (max(int(token[1]), int(token[2] or 0)) - 1)
            groups[-1] += more
            last += more
        else:
            last = 1
            groups[-1] += 1
    return sum(groups)
