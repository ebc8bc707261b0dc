"""What may be asked of the engine's grammar compiler: refused by name and with the limit, before the engine sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.local.hostile import (
    ENDLESS,
    HOSTILE,
    INTEGER,
    answer,
    array,
    chained,
    closed,
    grammar,
    lark_json,
    rules,
)
from tests.local.test_files import gguf

from ronda.core.plan import Options, Plan, ResponseFormat, ToolSpec
from ronda.errors import BadRequest
from ronda.local.engine import Engine
from ronda.local.files import ModelFile
from ronda.local.machine import Sizing
from ronda.local.provider import LocalModel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    path: Path = tmp_path_factory.mktemp("model") / "model.gguf"
    path.write_bytes(gguf())
    return LocalModel(Engine(ModelFile("fake", path), Sizing(1, 512, 512), command=("false",)))


def check(model: LocalModel, body: dict[str, Any], *tools: ToolSpec) -> None:
    """As a door does before a run starts."""
    said = dict(body)
    answer_format = said.pop("response_format", None)
    schema = None if answer_format is None else Raw(json.dumps(answer_format["json_schema"]["schema"]).encode())
    options = Options(
        response_format=None if schema is None else ResponseFormat("json_schema", "a", schema),
        stop=tuple(said.pop("stop", ())),
        extra={name: Raw(json.dumps(value).encode()) for name, value in said.items()},
    )
    model.check(Plan("local:fake", tools, options=options))


@pytest.mark.parametrize(("body", "what", "limit"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_asks_too_much_is_refused_with_the_limit(model: LocalModel, body: Any, what: str, limit: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check(model, body)

    assert what in str(refused.value)
    assert f"at most {limit}" in str(refused.value)
    assert refused.value.param in body


@pytest.mark.parametrize(
    "body",
    [
        answer(chained(60)),
        answer(closed(a=array(INTEGER, maxItems=10_000))),
        answer(closed(a=array(array(INTEGER, maxItems=300), maxItems=300))),
        answer(closed(a={"type": "string", "maxLength": 1_000_000_000})),  # costs the compiler nothing
        answer(closed(a={"enum": [f"value {n}" for n in range(1000)]})),
        answer({"$ref": "#/$defs/tree", "$defs": {"tree": closed(branches=array({"$ref": "#/$defs/tree"}))}}),
        answer({"$dynamicRef": "#a", "$defs": {"x": {"$dynamicAnchor": "a", "items": {"$ref": "#"}}}}),
        grammar("lark", rules(90)),
        grammar("lark", 'start: expr\nexpr: expr "+" expr | "(" expr ")" | NUMBER{1,3}\nNUMBER: /[0-9]{1,20}/'),
        grammar("lark", 'start: (("a"{10} | B){10} ["c"]){10}  // a comment\nB.2: "b" /[^\\/]+/i\n%ignore /\\s+/'),
        grammar("lark", lark_json(closed(a=INTEGER)) + ' "x"{1000}'),
        grammar("regex", "(yes|no){1,100}"),
        {"dry_sequence_breakers": ["\n", ":"], "stop": ["END"], "logit_bias": {"1": 5}},
    ],
)
def test_what_people_use_is_let_through(model: LocalModel, body: Any) -> None:
    check(model, body)


def test_a_strict_tool_is_refused_by_its_name(model: LocalModel) -> None:
    tool = ToolSpec("count", "", Raw(json.dumps(ENDLESS).encode()), strict=True)

    with pytest.raises(BadRequest, match="`tools: count`: `maxItems` is 1000000000"):
        check(model, {}, tool)


def test_a_tool_that_promises_nothing_is_not_refused(model: LocalModel) -> None:
    check(model, {}, ToolSpec("count", "", Raw(json.dumps(ENDLESS).encode())))


def test_a_number_of_a_token_that_no_integer_holds_is_refused(model: LocalModel) -> None:
    with pytest.raises(BadRequest, match="must be a token's number"):
        check(model, {"logit_bias": {"9" * 5000: 1}})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "$anchor", "properties", "items", "enum", "maxItems", "minItems", "anyOf", "$defs", "a"]
            ),
            children | st.sampled_from(["#", "#/$defs/a", "#/items/0", "#a", "#/a/~1"]),
            max_size=4,
        )
    ),
    max_leaves=30,
)


def refusal(model: LocalModel, body: dict[str, Any]) -> BadRequest | None:
    try:
        check(model, body)
    except BadRequest as refused:
        return refused
    return None


@given(JSON)
def test_any_schema_is_let_through_or_refused(model: LocalModel, schema: Any) -> None:
    refused = refusal(model, answer(schema))

    assert refused is None or "at most" in str(refused)


@given(
    st.text(alphabet='ab:|()[]{},0123456789"/%\\ \njson-', max_size=60),
    st.sampled_from(["lark", "regex", "llguidance"]),
)
def test_any_text_of_a_grammar_is_let_through_or_refused(model: LocalModel, text: str, type: str) -> None:
    refused = refusal(model, grammar(type, text))

    assert refused is None or refused.param == "grammar"
