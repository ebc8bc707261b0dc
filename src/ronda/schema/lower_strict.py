"""A schema and the rules of a provider's strict mode → in what words that mode takes it, or why it does not.

Nothing is tightened to fit: a schema whose author left properties optional, or open, is not a strict one, and goes
without. Only what has no meaning is rewritten: an example is left out where it is not permitted, and what stands beside a
reference is put around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from ronda.schema.bounds import LOOK_AROUND, escape
from ronda.schema.lower_draft import ANNOTATIONS, Schema, each_schema, follow
from ronda.schema.lower_rules import Strict
from ronda.schema.lower_walk import MAX_NODES, Change, types_of

_TYPED: Final = ("type", "$ref", "anyOf", "allOf", "enum", "const")
_WORD_BOUNDARY: Final = re.compile(r"\\[bB]")


class Weight(Struct, frozen=True):
    """What a strict schema takes of the limits that all tools of a request share."""

    optional: int = 0
    unions: int = 0


def strict_form(schema: Schema, rules: Strict) -> Schema:
    """The same schema without the annotations that strict mode does not permit."""

    def form(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        kept = {key: value for key, value in node.items() if key in rules.keywords or key not in ANNOTATIONS}
        if "$ref" in kept and (beside := kept.keys() - {"$ref", "$defs", "definitions"}) and beside <= ANNOTATIONS:
            kept = {("anyOf" if key == "$ref" else key): value for key, value in kept.items()}
            kept["anyOf"] = [{"$ref": kept["anyOf"]}]
        return each_schema(kept, form)

    formed: Schema = form(schema)
    return formed


def weigh(schema: Schema, rules: Strict) -> Weight | Change:
    """What the schema weighs, or the first thing about it that strict mode does not take."""
    for keyword in ("$defs", "definitions"):  # also those that nothing refers to
        for name, definition in schema.get(keyword, {}).items():
            for problem in _Check(schema, rules).node(definition, f"/{keyword}/{escape(name)}", 1, in_array=False):
                return problem
    check = _Check(schema, rules)
    for problem in check.node(schema, "", 1, in_array=False):
        return problem
    return check.total() or Weight(check.optional, check.unions)


class _Check:
    def __init__(self, root: Schema, rules: Strict) -> None:
        self._root = root
        self._rules = rules
        self._open: list[int] = []  # targets of references, outermost first
        self._nodes = 0
        self._properties = self._enum = self._text = self._optional_in_arrays = 0
        self.optional = self.unions = 0
        for keyword in ("$defs", "definitions"):
            if isinstance(named := root.get(keyword), dict):
                self._text += sum(len(name) for name in named)

    def total(self) -> Change | None:
        rules = self._rules
        for count, limit, what in (
            (self._properties, rules.max_properties, "properties"),
            (self._enum, rules.max_enum, "enum values"),
            (self._text, rules.max_text, "characters of names and enum values"),
            (self._optional_in_arrays, rules.max_optional_in_arrays, "optional properties inside lists"),
            (self.optional, rules.max_optional, "optional properties"),
            (self.unions, rules.max_unions, "unions"),
        ):
            if limit is not None and count > limit:
                return Change("", f"{count} {what}, of {limit} that strict mode takes")
        return None

    def node(self, node: Any, at: str, depth: int, *, in_array: bool) -> Iterator[Change]:
        rules = self._rules
        if not isinstance(node, dict):
            yield Change(at, "strict mode needs a schema that names a type")
            return
        self._nodes += 1
        if self._nodes > MAX_NODES:
            yield Change(at, "too large")
            return
        if depth > rules.max_depth:
            yield Change(at, f"nested deeper than {rules.max_depth} levels")
            return
        for keyword in node:
            if keyword not in rules.keywords:
                yield Change(f"{at}/{escape(keyword)}", "strict mode does not know it")
        if not any(keyword in node for keyword in _TYPED):
            yield Change(at, "strict mode needs a type")
        elif rules.all_required and not any(keyword in node for keyword in ("type", "$ref", "anyOf")):
            yield Change(at, "strict mode needs a type beside an enum")
        yield from self._values(node, at)
        if "$ref" in node:
            yield from self._reference(node, at, depth, in_array)
        if "anyOf" in node or len(types_of(node)) > 1:
            self.unions += 1
        for keyword in ("anyOf", "allOf"):
            for n, branch in enumerate(node.get(keyword, ())):
                if keyword == "allOf" and isinstance(branch, dict) and "$ref" in branch:
                    yield Change(f"{at}/allOf/{n}", "strict mode takes no reference in allOf")
                yield from self.node(branch, f"{at}/{keyword}/{n}", depth, in_array=in_array)
        if "object" in types_of(node) or "properties" in node:
            yield from self._object(node, at, depth, in_array)
        if "array" in types_of(node) or "items" in node:
            yield from self.node(node.get("items"), f"{at}/items", depth + 1, in_array=True)
            least = node.get("minItems", 0)
            if rules.max_min_items is not None and least > rules.max_min_items:
                yield Change(f"{at}/minItems", f"strict mode takes {rules.max_min_items} at most")

    def _object(self, node: Schema, at: str, depth: int, in_array: bool) -> Iterator[Change]:
        if node.get("additionalProperties") is not False:
            yield Change(at, "other properties are allowed: additionalProperties is not false")
        if self._rules.all_required and "properties" not in node:
            yield Change(at, "an object without properties")
        properties = node.get("properties", {})
        required = node.get("required", [])
        optional = [name for name in properties if name not in required]
        if self._rules.all_required and optional:
            yield Change(f"{at}/properties/{escape(optional[0])}", "is optional")
        if any(name not in properties for name in required):
            yield Change(f"{at}/required", "names a property that is not described")
        self._properties += len(properties)
        self.optional += len(optional)
        if in_array:
            self._optional_in_arrays += len(optional)
        for name, sub in properties.items():
            self._text += len(name)
            yield from self.node(sub, f"{at}/properties/{escape(name)}", depth + 1, in_array=in_array)

    def _values(self, node: Schema, at: str) -> Iterator[Change]:
        options = node.get("enum", [])
        texts = [option for option in options if isinstance(option, str)]
        size = sum(len(text) for text in texts)
        self._enum += len(options)
        self._text += size + (len(node["const"]) if isinstance(node.get("const"), str) else 0)
        if any(isinstance(option, (dict, list)) for option in [*options, node.get("const")]):
            yield Change(at, "strict mode takes only scalars as values")
        if len(texts) > self._rules.long_enum and size > self._rules.max_enum_text:
            yield Change(f"{at}/enum", f"more than {self._rules.max_enum_text} characters")
        pattern, said = node.get("pattern"), node.get("format")
        if isinstance(pattern, str) and (LOOK_AROUND.search(pattern) or _WORD_BOUNDARY.search(pattern)):
            yield Change(f"{at}/pattern", "strict mode cannot look around")
        if said is not None and said not in self._rules.formats:
            yield Change(f"{at}/format", "strict mode does not know this format")

    def _reference(self, node: Schema, at: str, depth: int, in_array: bool) -> Iterator[Change]:
        if not node.keys() <= {"$ref", "$defs", "definitions"}:
            yield Change(at, "strict mode takes nothing beside a reference")
        reference = node["$ref"]
        target = follow(self._root, reference[1:]) if isinstance(reference, str) and reference[:1] == "#" else None
        if not isinstance(target, dict):
            yield Change(f"{at}/$ref", "leads nowhere in this schema")
        elif id(target) in self._open or target is self._root:
            if not self._rules.recursion:
                yield Change(f"{at}/$ref", "strict mode takes no schema that refers to itself")
        else:  # counted again each time, as a grammar would have it
            self._open.append(id(target))
            yield from self.node(target, at, depth, in_array=in_array)
            self._open.pop()
