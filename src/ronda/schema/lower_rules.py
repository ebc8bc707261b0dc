"""What each provider takes as a tool's name and schema. Facts with their source; no code decides anything here.

Providers check every tool of a request before they look at the conversation, so one schema outside these rules is a 400
for all of them. Facts are of autumn 2026; where documentation and the API disagree, the narrower one is here.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace


class Strict(Struct, frozen=True):
    """When a provider's own strict mode takes a schema, as it is. Numbers are per schema unless they say otherwise."""

    keywords: frozenset[str]
    formats: frozenset[str]
    all_required: bool = False  # else optional properties are allowed, and counted
    recursion: bool = False
    max_properties: int = 5_000
    max_depth: int = 10
    max_enum: int = 1_000  # values of all enums together
    max_enum_text: int = 15_000  # characters of one enum of strings that has more than `long_enum` values
    long_enum: int = 250
    max_text: int = 120_000  # characters of all names of properties and definitions, and all enum and const strings
    max_min_items: int | None = None
    max_optional_in_arrays: int | None = None
    # Of all strict tools of a request together:
    max_tools: int | None = None
    max_optional: int | None = None
    max_unions: int | None = None


class Rules(Struct, frozen=True):
    """`None` for a set of keywords or formats is: any."""

    provider: str
    tool_name: str = r"[A-Za-z0-9_-]{1,64}"
    property_name: str | None = None  # at the root; others are not checked
    keywords: frozenset[str] | None = None
    formats: frozenset[str] | None = None
    not_at_root: frozenset[str] = frozenset()
    root_types: tuple[str, ...] = ("object",)  # else the root is made an object, as arguments must be one
    references: bool = True  # else they are written out, as far as they do not lead back to themselves
    unrolled: int = 0  # how often a reference may lead back to itself before it is cut
    items_needed: bool = False
    properties_needed: bool = False
    required_known: bool = False  # `required` names no property that is not in `properties`
    strict: Strict | None = None
    always_strict: bool = False  # the strict mode takes whatever the provider takes


_ROOT_COMBINATIONS: Final = frozenset({"allOf", "anyOf", "oneOf", "not", "enum"})
_ANNOTATIONS: Final = frozenset({"title", "description"})

# https://developers.openai.com/api/docs/guides/structured-outputs (supported schemas). `title` is not in that list, and
# 29 recorded strict tools have it. `default` is "not permitted" there, and recorded strict tools that have it are taken.
# Siblings of `$ref` are not.
_STRICT_OPENAI: Final = Strict(
    keywords=_ANNOTATIONS
    | {"default", "type", "enum", "const", "anyOf", "$ref", "$defs", "definitions", "properties", "required"}
    | {"additionalProperties", "items", "minItems", "maxItems", "pattern", "format"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    formats=frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}),
    all_required=True,
    recursion=True,
)

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations. What a grammar may
# weigh is not documented: optional properties inside arrays are what makes it too heavy (enricai/leerie#157, measured).
_STRICT_ANTHROPIC: Final = Strict(
    keywords=_ANNOTATIONS
    | {"type", "enum", "const", "anyOf", "allOf", "$ref", "$defs", "definitions", "properties", "required"}
    | {"additionalProperties", "items", "minItems", "pattern", "format", "default"},
    formats=frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}),
    max_min_items=1,
    max_optional_in_arrays=3,
    max_tools=20,
    max_optional=24,
    max_unions=16,
)

# Root: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level". Elsewhere
# "array schema missing items", also next to `prefixItems` (fastmcp#2464), and "object schema missing properties".
OPENAI: Final = Rules(
    "openai",
    not_at_root=_ROOT_COMBINATIONS,
    items_needed=True,
    properties_needed=True,
    strict=_STRICT_OPENAI,
)

# "input_schema does not support oneOf, allOf, or anyOf at the top level" (claude-code#27337), "Property keys should match
# pattern '^[a-zA-Z0-9_.-]{1,64}$'" (claude-code#79418), "It must match JSON Schema draft 2020-12" (claude-code#63673).
ANTHROPIC: Final = Rules(
    "anthropic",
    property_name=r"[A-Za-z0-9_.-]{1,64}",
    not_at_root=frozenset({"allOf", "anyOf", "oneOf"}),
    strict=_STRICT_ANTHROPIC,
)

# The form of an answer, `output_config.format`, may be a list too; pydantic types that are lists are sent that way by the SDK.
ANTHROPIC_ANSWER: Final = replace(ANTHROPIC, root_types=("object", "array"))

# The field `parametersJsonSchema`. Keywords: those of `responseJsonSchema`, the only list there is. References work when
# nothing but `description` and `default` is next to them and they lead to `$defs` (opencode#12295, gemini-cli#13326), so
# none are sent. Strict is functionCallingConfig.mode VALIDATED (or ANY), which holds for whatever was declared.
GEMINI: Final = Rules(
    "gemini",
    tool_name=r"[A-Za-z_][A-Za-z0-9_.-]{0,63}",
    keywords=_ANNOTATIONS
    | {"type", "format", "enum", "default", "anyOf", "properties", "required", "additionalProperties"}
    | {"items", "prefixItems", "minItems", "maxItems", "minimum", "maximum"},
    formats=frozenset({"date-time", "date", "time", "duration"}),
    not_at_root=_ROOT_COMBINATIONS,
    references=False,
    required_known=True,
    always_strict=True,
)

# mistral-common validator.py: Draft7Validator.check_schema, which 2020-12 passes. What `strict` asks for is not
# documented: the narrowest of the known rules is taken.
MISTRAL: Final = Rules("mistral", strict=_STRICT_OPENAI)

RULES: Final = (OPENAI, ANTHROPIC, GEMINI, MISTRAL)

# No provider: references written out, nothing else changed. A reference to itself is followed a few times.
WRITTEN_OUT: Final = Rules("none", references=False, unrolled=3)
