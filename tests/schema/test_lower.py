"""A tool's schema, lowered to what each provider takes: what stays as it was, and what is said otherwise."""

from __future__ import annotations

import copy
import json
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schema.lowering import EVERY_PROVIDER, Json, closed, tool
from tests.schema.takers import refusals

from ronda.schema.lower import (
    ANTHROPIC,
    GEMINI,
    MISTRAL,
    OPENAI,
    RULES,
    LoweredSchema,
    Rules,
    lower,
    lower_json,
    lower_names,
)
from ronda.schema.validate import Validator

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
    **tool(tree={"$ref": "#/$defs/node", "description": "The whole tree."}),
}


# ---- what goes through as it is --------------------------------------------------------------------------------------


@EVERY_PROVIDER
def test_a_plain_schema_is_sent_as_it_was_written(rules: Rules) -> None:
    schema = {
        "type": "object",
        "title": "Weather",
        "properties": {
            "city": {"type": "string", "description": "Which city."},
            "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
            "units": {"type": "string", "enum": ["metric", "imperial"]},
            "at": {"type": "array", "items": {"type": "string", "format": "date-time"}, "minItems": 1},
        },
        "required": ["city"],
    }

    assert lower(schema, rules).schema == schema
    assert json.dumps(lower(schema, rules).schema) == json.dumps(schema)  # the order too


@EVERY_PROVIDER
def test_the_schema_that_was_given_is_not_touched(rules: Rules) -> None:
    schema = {"oneOf": [TREE, {"$schema": "x", "required": ["$bad"]}], "properties": {"$bad": {"const": None}}}
    before = copy.deepcopy(schema)

    lower(schema, rules)

    assert schema == before


def test_a_schema_in_json_is_lowered_once() -> None:
    assert lower_json(b'{"type":"object"}', OPENAI) is lower_json(b'{"type":"object"}', OPENAI)
    assert lower_json(b'{"type":"object"}', OPENAI) == lower({"type": "object"}, OPENAI)


@EVERY_PROVIDER
@pytest.mark.parametrize("schema", [b"", b"[]", b"null", b"{", b'"object"', b"[" * 5000])
def test_what_is_no_schema_is_any_object(schema: bytes, rules: Rules) -> None:
    assert lower_json(schema, rules).schema["type"] == "object"
    assert refusals(rules.provider, lower_json(schema, rules).schema, strict=False) == []


# ---- the root --------------------------------------------------------------------------------------------------------


@EVERY_PROVIDER
@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": ["object", "null"], "properties": {}},
        {"type": "string"},
        {"properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": tool(x={"type": "string"})}},
        {"anyOf": [tool(a={"type": "string"}), tool(b={"type": "integer"})]},
        {"allOf": [tool(a={"type": "string"}), {"required": ["a"]}]},
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "not": {"required": ["a"]}, "enum": [{}]},
        {"$ref": "#"},
        {"$ref": "http://elsewhere.example/schema"},
        {"allOf": [False]},
        TREE,
    ],
)
def test_every_root_becomes_an_object_the_provider_takes(schema: dict[str, Json], rules: Rules) -> None:
    result = lower(schema, rules)

    assert refusals(rules.provider, result.schema, strict=result.strict) == []


def test_alternatives_at_the_root_are_pooled_into_one_object() -> None:
    schema = {
        "type": "object",
        "properties": {"verbose": {"type": "boolean"}},
        "oneOf": [
            {**closed(url={"type": "string"}, mode={"const": "url"})},
            {**closed(path={"type": "string"}, mode={"const": "file"})},
        ],
    }

    assert lower(schema, ANTHROPIC) == LoweredSchema(
        {
            "type": "object",
            "properties": {
                "verbose": {"type": "boolean"},
                "url": {"type": "string"},
                "mode": {"anyOf": [{"const": "url"}, {"const": "file"}]},
                "path": {"type": "string"},
            },
            "required": ["mode"],
            "additionalProperties": False,
            "description": msgspec.json.encode({"oneOf": schema["oneOf"]}).decode(),
        },
        strict=False,
    )


def test_a_property_that_one_alternative_leaves_open_keeps_its_words_alone() -> None:
    when = {"type": "string", "title": "At", "description": "When."}
    schema = {"oneOf": [tool(at=when), tool(place={"type": "string"})]}

    assert lower(schema, ANTHROPIC).schema["properties"] == {"at": {"title": "At", "description": "When."}, "place": {}}


def test_what_cannot_be_said_at_the_root_is_said_in_the_description() -> None:
    schema = {**tool(route={}, file={}), "anyOf": [{"required": ["route"]}, {"required": ["file"]}]}

    assert lower(schema, OPENAI).schema == {
        **tool(route={}, file={}),
        "description": '{"anyOf":[{"required":["route"]},{"required":["file"]}]}',
    }


def test_a_reference_at_the_root_is_followed_and_the_others_are_kept() -> None:
    schema = {"$ref": "#/$defs/node", **{key: value for key, value in TREE.items() if key == "$defs"}}

    assert lower(schema, OPENAI).schema == {"type": "object", **TREE["$defs"]["node"], "$defs": TREE["$defs"]}


# ---- old drafts ------------------------------------------------------------------------------------------------------


def test_a_schema_of_an_old_draft_is_said_in_the_new_one() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://example.com/point",
        **tool(
            point={"type": "array", "items": [{"type": "number"}, {"type": "number"}], "additionalItems": False},
            above={"type": "number", "minimum": 0, "exclusiveMinimum": True},
            below={"type": "number", "maximum": 1, "exclusiveMaximum": False},
            named={"$ref": "#/properties/above", "maximum": 3, "description": "Ignored beside a reference: maximum."},
            said={"const": 1},  # draft 4 had no const: it meant nothing
        ),
        "dependencies": {"above": ["below"], "below": {"minProperties": 2}},
    }

    assert lower(schema, OPENAI).schema == {
        "$id": "http://example.com/point",
        **tool(
            point={"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
            above={"type": "number", "exclusiveMinimum": 0},
            below={"type": "number", "maximum": 1},
            named={"$ref": "#/properties/above", "description": "Ignored beside a reference: maximum."},
            said={},
        ),
        "dependentRequired": {"above": ["below"]},
        "dependentSchemas": {"below": {"minProperties": 2}},
    }


def test_a_reference_to_what_has_moved_still_leads_there() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **tool(pair={"items": [{"type": "integer"}, {"$ref": "#/properties/pair/items/0"}]}),
    }

    assert lower(schema, ANTHROPIC).schema == {
        **tool(pair={"prefixItems": [{"type": "integer"}, {"$ref": "#/$defs/moved-1"}]}),
        "$defs": {"moved-1": {"type": "integer"}},
    }


def test_a_recursive_reference_is_one_to_the_root() -> None:
    schema = {"$schema": "https://json-schema.org/draft/2019-09/schema", **tool(next={"$recursiveRef": "#"})}

    assert lower(schema, ANTHROPIC).schema == tool(next={"$ref": "#"})


# ---- references ------------------------------------------------------------------------------------------------------


def test_references_are_kept_where_they_are_taken() -> None:
    assert lower(TREE, ANTHROPIC).schema == TREE


def test_references_are_written_out_and_one_to_itself_is_cut_to_its_type() -> None:
    assert lower(TREE, GEMINI).schema == tool(
        tree={
            "type": "object",
            "properties": {"label": {"type": "string"}, "children": {"type": "array", "items": {"type": "object"}}},
            "description": "The whole tree.",
        }
    )


def test_what_stands_beside_a_reference_holds_too() -> None:
    schema = {
        "$defs": {"size": {"type": "integer", "minimum": 2}},
        **tool(size={"$ref": "#/$defs/size", "maximum": 5, "description": "d"}),
    }

    assert lower(schema, GEMINI).schema == tool(
        size={"type": "integer", "minimum": 2, "maximum": 5, "description": "d"}
    )


# ---- Gemini ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"const": "x"}, {"enum": ["x"], "type": "string"}),
        ({"type": "number", "exclusiveMinimum": 3}, {"type": "number", "minimum": 3}),
        (
            {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"allOf": [{"type": "integer", "minimum": 1}, {"maximum": 5, "minimum": 3}]},
            {"type": "integer", "minimum": 3, "maximum": 5},
        ),
        (
            {"type": ["string", "null"], "enum": ["a", None], "description": "d"},
            {"description": "d", "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        ({"type": "string", "enum": ["", "a"]}, {"type": "string", "description": '{"enum":["","a"]}'}),
        ({"type": "string", "format": "email"}, {"type": "string", "description": '{"format":"email"}'}),
        (
            {"type": "string", "minLength": 2, "description": "A name."},
            {"type": "string", "description": 'A name.\n\n{"minLength":2}'},
        ),
        (
            {"type": "object", "properties": {}, "required": ["x"]},
            {"type": "object", "properties": {}, "description": '{"required":["x"]}'},
        ),
        (
            {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
            {"type": "object", "description": '{"patternProperties":{"^x":{}},"additionalProperties":false}'},
        ),
        ({"not": {"type": "string"}}, {"description": '{"not":{"type":"string"}}'}),
    ],
)
def test_gemini_gets_the_words_it_knows(given: Json, expected: Json) -> None:
    assert lower(tool(x=given), GEMINI).schema == tool(x=expected)


# ---- OpenAI, Anthropic, Mistral ---------------------------------------------------------------------------------------


def test_openai_sees_items_in_every_list_and_properties_in_every_object() -> None:
    schema = tool(
        a={"type": "array"}, b={"type": ["array", "null"], "prefixItems": [{"type": "string"}]}, c={"type": "object"}
    )

    assert lower(schema, OPENAI).schema == tool(
        a={"type": "array", "items": {}},
        b={"type": ["array", "null"], "prefixItems": [{"type": "string"}], "items": {}},
        c={"type": "object", "properties": {}},
    )


def test_properties_whose_names_are_refused_get_others_and_the_arguments_come_back() -> None:
    schema = {
        **tool(
            **{"$filter": {"type": "string", "description": "OData."}, "_filter": {"type": "integer"}, "x" * 70: {}}
        ),
        "required": ["$filter"],
        "additionalProperties": False,
    }
    result = lower(schema, ANTHROPIC)
    first, second, third = result.schema["properties"]

    assert refusals("anthropic", result.schema, strict=False) == []
    assert (second, result.names) == ("_filter", {first: "$filter", third: "x" * 70})
    assert result.schema["required"] == [first]
    assert result.schema["properties"][first]["description"] == "OData.\n\nThe tool calls this '$filter'."
    assert result.restore({first: "a", "_filter": 1, third: 2}) == {"$filter": "a", "_filter": 1, "x" * 70: 2}


def test_arguments_of_a_tool_whose_names_were_fine_are_the_same_object() -> None:
    arguments = {"a": 1}

    assert lower(tool(a={}), ANTHROPIC).restore(arguments) is arguments


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_that_are_fine_stay() -> None:
    assert lower_names(["get_weather", "a-b", "A1"], OPENAI) == {"get_weather": "get_weather", "a-b": "a-b", "A1": "A1"}
    assert lower_names(["math.add"], GEMINI) == {"math.add": "math.add"}


def test_names_that_are_not_get_underscores() -> None:
    assert lower_names(["math.add", "find flight", "été"], OPENAI) == {
        "math.add": "math_add",
        "find flight": "find_flight",
        "été": "_t_",
    }
    assert lower_names(["2fa", "-x"], GEMINI) == {"2fa": "_2fa", "-x": "_-x"}


def test_names_that_would_clash_get_a_hash_whatever_their_order() -> None:
    names = ["math.add", "math_add", "math:add"]
    called = lower_names(names, MISTRAL)

    assert called["math_add"] == "math_add"
    assert re.fullmatch(r"math_add_[0-9a-f]{8}", called["math.add"])
    assert re.fullmatch(r"math_add_[0-9a-f]{8}", called["math:add"])
    assert lower_names(names[::-1], MISTRAL) == called


def test_a_long_name_is_cut_and_told_apart_by_a_hash() -> None:
    called = lower_names(["x" * 70 + "a", "x" * 70 + "b"], ANTHROPIC)

    assert len(set(called.values())) == 2
    assert all(len(name) <= 64 for name in called.values())


@given(
    st.sets(st.text(max_size=80) | st.from_regex(r"[a-c._ -]{0,4}", fullmatch=True), max_size=12),
    st.sampled_from(RULES),
)
def test_every_name_is_taken_and_leads_back(names: set[str], rules: Rules) -> None:
    called = lower_names(sorted(names), rules)

    assert all(re.fullmatch(rules.tool_name, name) for name in called.values())
    assert {new: name for name, new in called.items()}.keys() == set(called.values())
    assert len(set(called.values())) == len(names)
    assert all(called[name] == name for name in names if re.fullmatch(rules.tool_name, name))


def test_what_is_unevaluated_is_not_asked_where_a_dynamic_reference_had_to_go() -> None:
    base = {
        "$id": "base",
        "type": "object",
        "properties": {"foo": {"type": "string"}},
        "$dynamicRef": "#more",
        "unevaluatedProperties": False,
        "$defs": {"none": {"$dynamicAnchor": "more"}},
    }
    bars = {"$dynamicAnchor": "more", "properties": {"bar": {"type": "string"}}}
    schema: dict[str, Json] = {"$id": "https://example.com/all", "$ref": "base", "$defs": {"bars": bars, "base": base}}
    value = {"foo": "f", "bar": "b"}
    beside: dict[str, Json] = {**schema, "unevaluatedProperties": False}

    assert Validator(schema).problems(value) == []
    for rules in RULES:
        for one in (schema, beside):
            assert Validator(lower(one, rules).schema).problems(value) == []
            assert Validator(lower(tool(a=one), rules).schema).problems({"a": value}) == []


def test_texts_that_a_list_cannot_be_are_what_stands_in_it() -> None:
    listed = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    for said in ({"type": "array", "enum": ["a", "b"]}, {**listed, "items": {"type": "string"}, "enum": ["a", "b"]}):
        assert lower(tool(x=said), GEMINI).schema["properties"]["x"] == listed
    either = {"type": ["array", "string"], "items": {"type": "string"}, "enum": ["a"]}
    assert lower(tool(x=either), GEMINI).schema["properties"]["x"] == {"type": "string", "enum": ["a"]}
    numbers = {"type": "array", "items": {"type": "integer"}, "enum": ["a"]}
    assert lower(tool(x=numbers), GEMINI).schema["properties"]["x"] == {
        "type": "array",
        "items": {"type": "integer"},
        "description": '{"enum":["a"]}',
    }


@EVERY_PROVIDER
def test_an_id_and_a_reference_that_are_no_addresses_lead_nowhere(rules: Rules) -> None:
    schema = {"$id": "http://[", **tool(a={"$ref": "http://[x", "description": "d"})}

    assert refusals(rules.provider, lower(schema, rules).schema, strict=False) == []


@EVERY_PROVIDER
def test_a_list_of_no_values_is_left_out_where_nobody_takes_it(rules: Rules) -> None:
    assert lower(tool(a={"enum": []}), rules).schema["properties"] == {"a": {"description": '{"enum":[]}'}}
