"""Schemas a decoder can follow: what comes out is valid under the original, and fits."""

import json
import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.local.grammar.grammar_draws import Undrawn, draw, draw_match, written
from tests.schema.any_schema import tool_schemas

from ronda.errors import BadRequest
from ronda.local.grammar import BoundedSchema, Cost, TooSmall, is_exact
from ronda.local.grammar.patterns import Unreadable, analyse
from ronda.local.grammar.reader import PATTERNS
from ronda.schema.bounds import SchemaError
from ronda.schema.validate import Validator

BENCH: Final = Path(__file__).parents[3] / "shared" / "data" / "schemas" / "jsonschemabench.jsonl"
NODE: Final = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
        }
    },
    "$ref": "#/$defs/node",
}

# Each says something that needs care: all of it must hold for what is decoded.
SCHEMAS: Final[dict[str, Any]] = {
    "scalars": {
        "type": "object",
        "properties": {t: {"type": t} for t in ("string", "integer", "number", "boolean", "null")},
    },
    "all required": {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 3}, "b": {"type": ["integer", "null"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    "anything": True,
    "open object": {"type": "object"},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "few of many": {"type": "object", "properties": {c: {"type": "integer"} for c in "abcd"}, "maxProperties": 2},
    "enum of all sorts": {"enum": ["a", 1, 1.5, None, True, {"k": [1, "x"]}, [], "line\nend", 'quo"te']},
    "const": {"type": "object", "properties": {"kind": {"const": {"a": [1, 2]}}}, "required": ["kind"]},
    "arrays": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 4},
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False, "minItems": 1},
    "old tuple": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [{"type": "boolean"}],
        "additionalItems": {"type": "null"},
    },
    "unique texts": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "numbers": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": -5, "exclusiveMaximum": 1000},
            "b": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "c": {"type": "number", "multipleOf": 0.25, "minimum": 10},
            "d": {"type": "integer", "multipleOf": 7, "minimum": 100},
        },
        "required": ["a", "b", "c", "d"],
    },
    "draft 4 limits": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 3,
    },
    "patterns": {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^[A-Z]{3}-\\d+$"},
            "b": {"type": "string", "pattern": "needle"},
            "c": {"type": "string", "pattern": "^(ab)+$", "minLength": 5, "maxLength": 9},
        },
        "required": ["a", "b", "c"],
    },
    "formats": {
        "type": "object",
        "properties": {
            name: {"type": "string", "format": name}
            for name in (
                *("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"),
                *("uri-reference", "json-pointer", "relative-json-pointer", "regex", "a-note"),
            )
        },
        "required": ["date", "email"],
    },
    "definitions": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"name": {"type": "string", "minLength": 1}},
        "type": "object",
        "properties": {"who": {"$ref": "#/definitions/name", "description": "whatever stands beside it"}},
        "required": ["who"],
    },
    "a tree": NODE,
    "two that need each other": {
        "$defs": {
            "even": {"anyOf": [{"const": 0}, {"type": "array", "items": {"$ref": "#/$defs/odd"}, "minItems": 1}]},
            "odd": {"type": "array", "items": {"$ref": "#/$defs/even"}, "minItems": 1},
        },
        "$ref": "#/$defs/even",
    },
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
            {"properties": {"a": {"maximum": 5}, "b": {"type": "string"}}, "required": ["b"]},
        ]
    },
    "anyOf": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "object", "properties": {"a": {"const": 1}}}]},
    "oneOf by kind": {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
    "oneOf by tag": {
        "oneOf": [
            {"type": "object", "properties": {"t": {"const": "a"}, "x": {"type": "integer"}}, "required": ["t", "x"]},
            {"type": "object", "properties": {"t": {"const": "b"}, "x": {"type": "string"}}, "required": ["t"]},
        ]
    },
    "oneOf by what is there": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "if then else": {
        "type": "object",
        "properties": {"kind": {"enum": ["circle", "square"]}, "r": {"type": "number"}, "side": {"type": "number"}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "circle"}}},
        "then": {"required": ["r"]},
        "else": {"required": ["side"]},
    },
    "dependencies": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"card": {"type": "integer"}, "address": {"type": "string"}},
        "dependencies": {"card": ["address"]},
    },
    "dependentSchemas": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}, "required": ["b"]}},
    },
    "patternProperties": {
        "type": "object",
        "properties": {"s_id": {}},
        "patternProperties": {"^s_": {"type": "string"}, "^n_[a-z]{1,8}$": {"type": "number"}},
        "additionalProperties": False,
    },
    "unevaluated": {
        "allOf": [{"properties": {"a": {"type": "integer"}}}],
        "type": "object",
        "properties": {"b": {"type": "string"}},
        "unevaluatedProperties": False,
    },
    "quoted names": {"type": "object", "properties": {'a"b\\c\n/~': {"type": "integer"}}, "required": ['a"b\\c\n/~']},
    "ids": {
        "$id": "https://example.com/root.json",
        "$defs": {"p": {"$id": "point.json", "$defs": {"c": {"type": "integer"}}, "items": {"$ref": "#/$defs/c"}}},
        "allOf": [{"$ref": "point.json"}],
        "type": "array",
    },
}

# What a decoder only comes near to: an answer is checked when it is complete. Each has one that would not do.
APPROACHED: Final[dict[str, Any]] = {
    "map of at least two": {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 2},
    "unique": {"type": "array", "items": {"enum": ["a", "b", "c", "d"]}, "uniqueItems": True, "minItems": 2},
    "contains": {"type": "array", "contains": {"const": 7}},
    "oneOf that overlaps": {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 10}]},
    "not": {"type": "string", "not": {"enum": ["", "no"]}},
    "not this property": {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}, "not": {"required": ["a"]}},
    "a circle beside a type": {
        "type": "object",
        "properties": {"a": {"$ref": "#", "type": "object"}, "b": {"type": "null"}},
        "required": ["a"],
    },
    "propertyNames": {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z]{1,4}$"},
        "additionalProperties": {"type": "null"},
    },
}


def unsupported(schema: Any) -> str | None:
    try:
        BoundedSchema(schema)
    except SchemaError as error:
        return str(error)
    return None


@pytest.mark.parametrize("schema", [*SCHEMAS.values(), *APPROACHED.values()])
def test_a_schema_that_can_be_followed_says_so(schema: Any) -> None:
    assert unsupported(schema) is None


@pytest.mark.parametrize("name", APPROACHED)
def test_where_a_schema_is_only_approached_the_answer_is_not_promised(name: str) -> None:
    assert not is_exact(Raw(msgspec.json.encode(APPROACHED[name])))


@pytest.mark.parametrize("odd", [{"allOf": 5, "$ref": "#"}, {"$ref": 5}, {"properties": {"$ref": {"type": "null"}}}])
def test_no_schema_is_too_odd_to_be_asked_about(odd: Any) -> None:
    assert is_exact(Raw(msgspec.json.encode(odd))) in (True, False)


def test_what_is_enforced_to_the_letter_is_promised() -> None:
    names = ("scalars", "all required", "numbers", "patterns", "formats", "definitions", "a tree", "allOf", "anyOf")
    assert all(is_exact(Raw(msgspec.json.encode(SCHEMAS[name]))) for name in names)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("more", [0, 1, 7, 30, 120, 900])
def test_everything_that_is_decoded_is_valid_and_fits(name: str, more: int) -> None:
    schema = SCHEMAS[name]
    read = BoundedSchema(schema)
    fitted = read.fit(read.needed + more)
    original, bounded = Validator(schema, formats=True), Validator(fitted.schema)
    chance = random.Random(f"{name} {more}")
    for _ in range(30):
        value = draw(fitted.shape, chance)
        assert original.problems(value) == [], value
        assert bounded.problems(value) == [], value
        assert written(value) <= fitted.tokens == read.needed + more


@pytest.mark.parametrize("name", PATTERNS)
def test_everything_a_format_is_decoded_to_has_that_format(name: str) -> None:
    checks = Validator({"format": name}, formats=True)
    chance = random.Random(name)
    for _ in range(300):
        assert checks.problems(draw_match(PATTERNS[name], chance)) == []


# What is rewritten, as it comes out.
REWRITTEN: Final[list[tuple[Any, Any]]] = [
    (
        {"type": "integer", "minimum": 0, "maximum": 9, "description": "a digit"},
        {"type": "integer", "minimum": 0, "maximum": 9},
    ),
    ({"enum": ["a", "b"], "type": "string", "maxLength": 5}, {"enum": ["a", "b"]}),
    ({"enum": ["a", 1, None], "type": ["string", "null"]}, {"enum": ["a", None]}),
    ({"const": 3, "minimum": 1}, {"const": 3}),
    ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"enum": ["a", "b"]}),
    ({"type": "string", "format": "something else"}, {"type": "string"}),
    (
        {"allOf": [{"type": "string", "minLength": 1}, {"maxLength": 3}]},
        {"type": "string", "minLength": 1, "maxLength": 3},
    ),
    (
        {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"const": None}}, "required": [], "additionalProperties": False},
    ),
    (
        {"$defs": {"s": {"type": "string"}}, "type": "array", "items": {"$ref": "#/$defs/s"}},
        {"type": "array", "items": {"$ref": "#/$defs/d0"}, "$defs": {"d0": {"type": "string"}}},
    ),
    (
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        {"type": "array", "items": {"type": "string"}, "maxItems": 1},
    ),
]


@pytest.mark.parametrize(("schema", "expected"), REWRITTEN)
def test_a_schema_is_said_in_the_words_a_decoder_knows(schema: Any, expected: Any) -> None:
    assert BoundedSchema(schema).schema() == expected


REFUSED: Final[list[tuple[Any, str]]] = [
    ({"properties": {"a": {"type": "string", "pattern": "^(?=x)"}}}, "/properties/a/pattern: look-around"),
    ({"type": "string", "pattern": r"(a)\1"}, "/pattern: a back reference"),
    ({"type": "string", "pattern": r"\bword\b"}, "/pattern: a word boundary"),
    ({"type": "array", "items": {"$ref": "https://example.com/other.json"}}, "/items/$ref"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "no value"),
    ({"type": "object", "properties": {"self": {"$ref": "#"}}, "required": ["self"]}, "no value"),
    ({"type": "object", "patternProperties": {"(?!x)": {}}}, "/patternProperties: look-around"),
    ({"type": "whatever"}, "/type"),
]


@pytest.mark.parametrize(("schema", "reason"), REFUSED)
def test_a_schema_that_cannot_be_followed_is_refused_with_the_place(schema: Any, reason: str) -> None:
    problem = unsupported(schema)
    assert problem is not None
    assert reason in problem


# ---- budgets ----------------------------------------------------------------------------------------------------------

FORM: Final = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "title": {"type": "string"},
        "kind": {"enum": ["short", "a very long word indeed"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "kind"],
}


def test_a_budget_too_small_is_refused_with_the_number_that_is_enough() -> None:
    with pytest.raises(TooSmall, match=r"needs at least \d+ tokens, and there are 10") as refused:
        BoundedSchema(FORM).fit(10)
    assert isinstance(refused.value, BadRequest)
    assert refused.value.param == "max_tokens"
    assert BoundedSchema(FORM).fit(refused.value.needed)
    with pytest.raises(TooSmall):
        BoundedSchema(FORM).fit(refused.value.needed - 1)


def test_what_is_required_comes_first_and_what_is_optional_when_there_is_enough() -> None:
    tight, some, plenty = (BoundedSchema(FORM).fit(tokens).schema for tokens in (50, 200, 800))
    assert set(tight["properties"]) == {"title", "kind"}
    assert tight["properties"]["kind"] == {"const": "short"}
    assert set(some["properties"]) == {"note", "title", "kind"}
    assert set(plenty["properties"]) == {"note", "title", "kind", "tags"}
    assert all(one["required"] == ["title", "kind"] for one in (tight, some, plenty))


def test_a_text_may_be_longer_the_plainer_it_is() -> None:
    checks = Validator(BoundedSchema({"type": "string"}).fit(602).schema)
    assert not checks.problems("x" * 300)
    assert not checks.problems("é" * 100)
    assert not checks.problems("a line\n" * 42)
    assert checks.problems("x" * 301)
    assert checks.problems("é" * 101)


def test_numbers_keep_a_sign_and_decimals_while_there_is_room() -> None:
    number = {"type": "number"}
    assert BoundedSchema(number).fit(1).schema == {"type": "integer", "minimum": 0, "maximum": 9}
    assert BoundedSchema(number).fit(3).schema == {"type": "integer", "minimum": -99, "maximum": 99}
    assert BoundedSchema(number).fit(30).schema["multipleOf"] == 1e-06


def test_a_tree_is_as_deep_as_there_is_room_for() -> None:
    def depth(schema: dict[str, Any]) -> int:
        children = schema["properties"].get("children")
        return 1 + (depth(children["items"]) if children and "items" in children else 0)

    assert [depth(BoundedSchema(NODE).fit(tokens).schema) for tokens in (20, 300, 10_000)] == [1, 2, 3]


OPEN: Final = [
    ({"type": "array"}, [{"name": "x", "size": 1}, {}]),
    ({"type": "array"}, [["a", "b"], "c"]),
    ({"type": "object"}, {"where": {"city": "Paris", "at": 3}, "tags": ["a", "b"]}),
    ({"type": "object", "additionalProperties": {"type": "object"}}, {"a": {"b": "c"}}),
    ({"type": "array", "items": {"type": "object"}}, [{"a": 1, "b": "two"}]),
    (
        {
            "type": "object",
            "properties": {"rows": {"type": "array"}, "name": {"type": "string"}},
            "required": ["rows", "name"],
        },
        {"rows": [{"a": "b"}], "name": "x"},
    ),
    ({"type": "object", "properties": {"filter": {}}, "required": ["filter"]}, {"filter": {"a": "b"}}),
]


@pytest.mark.parametrize(("schema", "value"), OPEN)
def test_what_nobody_described_may_hold_objects_and_lists(schema: Any, value: Any) -> None:
    """In what a call gets that must come when no limit of the answer is given."""
    fitted = BoundedSchema(schema).fit(450)

    assert Validator(fitted.schema).problems(value) == []


def test_what_nobody_described_goes_deeper_the_more_room_there_is() -> None:
    deep = {"a": {"b": {"c": "d"}}, "e": [{"f": ["g"]}]}
    assert Validator(BoundedSchema({"type": "object"}).fit(4000).schema).problems(deep) == []
    assert Validator(BoundedSchema({"type": "object"}).fit(450).schema).problems(deep) != []
    assert Validator(BoundedSchema({"type": "object"}).fit(120).schema).problems({"a": 1}) == []


def test_what_is_left_out_for_want_of_tokens_is_told() -> None:
    assert BoundedSchema(FORM).fit(50).left_out == ("note", "tags")
    assert BoundedSchema(FORM).fit(800).left_out == ()
    filled = {"type": "object", "properties": {"filter": {"type": "object"}}, "required": ["filter"]}
    assert BoundedSchema(filled).fit(40).left_out == ("filter",)
    assert BoundedSchema(filled).fit(450).left_out == ()


def test_what_is_forced_costs_what_the_vocabulary_says() -> None:
    by_bytes, counted = BoundedSchema(FORM).needed, BoundedSchema(FORM, Cost(lambda text: 1)).fit(30).tokens
    assert counted == 30 < by_bytes


@pytest.mark.skipif(not BENCH.exists(), reason="the recorded schemas are not beside the repository")
@pytest.mark.conformance
def test_hardly_any_real_schema_is_refused() -> None:
    rows = [json.loads(line) for line in BENCH.read_text().splitlines()]
    refused = {row["id"]: problem for row in rows if (problem := unsupported(row["schema"])) is not None}
    assert len(refused) <= len(rows) // 50, refused
    assert all(problem.startswith("/") for problem in refused.values())


@given(tool_schemas(), st.randoms())
@example(
    {"type": "object", "properties": {"a": {"pattern": "^x", "format": "date"}}, "required": ["a"]}, random.Random(1)
)
@settings(max_examples=300, deadline=None)
def test_any_schema_is_followed_or_refused_and_what_is_promised_holds(schema: Any, chance: random.Random) -> None:
    try:
        read = BoundedSchema(schema)
        fitted = read.fit(read.needed + 200)
        value = draw(fitted.shape, chance)
    except (SchemaError, Undrawn):
        return
    assert written(value) <= fitted.tokens
    if is_exact(Raw(msgspec.json.encode(schema))):
        assert Validator(schema, formats=True).problems(value) == []


# ---- expressions ------------------------------------------------------------------------------------------------------

LENGTHS: Final = [
    ("^abc$", 3, 3),
    ("^(ab){2,3}$", 4, 6),
    ("^a?b*$", 0, None),
    ("^(?:foo|quux)?$", 0, 4),
    (r"^\d{4}-\d\d$", 7, 7),
    ("abc", 3, None),
    ("^a|b$", 1, None),
    ("", 0, None),
]


@pytest.mark.parametrize(("pattern", "least", "most"), LENGTHS)
def test_the_lengths_of_matches_are_known(pattern: str, least: int, most: int | None) -> None:
    assert (analyse(pattern).least, analyse(pattern).most) == (least, most)


@pytest.mark.parametrize("pattern", ["a(?=b)", r"(a)\1", "[a", "(a", "a)", "*a", r"\p{L}", "\\"])
def test_an_expression_that_is_not_understood_is_an_error(pattern: str) -> None:
    with pytest.raises(Unreadable):
        analyse(pattern)


@given(st.lists(st.sampled_from(["a", "[bc]", "(d|ee)", "f{2,3}", "g?", "h*", "\\d"]), max_size=5), st.data())
def test_every_match_has_a_length_that_is_known(parts: list[str], data: st.DataObject) -> None:
    pattern = f"^{''.join(parts)}$"
    text = data.draw(st.from_regex(f"^{''.join(parts)}\\Z", alphabet=st.characters(codec="ascii")))
    found = analyse(pattern)
    assert found.least <= len(text) <= (len(text) if found.most is None else found.most)
