from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.schema.any_schema import OBJECTS, VALUES, tool_schemas

from ronda.schema.lower_merge import same
from ronda.schema.repair import RepairedArguments, repair
from ronda.schema.validate import SchemaError, Validator

Json = Any


def tool(required: str = "", **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": required.split()}


def closed(required: str = "", **properties: Json) -> dict[str, Json]:
    return {**tool(required, **properties), "additionalProperties": False}


def repaired(arguments: dict[str, Json], schema: dict[str, Json]) -> RepairedArguments | None:
    return repair(arguments, schema, Validator(schema))


def value(given: Json, schema: Json) -> tuple[Json, str] | None:
    """What becomes of one value, and the one repair it took."""
    result = repaired({"x": given}, tool("x", x=schema))
    if result is None:
        return None
    (what,) = result.repairs
    return result.arguments["x"], what.removeprefix("/x: ")


# ---- what fits is left alone -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        ({"x": 3.0}, tool(x={"type": "integer"})),
        ({"x": "3"}, tool(x={"type": ["string", "integer"]})),
        ({"x": "3"}, tool(x={})),
        ({"x": None}, tool(x={"type": ["string", "null"]})),
        ({"City": "x"}, tool(city={"type": "string"})),
        ({"other": 1}, tool(x={"type": "string", "default": "y"})),
        ({"x": "a"}, tool(x={"anyOf": [{"const": "A"}, {"type": "string"}]})),
    ],
)
def test_arguments_that_fit_come_back_as_the_same_object(arguments: dict[str, Json], schema: dict[str, Json]) -> None:
    result = repaired(arguments, schema)

    assert result == RepairedArguments(arguments)
    assert result is not None
    assert result.arguments is arguments


# ---- types -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "schema", "expected"),
    [
        ("3", {"type": "integer"}, (3, "string read as integer")),
        (" -12 ", {"type": "integer"}, (-12, "string read as integer")),
        ("3.0", {"type": "integer"}, (3, "string read as integer")),
        ("2e3", {"type": "integer"}, (2000, "string read as integer")),
        ("3.5", {"type": "number"}, (3.5, "string read as number")),
        ("3", {"type": "number"}, (3, "string read as integer")),
        ("true", {"type": "boolean"}, (True, "string read as boolean")),
        ("False", {"type": "boolean"}, (False, "string read as boolean")),
        ("null", {"type": ["integer", "null"]}, (None, "string read as null")),
        (3, {"type": "string"}, ("3", "integer written as string")),
        (3.5, {"type": "string"}, ("3.5", "number written as string")),
        (True, {"type": "string"}, ("true", "boolean written as string")),
        ("a", {"type": "array", "items": {"type": "string"}}, (["a"], "string made a list of one")),
        (3, {"type": "array"}, ([3], "integer made a list of one")),
        ({"a": 1}, {"type": "array", "items": {"type": "object"}}, ([{"a": 1}], "object made a list of one")),
        (["a"], {"type": "string"}, ("a", "taken out of a list of one")),
        ('["a", "b"]', {"type": "array"}, (["a", "b"], "string read as array")),
        ('{"a": 1}', {"type": "object"}, ({"a": 1}, "string read as object")),
        ('```json\n{"a": 1,}\n```', {"type": "object"}, ({"a": 1}, "string read as object")),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, (3, "string read as integer")),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "array"}]}, (3, "string read as integer")),
        ("3", {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 4}]}, (3, "string read as integer")),
        ("3", {"allOf": [{"type": "integer"}, {"minimum": 1}]}, (3, "string read as integer")),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_read_as_the_one_that_is_wanted(given: Json, schema: Json, expected: Json) -> None:
    result = value(given, schema)

    assert result == expected
    assert result is not None
    assert type(result[0]) is type(expected[0])


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ("three", {"type": "integer"}),
        ("3.5", {"type": "integer"}),
        (3.5, {"type": "integer"}),
        ("007", {"type": "integer"}),
        ("1,000", {"type": "integer"}),
        ("1e999", {"type": "number"}),
        ("9" * 5000, {"type": "integer"}),
        ("0x10", {"type": "integer"}),
        ("", {"type": "integer"}),
        ("yes", {"type": "boolean"}),
        (1, {"type": "boolean"}),
        (None, {"type": "string"}),
        ("a, b", {"type": "array", "items": {"type": "string"}}),  # one, or two?
        ("[1, 2", {"type": "array"}),  # cut
        (["a", "b"], {"type": "string"}),
        ({"a": 1}, {"type": "string"}),
        ("3", {"type": "integer", "minimum": 5}),
        ("3", {"anyOf": [{"type": "integer"}, {"type": "array"}], "not": {"const": 3}}),
    ],
)  # fmt: skip
def test_what_has_no_reading_or_more_than_one_is_refused(given: Json, schema: Json) -> None:
    assert value(given, schema) is None


def test_in_draft_4_a_whole_number_with_a_point_is_written_as_integer() -> None:
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", **closed(x={"type": "integer"})}
    del schema["required"]

    result = repaired({"x": 3.0}, schema)

    assert result == RepairedArguments({"x": 3}, ("/x: number written as integer",))
    assert result is not None
    assert type(result.arguments["x"]) is int


# ---- enums -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "schema", "expected"),
    [
        ("Celsius", {"enum": ["celsius", "fahrenheit"]}, ("celsius", 'spelled as "celsius"')),
        (" celsius\n", {"enum": ["celsius", "fahrenheit"]}, ("celsius", 'spelled as "celsius"')),
        ("ASC", {"const": "asc"}, ("asc", 'spelled as "asc"')),
        (" Aa ", {"enum": ["AA", "Aa", "aa"]}, ("Aa", 'spelled as "Aa"')),
        ("2", {"enum": [1, 2]}, (2, "spelled as 2")),
        (2, {"enum": ["1", "2"]}, ("2", 'spelled as "2"')),
        ("TRUE", {"enum": [True, None]}, (True, "spelled as true")),
        ("aA", {"enum": ["AA", "Aa", "aa"]}, None),
        ("kelvin", {"enum": ["celsius", "fahrenheit"]}, None),
        ("2", {"enum": [2, "2 "]}, None),
    ],
)
def test_a_value_of_an_enum_is_spelled_as_it_is_there(given: Json, schema: Json, expected: Json) -> None:
    assert value(given, schema) == expected


def test_a_boolean_for_an_enum_of_words_takes_two_repairs() -> None:
    schema = tool(x={"type": "string", "enum": ["True", "False"]})

    assert repaired({"x": False}, schema) == RepairedArguments(
        {"x": "False"}, ("/x: boolean written as string", '/x: spelled as "False"')
    )


# ---- properties --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "schema", "expected"),
    [
        # a name in another spelling, where the schema allows no others, or misses it
        ({"City": "x"}, closed(city={}), RepairedArguments({"city": "x"}, ("/City: renamed to city",))),
        ({"City": "x"}, tool("city", city={}), RepairedArguments({"city": "x"}, ("/City: renamed to city",))),
        (
            {"maxResults": 3},
            closed(max_results={}),
            RepairedArguments({"max_results": 3}, ("/maxResults: renamed to max_results",)),
        ),
        ({"City": "x", "CITY": "y"}, tool("city", city={}), None),
        ({"Ab": 1}, closed("x", ab={}, aB={}, x={}), None),
        # what the schema says itself
        ({}, tool("n", n={"default": 3}), RepairedArguments({"n": 3}, ("/n: was missing: its default filled in",))),
        ({}, tool("k", k={"const": "v"}), RepairedArguments({"k": "v"}, ("/k: was missing: its only value filled in",))),
        ({}, tool("k", k={"enum": ["v"]}), RepairedArguments({"k": "v"}, ("/k: was missing: its only value filled in",))),
        ({}, tool("k", k={"enum": ["v", "w"]}), None),
        ({}, tool("k", k={"type": "string"}), None),
        ({}, tool("k", k={"type": "string", "default": None}), None),
        ({"n": None}, tool("n", n={"type": "integer", "default": 3}), RepairedArguments(
            {"n": 3}, ("/n: was missing: its default filled in",))),
        # null is how some say: absent
        ({"a": 1, "b": None}, tool("a", a={}, b={"type": "string"}), RepairedArguments(
            {"a": 1}, ("/b: null taken out: it may be absent",))),
        ({"a": None}, tool("a", a={"type": "string"}), None),
        # the last resort
        ({"a": 1, "b": 2}, closed(a={}), RepairedArguments({"a": 1}, ("/b: taken out: the schema does not allow it",))),
        ({"a": "1", "b": 2}, closed("a", a={"type": "integer"}), RepairedArguments(
            {"a": 1}, ("/a: string read as integer", "/b: taken out: the schema does not allow it"))),
        ({"a": "one", "b": 2}, closed("a", a={"type": "integer"}), None),
        # further down
        ({"a": {"b": [{"c": "1"}]}}, tool(a=tool(b={"items": tool(c={"type": "integer"})})), RepairedArguments(
            {"a": {"b": [{"c": 1}]}}, ("/a/b/0/c: string read as integer",))),
        ({"a": ["1", "2", "3"]}, tool(a={"prefixItems": [{"type": "string"}], "items": {"type": "number"}}), RepairedArguments(
            {"a": ["1", 2, 3]}, ("/a/1: string read as integer", "/a/2: string read as integer"))),
        ({"x": "1"}, {"type": "object", "additionalProperties": {"type": "integer"}}, RepairedArguments(
            {"x": 1}, ("/x: string read as integer",))),
        ({"a/b~": "1"}, {"properties": {"a/b~": {"type": "integer"}}}, RepairedArguments(
            {"a/b~": 1}, ("/a~1b~0: string read as integer",))),
        ({"k": "circle", "r": "2"}, {"oneOf": [closed("k r", k={"const": "circle"}, r={"type": "number"}),
                                                closed("k s", k={"const": "square"}, s={"type": "number"})]},
         RepairedArguments({"k": "circle", "r": 2}, ("/r: string read as integer",))),
        ({"r": 2}, {"oneOf": [closed("k r", k={"const": "circle"}, r={}), closed("k s", k={"const": "square"}, s={})]},
         RepairedArguments({"k": "circle", "r": 2}, ("/k: was missing: its only value filled in",))),
        ({}, {"oneOf": [closed("k", k={"const": "circle"}), closed("k", k={"const": "square"})]}, None),
        ({"n": "3"}, {"if": {"required": ["n"]}, "then": tool(n={"type": "integer"})}, RepairedArguments(
            {"n": 3}, ("/n: string read as integer",))),
    ],
)  # fmt: skip
def test_objects_are_put_right(
    arguments: dict[str, Json], schema: dict[str, Json], expected: RepairedArguments | None
) -> None:
    before = copy.deepcopy(arguments)

    assert repaired(arguments, schema) == expected
    assert arguments == before


def test_what_is_dropped_is_what_a_pattern_does_not_allow_for() -> None:
    schema = {**closed(a={"type": "integer"}), "patternProperties": {"^x-": {}}}

    assert repaired({"a": "1", "x-y": 2}, schema) == RepairedArguments(
        {"a": 1, "x-y": 2}, ("/a: string read as integer",)
    )
    assert repaired({"a": "1", "y": 2}, schema) is None


def test_parts_that_fit_are_the_same_objects_afterwards() -> None:
    arguments = {"a": "1", "b": {"c": [1]}, "d": ["x"]}

    result = repaired(arguments, tool(a={"type": "integer"}, b={"type": "object"}, d={"type": "array"}))

    assert result is not None
    assert result.arguments["b"] is arguments["b"]
    assert result.arguments["d"] is arguments["d"]


# ---- references --------------------------------------------------------------------------------------------------------


def test_references_are_followed_as_far_as_the_value_goes() -> None:
    schema = {
        "$defs": {"node": tool(n={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
        "$ref": "#/$defs/node",
    }
    arguments = {"n": "1", "next": {"n": 2, "next": {"n": "3", "next": None}}}

    assert repaired(arguments, schema) == RepairedArguments(
        {"n": 1, "next": {"n": 2, "next": {"n": 3, "next": None}}},
        ("/n: string read as integer", "/next/next/n: string read as integer"),
    )


def test_the_default_of_what_is_referred_to_counts() -> None:
    schema = {**tool("unit", unit={"$ref": "#/$defs/unit"}), "$defs": {"unit": {"enum": ["c", "f"], "default": "c"}}}

    assert repaired({}, schema) == RepairedArguments({"unit": "c"}, ("/unit: was missing: its default filled in",))


# ---- bounds ------------------------------------------------------------------------------------------------------------


def test_a_schema_that_refers_to_itself_for_ever_is_given_up() -> None:
    class Never:
        def problems(self, value: Any, limit: int = 5) -> list[Any]:
            return ["never"]

    assert repair({"a": 1}, {"$ref": "#"}, Never()) is None
    assert repair({"a": 1}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, Never()) is None


def test_many_alternatives_are_given_up() -> None:
    inner: Json = {"type": "integer"}
    for _ in range(9):
        inner = {"anyOf": [{"type": "array", "items": inner}, {"type": "object", "additionalProperties": inner}]}
    arguments: Json = "one"
    for _ in range(9):
        arguments = [arguments]

    assert repaired({"x": arguments}, tool(x=inner)) is None


def test_arguments_nested_without_end_are_given_up() -> None:
    deep: Json = "1"
    for _ in range(300):
        deep = {"x": deep}
    schema = {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#"}, {"type": "integer"}]}}

    assert repaired({"x": deep}, schema) is None


# ---- whatever comes ----------------------------------------------------------------------------------------------------


@given(tool_schemas(), st.sampled_from(OBJECTS))
def test_what_comes_out_fits_and_what_fitted_comes_out_the_same(
    schema: dict[str, Json], arguments: dict[str, Json]
) -> None:
    validator = Validator(schema)
    try:
        fits = validator.problems(arguments, 1) == []
    except SchemaError:
        assume(False)
    before = copy.deepcopy(arguments)

    result = repair(arguments, schema, validator)

    assert arguments == before
    if fits:
        assert result == RepairedArguments(arguments)
    elif result is not None:
        assert result.repairs != ()
        assert validator.problems(result.arguments) == []


_KINDS: dict[str, st.SearchStrategy[Json]] = {
    "integer": st.integers(-(2**53), 2**53),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "array": st.lists(st.integers() | st.text(), max_size=3),
    "object": st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
}


@given(st.data(), st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(sorted(_KINDS)), min_size=1))
def test_everything_as_text_is_read_back_exactly(data: st.DataObject, types: dict[str, str]) -> None:
    arguments = {name: data.draw(_KINDS[kind]) for name, kind in types.items()}
    schema = closed(" ".join(types), **{name: {"type": kind} for name, kind in types.items()})
    texts = {name: json.dumps(item) for name, item in arguments.items()}

    result = repaired(texts, schema)

    assert result is not None
    assert same(result.arguments, arguments)
    assert len(result.repairs) == len(types)


_LENIENT: list[Json] = [
    {},
    {"type": ["array", "object", "null", "string"]},
    {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
    {"enum": ["x", "X", "1", 1, None]},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": ["integer", "object"]}},
    {"oneOf": [{"type": "number", "maximum": 1}, {"type": "number", "minimum": 1.5}, {"const": "xy"}]},
]


@given(st.sampled_from(_LENIENT), st.sampled_from(VALUES), st.sampled_from(["1", "2.0", [3], "x", None, 0]))
def test_a_property_that_fits_is_not_touched_for_the_sake_of_another(schema: Json, good: Json, bad: Json) -> None:
    assume(Validator(schema).problems(good, 1) == [])

    result = repaired(
        {"good": good, "bad": bad}, closed("good bad", good=schema, bad={"type": "integer", "minimum": 1})
    )

    if result is not None:
        assert result.arguments["good"] is good
