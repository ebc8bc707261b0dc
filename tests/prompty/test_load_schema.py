"""The published JSON Schema takes the front matter that `load` takes, and nothing else."""

import copy
import functools
import json
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.prompty.any_front_matter import FRONT_MATTER, KEYS

from ronda.prompty import BadPrompty, loads, schema
from ronda.prompty.model import API_TYPES, CONNECTIONS, KINDS
from ronda.prompty.read_properties import PROPERTY
from ronda.prompty.read_tools import APPROVALS, MODES, WRAPPER
from ronda.schema.validate import Validator, check_schema

VALIDATOR = Validator(schema())

GOOD: list[dict[str, Any]] = [
    {},
    {"name": "x", "model": "m", "someday": 1},
    {"name": None, "model": None, "inputs": None, "tools": None, "template": None},
    {"model": {"id": "m", "connection": "${file:x}", "options": {"temperature": "${env:T:1}", "seed": "${ENV:S:1}"}}},
    {"model": {"connection": {"kind": "key"}, "options": {"stopSequences": ["a"], "seed": 1.0, "unknown": 1}}},
    {"model": {"connection": {"kind": "reference", "name": "n"}}},
    {"model": {"connection": {"kind": "vault", "endpoint": 5}}},
    {"inputs": {"a": 1, "b": [1], "c": {"x": 1}, "d": None, "e": {"kind": "string", "odd": 1}, "f": {}}},
    {"inputs": [{"name": "a"}, {"name": "b", "kind": "array", "items": "string"}], "outputs": []},
    {"outputs": {"a": {"kind": "union", "oneOf": [{"kind": "string"}]}, "b": {"anyOf": [{}]}}},
    {"outputs": {"a": {"kind": "object", "properties": {"b": {"kind": "array", "items": {"kind": "float"}}}}}},
    {
        "tools": [
            {"name": "t", "kind": "function", "parameters": {"properties": [{"name": "a"}]}, "bindings": {"a": "b"}}
        ]
    },
    {"tools": {"t": {"kind": "function", "strict": False, "bindings": [{"name": "a", "input": "b"}]}}},
    {"tools": {"t": {"kind": "mcp", "serverName": "s", "approvalMode": {"kind": "never"}, "allowedTools": []}}},
    {"tools": {"t": {"kind": "mcp", "connection": {"kind": "anonymous"}, "approvalMode": "always"}}},
    {
        "tools": {
            "t": {"kind": "openapi", "specification": "./x.json"},
            "u": {"kind": "openapi", "specification": {"a": 1}},
        }
    },
    {"tools": {"t": {"kind": "prompty", "path": "p"}, "u": {"kind": "prompty", "path": "p", "mode": "agentic"}}},
    {"tools": [{"name": "t", "kind": "mine", "path": 5, "options": {}}]},
    {"template": {"format": "mustache", "parser": {"kind": "prompty"}}},
    {"template": {"format": {"kind": "jinja2", "strict": True, "options": {}}}},
]
BROKEN: list[dict[str, Any]] = [
    {"name": 5},
    {"metadata": "x"},
    {"model": 5},
    {"model": ["m"]},
    {"model": {"id": 5}},
    {"model": {"connection": "mine"}},
    {"model": {"connection": {}}},
    {"model": {"connection": {"kind": "reference"}}},
    {"model": {"connection": {"kind": "key", "endpoint": 5}}},
    {"model": {"connection": {"kind": "oauth", "scopes": "a"}}},
    {"model": {"options": {"temperature": "hot"}}},
    {"model": {"options": {"temperature": "0.5"}}},
    {"model": {"options": {"maxOutputTokens": 1.5}}},
    {"model": {"options": {"seed": True}}},
    {"model": {"options": {"stopSequences": "END"}}},
    {"model": {"options": {"allowMultipleToolCalls": 1}}},
    {"model": {"options": {"additionalProperties": []}}},
    {"inputs": "x"},
    {"inputs": ["x"]},
    {"inputs": [{"kind": "string"}]},
    {"inputs": [{"name": ""}]},
    {"inputs": {"a": {"kind": "string", "required": "maybe"}}},
    {"inputs": {"a": {"description": 5}}},
    {"inputs": {"a": {"kind": 5}}},
    {"inputs": {"a": {"kind": "union"}}},
    {"inputs": {"a": {"kind": "union", "oneOf": [{}], "anyOf": [{}]}}},
    {"inputs": {"a": {"oneOf": [{}], "anyOf": [{}]}}},
    {"inputs": {"a": {"kind": "union", "oneOf": []}}},
    {"inputs": {"a": {"kind": "string", "enumValues": "b"}}},
    {"inputs": {"a": {"kind": "array", "items": ["b"]}}},
    {"outputs": {"a": {"kind": "object", "properties": {"b": {"kind": "union"}}}}},
    {"tools": "x"},
    {"tools": [{"name": "t"}]},
    {"tools": [{"kind": "function"}]},
    {"tools": {"t": None}},
    {"tools": {"t": {"kind": ""}}},
    {"tools": {"t": {"kind": "function", "parameters": "x"}}},
    {"tools": {"t": {"kind": "function", "parameters": {"a": {"kind": "union"}}}}},
    {"tools": {"t": {"kind": "function", "strict": "x"}}},
    {"tools": {"t": {"kind": "function", "bindings": {"a": {}}}}},
    {"tools": {"t": {"kind": "mcp"}}},
    {"tools": {"t": {"kind": "mcp", "serverName": "s", "approvalMode": "ask"}}},
    {"tools": {"t": {"kind": "mcp", "serverName": "s", "approvalMode": {}}}},
    {"tools": {"t": {"kind": "mcp", "serverName": "s", "allowedTools": "a"}}},
    {"tools": {"t": {"kind": "openapi"}}},
    {"tools": {"t": {"kind": "openapi", "specification": ""}}},
    {"tools": {"t": {"kind": "prompty"}}},
    {"tools": {"t": {"kind": "prompty", "path": "p", "mode": "loop"}}},
    {"tools": {"t": {"kind": "mine", "connection": {}}}},
    {"template": "jinja2"},
    {"template": ["jinja2"]},
    {"template": {"format": 5}},
    {"template": {"format": {"strict": "x"}}},
]


def loaded(value: dict[str, Any]) -> str | None:
    """None if it loads, else why not. What references lead to is not the schema's business."""
    text = json.dumps(value, ensure_ascii=False).replace("${file:x}", "${env:U:x}")
    try:
        loads(f"---\n{text}\n---\nHi", env={})
    except BadPrompty as error:
        return f"{error.where}: {error}"
    return None


def test_it_is_a_schema_and_a_new_one_each_time() -> None:
    assert check_schema(schema()) is None
    assert schema() == schema()
    assert schema() is not schema()


def lists_of(value: Any) -> Iterator[list[Any]]:
    """Every `enum` and every list of examples in a schema."""
    if isinstance(value, dict):
        yield from [words for name, words in value.items() if name in ("enum", "examples") and isinstance(words, list)]
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from lists_of(one)


@pytest.mark.parametrize("words", [API_TYPES, KINDS, CONNECTIONS, PROPERTY, APPROVALS, MODES, WRAPPER], ids=str)
def test_it_knows_the_words_that_the_reader_knows(words: Iterable[str]) -> None:
    assert [*words] in list(lists_of(schema()))


@pytest.mark.parametrize("value", GOOD, ids=str)
def test_what_loads_fits(value: dict[str, Any]) -> None:
    assert VALIDATOR.problems(value) == []
    if "${file:x}" not in json.dumps(value):
        assert loaded(value) is None


@pytest.mark.parametrize("value", BROKEN, ids=str)
def test_what_does_not_load_does_not_fit(value: dict[str, Any]) -> None:
    assert loaded(value) is not None
    assert VALIDATOR.problems(value) != []


ODD: list[Any] = [
    *(None, "", 5, 1.5, True, [], {}, "x", "union", "mcp", "function", "reference", ["a"], [{}], [None], {"a": 1}),
    *({"kind": "string"}, {"kind": "union"}, {"oneOf": [{}]}, [{"name": "a"}], {"properties": [{"name": "q"}]}),
]


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(found for key, item in inside for found in places(item, (*place, key)))]


def put(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    if not place:
        return odd
    changed = copy.copy(value)
    changed[place[0]] = put(value.get(place[0]) if isinstance(value, dict) else value[place[0]], place[1:], odd)
    return changed


@st.composite
def nearly_right(draw: st.DrawFn) -> dict[str, Any]:
    """One of the above with something odd in one place, or one key more."""
    value = draw(st.sampled_from(GOOD + BROKEN))
    place = draw(st.sampled_from(places(value)))
    if isinstance(functools.reduce(operator.getitem, place, value), dict) and (not place or draw(st.booleans())):
        place = (*place, draw(KEYS))
    changed: dict[str, Any] = put(value, place, draw(st.sampled_from(ODD)))
    return changed


@settings(max_examples=100, deadline=None)
@given(FRONT_MATTER | nearly_right())
def test_schema_and_loader_agree_on_anything(value: dict[str, Any]) -> None:
    value = msgspec.json.decode(msgspec.json.encode(value))
    why = loaded(value)
    if "${" in json.dumps(value) or (why is not None and " are named " in why):
        return  # where references lead, and that a name stands twice, is more than a schema can say
    assert (why is None) == (VALIDATOR.problems(value) == []), why
