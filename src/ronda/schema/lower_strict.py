"""A schema and the rules of a provider's strict mode → in what words that mode takes it, and whether it does.

Nothing is tightened to fit: a schema whose author left properties optional, or open, is not a strict one, and goes
without. Only what has no meaning is rewritten: an example is left out where it is not permitted, and what stands next to a
reference is put around it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from ronda.schema.bounds import LOOK_AROUND
from ronda.schema.lower_draft import ANNOTATIONS
from ronda.schema.lower_rules import Strict
from ronda.schema.lower_walk import MAX_NODES, types_of
from ronda.schema.subschemas import Schema, each_schema, follow

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
        fields = {key: value for key, value in node.items() if key in rules.keywords or key not in ANNOTATIONS}
        if "$ref" in fields and (beside := fields.keys() - {"$ref", "$defs", "definitions"}) and beside <= ANNOTATIONS:
            fields = {("anyOf" if key == "$ref" else key): value for key, value in fields.items()}
            fields["anyOf"] = [{"$ref": fields["anyOf"]}]
        return each_schema(fields, form)

    formed: Schema = form(schema)
    return formed


def weigh(schema: Schema, rules: Strict) -> Weight | None:
    """What the schema weighs; None where strict mode does not take it."""
    definitions = [one for keyword in ("$defs", "definitions") for one in schema.get(keyword, {}).values()]
    try:
        for definition in definitions:  # also those that nothing refers to
            _Check(schema, rules).node(definition, 1, in_array=False)
        return _Check(schema, rules).weight()
    except _Unfit:
        return None


class _Unfit(Exception):
    """Strict mode does not take this schema."""


def _must(fits: bool) -> None:
    if not fits:
        raise _Unfit


class _Check:
    def __init__(self, root: Schema, rules: Strict) -> None:
        self._root = root
        self._rules = rules
        self._open: list[int] = []  # targets of references, outermost first
        self._nodes = 0
        self._properties = self._enum = self._text = self._optional_in_arrays = 0
        self._optional = self._unions = 0
        for keyword in ("$defs", "definitions"):
            if isinstance(named := root.get(keyword), dict):
                self._text += sum(len(name) for name in named)

    def weight(self) -> Weight:
        self.node(self._root, 1, in_array=False)
        rules = self._rules
        for count, limit in (
            (self._properties, rules.max_properties),
            (self._enum, rules.max_enum),
            (self._text, rules.max_text),
            (self._optional_in_arrays, rules.max_optional_in_arrays),
            (self._optional, rules.max_optional),
            (self._unions, rules.max_unions),
        ):
            _must(limit is None or count <= limit)
        return Weight(self._optional, self._unions)

    def node(self, node: Any, depth: int, *, in_array: bool) -> None:
        rules = self._rules
        self._nodes += 1
        _must(isinstance(node, dict) and self._nodes <= MAX_NODES and depth <= rules.max_depth)
        _must(node.keys() <= rules.keywords)
        # Next to an enum, too, where every property is required.
        _must(any(keyword in node for keyword in (("type", "$ref", "anyOf") if rules.all_required else _TYPED)))
        self._values(node)
        if "$ref" in node:
            self._reference(node, depth, in_array)
        if "anyOf" in node or len(types_of(node)) > 1:
            self._unions += 1
        for branch in node.get("anyOf", ()):
            self.node(branch, depth, in_array=in_array)
        for branch in node.get("allOf", ()):
            _must(not isinstance(branch, dict) or "$ref" not in branch)
            self.node(branch, depth, in_array=in_array)
        if "object" in types_of(node) or "properties" in node:
            self._object(node, depth, in_array)
        if "array" in types_of(node) or "items" in node:
            self.node(node.get("items"), depth + 1, in_array=True)
            _must(rules.max_min_items is None or node.get("minItems", 0) <= rules.max_min_items)

    def _object(self, node: Schema, depth: int, in_array: bool) -> None:
        _must(node.get("additionalProperties") is False)
        properties = node.get("properties", {})
        required = node.get("required", [])
        optional = [name for name in properties if name not in required]
        _must(all(name in properties for name in required))
        if self._rules.all_required:
            _must("properties" in node and not optional)
        self._properties += len(properties)
        self._optional += len(optional)
        if in_array:
            self._optional_in_arrays += len(optional)
        for name, sub in properties.items():
            self._text += len(name)
            self.node(sub, depth + 1, in_array=in_array)

    def _values(self, node: Schema) -> None:
        rules = self._rules
        options, const = node.get("enum", []), node.get("const")
        texts = [option for option in options if isinstance(option, str)]
        size = sum(len(text) for text in texts)
        self._enum += len(options)
        self._text += size + (len(const) if isinstance(const, str) else 0)
        _must(not any(isinstance(option, (dict, list)) for option in [*options, const]))
        _must(len(texts) <= rules.long_enum or size <= rules.max_enum_text)
        pattern, string_format = node.get("pattern"), node.get("format")
        if isinstance(pattern, str):
            _must(not LOOK_AROUND.search(pattern) and not _WORD_BOUNDARY.search(pattern))
        _must(string_format is None or string_format in rules.formats)

    def _reference(self, node: Schema, depth: int, in_array: bool) -> None:
        _must(node.keys() <= {"$ref", "$defs", "definitions"})
        reference = node["$ref"]
        target = follow(self._root, reference[1:]) if isinstance(reference, str) and reference[:1] == "#" else None
        _must(isinstance(target, dict))
        if id(target) in self._open or target is self._root:
            _must(self._rules.recursion)
            return
        self._open.append(id(target))  # counted again each time, as a grammar would have it
        self.node(target, depth, in_array=in_array)
        self._open.pop()
