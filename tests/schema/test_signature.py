from __future__ import annotations

import datetime
import decimal
import enum
import functools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta

from ronda.schema.signature import BadArguments, Signature, describe
from ronda.schema.validate import Validator, check_schema


def properties(fn: Any, **options: Any) -> Any:
    """The properties of a function's parameters, once the whole is known to be a JSON Schema."""
    parameters = describe(fn, **options).parameters
    assert check_schema(parameters) is None
    return parameters["properties"]


# ---- the function -----------------------------------------------------------------------------------------------------


async def read_page(url: str, max_chars: int = 20_000) -> str:
    """Read a web page as plain text.

    Follows redirects.

    Args:
        url: Absolute http or https address.
        max_chars: Cut the text after this many characters.
    """
    return url[:max_chars]


def test_a_function_is_described_by_its_types_and_its_docstring() -> None:
    assert describe(read_page) == Signature(
        "read_page",
        "Read a web page as plain text.\n\nFollows redirects.",
        {
            "type": "object",
            "properties": {
                "url": {"type": "string", "description": "Absolute http or https address."},
                "max_chars": {
                    "type": "integer",
                    "description": "Cut the text after this many characters.",
                    "default": 20_000,
                },
            },
            "required": ["url"],
            "additionalProperties": False,
        },
        {},
    )


def test_the_keys_follow_the_signature_byte_for_byte() -> None:
    def fn(zebra: int, *, apple: str, mango: float = 1.5) -> None: ...

    assert msgspec.json.encode(describe(fn).parameters) == (
        b'{"type":"object","properties":{"zebra":{"type":"integer"},"apple":{"type":"string"},'
        b'"mango":{"type":"number","default":1.5}},"required":["zebra","apple"],"additionalProperties":false}'
    )


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> str:
        """Tell the time."""
        return ""

    assert describe(now).parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


def test_parameters_without_annotations_take_anything() -> None:
    def fn(a, b=None, c: object = 3): ...  # type: ignore[no-untyped-def]  # what is tested

    assert properties(fn) == {"a": {}, "b": {"default": None}, "c": {"default": 3}}


def test_keyword_arguments_open_the_object() -> None:
    def loose(a: int, **rest): ...  # type: ignore[no-untyped-def]  # what is tested

    def typed(**rest: datetime.date) -> None: ...

    assert describe(loose).parameters["additionalProperties"] is True
    assert describe(loose).bind({"a": 1, "b": [2]}) == {"a": 1, "b": [2]}
    assert describe(typed).parameters == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": {"type": "string", "format": "date"},
    }
    assert describe(typed).bind({"due": "2026-11-15"}) == {"due": datetime.date(2026, 11, 15)}


def test_arguments_without_a_name_are_refused() -> None:
    def many(*values: int) -> None: ...
    def slash(value: int, /) -> None: ...

    with pytest.raises(TypeError, match=r"many\(\*values\): a model gives every argument a name"):
        describe(many)
    with pytest.raises(TypeError, match=r"slash\(value, /\): a model gives every argument a name"):
        describe(slash)


def test_hidden_parameters_are_not_shown_nor_their_annotations_read() -> None:
    def fn(context: NotDefinedAnywhere, a: int) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # what is tested

    signature = describe(fn, hide=frozenset({"context"}))

    assert signature.parameters["properties"] == {"a": {"type": "integer"}}
    assert signature.bind({"a": 1, "context": read_page}) == {"a": 1, "context": read_page}


def test_an_annotation_that_cannot_be_resolved_is_named() -> None:
    def fn(a: int, b: NotDefinedAnywhere) -> AlsoNotDefined: ...  # type: ignore[name-defined]  # noqa: F821  # what is tested

    with pytest.raises(TypeError, match=r"fn\(\): cannot resolve the annotation 'NotDefinedAnywhere' of parameter 'b'"):
        describe(fn)


def test_a_type_that_no_json_can_be_is_named() -> None:
    def fn(a: int, b: complex) -> None: ...

    with pytest.raises(TypeError, match=r"fn\(\): parameter 'b' has a type no JSON can be read as: .*complex"):
        describe(fn)


class Counter:
    """Counts."""

    def add(self, amount: int) -> None:
        """Add to it."""

    @classmethod
    def make(cls, start: int) -> None:
        """Make one."""

    def __call__(self, step: int = 1) -> None:
        """Count on.

        Args:
            step: How far.
        """


def test_methods_are_described_without_the_object_they_belong_to() -> None:
    assert [
        (one.name, one.description, one.parameters["required"]) for one in map(describe, [Counter().add, Counter.make])
    ] == [
        ("add", "Add to it.", ["amount"]),
        ("make", "Make one.", ["start"]),
    ]


def test_an_object_that_can_be_called_is_described_by_its_call() -> None:
    signature = describe(Counter())

    assert (signature.name, signature.description) == ("Counter", "Count on.")
    assert signature.parameters["properties"] == {"step": {"type": "integer", "description": "How far.", "default": 1}}


def test_what_a_partial_fills_in_is_not_for_the_model() -> None:
    def send(secret: str, to: str, body: str = "") -> None:
        """Send a message."""

    by_name = describe(functools.partial(send, secret="s"))
    in_place = describe(functools.partial(send, "s"))

    assert by_name == in_place
    assert (by_name.name, by_name.description) == ("send", "Send a message.")
    assert by_name.parameters["properties"] == {"to": {"type": "string"}, "body": {"type": "string", "default": ""}}


def test_a_wrapped_function_is_described_as_itself() -> None:
    @functools.wraps(read_page)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert describe(wrapper) == describe(read_page)
    assert describe(functools.lru_cache(read_page)) == describe(read_page)


def test_descriptions_come_from_the_annotation_before_the_docstring() -> None:
    def fn(
        a: Annotated[str, "from a string"],
        b: Annotated[int, Meta(description="from msgspec", ge=1)],
        c: Annotated[str, "also optional"] | None = None,
        d: str = "",
    ) -> None:
        """Do.

        Args:
            a: never seen
            b: never seen
            d: from the docstring
        """

    assert properties(fn) == {
        "a": {"type": "string", "description": "from a string"},
        "b": {"type": "integer", "description": "from msgspec", "minimum": 1},
        "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "also optional", "default": None},
        "d": {"type": "string", "description": "from the docstring", "default": ""},
    }


# ---- its types --------------------------------------------------------------------------------------------------------


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
    """Where somebody lives."""

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


# ---- pydantic ---------------------------------------------------------------------------------------------------------


def test_pydantic_models_are_described_and_read_by_pydantic() -> None:
    def fn(person: Person, others: list[Address] | None = None, to: Address | None = None) -> None:
        """Move.

        Args:
            person: Who moves.
        """

    address = {
        "title": "Address",
        "description": "Where somebody lives.",
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


# ---- binding ----------------------------------------------------------------------------------------------------------


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
