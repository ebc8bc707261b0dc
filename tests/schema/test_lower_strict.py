"""Which tools may be strict at a provider: what qualifies as it is, and what does not."""

from __future__ import annotations

import pytest
from tests.schema.lowering import Json, closed, tool
from tests.schema.takers import refusals

from ronda.schema.lower import (
    ANTHROPIC,
    GEMINI,
    MISTRAL,
    OPENAI,
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
        (tool(a={"type": "string"}), False, False),
        ({**tool(a={"type": "string"}), "additionalProperties": False}, False, True),
        (closed(a=tool()), False, False),
        (closed(a={"type": "number", "minimum": 0}), True, False),
        (closed(a={"type": "string", "minLength": 1}), False, False),
        (closed(a={"oneOf": [{"type": "string"}]}), False, False),
        (closed(a={}), False, False),
        (closed(a={"const": "x"}), False, True),
        (closed(a={"type": "array", "items": {"type": "string"}, "minItems": 2}), True, False),
        (closed(a={"type": "string", "pattern": "^(?!x)"}), False, False),
        (closed(a={"type": "string", "format": "uri"}), False, True),
        (closed(a={"$ref": "#"}), True, False),
        (closed(a={"type": "string", "enum": [f"option-{n}" for n in range(1001)]}), False, False),
    ],
)
def test_a_schema_that_does_not_qualify_is_sent_as_it_is(
    schema: dict[str, Json], openai: bool, anthropic: bool
) -> None:
    for rules, strict in ((OPENAI, openai), (ANTHROPIC, anthropic)):
        result = lower(schema, rules)
        assert result.strict == strict
        assert refusals(rules.provider, result.schema, strict=result.strict) == []


@pytest.mark.parametrize(("levels", "strict"), [(9, True), (10, False)])
def test_nested_too_deeply_is_not_strict(levels: int, strict: bool) -> None:
    deep: dict[str, Json] = closed(x={"type": "string"})
    for _ in range(levels - 1):
        deep = closed(x=deep)

    assert lower(deep, OPENAI).strict == strict


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
