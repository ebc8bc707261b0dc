from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ronda.core.arguments import RecoveredArguments, canonical, recover

PARIS = {"city": "Paris", "days": [1, 2]}
WRITTEN = '{"city":"Paris","days":[1,2]}'


# ---- one repair, one name --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"city": "Paris", "days": [1, 2]}', ' {"days":[1,2],\n"city":"Paris"}\n'])
def test_a_json_object_keeps_the_text_the_model_wrote(text: str) -> None:
    assert recover(text) == RecoveredArguments(PARIS, text, ())


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{WRITTEN}\n```",
        f"```\n{WRITTEN}\n```",
        f"```{WRITTEN}```",
        f"```json{WRITTEN}```",
        f"``` JSON\r\n{WRITTEN}\r\n```",
        f"````json\n{WRITTEN}\n````",
        f"Here are the arguments:\n\n```json\n{WRITTEN}\n```\nI hope this helps!",
        f"```json\n{WRITTEN}\n```\nor, as a list:\n```json\n[]\n```",
        f"```json\n{WRITTEN}",
    ],
)
def test_a_markdown_fence_is_taken_off_with_the_talk_around_it(text: str) -> None:
    assert recover(text) == RecoveredArguments(PARIS, WRITTEN, ("fence",))


def test_backticks_inside_the_arguments_do_not_end_the_fence() -> None:
    value = {"code": "```py\nprint({})\n```"}
    text = f"```json\n{json.dumps(value)}\n```"

    assert recover(text) == RecoveredArguments(value, canonical(value).decode(), ("fence",))


@pytest.mark.parametrize(
    "text",
    [
        f"I will call the tool with {WRITTEN} now.",
        f"{WRITTEN}</tool_call>",
        f"[TOOL_CALLS] {WRITTEN}",
        f'"arguments": {WRITTEN}',
        f"\ufeff{WRITTEN}",
        f"{WRITTEN} }}",
        f"{WRITTEN} and some {{braces}} in the talk",
    ],
)
def test_the_first_object_is_found_in_the_talk_around_it(text: str) -> None:
    assert recover(text) == RecoveredArguments(PARIS, WRITTEN, ("balanced",))


def test_braces_quotes_and_backslashes_in_strings_do_not_end_the_object() -> None:
    value = {"a": '}"{', "b": "\\", "c}": {"d": "\\}"}}

    assert recover(f"so: {json.dumps(value)}!") == RecoveredArguments(value, canonical(value).decode(), ("balanced",))


@pytest.mark.parametrize(
    "text",
    [
        '{"city": "Paris", "days": [1, 2],}',
        '{"city": "Paris", "days": [1, 2,],}',
        '{"city": "Paris", "days": [1,2,\n ] }',
    ],
)
def test_commas_before_a_closing_bracket_are_dropped(text: str) -> None:
    assert recover(text) == RecoveredArguments(PARIS, WRITTEN, ("trailing_comma",))


def test_commas_inside_strings_stay() -> None:
    assert recover('{"a": ",}", "b": "x,]",}') == RecoveredArguments(
        {"a": ",}", "b": "x,]"}, '{"a":",}","b":"x,]"}', ("trailing_comma",)
    )


@pytest.mark.parametrize("text", [json.dumps(WRITTEN), f"  {json.dumps(WRITTEN)} ", json.dumps(json.dumps(WRITTEN))])
def test_an_object_encoded_as_a_string_is_unwrapped(text: str) -> None:
    assert recover(text) == RecoveredArguments(PARIS, WRITTEN, ("double_encoded",))


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        ('```json\n{"city":"Paris","days":[1,2,],}\n```', ("fence", "trailing_comma")),
        (f"```json\nArguments: {WRITTEN}\n```", ("fence", "balanced")),
        ('```\nso {"city":"Paris","days":[1,2],} it is', ("fence", "balanced", "trailing_comma")),
        ('so {"city":"Paris","days":[1,2],} it is', ("balanced", "trailing_comma")),
        (f"```json\n{json.dumps(WRITTEN)}\n```", ("fence", "double_encoded")),
        (json.dumps(f"```json\n{WRITTEN}\n```"), ("double_encoded", "fence")),
        (json.dumps('{"city":"Paris","days":[1,2],}'), ("double_encoded", "trailing_comma")),
    ],
)
def test_repairs_combine_and_each_is_named_in_the_order_it_was_made(text: str, repairs: tuple[str, ...]) -> None:
    assert recover(text) == RecoveredArguments(PARIS, WRITTEN, repairs)


def test_the_last_of_two_equal_keys_wins() -> None:
    assert recover('{"a": 1, "a": 2}') == RecoveredArguments({"a": 2}, '{"a": 1, "a": 2}', ())


# ---- what has no reading ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "  \n", "no arguments", "```json\n```", "{city: Paris}", "{'city': 'Paris'}", '{"a" 1}']
)
def test_what_is_not_json_is_not_guessed(text: str) -> None:
    assert recover(text) is None


@pytest.mark.parametrize(
    "text", ["[]", '[{"a": 1}]', '[{"a": 1},]', '[{"a": 1}', "3", "null", "true", '"Paris"', '"{"', '"see {} there"']
)
def test_json_that_is_not_an_object_is_no_arguments(text: str) -> None:
    assert recover(text) is None


@pytest.mark.parametrize(
    "text", ['{"a": {"b": 1}', '{"a": "{}', '```json\n{"a": {}', 'so {"a": [{}', '{"x": "```json {} ```']
)
def test_cut_arguments_are_not_recovered_from_an_object_inside_them(text: str) -> None:
    assert recover(text) is None


@pytest.mark.parametrize(
    "text", ['{}{"city":"Paris"}', '{"a":1}, {"b":2}', '{"a":1}\n{"b":2}', '```json\n{"a":1}\n{"b":2}\n```']
)
def test_two_objects_in_a_row_are_not_one_call(text: str) -> None:
    assert recover(text) is None


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": "\ud800"}', '{"a": "\\ud800"}']
)
def test_what_json_cannot_hold_is_refused(text: str) -> None:
    assert recover(text) is None


MEGABYTE = 1_000_000


@pytest.mark.parametrize("pattern", ["{", '"', '\\"', '{"', ",}", "``` ", "```{", '{"a":', "{},"])
def test_a_hostile_megabyte_is_read_in_one_pass(pattern: str) -> None:
    # Anything quadratic here takes minutes, which is how this test would fail.
    assert recover(pattern * (MEGABYTE // len(pattern))) is None


def test_nesting_deeper_than_the_parser_goes_is_refused() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    for depth in (900, 990, 1_000, 5_000):  # where the parser gives up depends on who called it
        recover(nested(depth))
        recover(f"so {nested(depth)}")

    assert recover(nested(200_000)) is None


# ---- properties ------------------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=6)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
objects = st.dictionaries(texts | st.sampled_from(["```", "{}", ",}", '"']), values, max_size=3)
indents = st.sampled_from([None, 0, 2])
talk = st.text(st.characters(codec="utf-8", exclude_characters='{}[]"`'), max_size=10)


@given(objects, indents)
def test_a_valid_object_is_never_changed(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)

    assert recover(text) == RecoveredArguments(value, text, ())


@given(objects, indents, talk, talk, st.sampled_from(["```json\n", "```", "```\n"]))
def test_a_fenced_object_is_recovered_whole(
    value: dict[str, Any], indent: int | None, before: str, after: str, fence: str
) -> None:
    text = f"{before}{fence}{json.dumps(value, indent=indent)}\n```{after}"

    assert recover(text) == RecoveredArguments(value, canonical(value).decode(), ("fence",))


@given(objects, talk.filter(str.strip), talk)
def test_an_object_in_the_middle_of_talk_is_recovered_whole(value: dict[str, Any], before: str, after: str) -> None:
    assert recover(f"{before}:{json.dumps(value)}{after}") == RecoveredArguments(
        value, canonical(value).decode(), ("balanced",)
    )


@given(objects.filter(bool), st.sampled_from([",}", ", }", ",\n}"]))
def test_an_object_with_a_trailing_comma_is_recovered_whole(value: dict[str, Any], ending: str) -> None:
    text = json.dumps(value)[:-1] + ending

    assert recover(text) == RecoveredArguments(value, canonical(value).decode(), ("trailing_comma",))


@given(objects)
def test_an_object_encoded_twice_is_recovered_whole(value: dict[str, Any]) -> None:
    assert recover(json.dumps(json.dumps(value))) == RecoveredArguments(
        value, canonical(value).decode(), ("double_encoded",)
    )


@given(objects, indents, st.data())
def test_a_cut_object_is_never_recovered(value: dict[str, Any], indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(value, indent=indent)
    end = data.draw(st.integers(0, len(text) - 1))

    assert recover(text[:end]) is None


@given(st.text() | st.text(st.sampled_from('{}[]",:\\`\n a1')))
def test_no_text_makes_it_raise_and_every_result_is_an_object(text: str) -> None:
    found = recover(text)

    assert found is None or (
        isinstance(found.value, dict) and recover(found.text) == RecoveredArguments(found.value, found.text, ())
    )


@given(objects)
def test_canonical_json_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    assert canonical(dict(reversed(value.items()))) == canonical(value)


def test_canonical_json_sorts_keys_at_every_level() -> None:
    assert canonical({"b": 1, "a": [{"d": None, "c": "é"}]}) == '{"a":[{"c":"é","d":null}],"b":1}'.encode()
