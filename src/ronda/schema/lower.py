"""A tool's JSON Schema → what one provider takes, and the model's arguments → what the tool takes.

Only ever looser: whatever fits the tool's own schema fits the lowered one, and the tool's own is still what arguments are
checked against. The same schema gives the same bytes, in the order it was written, because prompt caches depend on them.
A schema without a readable meaning becomes any object; nothing raises.

What each provider takes is in `lower_rules`; how a schema gets there in `lower_walk` and `lower_root`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.schema.bounds import is_too_deep
from ronda.schema.lower_draft import is_dynamic, modern
from ronda.schema.lower_names import lower_names
from ronda.schema.lower_root import Root
from ronda.schema.lower_rules import (
    ANTHROPIC,
    ANTHROPIC_ANSWER,
    GEMINI,
    MISTRAL,
    OPENAI,
    RULES,
    Rules,
)
from ronda.schema.lower_strict import Weight, strict_form, weigh
from ronda.schema.lower_walk import Walk
from ronda.schema.subschemas import Schema, everywhere

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_ANSWER",
    "GEMINI",
    "MISTRAL",
    "OPENAI",
    "RULES",
    "LoweredSchema",
    "Rules",
    "Weight",
    "lower",
    "lower_json",
    "lower_names",
    "strict_within",
]

KEPT: Final = 512  # lowered schemas, for the next request
KEPT_SIZE: Final = 64_000
_DEFINITIONS: Final = ("#/$defs/", "#/definitions/")


class LoweredSchema(Struct, frozen=True):
    """A schema as a provider takes it.

    `strict` says that the provider's own strict mode takes it too. `names` are properties at the root that had to be
    called something else: the provider's name → the tool's own.
    """

    schema: dict[str, Any]
    strict: bool
    names: dict[str, str] = {}
    weight: Weight = Weight()

    def restore(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The model's arguments under the tool's own names."""
        if not self.names:
            return arguments
        return {name: value for name, value in arguments.items() if name not in self.names} | {
            self.names[name]: value for name, value in arguments.items() if name in self.names
        }


def lower(schema: dict[str, Any], rules: Rules) -> LoweredSchema:
    """A tool's schema as a provider takes it."""
    try:
        if is_too_deep(schema):
            raise RecursionError
        if is_dynamic(schema):
            return _any_object(rules)
        return _lower(modern(schema), rules)
    except RecursionError:
        return _any_object(rules)


def lower_json(schema: bytes, rules: Rules) -> LoweredSchema:
    """The same from JSON, remembered for the next request: the schema in it is shared, and not to be changed."""
    return _lower_cached(schema, rules) if len(schema) <= KEPT_SIZE else _read(schema, rules)


def strict_within(tools: Sequence[LoweredSchema], rules: Rules) -> tuple[bool, ...]:
    """Which tools of one request can be strict at once: the first ones, as far as the provider's limits go.

    A tool added at the end never changes what an earlier one is, so that the prompt before it stays the same.
    """
    limits = rules.strict
    chosen: list[bool] = []
    count = optional = unions = 0
    for tool in tools:
        fits = tool.strict and (
            limits is None
            or (
                _within(count + 1, limits.max_tools)
                and _within(optional + tool.weight.optional, limits.max_optional)
                and _within(unions + tool.weight.unions, limits.max_unions)
            )
        )
        if fits:
            count, optional, unions = count + 1, optional + tool.weight.optional, unions + tool.weight.unions
        chosen.append(fits)
    return tuple(chosen)


# ---- inside -----------------------------------------------------------------------------------------------------------


def _lower(schema: Schema, rules: Rules) -> LoweredSchema:
    walk = Walk(schema, rules)
    root = Root(walk.node(schema), walk, rules)
    references = _references(schema) if rules.references else ()
    if references and (
        walk.loosened  # what they lead to is looser now, and they may stand in a `not`
        or not all(reference == "#" or reference.startswith("#/") for reference in references)  # too clever to be sent
        or (root.changes_shape and not all(reference.startswith(_DEFINITIONS) for reference in references))
    ):
        walk = Walk(schema, msgspec.structs.replace(rules, references=False))
        root = Root(walk.node(schema), walk, rules)
    out, names = root.lowered()
    if rules.strict is not None and not walk.loosened:
        formed = strict_form(out, rules.strict)
        if (weight := weigh(formed, rules.strict)) is not None:
            return LoweredSchema(formed, strict=True, names=names, weight=weight)
    return LoweredSchema(out, strict=rules.always_strict, names=names)


def _any_object(rules: Rules) -> LoweredSchema:
    schema: Schema = {"type": "object", "properties": {}} if rules.properties_needed else {"type": "object"}
    return LoweredSchema(schema, strict=rules.always_strict)


@functools.lru_cache(maxsize=KEPT)
def _lower_cached(schema: bytes, rules: Rules) -> LoweredSchema:
    return _read(schema, rules)


def _read(schema: bytes, rules: Rules) -> LoweredSchema:
    try:
        value = msgspec.json.decode(schema)
    except (ValueError, RecursionError):
        value = None
    return lower(value, rules) if isinstance(value, dict) else _any_object(rules)


def _references(schema: Schema) -> list[str]:
    """Every reference; "" for a dynamic one, and for a place where they mean something else than they say."""
    found: list[str] = []
    for node in everywhere(schema):
        if "$ref" in node:
            found.append(str(node["$ref"]))
        if "$dynamicRef" in node or (node is not schema and "$id" in node):
            found.append("")
    return found


def _within(count: int, limit: int | None) -> bool:
    return limit is None or count <= limit
