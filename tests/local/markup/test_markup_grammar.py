"""The grammar of one decode: what it lets through, family by family, and what it does not."""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.local.markup.foreign_shapes import LEARNED
from tests.local.markup.larks import compiles, matches
from tests.local.markup.learning import learned
from tests.local.markup.shapes import OWN

from ronda.core.plan import AUTO, NONE, ResponseFormat, ToolChoice, ToolSpec
from ronda.errors import BadRequest
from ronda.local.markup import Family, MarkupReader, family_of, grammar_for

FAMILIES: Final = (
    {shape.family: family_of(shape.template) for shape in OWN}
    | {shape.model: learned(shape) for shape in LEARNED}
    | {"generic": family_of("")}
)
SPELLED: Final = [(shape.family, shape) for shape in OWN] + [(shape.model, shape) for shape in LEARNED]
# Families whose texts are in messages: what is around a thought, and around the answer.
MESSAGES: Final = {
    "harmony": (
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
        ("<|channel|>final<|message|>", "<|return|>"),
    ),
    "atem": ((" to=self<|message|>", "<|eom|><|start|>assistant"), (" to=user<|message|>", "<|eot|>")),
}
NO_MESSAGES: Final = (("", ""), ("", ""))
TOKENS: Final = {"[TOOL_CALLS]": 9, "[ARGS]": 32}
REQUIRED: Final = ToolChoice("required")


def tool(name: str, schema: dict[str, Any], strict: bool | None = True) -> ToolSpec:
    return ToolSpec(name, parameters=Raw(msgspec.json.encode(schema)), strict=strict)


WEATHER: Final = tool(
    "get_weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["C", "F"]}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
NOW: Final = tool("now", {"type": "object", "properties": {}})
TOOLS: Final = (WEATHER, NOW)


def grammar(
    family: Family,
    tools: Sequence[ToolSpec] = TOOLS,
    choice: ToolChoice = REQUIRED,
    format: ResponseFormat | None = None,
    *,
    budget: int = 400,
    deadline: int = 1024,
    extra: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    raw = {name: Raw(msgspec.json.encode(value)) for name, value in (extra or {}).items()}
    arguments: dict[str, Any] = {"budget": budget, "deadline": deadline, "extra": raw, **options}
    made = grammar_for(family, tools, choice, format, **arguments)
    assert made is not None
    assert made.startswith("%llguidance {}\n")
    # What a vocabulary without control tokens gets must compile as it stands.
    text_only = grammar_for(family, tools, choice, format, **{**arguments, "tokens": {}})
    assert text_only is not None
    compiles(text_only)
    return made


# The call of get_weather as each family writes it, and the same with a unit that is not one; a call of now.
_PARIS: Final = ("get_weather", {"city": "Paris", "unit": "%s", "days": 3})
CALLS: Final = {name: shape.spell([_PARIS]).strip("\n") for name, shape in SPELLED} | {
    "generic": '{"name": "get_weather", "arguments": {"city": "Paris", "unit": "%s", "days": 3}}',
}
SHORT: Final = {name: shape.spell([("now", {})]).strip("\n") for name, shape in SPELLED} | {
    "generic": '{"name": "now", "arguments": {}}',
}
EACH: Final = pytest.mark.parametrize("name", CALLS)


def tokens_of(name: str) -> dict[str, int] | None:
    return TOKENS if name.startswith("mistral") else None


@EACH
def test_a_call_that_is_owed_is_one_of_the_tools_by_its_schema(name: str) -> None:
    family, tokens = replace(FAMILIES[name], think=None), tokens_of(name)
    made = grammar(family, budget=1000, tokens=tokens)
    assert matches(made, CALLS[name] % "C", tokens)
    assert matches(made, SHORT[name], tokens)
    assert not matches(made, CALLS[name] % "K", tokens)
    assert not matches(made, SHORT[name].replace("now", "never"), tokens)
    assert not matches(made, "Some text.", tokens)
    assert not matches(made, CALLS[name] % "C" + "!", tokens)


@EACH
def test_text_may_come_before_a_call_that_is_owed_while_there_is_time(name: str) -> None:
    family, tokens = replace(FAMILIES[name], think=None), tokens_of(name)
    made = grammar(family, budget=2600, deadline=1000, tokens=tokens)
    assert "max_tokens=1600" in made
    ahead = "I look.\n".join(MESSAGES.get(name, NO_MESSAGES)[0])
    assert matches(made, ahead + CALLS[name] % "C", tokens)
    assert matches(made, CALLS[name] % "C", tokens)
    assert not matches(made, ahead, tokens)
    assert "max_tokens" not in grammar(family, budget=1000, deadline=1000, tokens=tokens)


@EACH
def test_a_thought_ends_before_a_call_that_is_owed(name: str) -> None:
    if name in MESSAGES:
        opened, thought = "", f"hm{MESSAGES[name][0][1]}"
        family = FAMILIES[name]
    else:
        family = replace(FAMILIES[name], think=("<think>", "</think>"))
        opened, thought = "<think>", "hm</think>\n\n"
    tokens = tokens_of(name)
    inside = grammar(family, budget=2000, thinking_open=True, tokens=tokens)
    assert matches(inside, thought + CALLS[name] % "C", tokens)
    at_once = grammar(family, budget=1000, thinking_open=True, tokens=tokens)
    assert matches(at_once, thought.removeprefix("hm") + CALLS[name] % "C", tokens)
    if opened:
        made = grammar(family, budget=2000, tokens=tokens)
        assert matches(made, opened + thought + CALLS[name] % "C", tokens)
        assert matches(made, CALLS[name] % "C", tokens)


@EACH
def test_what_the_grammar_lets_through_is_what_the_reader_reads(name: str) -> None:
    reader = MarkupReader(FAMILIES[name], tools=TOOLS)
    reader.feed(CALLS[name] % "F")
    turn = reader.finish("stop")
    (call,) = turn.calls
    assert turn.stop == "tool_calls"
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris", "unit": "F", "days": 3})


@EACH
def test_with_a_strict_tool_text_is_free_and_calls_are_not(name: str) -> None:
    family, tokens = replace(FAMILIES[name], think=None), tokens_of(name)
    made = grammar(family, choice=AUTO, tokens=tokens)
    text = "Hello.".join(MESSAGES.get(name, NO_MESSAGES)[1])
    assert matches(made, text, tokens)
    assert matches(made, CALLS[name] % "C", tokens)
    if name in MESSAGES:  # elsewhere the matcher takes a marker for text, which a decoder does not
        assert not matches(made, CALLS[name] % "K", tokens)


def test_only_a_strict_tool_is_held_to_its_schema_when_nothing_is_owed() -> None:
    loose = replace(WEATHER, strict=None)
    made = grammar(FAMILIES["mistral"], (loose, NOW), AUTO, tokens={})
    assert matches(made, '[TOOL_CALLS]get_weather[ARGS]{"anything": [1, {"at": "all"}]}')
    assert grammar_for(FAMILIES["hermes"], (loose,), AUTO, None, budget=400, deadline=1024, extra={}) is None


def test_a_tool_is_held_to_its_schema_when_a_call_is_owed_strict_or_not() -> None:
    made = grammar(FAMILIES["hermes"], (replace(WEATHER, strict=None),))
    assert matches(made, CALLS["hermes"] % "C")
    assert not matches(made, CALLS["hermes"] % "K")


def test_allowed_tools_are_the_only_ones_that_may_be_called() -> None:
    for choice in (ToolChoice("required", ("now",)), ToolChoice("required", ("now",), named=True)):
        made = grammar(FAMILIES["hermes"], choice=choice)
        assert matches(made, SHORT["hermes"])
        assert not matches(made, CALLS["hermes"] % "C")
    free = (replace(WEATHER, strict=None), replace(NOW, strict=None))
    made = grammar(FAMILIES["granite"], free, ToolChoice("auto", ("now",)), tokens={})
    assert 'now\\"' in made
    assert "get_weather" not in made


@EACH
def test_where_no_call_may_be_there_is_only_text(name: str) -> None:
    family, tokens = FAMILIES[name], tokens_of(name)
    made = grammar(family, choice=NONE, tokens=tokens)
    answer = "Some text, <b>5 < 6</b>.".join(MESSAGES.get(name, NO_MESSAGES)[1])
    assert matches(made, answer, tokens)
    assert not matches(made, CALLS[name] % "C", tokens)
    if name not in MESSAGES:
        assert not matches(made, f"I look.\n{CALLS[name] % 'C'}", tokens)


def test_nothing_is_enforced_where_nothing_is_promised() -> None:
    family = FAMILIES["hermes"]
    for tools, choice in (((), AUTO), ((), NONE)):
        assert grammar_for(family, tools, choice, None, budget=400, deadline=1024, extra={}) is None


def test_several_calls_may_follow_each_other_unless_they_may_not() -> None:
    two = '<|tool_call|>[{"name": "now", "arguments": {}}, {"name": "now", "arguments": {}}]'
    family = FAMILIES["granite"]
    answer = ResponseFormat("json_object")
    assert matches(grammar(family, choice=AUTO, format=answer, tokens={}), two)
    assert not matches(grammar(family, choice=AUTO, format=answer, tokens={}, parallel=False), two)


# ---- answers ----------------------------------------------------------------------------------------------------------

POINT: Final = ResponseFormat(
    "json_schema",
    schema=Raw(
        b'{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false}'
    ),
)


@EACH
def test_an_answer_in_json_follows_its_schema(name: str) -> None:
    family = replace(FAMILIES[name], think=None)
    around = MESSAGES.get(name, NO_MESSAGES)[1]
    made = grammar(family, (), NONE, POINT)
    assert matches(made, around[0] + '{"x": 3}' + around[1])
    assert not matches(made, around[0] + '{"y": 3}' + around[1])
    anything = grammar(family, (), AUTO, ResponseFormat("json_object"))
    assert matches(anything, around[0] + '{"y": [1]}' + around[1])
    assert not matches(anything, around[0] + "[1]" + around[1])


@EACH
def test_with_tools_there_is_either_a_call_or_the_answer(name: str) -> None:
    family, tokens = replace(FAMILIES[name], think=None), tokens_of(name)
    around = MESSAGES.get(name, NO_MESSAGES)[1]
    made = grammar(family, choice=AUTO, format=POINT, tokens=tokens)
    assert matches(made, CALLS[name] % "C", tokens)
    assert matches(made, around[0] + '{"x": 3}' + around[1], tokens)
    assert not matches(made, CALLS[name] % "K", tokens)
    assert not matches(made, around[0] + "Hello." + around[1], tokens)


def test_a_thought_may_come_before_an_answer_in_json() -> None:
    made = grammar(replace(FAMILIES["hermes"], think=("<think>", "</think>")), (), NONE, POINT)
    assert matches(made, '<think>hm</think>\n\n{"x": 3}')
    assert matches(made, '{"x": 3}')
    assert not matches(made, '<think>hm{"x": 3}')


def test_an_answer_is_bounded_so_that_it_ends_in_time() -> None:
    text = ResponseFormat("json_schema", schema=Raw(b'{"type":"string"}'))
    made = grammar(FAMILIES["hermes"], (), NONE, text, budget=200)
    assert matches(made, '"' + "x" * 90 + '"')
    assert not matches(made, '"' + "x" * 200 + '"')
    assert not matches(made, '"' + "é" * 90 + '"')


CUSTOM: Final = [
    ({"type": "regex", "value": r"[a-z]+/\d{1,3}"}, "ab/12", "ab/1234"),
    ({"type": "json_schema", "value": {"enum": [1, "a", None]}}, "null", "2"),
    ({"type": "json_schema", "value": '{"enum": [1]}'}, "1", "2"),
    ({"type": "lark", "value": '%llguidance {}\nstart: a b?\na: "x"\nb: "y"'}, "xy", "yx"),
    (
        {
            "type": "llguidance",
            "value": {
                "grammars": [{"lark_grammar": 'start: "v=" @n'}, {"name": "n", "json_schema": {"type": "integer"}}]
            },
        },
        "v=12",
        "v=x",
    ),
    ({"type": "llguidance", "value": {"grammars": [{"json_schema": {"const": True}}]}}, "true", "false"),
]


@pytest.mark.parametrize(("value", "good", "bad"), CUSTOM)
def test_a_caller_may_bring_a_grammar(value: dict[str, Any], good: str, bad: str) -> None:
    alone = grammar(FAMILIES["hermes"], (), NONE, extra={"grammar": value})
    beside_tools = grammar(FAMILIES["hermes"], choice=AUTO, extra={"grammar": value})
    for made in (alone, beside_tools):
        assert matches(made, good)
        assert not matches(made, bad)
    assert matches(beside_tools, SHORT["hermes"])


REFUSED: Final = [
    ({"grammar": {"type": "regex", "value": "a"}}, POINT, "mutually exclusive"),
    ({"grammar": {"type": "gbnf", "value": "a"}}, None, "type"),
    ({"grammar": {"type": "regex", "value": 3}}, None, "not a regex"),
    ({"grammar": {"type": "json_schema", "value": "{"}}, None, "not JSON"),
    ({"grammar": {"type": "llguidance", "value": {"grammars": []}}}, None, "not a grammar"),
    (
        {"grammar": {"type": "json_schema", "value": {"type": "string", "pattern": "a(?=b)"}}},
        None,
        "/pattern: look-around",
    ),
    ({}, ResponseFormat("json_schema", schema=Raw(b'{"$ref":"#/nowhere"}')), "/\\$ref"),
]


@pytest.mark.parametrize(("extra", "format", "message"), REFUSED)
def test_what_cannot_be_enforced_is_refused_by_name(
    extra: dict[str, Any], format: ResponseFormat | None, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        grammar(FAMILIES["hermes"], (), NONE, format, extra=extra)


# ---- budgets ----------------------------------------------------------------------------------------------------------


@EACH
def test_a_budget_too_small_for_any_call_is_refused_with_the_number_that_is_enough(name: str) -> None:
    family = FAMILIES[name]
    with pytest.raises(BadRequest, match=r"takes \d+ tokens at least, and max_tokens leaves 20") as refused:
        grammar(family, (WEATHER,), budget=20)
    assert refused.value.param == "max_tokens"
    needed = int(str(refused.value).partition("takes ")[2].partition(" ")[0])
    assert grammar(family, (WEATHER,), budget=needed)
    with pytest.raises(BadRequest):
        grammar(family, (WEATHER,), budget=needed - 1)


def test_a_tool_that_does_not_fit_is_left_out_when_another_does_and_that_is_told() -> None:
    told: list[str] = []
    made = grammar(FAMILIES["hermes"], budget=75, tell=told.append)
    assert matches(made, SHORT["hermes"])
    assert "get_weather" not in made
    assert set(told) == {"max_tokens leaves no room for a call of 'get_weather'"}


def test_what_a_call_that_is_owed_cannot_hold_is_told() -> None:
    told: list[str] = []
    grammar(FAMILIES["hermes"], (WEATHER,), budget=140, tell=told.append)
    odd = tool("odd", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}, strict=None)
    grammar(FAMILIES["hermes"], (odd,), tell=told.append)
    assert sorted(set(told)) == [
        "max_tokens leaves no room for 'unit', 'days' in a call of 'get_weather'",
        "the parameters of 'odd' cannot be enforced, and any object is taken: "
        "/properties/a/pattern: look-around, which cannot be enforced",
    ]


@EACH
def test_a_call_that_is_owed_can_fill_what_nobody_described(name: str) -> None:
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array"}, "more": {"type": "object"}},
        "required": ["rows", "more"],
    }
    shape = dict(SPELLED).get(name)
    arguments = {"rows": [{"a": "b", "n": 1}], "more": {"c": {"d": 2}}}
    written = (
        shape.spell([("fill", arguments)]) if shape else f'{{"name": "fill", "arguments": {json.dumps(arguments)}}}'
    )
    tokens = tokens_of(name)
    made = grammar(
        replace(FAMILIES[name], think=None), (tool("fill", schema),), budget=2000, deadline=2000, tokens=tokens
    )
    assert matches(made, written.strip("\n"), tokens)


def test_arguments_are_bounded_by_what_is_reserved() -> None:
    made = grammar(FAMILIES["hermes"], (WEATHER,), budget=200)
    call = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
    assert matches(made, call % ("x" * 20))
    assert not matches(made, call % ("x" * 130))
    roomy = grammar(FAMILIES["hermes"], (WEATHER,), budget=4000, deadline=1024)
    assert matches(roomy, call % ("x" * 130))


def test_a_vocabulary_that_counts_gives_more_room() -> None:
    with pytest.raises(BadRequest):
        grammar(FAMILIES["hermes"], (WEATHER,), budget=60)
    assert grammar(FAMILIES["hermes"], (WEATHER,), budget=60, count=lambda text: len(text) // 3)


def test_a_strict_tool_that_cannot_be_enforced_is_refused_and_another_takes_any_object() -> None:
    odd = tool(
        "odd", {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}, "required": ["a"]}
    )
    for choice in (REQUIRED, AUTO):
        with pytest.raises(BadRequest, match=r"strict tool 'odd'.*/properties/a/pattern"):
            grammar(FAMILIES["hermes"], (odd,), choice)
    made = grammar(FAMILIES["hermes"], (replace(odd, strict=None),))
    assert matches(made, '<tool_call>\n{"name": "odd", "arguments": {"z": 1}}\n</tool_call>')


def test_a_call_without_tools_cannot_be_owed() -> None:
    with pytest.raises(BadRequest, match="no tool that may be called"):
        grammar(FAMILIES["hermes"], ())


def test_markers_that_are_control_tokens_are_written_as_tokens() -> None:
    named = grammar(FAMILIES["lfm2"])
    assert "<|tool_call_start|> " in named
    assert '"<|tool_call_start|>' not in named
    numbered = grammar(FAMILIES["mistral"], tokens=TOKENS)
    assert "<[9]> " in numbered
    assert "<[32]> " in numbered
    assert '"<tool_call>' in grammar(FAMILIES["hermes"])


def test_texts_without_quotes_are_held_to_their_schema_too() -> None:
    dated = tool(
        "log",
        {
            "type": "object",
            "properties": {
                "day": {"type": "string", "format": "date"},
                "note": {"type": "string", "maxLength": 5},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "where": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": {"type": "number"}}}]},
            },
            "required": ["day", "note"],
        },
    )
    gemma = replace(FAMILIES["gemma4"], think=None)
    made = grammar(gemma, (dated,), budget=900)
    call = '<|tool_call>call:log{day:<|"|>%s<|"|>,note:<|"|>%s<|"|>%s}<tool_call|>'
    assert matches(made, call % ("2026-01-02", "hello", ""))
    assert matches(made, call % ("2026-01-02", "", ',tags:[<|"|>a<|"|>,<|"|>b<|"|>],where:{x:1.5}'))
    assert not matches(made, call % ("today", "hello", ""))
    assert not matches(made, call % ("2026-01-02", "hello!", ""))
    assert not matches(made, call % ("2026-01-02", "", ',tags:[<|"|>a<|"|>,<|"|>b<|"|>,<|"|>c<|"|>]'))
    xml = grammar(replace(FAMILIES["qwen_xml"], think=None), (dated,), budget=900)
    call = (
        "<tool_call>\n<function=log>\n<parameter=day>\n%s\n</parameter>\n<parameter=note>\n%s\n</parameter>\n"
        "<parameter=where>\nNone\n</parameter>\n</function>\n</tool_call>"
    )
    assert matches(xml, call % ("2026-01-02", "a\nb"))
    assert not matches(xml, call % ("today", "a"))
    assert not matches(xml, call % ("2026-01-02", "hello!"))
