"""Which tools may be strict at a provider: what qualifies as it is, and why something does not."""

from __future__ import annotations

import pytest
from tests.schema.lowering import Json, closed, tool
from tests.schema.takers import refusals

from ronda.schema.lower import (
    ANTHROPIC,
    GEMINI,
    MISTRAL,
    OPENAI,
    Change,
    LoweredSchema,
    Rules,
    Weight,
    lower,
    strict_within,
)


@pytest.mark.parametrize("rules", [OPENAI, ANTHROPIC, MISTRAL])
def test_a_closed_schema_is_strict_and_unchanged(rules: Rules) -> None:
    schema = closed(
        city={"type": "string", "description": "d", "title": "City"},
        units={"type": "string", "enum": ["c", "f"]},
        when={"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
        places={"type": "array", "items": closed(name={"type": ["string", "null"]}), "minItems": 1},
        other={"$ref": "#/$defs/other"},
    )
    schema["$defs"] = {"other": closed(x={"type": "number"})}

    assert lower(schema, rules) == LoweredSchema(schema, strict=True, weight=Weight(optional=0, unions=2))


@pytest.mark.parametrize(
    ("schema", "openai", "anthropic"),
    [
        (
            tool(a={"type": "string"}),
            Change("", "other properties are allowed: additionalProperties is not false"),
            Change("", "other properties are allowed: additionalProperties is not false"),
        ),
        (
            {**tool(a={"type": "string"}), "additionalProperties": False},
            Change("/properties/a", "is optional"),
            None,
        ),
        (
            closed(a=tool()),
            Change("/properties/a", "other properties are allowed: additionalProperties is not false"),
            Change("/properties/a", "other properties are allowed: additionalProperties is not false"),
        ),
        (closed(a={"type": "number", "minimum": 0}), None, Change("/properties/a/minimum", "strict mode does not know it")),
        (
            closed(a={"type": "string", "minLength": 1}),
            Change("/properties/a/minLength", "strict mode does not know it"),
            Change("/properties/a/minLength", "strict mode does not know it"),
        ),
        (
            closed(a={"oneOf": [{"type": "string"}]}),
            Change("/properties/a/oneOf", "strict mode does not know it"),
            Change("/properties/a/oneOf", "strict mode does not know it"),
        ),
        (closed(a={}), Change("/properties/a", "strict mode needs a type"), Change("/properties/a", "strict mode needs a type")),
        (closed(a={"const": "x"}), Change("/properties/a", "strict mode needs a type beside an enum"), None),
        (
            closed(a={"type": "array", "items": {"type": "string"}, "minItems": 2}),
            None,
            Change("/properties/a/minItems", "strict mode takes 1 at most"),
        ),
        (
            closed(a={"type": "string", "pattern": "^(?!x)"}),
            Change("/properties/a/pattern", "strict mode cannot look around"),
            Change("/properties/a/pattern", "strict mode cannot look around"),
        ),
        (
            closed(a={"type": "string", "format": "uri"}),
            Change("/properties/a/format", "strict mode does not know this format"),
            None,
        ),
        (
            {**closed(a={"$ref": "#"})},
            None,
            Change("/properties/a/$ref", "strict mode takes no schema that refers to itself"),
        ),
        (
            closed(a={"type": "string", "enum": [f"option-{n}" for n in range(1001)]}),
            Change("", "1001 enum values, of 1000 that strict mode takes"),
            Change("", "1001 enum values, of 1000 that strict mode takes"),
        ),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_qualify_says_why_and_is_sent_as_it_is(
    schema: dict[str, Json], openai: Change | None, anthropic: Change | None
) -> None:
    for rules, expected in ((OPENAI, openai), (ANTHROPIC, anthropic)):
        result = lower(schema, rules)
        assert (result.strict, result.unfit) == (expected is None, expected)
        assert refusals(rules.provider, result.schema, strict=result.strict) == []


def test_nested_too_deeply_is_not_strict() -> None:
    deep: dict[str, Json] = closed(x={"type": "string"})
    for _ in range(10):
        deep = closed(x=deep)

    assert lower(deep, OPENAI).unfit == Change("/properties/x" * 10, "nested deeper than 10 levels")


def test_annotations_that_strict_mode_does_not_permit_are_left_out_of_it() -> None:
    schema = closed(
        a={"type": "string", "default": "x", "examples": ["y"]}, b={"$ref": "#/$defs/b", "description": "d"}
    )
    schema["$defs"] = {"b": closed()}

    assert lower(schema, OPENAI).schema == {
        **closed(a={"type": "string", "default": "x"}, b={"anyOf": [{"$ref": "#/$defs/b"}], "description": "d"}),
        "$defs": {"b": closed()},
    }


def test_gemini_is_strict_about_whatever_was_declared() -> None:
    assert lower(tool(a={"type": "string", "pattern": "x"}), GEMINI).strict


def test_of_many_strict_tools_the_first_ones_stay_strict() -> None:
    eight = lower({**tool(**{f"p{n}": {"type": "string"} for n in range(8)}), "additionalProperties": False}, ANTHROPIC)
    plain = lower(closed(a={"type": "string"}), ANTHROPIC)
    loose = lower(tool(), ANTHROPIC)

    assert strict_within([eight, loose, eight, eight, eight, plain], ANTHROPIC) == (
        True,
        False,
        True,
        True,
        False,
        True,
    )
    assert strict_within([plain] * 22, ANTHROPIC) == (True,) * 20 + (False,) * 2
    assert strict_within([plain] * 22, OPENAI) == (True,) * 22
