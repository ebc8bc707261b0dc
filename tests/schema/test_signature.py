""""""

from __future__ import annotations

import datetime
import functools
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta
from tests.schema.signature_schemas import properties, read_page

from ronda.schema.signature import Signature, describe


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
