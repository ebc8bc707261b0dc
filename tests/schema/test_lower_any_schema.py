"""Any schema, and hostile ones, lowered for every provider: whatever fits still fits, and nothing raises."""

from __future__ import annotations

import json

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.schema.any_schema import KEYWORDS, OBJECTS, TYPES, tool_schemas
from tests.schema.lowering import EVERY_PROVIDER, Json, tool
from tests.schema.takers import refusals

from ronda.schema.lower import RULES, Rules, lower
from ronda.schema.lower_draft import modern
from ronda.schema.lower_rules import WRITTEN_OUT
from ronda.schema.lower_walk import Walk
from ronda.schema.validate import SchemaError, Validator, check_schema

# ---- whatever fits still fits ----------------------------------------------------------------------------------------


def fitting(schema: dict[str, Json]) -> list[dict[str, Json]]:
    validator = Validator(schema, formats=True)
    try:
        return [value for value in OBJECTS if not validator.problems(value, 1)]
    except SchemaError:
        return []


@settings(max_examples=100)
@given(tool_schemas())
def test_whatever_fits_the_schema_fits_what_every_provider_gets(schema: dict[str, Json]) -> None:
    values = fitting(schema)
    for rules in RULES:
        result = lower(schema, rules)
        validator = Validator(result.schema, formats=True)
        called = {name: new for new, name in result.names.items()}
        for value in values:
            sent = {called.get(name, name): item for name, item in value.items()}
            assert validator.problems(sent) == [], (rules.provider, value, result.schema)
            assert result.restore(sent) == value


@given(tool_schemas())
def test_whatever_fits_a_schema_fits_it_without_references(schema: dict[str, Json]) -> None:
    upgraded = modern(schema)
    written = Walk(upgraded, WRITTEN_OUT).node(upgraded)
    validator = Validator(written, formats=True)

    assert '"$ref"' not in json.dumps(written)
    assert [value for value in fitting(schema) if validator.problems(value, 1)] == []


@given(tool_schemas())
def test_every_schema_becomes_one_that_every_provider_takes(schema: dict[str, Json]) -> None:
    assume(check_schema(schema) is None)

    for rules in RULES:
        result = lower(schema, rules)
        assert refusals(rules.provider, result.schema, strict=result.strict) == [], rules.provider
        assert msgspec.json.encode(lower(json.loads(json.dumps(schema)), rules)) == msgspec.json.encode(result)


# ---- hostile schemas -------------------------------------------------------------------------------------------------


@EVERY_PROVIDER
def test_references_that_double_with_every_level_are_bounded(rules: Rules) -> None:
    defs = {f"d{n}": tool(a={"$ref": f"#/$defs/d{n + 1}"}, b={"$ref": f"#/$defs/d{n + 1}"}) for n in range(60)}
    schema = {**tool(x={"$ref": "#/$defs/d0"}), "$defs": {**defs, "d60": {"type": "string"}}}

    assert len(json.dumps(lower(schema, rules).schema)) < 1_000_000


@EVERY_PROVIDER
def test_a_schema_nested_without_end_is_any_object(rules: Rules) -> None:
    schema: dict[str, Json] = {"type": "string"}
    for _ in range(3000):
        schema = tool(x=schema)

    assert lower(schema, rules).schema in ({"type": "object"}, {"type": "object", "properties": {}})


@EVERY_PROVIDER
def test_a_long_chain_of_references_comes_to_an_end(rules: Rules) -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3000)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {"$ref": "#/$defs/d0"}}}

    assert lower(schema, rules).schema["type"] == "object"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([*TYPES, "#", "#/a", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*KEYWORDS, "$ref", "$id", "$schema", "$dynamicRef", "description"]), inner
            )
        ),
    ).filter(lambda schema: isinstance(schema, dict))
)
def test_nothing_raises_whatever_the_schema_is(schema: dict[str, Json]) -> None:
    assert {lower(schema, rules).schema["type"] for rules in RULES} == {"object"}
