"""`@tool`: a function's signature and docstring are what the model sees; what it returns is what the model reads."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
from datetime import date
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from tests.tools.function_results import result_of

from ronda import Agent, ToolOutput, invoke_agent, tool
from ronda.core.parts import Audio, File, Image, Text, ToolResult, ToolTurn, Video
from ronda.core.plan import ToolSpec
from ronda.drive import Tool
from ronda.errors import BadConfig
from ronda.providers.script import ScriptedModel, calls, says


def returning(value: Any) -> Tool:
    @tool
    async def give() -> Any:
        """Give it."""
        return value

    return give


# ---- results -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Named(msgspec.Struct):
    name: str
    tags: list[str] = []


class Model(pydantic.BaseModel):
    name: str
    when: date


class Color(enum.Enum):
    RED = "red"


RESULTS: dict[str, tuple[Any, str]] = {
    "text": ("plain ☃", "plain ☃"),
    "empty text": ("", ""),
    "text that looks like JSON": ('{"a": 1}', '{"a": 1}'),
    "a number": (42, "42"),
    "a fraction": (0.5, "0.5"),
    "true": (True, "true"),
    "None": (None, "null"),
    "a dict": ({"a": [1, None]}, '{"a":[1,null]}'),
    "a list": ([1, "two"], '[1,"two"]'),
    "a tuple": ((1, 2), "[1,2]"),
    "an empty list": ([], "[]"),
    "a date": (date(2026, 1, 2), '"2026-01-02"'),
    "an enum": (Color.RED, '"red"'),
    "a dataclass": (Point(1, 2.5), '{"x":1,"y":2.5}'),
    "a msgspec struct": (Named("n", ["t"]), '{"name":"n","tags":["t"]}'),
    "a pydantic model": (Model(name="n", when=date(2026, 1, 2)), '{"name":"n","when":"2026-01-02"}'),
    "pydantic models in a list": ([Model(name="n", when=date(2026, 1, 2))], '[{"name":"n","when":"2026-01-02"}]'),
    "a text part": ([Text("one"), Text("two")], "one\ntwo"),
}


@pytest.mark.parametrize(("value", "content"), RESULTS.values(), ids=RESULTS.keys())
def test_what_a_tool_returns_is_what_the_model_reads(value: Any, content: str) -> None:
    assert result_of(returning(value)) == ToolResult("c1", content)


PNG = "data:image/png;base64," + base64.b64encode(b"png").decode()


ATTACHED: dict[str, tuple[Any, ToolResult]] = {
    "an image": (Image(PNG), ToolResult("c1", "[image]", attachments=(Image(PNG),))),
    "audio": (Audio("AA==", "wav"), ToolResult("c1", "[audio]", attachments=(Audio("AA==", "wav"),))),
    "video": (Video("data:,v"), ToolResult("c1", "[video]", attachments=(Video("data:,v"),))),
    "a file": (
        File("data:,x", "x.txt"),
        ToolResult("c1", "[file x.txt]", attachments=(File("data:,x", "x.txt"),)),
    ),
    "bytes": (
        b"\x00\x01",
        ToolResult("c1", "[2 bytes]", attachments=(File("data:application/octet-stream;base64,AAE="),)),
    ),
    "text and images": (
        ["two pictures", Image(PNG), Image("data:,2")],
        ToolResult("c1", "two pictures\n[image]\n[image]", attachments=(Image(PNG), Image("data:,2"))),
    ),
    "an output": (
        ToolOutput("all of it", (Image(PNG),)),
        ToolResult("c1", "all of it", attachments=(Image(PNG),)),
    ),
    "a failed output": (ToolOutput("no luck", failed=True), ToolResult("c1", "no luck", failed=True)),
}


@pytest.mark.parametrize(("value", "result"), ATTACHED.values(), ids=ATTACHED.keys())
def test_pictures_and_files_ride_beside_the_text(value: Any, result: ToolResult) -> None:
    assert result_of(returning(value)) == result


def test_something_json_does_not_know_is_read_as_its_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    assert result_of(returning(Odd())).content.strip('"') == "odd"


# ---- what the model sees -------------------------------------------------------------------------------------------


def test_the_spec_comes_from_signature_and_docstring() -> None:
    @tool
    def search(query: str, kind: Literal["web", "news"] = "web", limit: int | None = None) -> str:
        """Search the web.

        Args:
            query: What to look for.
            kind: Where.
        """
        return query

    schema = json.loads(bytes(search.spec.parameters))
    assert (search.spec.name, search.spec.description) == ("search", "Search the web.")
    assert schema["type"] == "object"
    assert list(schema["properties"]) == ["query", "kind", "limit"]
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"] == {"type": "string", "description": "What to look for."}
    assert sorted(schema["properties"]["kind"]["enum"]) == ["news", "web"]
    assert schema["properties"]["kind"]["description"] == "Where."


def test_options_say_how_a_tool_is_treated() -> None:
    @tool(
        name="find", description="Find it.", repeatable=True, exclusive="k", timeout=7.0, strict=True,
        bindings={"who": "user"},
    )  # fmt: skip
    def search(query: str, who: str) -> str:
        """Not this."""
        return query

    spec = search.spec
    schema = json.loads(bytes(spec.parameters))
    assert list(schema["properties"]) == ["query"]
    assert msgspec.structs.replace(spec, parameters=msgspec.Raw(b"{}")) == ToolSpec(
        "find",
        "Find it.",
        msgspec.Raw(b"{}"),
        strict=True,
        repeatable=True,
        exclusive="k",
        timeout=7.0,
        bound=("who",),
    )


def test_a_decorated_function_is_still_a_function() -> None:
    @tool
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert double(4) == 8
    assert getattr(double, "__name__", None) == "double"
    assert double.__doc__ == "Double it."


def test_a_plain_function_is_a_tool_without_a_decorator() -> None:
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert result_of(double, n=4) == ToolResult("c1", "8")


def test_decorating_twice_changes_nothing() -> None:
    @tool
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert tool(double) is double


def test_something_that_is_no_function_is_refused() -> None:
    with pytest.raises(BadConfig, match="5 is not a tool"):
        Agent(model=ScriptedModel(), tools=[5])  # type: ignore[list-item]  # what a user may get wrong


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(BadConfig, match="give"):
        Agent(model=ScriptedModel(), tools=[returning(1), returning(2)])


def test_tools_of_a_call_are_laid_over_the_agents() -> None:
    model = ScriptedModel(calls("give"), says("done"))
    agent = Agent(model=model, tools=[returning("the agent's")])

    invoke_agent(agent, "go", tools={"give": lambda: "this call's"})

    assert model.heard[1][-1] == ToolTurn((ToolResult("call_0_0", "this call's"),))


# ---- arguments -----------------------------------------------------------------------------------------------------


class Options(TypedDict):
    deep: bool


def test_arguments_arrive_as_the_types_the_function_asks_for() -> None:
    got: list[Any] = []

    @tool
    def take(point: Point, named: Named, model: Model, color: Color, options: Options, when: date) -> str:
        """Take them."""
        got.extend([point, named, model, color, options, when])
        return "taken"

    result = result_of(
        take,
        point={"x": 1, "y": 2.5},
        named={"name": "n"},
        model={"name": "m", "when": "2026-01-02"},
        color="red",
        options={"deep": True},
        when="2026-03-04",
    )

    assert result == ToolResult("c1", "taken")
    assert got == [
        Point(1, 2.5),
        Named("n"),
        Model(name="m", when=date(2026, 1, 2)),
        Color.RED,
        {"deep": True},
        date(2026, 3, 4),
    ]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"n": "4"}, {"n": 4.5}, {"n": None}, {"n": 4, "more": 1}],
    ids=["none", "text", "half", "null", "more"],
)
def test_arguments_are_checked_before_the_call(arguments: dict[str, Any]) -> None:
    called: list[int] = []

    @tool
    def double(n: int) -> int:
        """Double it."""
        called.append(n)
        return 2 * n

    result = result_of(double, **arguments)

    assert result.failed or called == [4]
    assert result.failed == (called == [])


def test_a_default_is_the_functions_own() -> None:
    @tool
    def greet(name: str = "you") -> str:
        """Greet."""
        return f"hi {name}"

    assert result_of(greet) == ToolResult("c1", "hi you")
