"""Finding the right tool among many."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from ronda.core.plan import ToolSpec
from ronda.drive import ToolContext
from ronda.tools.tool_search import FindTools, ToolIndex, words

TOOLS = [
    ToolSpec("get_weather", "The weather in a city."),
    ToolSpec("send_email", "Sends an e-mail to a person."),
    ToolSpec("searchFlights", "Finds flights between two airports."),
    ToolSpec("plan_trip", "Plans a trip."),
    ToolSpec("putS3Object", "Stores an object."),
    ToolSpec("oauth2_token", "A token."),
    ToolSpec("2048", "A game."),
    ToolSpec(
        "book",
        "Books a room.",
        Raw(
            msgspec.json.encode(
                {"type": "object", "properties": {"hotel": {"type": "string", "description": "The hotel."}}}
            )
        ),
    ),
]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("what will the weather be", "get_weather"),
        ("flight to Paris", "searchFlights"),
        ("search for a flight", "searchFlights"),
        ("book me a hotel", "book"),
        ("emails", "send_email"),
        ("planning", "plan_trip"),
        ("upload to s3", "putS3Object"),
        ("S3", "putS3Object"),
        ("oauth", "oauth2_token"),
        ("call send_email", "send_email"),
        ("2048", "2048"),
        ("a room for 2048 nights", "book"),
    ],
)
def test_the_tool_that_fits_comes_first(query: str, name: str) -> None:
    assert ToolIndex(TOOLS).search(query)[0].name == name


def test_what_nobody_offers_is_not_found() -> None:
    assert ToolIndex(TOOLS).search("quantum chromodynamics") == []
    assert ToolIndex([]).search("weather") == []


def test_words_are_the_same_however_they_are_written() -> None:
    assert words("getUserName") == words("get_user_names") == words("get-user-name")


async def test_the_model_reads_what_was_found() -> None:
    tool = FindTools(TOOLS)
    output = await tool.run({"query": "weather", "limit": 1}, ToolContext("run", "", 0, "call"))
    assert output.content == "get_weather: The weather in a city."
    assert output.details == {"found_tools": ["get_weather"]}
    nothing = await tool.run({"query": "…"}, ToolContext("run", "", 0, "call"))
    assert (nothing.content, nothing.details) == ("No tool fits. Try other words.", {"found_tools": []})


_json = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["properties", "items", "description", "enum", "a"]), inner, max_size=3)
    ),
    max_leaves=12,
)


_names = st.lists(
    st.from_regex(r"[a-z]{1,8}(_[a-z0-9]{1,8}){0,3}", fullmatch=True), min_size=1, max_size=8, unique=True
)


@given(_names, st.lists(st.text(max_size=30), min_size=8, max_size=8))
@example(["a_0"], [""])
def test_who_knows_a_tool_s_name_finds_it(names: list[str], descriptions: list[str]) -> None:
    specs = [ToolSpec(name, text) for name, text in zip(names, descriptions, strict=False)]
    for spec in specs:
        if words(spec.name):  # a name of common words alone says nothing
            assert spec in ToolIndex(specs).search(f"call {spec.name}", len(specs))


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20), _json), max_size=6), st.text(max_size=20))
def test_any_tool_can_be_searched(tools: list[tuple[str, str, object]], query: str) -> None:
    specs = [ToolSpec(name, text, Raw(msgspec.json.encode(schema))) for name, text, schema in tools]
    found = ToolIndex(specs).search(query, 3)
    assert len(found) <= 3
    assert found == ToolIndex(specs).search(query, 3)
