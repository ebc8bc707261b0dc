from __future__ import annotations

import re
import subprocess
import sys
import warnings
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.errors import BadRequest
from ronda.schema.bounds import MAX_DEPTH, measure
from ronda.schema.patterns import strictly_spelt
from ronda.schema.validate import CACHED, CACHED_SIZE, Problem, SchemaError, Validator, check_schema, validator_for

TRIP: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
    "required": ["city"],
    "additionalProperties": False,
}


# ---- values -----------------------------------------------------------------------------------------------------------


def test_a_value_that_fits_has_no_problems() -> None:
    assert Validator(TRIP).problems({"city": "Paris", "days": 3}) == []
    assert Validator(TRIP).explain({"city": "Paris"}) is None


def test_every_problem_is_named_with_its_place() -> None:
    sent = {"city": 3, "days": 0, "wind": True}

    assert Validator(TRIP).problems(sent) == [
        Problem("/city", '3 is not of type "string"'),
        Problem("/days", "0 is less than the minimum of 1"),
        Problem("", "Additional properties are not allowed ('wind' was unexpected)"),
    ]
    assert Validator(TRIP).explain(sent) == (
        '/city: 3 is not of type "string"; /days: 0 is less than the minimum of 1; '
        "Additional properties are not allowed ('wind' was unexpected)"
    )


def test_only_as_many_problems_are_told_as_were_asked_for() -> None:
    found = Validator({"items": {"type": "string"}}).problems([1, 2, 3, 4], limit=2)

    assert found == [Problem("/0", '1 is not of type "string"'), Problem("/1", '2 is not of type "string"')]


def test_places_are_json_pointers() -> None:
    schema = {"properties": {"a/b": {"properties": {"~": {"items": {"type": "null"}}}}}}

    assert Validator(schema).problems({"a/b": {"~": [None, 1]}}) == [Problem("/a~1b/~0/1", '1 is not of type "null"')]


def test_a_schema_may_come_as_json_text_or_be_a_boolean() -> None:
    assert Validator(msgspec.json.encode(TRIP)).explain({}) == '"city" is a required property'
    assert Validator(True).explain({}) is None
    assert Validator(b"false").explain(3) == "False schema does not allow 3"


def test_the_draft_is_the_one_the_schema_names_else_the_newest() -> None:
    schema = {"prefixItems": [{"type": "string"}]}  # unknown, so ignored, before 2020-12

    assert Validator(schema).explain([1]) == '/0: 1 is not of type "string"'
    assert Validator({**schema, "$schema": "http://json-schema.org/draft-07/schema#"}).explain([1]) is None


def test_formats_are_asserted_only_when_asked_for() -> None:
    for schema in ({"format": "date"}, {"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"}):
        assert Validator(schema).explain("soon") is None
        assert Validator(schema, formats=True).explain("soon") == '"soon" is not a "date"'


def test_the_problems_of_a_union_are_those_of_the_alternative_that_was_meant() -> None:
    optional = {"anyOf": [TRIP, {"type": "null"}]}
    tagged = {"anyOf": [{**TRIP, "properties": {**TRIP["properties"], "kind": {"const": kind}}} for kind in "ab"]}

    assert Validator(optional).explain({"city": 3}) == '/city: 3 is not of type "string"'
    assert Validator(tagged).explain({"kind": "b", "city": 3}) == '/city: 3 is not of type "string"'


def test_a_value_of_none_of_the_types_of_a_union_is_told_all_of_them() -> None:
    schema = {"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}, {"type": "integer"}]}}}

    assert Validator(schema).explain({"a": [1]}) == '/a: [1] is not of type "integer" or "null" or "string"'


def test_a_union_where_nothing_can_be_told_says_so() -> None:
    twice = {"oneOf": [{"type": "integer"}, {"type": "number"}]}

    assert Validator(twice).explain(3) == "3 is valid under more than one of the schemas listed in the 'oneOf' keyword"


def test_a_long_value_is_not_repeated_in_full() -> None:
    said = Validator({"type": "integer"}).explain("x" * 10_000)

    assert said == '"' + "x" * 119 + "…" + "x" * 94 + '" is not of type "integer"'


@pytest.mark.parametrize("value", ["\ud800", object()], ids=["surrogate", "object"])
def test_what_is_not_json_never_fits(value: Any) -> None:
    [problem] = Validator(True).problems(value)

    assert problem.message.startswith("not JSON: ")


def test_a_value_nested_too_deeply_is_refused() -> None:
    def nested(depth: int) -> list[Any]:
        value: list[Any] = []
        for _ in range(depth):
            value = [value]
        return value

    validator = Validator({"items": {"$ref": "#"}})

    assert validator.problems(nested(500)) == []
    assert validator.problems(nested(100_000)) == [Problem("", "nested too deeply to be checked")]
    assert validator.problems([[]] * 100_000) == []


# ---- patterns ---------------------------------------------------------------------------------------------------------


def test_a_pattern_that_would_backtrack_for_ever_does_not() -> None:
    assert Validator({"pattern": "^(a+)+$"}).explain("a" * 100_000) is None
    assert Validator({"pattern": "^(a+)+$"}).explain("a" * 100 + "!") is not None


# How zod writes an e-mail address, and so what half of the TypeScript world sends.
EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def test_a_pattern_with_look_around_is_matched_too() -> None:
    schema = {"properties": {"to": {"type": "string", "pattern": EMAIL}, "body": {"type": "string"}}}
    validator = Validator(schema)

    assert validator.explain({"to": "ada@example.com", "body": "x" * 100_000}) is None
    assert validator.problems({"to": "a..b@example.com"}) == [
        Problem("/to", f'"a..b@example.com" does not match "{EMAIL}"')
    ]
    assert schema["properties"]["to"]["pattern"] == EMAIL  # the caller's own is left alone


def test_a_long_text_is_not_held_against_a_pattern_with_look_around() -> None:
    assert Validator({"pattern": "(?=.*a)" * 50 + "(?=.*z)"}).explain("a" * 100_000) is None


# ---- schemas ----------------------------------------------------------------------------------------------------------


NOT_LINEAR = "not a regular expression that can be matched in linear time"
OUTSIDE = "this schema, and nothing is fetched from outside"
UNKNOWN = "Unknown meta-schema: 'http://x/y'. Custom meta-schemas must be registered in the registry before use"


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strin"}, '/type: "strin" is not one of "array", "boolean" or 5 other candidates'),
        ({"type": ["string", "nul"]}, '/type/1: "nul" is not one of "array", "boolean" or 5 other candidates'),
        ({"properties": [1]}, '/properties: [1] is not of type "object"'),
        ({"properties": {"a/b": {"minLength": -1}}}, "/properties/a~1b/minLength: -1 is less than the minimum of 0"),
        ({"required": "city"}, '/required: "city" is not of type "array"'),
        ({"$defs": {"a": {"enum": 3}}}, '/$defs/a/enum: 3 is not of type "array"'),
        ({"properties": {"a": {"pattern": "("}}}, f"/properties/a/pattern: {NOT_LINEAR}"),
        ({"properties": {"a": {"pattern": "(?=("}}}, f"/properties/a/pattern: {NOT_LINEAR}"),
        ({"patternProperties": {"^(?!x)": {}}}, f"/patternProperties/^(?!x): {NOT_LINEAR}"),
        ({"pattern": "[" * 100_000}, f"/pattern: {NOT_LINEAR}"),
        ({"$ref": "#/allOf/" + "1" * 5_000}, '/$ref: "#/allOf/' + "1" * 192 + f'" is not in {OUTSIDE}'),
        ({"pattern": "(a{99}){999}"}, "the patterns have more than 20000 states; repeat less in them"),
        ({"$schema": "http://x/y"}, UNKNOWN),
        ([1], "a JSON Schema is an object or a boolean"),
        (b'"string"', "a JSON Schema is an object or a boolean"),
        (b'{"type"', "not JSON: Input data was truncated"),
    ],
)
def test_what_is_wrong_with_a_schema_is_said_with_its_place(schema: Any, problem: str) -> None:
    assert check_schema(schema) == problem
    with pytest.raises(SchemaError) as caught:
        Validator(schema).problems({})
    assert str(caught.value) == problem
    assert isinstance(caught.value, BadRequest)


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/b",
        "#nowhere",
        "http://127.0.0.1:9/x.json",
        "file:///etc/passwd",
        "other.json",
        "http://x/y.json#/$defs/a",
    ],
)
def test_a_reference_that_leads_out_of_the_schema_is_refused_and_nothing_is_fetched(reference: str) -> None:
    schema = {"properties": {"a": {"$ref": reference}}, "$defs": {"a": {}}}

    assert check_schema(schema) == (
        f'/properties/a/$ref: "{reference}" is not in this schema, and nothing is fetched from outside'
    )


@pytest.mark.parametrize(
    "schema",
    [
        TRIP,
        True,
        {},
        {"$ref": "#"},
        {"$ref": "#/$defs/a%25b~1c", "$defs": {"a%b/c": {"type": "string"}}},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here"}}},
        {
            "$id": "http://x/root.json",
            "$ref": "item.json",
            "$defs": {"a": {"$id": "item.json", "$ref": "#/$defs/b", "$defs": {"b": {}}}},
        },
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"const": {"$ref": "http://127.0.0.1:9/x.json"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"pattern": "^.{1,4096}$"},
        {"type": "object", "x-unknown": [1]},
    ],
)
def test_a_good_schema_has_nothing_wrong_with_it(schema: Any) -> None:
    assert check_schema(schema) is None


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        for _ in range(levels):
            schema = {"not": schema}
        return schema

    text = b'{"not":' * 10_000 + b"{}" + b"}" * 10_000

    assert check_schema(nested(MAX_DEPTH - 1)) is None
    assert [check_schema(nested(MAX_DEPTH)), check_schema(nested(10_000)), check_schema(text)] == [
        f"nested deeper than {MAX_DEPTH} levels"
    ] * 3


def doubling(levels: int, keyword: str, end: dict[str, Any]) -> dict[str, Any]:
    """A few hundred bytes that mean 2ⁿ checks."""
    pairs = {f"a{n}": {keyword: [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**pairs, f"a{levels}": end}}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40, "allOf", {"type": "string"}),
        doubling(40, "anyOf", {"type": "string"}),
        doubling(14, "oneOf", {"properties": {"x": {"$ref": "#/$defs/a0"}}}),
        {**doubling(14, "allOf", {"properties": {"x": {}}}), "unevaluatedProperties": False},
    ],
    ids=["allOf", "anyOf", "recursive", "unevaluated"],
)
def test_a_schema_that_multiplies_its_work_is_refused(schema: dict[str, Any]) -> None:
    assert check_schema(schema) == "one value would take more than 1000000 checks; use fewer combinations of references"


def test_the_same_schema_under_other_kinds_of_reference_is_refused_as_well() -> None:
    def chain(link: str, name: dict[str, Any]) -> dict[str, Any]:
        steps = [
            {"allOf": [{"$ref": link.format(n + 1)}] * 2, **{k: v.format(n) for k, v in name.items()}}
            for n in range(40)
        ]
        last = {k: v.format(40) for k, v in name.items()}
        return {
            "$id": "http://x/y/root",
            "$ref": link.format(0),
            "$defs": {str(n): step for n, step in enumerate([*steps, last])},
        }

    by_anchor = chain("#a{}", {"$anchor": "a{}"})
    by_address = chain("../z/{}.json", {"$id": "http://x/z/{}.json"})

    assert [check_schema(by_anchor), check_schema(by_address)] == [
        "one value would take more than 1000000 checks; use fewer combinations of references"
    ] * 2


def test_very_many_subschemas_and_very_long_names_are_refused() -> None:
    chain = {"$ref": "#/$defs/a0", "$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(20_000)}}
    names: dict[str, Any] = {"properties": {"x" * 100_000: {"properties": {str(n): {} for n in range(5_000)}}}}
    anchors = {str(n): {"$id": f"http://x/{n}", "$anchor": "a"} for n in range(2_000)}
    links = {"$defs": anchors, "allOf": [{"$ref": f"http://x/{n}#a"} for n in range(2_000)]}

    assert [check_schema(chain), check_schema(names), check_schema(links)] == [
        "more than 10000 subschemas",
        "names too long for so many subschemas",
        "more than 100000 links between subschemas",
    ]


def test_a_huge_enum_is_a_good_schema_but_not_checked_against_a_huge_value() -> None:
    validator = Validator({"items": {"enum": [[n] for n in range(20_000)]}})

    assert validator.explain([[3]]) is None
    assert validator.problems([[3]] * 20_000) == [Problem("", "too large to be checked against its schema")]


def test_where_naming_the_place_would_take_too_long_there_is_still_an_answer() -> None:
    expression = {
        "$defs": {
            "node": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {"op": {"const": op}, "of": {"$ref": "#/$defs/node"}},
                        "required": ["op", "of"],
                    }
                    for op in ("and", "or", "not")
                ]
                + [{"type": "string"}]
            }
        },
        "$ref": "#/$defs/node",
    }
    value: Any = 1
    for _ in range(30):
        value = {"op": "not", "of": value}

    assert Validator(expression).problems({"op": "not", "of": 1}) == [
        Problem("/of", '1 is not of type "object" or "string"')
    ]
    assert Validator(expression).problems(value) == [Problem("", "does not fit its schema")]


def test_a_recursive_schema_with_many_ways_down_answers_at_once() -> None:
    ways = [{"title": way, "properties": {"a": {"$ref": "#/$defs/n"}}} for way in "xyz"]
    schema = {"$defs": {"n": {"allOf": ways}}, "allOf": [{"$ref": "#/$defs/n"}, {"properties": {"z": {"const": 1}}}]}
    value: Any = {}
    for _ in range(30):
        value = {"a": value}

    assert Validator(schema).problems({**value, "z": 1}) == []
    assert Validator(schema).problems({**value, "z": 2}) == [Problem("", "does not fit its schema")]


def test_of_a_hundred_thousand_problems_the_first_is_told() -> None:
    found = Validator({"items": {"type": "integer"}}).problems(["a"] * 100_000)

    assert found == [Problem("/0", '"a" is not of type "integer"')]


def test_recursion_through_one_property_at_a_time_costs_little() -> None:
    tree = {
        "type": "object",
        "properties": {side: {"anyOf": [{"$ref": "#"}, {"type": "null"}]} for side in ("left", "right")},
    }

    assert (measure(tree).growth, measure(tree).work < 100) == (1, True)


keywords = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "allOf",
        "$ref",
        "$defs",
        "enum",
        "required",
        "pattern",
        "$id",
        "minimum",
        "not",
        "const",
        "a",
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["string", "object", "#", "#/$defs/a", "a", "http://x/y", "(", ""])
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4), max_leaves=12
)


@given(documents, documents)
def test_any_json_is_a_schema_or_is_said_to_be_none(schema: Any, value: Any) -> None:
    problem = check_schema(schema)

    if problem is None:
        fits = Validator(schema).problems(value) == []
        assert fits == (Validator(schema).explain(value) is None)
    else:
        assert problem.strip()


# ---- keeping validators -----------------------------------------------------------------------------------------------


def test_the_validator_of_a_schema_is_kept() -> None:
    assert validator_for(b'{"type": "string"}') is validator_for(b'{"type": "string"}')
    assert validator_for(b'{"type": "string"}') is not validator_for(b'{"type": "string"}', formats=True)


def test_only_so_many_validators_are_kept_and_no_large_ones() -> None:
    first = validator_for(b'{"title": "first"}')
    for n in range(CACHED):
        validator_for(msgspec.json.encode({"title": n}))
    large = msgspec.json.encode({"title": "x" * CACHED_SIZE})

    assert validator_for(b'{"title": "first"}') is not first
    assert validator_for(large) is not validator_for(large)


def test_nothing_heavy_is_imported_before_the_first_check() -> None:
    code = (
        "import sys; from ronda.schema.validate import validator_for; from ronda.schema.signature import describe\n"
        "def fn(a: int) -> None: ...\n"
        "validator_for(b'{}'); describe(fn); print(sorted({'jsonschema_rs', 'pydantic'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# ---- patterns ---------------------------------------------------------------------------------------------------------

OLD_DRAFTS = ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#")


@pytest.mark.parametrize("draft", [*OLD_DRAFTS, "https://json-schema.org/draft/2020-12/schema"])
@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        (r"^\[a]$", "[a]", "a"),
        ("^a]$", "a]", "a"),
        ("^[^]]+$", "ab", "a]"),
        ("^{a}$", "{a}", "a"),
        ("^a{2}b{$", "aab{", "aabb"),
        (r"^\p{Lu}]$", "Ä]", "ä]"),
        ("^(?!b).]$", "a]", "b]"),
    ],
)
def test_brackets_that_stand_for_themselves_are_taken_in_every_draft(
    draft: str, pattern: str, fits: str, does_not: str
) -> None:
    schema = {"$schema": draft, "pattern": pattern}
    assert Validator(schema).problems(fits) == []
    assert len(Validator(schema).problems(does_not)) == 1
    named = {"$schema": draft, "patternProperties": {pattern: {"not": {}}}}
    if "(?" not in pattern:
        assert Validator(named).problems({does_not: 1}) == []
        assert Validator(named).problems({fits: 1})


@given(st.text("ab[]{}^1,\\", max_size=8), st.text("ab[]{}1,", max_size=6))
def test_strict_spelling_changes_no_meaning(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "possible nested set"
        try:
            meant = re.compile(pattern)
        except re.error:
            return
        spelt = re.compile(strictly_spelt(pattern))
    if re.search(r"\{,\d*\}", pattern):
        return  # a count for Python alone
    assert bool(spelt.search(text)) is bool(meant.search(text))
