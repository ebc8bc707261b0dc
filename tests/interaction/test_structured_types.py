"""`output=` in the four ways in which people write a type: the model is asked for the same thing, and the answer is that type."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from ronda import Agent, run_agent
from ronda.errors import ExecuteError
from ronda.testing import ScriptedModel, says


class Place(TypedDict):
    name: str
    people: int


@dataclasses.dataclass
class PlaceData:
    name: str
    people: int


class PlaceModel(pydantic.BaseModel):
    name: str
    people: int


class PlaceStruct(msgspec.Struct):
    name: str
    people: int


LISBON: dict[str, Any] = {"name": "Lisbon", "people": 545_000}
EVERY = [
    pytest.param(Place, LISBON, id="TypedDict"),
    pytest.param(PlaceData, PlaceData(**LISBON), id="dataclass"),
    pytest.param(PlaceModel, PlaceModel(**LISBON), id="pydantic"),
    pytest.param(PlaceStruct, PlaceStruct(**LISBON), id="msgspec"),
]


@pytest.mark.parametrize(("kind", "value"), EVERY)
def test_the_answer_is_a_value_of_the_type(kind: type[Any], value: object) -> None:
    model = ScriptedModel(says('{"name": "Lisbon", "people": 545000}'))

    result = run_agent(Agent(model, output=kind), "Which is the capital of Portugal?")

    assert result.output == value
    assert type(result.output) is type(value)


@pytest.mark.parametrize(("kind", "value"), EVERY)
def test_an_answer_that_does_not_fit_is_asked_for_again(kind: type[Any], value: object) -> None:
    model = ScriptedModel(says('{"name": "Lisbon", "people": "many"}'), says('{"name": "Lisbon", "people": 545000}'))

    result = run_agent(Agent(model, output=kind), "Which is the capital of Portugal?")

    assert result.output == value
    assert len(model.heard) == 2
    assert "people" in str(model.heard[1][-1])  # the model is told what is wrong


def test_a_text_is_asked_for_as_text_and_not_as_json() -> None:
    model = ScriptedModel(says("Lisbon."))

    result = run_agent(Agent(model, output=str), "Which is the capital of Portugal?")

    assert result.output == "Lisbon."
    assert model.requests[0].options.response_format is None


class Tree(msgspec.Struct):
    name: str
    below: list[Tree] = []


@pytest.mark.parametrize(
    "kind", [Place, PlaceData, PlaceModel, PlaceStruct, Tree, list[PlaceData], list[PlaceModel], int, PlaceData | int]
)
def test_the_schema_has_an_object_at_its_root_since_openai_refuses_others(kind: Any) -> None:
    model = ScriptedModel(says("{}"))

    with pytest.raises(ExecuteError):
        run_agent(Agent(model, output=kind), "go")

    assert (asked := model.requests[0].options.response_format) is not None
    assert msgspec.json.decode(asked.schema)["type"] == "object"


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (list[PlaceData], [LISBON], [PlaceData(**LISBON)]),
        (list[PlaceModel], [LISBON], [PlaceModel(**LISBON)]),
        (int, 7, 7),
        (PlaceData | int, 7, 7),
    ],
)
def test_what_is_no_object_is_asked_for_as_the_member_of_one(kind: Any, said: object, value: object) -> None:
    model = ScriptedModel(says(msgspec.json.encode({"value": said}).decode()))

    assert run_agent(Agent(model, output=kind), "go").output == value


def test_a_type_that_has_itself_as_a_member_is_read() -> None:
    model = ScriptedModel(says('{"name": "a", "below": [{"name": "b", "below": []}]}'))

    assert run_agent(Agent(model, output=Tree), "go").output == Tree("a", [Tree("b")])


def test_an_answer_without_the_member_is_asked_for_again() -> None:
    model = ScriptedModel(says('{"n": 7}'), says('{"value": 7}'))

    assert run_agent(Agent(model, output=int), "go").output == 7
    assert "value" in str(model.heard[1][-1])
