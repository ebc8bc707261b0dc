"""A parameter's type → its schema, and JSON → the value that the function is called with."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta
from tests.schema.signature_schemas import properties, read_page

from ronda.schema.signature import BadArguments, describe
from ronda.schema.validate import Validator, check_schema

# ---- its types -----------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Route:
    points: list[Point]
    notes: dict[str, str] = dataclass_field(default_factory=dict)


@dataclass
class Circle:
    x: int
    radius: float


class Options(TypedDict, total=False):
    deep: bool


class Pair(NamedTuple):
    left: int
    right: str


class Node(msgspec.Struct):
    value: int
    next: Node | None = None


class Address(pydantic.BaseModel):
    """Where a person lives."""

    street: str
    zip: str = pydantic.Field(pattern=r"^\d{5}$")


class Person(pydantic.BaseModel):
    name: str
    home: Address


UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


CASES: list[tuple[Any, Any, Any, Any]] = [
    (str, {"type": "string"}, "x", "x"),
    (int, {"type": "integer"}, 3, 3),
    (int, {"type": "integer"}, 3.0, 3),
    (float, {"type": "number"}, 3, 3.0),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (Literal["b", "a"], {"enum": ["a", "b"]}, "b", "b"),
    (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3", "3"),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),  # noqa: UP045  # people write it
    (list[int], {"type": "array", "items": {"type": "integer"}}, [1, 2.0], [1, 2]),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1], {1}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1], (1,)),
    (
        tuple[int, str],
        {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
        },
        [1, "a"],
        (1, "a"),
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (dict[int, str], {"type": "object", "additionalProperties": {"type": "string"}}, {"1": "a"}, {1: "a"}),
    (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    (Annotated[int, Meta(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}, 9, 9),
    (Annotated[str, Meta(pattern="^a")], {"type": "string", "pattern": "^a"}, "ab", "ab"),
    (datetime.datetime, {"type": "string"}, "2026-11-15T21:00:00", datetime.datetime(2026, 11, 15, 21)),  # noqa: DTZ001
    (datetime.date, {"type": "string", "format": "date"}, "2026-11-15", datetime.date(2026, 11, 15)),
    (datetime.time, {"type": "string"}, "21:00:00", datetime.time(21)),
    (uuid.UUID, {"type": "string", "format": "uuid"}, str(UUID), UUID),
    (decimal.Decimal, {"type": "string", "format": "decimal"}, "1.10", decimal.Decimal("1.10")),
    (bytes, {"type": "string", "contentEncoding": "base64"}, "aGk=", b"hi"),
    (Colour, {"$ref": "#/$defs/Colour"}, "red", Colour.RED),
    (Point, {"$ref": "#/$defs/Point"}, {"x": 1}, Point(1)),
    (Route, {"$ref": "#/$defs/Route"}, {"points": [{"x": 1, "y": 2.0}]}, Route([Point(1, 2)])),
    (Options, {"$ref": "#/$defs/Options"}, {"deep": True}, {"deep": True}),
    (Pair, {"$ref": "#/$defs/Pair"}, [1, "a"], Pair(1, "a")),
    (Node, {"$ref": "#/$defs/Node"}, {"value": 1, "next": {"value": 2}}, Node(1, Node(2))),
    (
        list[Point] | None,
        {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Point"}}, {"type": "null"}]},
        None,
        None,
    ),
    (
        Point | Circle,
        {"anyOf": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Circle"}]},
        {"x": 1, "radius": 2},
        Circle(1, 2.0),
    ),
    (
        datetime.date | str,
        {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]},
        "2026-11-15",
        datetime.date(2026, 11, 15),
    ),
    (datetime.date | str, {"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}]}, "soon", "soon"),
]


@pytest.mark.parametrize(("hint", "schema", "sent", "got"), CASES, ids=lambda value: str(value)[:40])
def test_a_type_has_its_schema_and_its_value(hint: Any, schema: Any, sent: Any, got: Any) -> None:
    def fn(value): ...  # type: ignore[no-untyped-def]  # annotated below

    fn.__annotations__["value"] = hint

    signature = describe(fn)

    assert properties(fn) == {"value": schema}
    assert Validator(signature.parameters).problems({"value": sent}) == []
    assert repr(signature.bind({"value": sent})) == repr({"value": got})  # repr tells 3 from 3.0


def test_definitions_are_shared_and_resolve_inside_the_schema() -> None:
    def fn(route: Route, to: Point) -> None: ...

    assert describe(fn).parameters == {
        "type": "object",
        "properties": {"route": {"$ref": "#/$defs/Route"}, "to": {"$ref": "#/$defs/Point"}},
        "required": ["route", "to"],
        "additionalProperties": False,
        "$defs": {
            "Route": {
                "title": "Route",
                "type": "object",
                "properties": {
                    "points": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
                    "notes": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "required": ["points"],
            },
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        },
    }


def test_defaults_are_shown_where_json_has_them() -> None:
    def fn(
        colour: Colour = Colour.RED,
        day: datetime.date = datetime.date(2026, 11, 15),
        point: Point = Point(1, 2),  # noqa: B008  # what is tested
        tags: frozenset[str] = frozenset({"b", "a"}),
        ratio: float = float("inf"),
        marker: Any = object(),  # noqa: B008  # what is tested
        home: Address = Address(street="Elm", zip="12345"),  # noqa: B008  # what is tested
    ) -> None: ...

    shown = {name: schema.get("default", "none shown") for name, schema in properties(fn).items()}

    assert shown == {
        "colour": "red",
        "day": "2026-11-15",
        "point": {"x": 1, "y": 2},
        "tags": ["a", "b"],
        "ratio": "none shown",
        "marker": "none shown",
        "home": {"street": "Elm", "zip": "12345"},
    }


def test_none_as_default_makes_a_parameter_optional_even_if_its_type_does_not_say_so() -> None:
    def fn(a: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # what is tested

    assert properties(fn) == {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}}
    assert describe(fn).bind({"a": None}) == {"a": None}


# ---- pydantic ------------------------------------------------------------------------------------------------------


def test_pydantic_models_are_described_and_read_by_pydantic() -> None:
    def fn(person: Person, others: list[Address] | None = None, to: Address | None = None) -> None:
        """Move.

        Args:
            person: Who moves.
        """

    address = {
        "title": "Address",
        "description": "Where a person lives.",
        "type": "object",
        "properties": {
            "street": {"title": "Street", "type": "string"},
            "zip": {"title": "Zip", "type": "string", "pattern": r"^\d{5}$"},
        },
        "required": ["street", "zip"],
    }
    sent = {"name": "Ada", "home": {"street": "Elm", "zip": "12345"}}
    ada = Person(name="Ada", home=Address(street="Elm", zip="12345"))

    signature = describe(fn)

    assert signature.parameters["$defs"] == {"Address": address}
    assert signature.parameters["properties"]["person"]["properties"]["home"] == {"$ref": "#/$defs/Address"}
    assert signature.parameters["properties"]["person"]["description"] == "Who moves."
    assert Validator(signature.parameters).problems({"person": sent, "others": [sent["home"]]}) == []
    assert signature.bind({"person": sent, "others": [sent["home"]]}) == {"person": ada, "others": [ada.home]}


def test_pydantic_fields_describe_plain_types() -> None:
    def fn(a: Annotated[int, pydantic.Field(description="How many.", ge=1)] = 3) -> None: ...

    assert properties(fn) == {"a": {"type": "integer", "description": "How many.", "minimum": 1, "default": 3}}


@dataclass
class Delivery:
    to: Address


def test_a_dataclass_that_holds_a_pydantic_model_is_read_too() -> None:
    def fn(delivery: Delivery) -> None: ...

    sent = {"delivery": {"to": {"street": "Elm", "zip": "12345"}}}

    assert describe(fn).bind(sent) == {"delivery": Delivery(Address(street="Elm", zip="12345"))}


def test_two_types_of_one_name_get_two_definitions() -> None:
    @dataclass
    class Address:
        host: str

    def fn(a, b, c): ...  # type: ignore[no-untyped-def]  # annotated below

    model: Any = globals()["Address"]
    fn.__annotations__.update(a=Address, b=list[model], c=Point | Circle)

    parameters = describe(fn).parameters

    assert list(parameters["$defs"]) == ["Address", "b.Address", "Point", "Circle"]
    assert parameters["properties"]["b"]["items"] == {"$ref": "#/$defs/b.Address"}
    assert check_schema(parameters) is None


# ---- binding -------------------------------------------------------------------------------------------------------


def test_binding_leaves_what_is_absent_to_the_function() -> None:
    assert describe(read_page).bind({"url": "http://x"}) == {"url": "http://x"}


def test_binding_names_every_argument_that_does_not_fit() -> None:
    def fn(city: str, days: int, when: datetime.date, home: Address, where: Point | Circle | None = None) -> None: ...

    sent = {"days": "3", "when": "soon", "home": {"street": 1, "zip": "1"}, "where": {"y": 1}, "wind": True}

    with pytest.raises(BadArguments) as caught:
        describe(fn).bind(sent)

    assert str(caught.value).split("; ") == [
        "city: missing",
        "days: Expected `int`, got `str`",
        "when: Invalid RFC3339 encoded date",
        "home: street: Input should be a valid string, zip: String should match pattern '^\\d{5}$'",
        "where: Object missing required field `x`, or Expected `null`, got `object`",
        "wind: there is no such parameter",
    ]
