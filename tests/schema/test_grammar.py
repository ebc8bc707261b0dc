"""Schemas a decoder can follow: what comes out is valid under the original, and fits."""

import importlib
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.schema.any_schema import tool_schemas

from ronda.errors import BadRequest
from ronda.schema.bounds import SchemaError
from ronda.schema.grammar import Bounded, TooSmall, enforceable, fit, is_exact, unsupported
from ronda.schema.grammar.formats import PATTERNS
from ronda.schema.grammar.patterns import Unreadable, analyse, byte_size
from ronda.schema.grammar.shapes import Array, Never, Number, Object, Shape, String, Union, Values
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
    "propertyNames": {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z]{1,4}$"},
        "additionalProperties": {"type": "null"},
    },
}


PLAIN: Final = "abcXYZ 019_-/{}:"
OTHER: Final = '\n\t"\\é漢😀'


def draw(shape: Shape, chance: random.Random) -> Any:
    """Something a fitted shape admits, as large as it may be more often than not."""
    match shape:
        case Values(texts):
            return json.loads(chance.choice(texts))
        case String():
            return draw_text(shape, chance)
        case Number(low=Fraction() as low, high=Fraction() as high):
            step = shape.step or Fraction(1 if shape.integer else "0.001")
            first, last = math.ceil(low / step), math.floor(high / step)
            first += shape.above and first * step == low
            last -= shape.below and last * step == high
            value = chance.choice([first, last, chance.randint(first, last)]) * step
            return float(value) if value.denominator > 1 else int(value)
        case Array(first=head, rest=rest, least=least, most=int() as most):
            size = chance.choice([least, most, chance.randint(least, most)])
            return [draw(head[n] if n < len(head) else rest, chance) for n in range(size)]
        case Object():
            return draw_object(shape, chance)
        case Union(options):
            return draw(chance.choice(options), chance)
        case _:
            raise AssertionError(shape)


def draw_object(shape: Object, chance: random.Random) -> dict[str, Any]:
    present = [one for one in shape.properties if not isinstance(one.shape, Never)]
    value = {one.name: draw(one.shape, chance) for one in present if one.required or chance.random() < 0.7}
    for pattern, inner in shape.patterns:
        for _ in range(chance.randint(0, shape.most or 0)):
            value[draw_match(pattern, chance)] = draw(inner, chance)
    return value


def draw_text(shape: String, chance: random.Random) -> str:
    """By the two ways a text is bounded: any characters but few, or more of them and nearly all plain."""
    if shape.patterns:
        limit = min(shape.most or 10**6, shape.room // byte_size(shape) if shape.room is not None else 10**6)
        pattern = shape.patterns[0]
        found = (draw_match(pattern, chance) for _ in range(2000))
        if not pattern.endswith("$"):  # anything may follow
            found = (text + "".join(chance.choices(PLAIN, k=max(0, shape.least - len(text)))) for text in found)
        return next(text for text in found if shape.least <= len(text) <= limit)
    room = shape.room if shape.room is not None else 6 * (shape.most or 0)
    few, many = (min(size, shape.most or size) for size in (room // 6, room // 2))
    if few >= shape.least and chance.random() < 0.5:
        return "".join(chance.choices(PLAIN + OTHER, k=chance.choice([few, chance.randint(shape.least, few)])))
    size = max(shape.least, many)
    text = chance.choices(PLAIN, k=size)
    for at in chance.sample(range(size), room // 10 if many >= shape.least and size >= room // 10 else 0):
        text[at] = chance.choice(OTHER)
    return "".join(text)


def draw_match(pattern: str, chance: random.Random) -> str:
    """A text that an expression without anything fancy matches."""
    parser = importlib.import_module("re._parser")
    return "".join(_draw_nodes(parser.parse(pattern), chance))


def _draw_nodes(nodes: Any, chance: random.Random) -> Iterator[str]:
    for kind, value in nodes:
        match str(kind):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield _draw_member(value, chance)
            case "SUBPATTERN":
                yield from _draw_nodes(value[-1], chance)
            case "BRANCH":
                yield from _draw_nodes(chance.choice(value[1]), chance)
            case "MAX_REPEAT":
                least, most, inner = value
                times = chance.choice([int(least), chance.randint(int(least), min(int(most), int(least) + 20))])
                for _ in range(times):
                    yield from _draw_nodes(inner, chance)
            case "AT":
                pass
            case other:
                raise AssertionError(other)


def _draw_member(members: Any, chance: random.Random) -> str:
    kind, value = chance.choice(members)
    if str(kind) == "CATEGORY":
        return chance.choice("0123456789")
    return chr(chance.randint(*value) if str(kind) == "RANGE" else value)


def written(value: Any) -> int:
    """The bytes of a value, with the ends of its lines written the longest way."""
    text = json.dumps(value, ensure_ascii=False)
    return len(text.encode()) + 4 * len(re.findall(r"(?<!\\\\)(?:\\\\\\\\)*\\\\[nrt]", text))


@pytest.mark.parametrize("schema", [*SCHEMAS.values(), *APPROACHED.values()])
def test_a_schema_that_can_be_followed_says_so(schema: Any) -> None:
    assert unsupported(schema) is None


@pytest.mark.parametrize("name", APPROACHED)
def test_where_a_schema_is_only_approached_the_answer_is_not_promised(name: str) -> None:
    assert not is_exact(Raw(msgspec.json.encode(APPROACHED[name])))


def test_what_is_enforced_to_the_letter_is_promised() -> None:
    names = ("scalars", "all required", "numbers", "patterns", "formats", "definitions", "a tree", "allOf", "anyOf")
    assert all(is_exact(Raw(msgspec.json.encode(SCHEMAS[name]))) for name in names)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("more", [0, 1, 7, 30, 120, 900])
def test_everything_that_is_decoded_is_valid_and_fits(name: str, more: int) -> None:
    schema = SCHEMAS[name]
    read = Bounded(schema)
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
    assert enforceable(schema) == expected


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
        fit(FORM, 10)
    assert isinstance(refused.value, BadRequest)
    assert refused.value.param == "max_tokens"
    assert fit(FORM, refused.value.needed)
    with pytest.raises(TooSmall):
        fit(FORM, refused.value.needed - 1)


def test_what_is_required_comes_first_and_what_is_optional_when_there_is_enough() -> None:
    tight, some, plenty = (fit(FORM, tokens).schema for tokens in (50, 200, 800))
    assert set(tight["properties"]) == {"title", "kind"}
    assert tight["properties"]["kind"] == {"const": "short"}
    assert set(some["properties"]) == {"note", "title", "kind"}
    assert set(plenty["properties"]) == {"note", "title", "kind", "tags"}
    assert all(one["required"] == ["title", "kind"] for one in (tight, some, plenty))


def test_a_text_may_be_longer_the_plainer_it_is() -> None:
    checks = Validator(fit({"type": "string"}, 602).schema)
    assert not checks.problems("x" * 300)
    assert not checks.problems("é" * 100)
    assert not checks.problems("a line\n" * 42)
    assert checks.problems("x" * 301)
    assert checks.problems("é" * 101)


def test_numbers_keep_a_sign_and_decimals_while_there_is_room() -> None:
    number = {"type": "number"}
    assert fit(number, 1).schema == {"type": "integer", "minimum": 0, "maximum": 9}
    assert fit(number, 3).schema == {"type": "integer", "minimum": -99, "maximum": 99}
    assert fit(number, 30).schema["multipleOf"] == 1e-06


def test_a_tree_is_as_deep_as_there_is_room_for() -> None:
    def depth(schema: dict[str, Any]) -> int:
        children = schema["properties"].get("children")
        return 1 + (depth(children["items"]) if children and "items" in children else 0)

    assert [depth(fit(NODE, tokens).schema) for tokens in (20, 300, 10_000)] == [1, 2, 3]


def test_what_is_forced_costs_what_the_vocabulary_says() -> None:
    by_bytes, counted = Bounded(FORM).needed, fit(FORM, 30, count=lambda text: 1).tokens
    assert counted == 30 < by_bytes


@pytest.mark.skipif(not BENCH.exists(), reason="the recorded schemas are not beside the repository")
@pytest.mark.conformance
def test_hardly_any_real_schema_is_refused() -> None:
    rows = [json.loads(line) for line in BENCH.read_text().splitlines()]
    refused = {row["id"]: problem for row in rows if (problem := unsupported(row["schema"])) is not None}
    assert len(refused) <= len(rows) // 50, refused
    assert all(problem.startswith("/") for problem in refused.values())


# ---- schemas that are made to cost ------------------------------------------------------------------------------------


def nested(levels: int, around: Callable[[Any], Any]) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


def chained(links: int, link: Callable[[dict[str, str]], Any]) -> Any:
    defs = {f"d{n}": link({"$ref": f"#/$defs/d{n + 1}"}) for n in range(links)}
    return {"$defs": {**defs, f"d{links}": {"type": "string"}}, "$ref": "#/$defs/d0"}


COSTLY: Final[dict[str, Any]] = {
    "arrays": nested(97, lambda inner: {"type": "array", "items": inner}),
    "alternatives of arrays": nested(30, lambda inner: {"anyOf": [{"type": "array", "items": inner}]}),
    "negations": nested(97, lambda inner: {"not": inner}),
    "required": nested(48, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]}),
    "all of all of": nested(45, lambda inner: {"allOf": [inner, {"minLength": 1}]}),
    "chain": chained(1000, lambda next: next),
    "chain of arrays": chained(90, lambda next: {"anyOf": [{"type": "array", "items": next}, {"type": "null"}]}),
    "chain of objects": chained(1000, lambda next: {"type": "object", "properties": {"a": next}, "required": ["a"]}),
    "chain of allOf": chained(1000, lambda next: {"allOf": [next, {"minLength": 1}]}),
    "two trees in one": {
        "$defs": {
            "a": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/b"}}},
            "b": {"type": "object", "properties": {"x": {"$ref": "#/$defs/b"}, "y": {"$ref": "#/$defs/a"}}},
        },
        "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    },
    "itself and more": {"allOf": [{"$ref": "#"}, {"type": "object"}]},
    "values beside a circle": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}},
        "$ref": "#/$defs/a",
        "enum": [1, {"a": [2]}],
    },
    "alternatives of alternatives": {
        "allOf": [
            {"anyOf": [{"type": "object", "properties": {f"{n}{m}": {"type": "null"}}} for m in range(9)]}
            for n in range(9)
        ]
    },
    "many items of many": {"type": "array", "minItems": 2000, "items": {"type": "array", "minItems": 2000}},
    "an endless list": {"type": "array", "maxItems": 10**9, "items": {"type": "array", "maxItems": 10**9}},
    "an endless text": {"type": "string", "minLength": 10**400},
    "groups": {"type": "string", "pattern": "(" * 200 + "a" + ")" * 200},
    "names that match slowly": {
        "type": "object",
        "patternProperties": {"^(a+)+$": {}},
        "properties": {"a" * 60 + "b": {}},
    },
}


@pytest.mark.parametrize("name", COSTLY)
def test_a_costly_schema_becomes_a_small_grammar_or_is_refused(name: str) -> None:
    schema = COSTLY[name]
    try:
        read = Bounded(schema)
        size = len(json.dumps(read.schema())) + len(json.dumps(read.fit(max(2000, read.needed)).schema))
    except BadRequest:
        size = 0
    assert size < 10 * len(json.dumps(schema)) + 20_000


@given(tool_schemas(), st.randoms())
@settings(max_examples=300, deadline=None)
def test_any_schema_is_followed_or_refused_and_what_is_promised_holds(schema: Any, chance: random.Random) -> None:
    try:
        read = Bounded(schema)
        fitted = read.fit(read.needed + 200)
    except SchemaError:
        return
    value = draw(fitted.shape, chance)
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


def test_references_to_references_are_not_written_out_without_end() -> None:
    """Each level holds two of the next: 24 of them would be 16 million strings."""
    levels: dict[str, Any] = {}
    for n in range(24):
        next = {"$ref": f"#/$defs/d{n + 1}"}
        levels[f"d{n}"] = {"type": "object", "properties": {"x": next, "y": next}, "required": ["x", "y"]}
    schema = {"$ref": "#/$defs/d0", "$defs": {**levels, "d24": {"type": "string"}}}

    with pytest.raises(SchemaError, match="at most 65536 can be enforced"):
        fit(schema, 10**9)
    assert enforceable(schema)["$defs"]  # without limits they stay references


def test_nothing_is_fitted_to_more_tokens_than_a_model_has() -> None:
    assert fit({"type": "array", "items": {"type": "integer"}}, 10**9).tokens <= 65_536
