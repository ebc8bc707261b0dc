"""Inputs get their defaults, and what is required must be there; nothing else is checked."""

import pytest

from ronda.errors import BadRequest
from ronda.prompty import Prompty, loads, read_input, validate_inputs
from ronda.prompty.model import Property

DECLARED = loads(
    "---\n"
    "inputs:\n"
    "  - {name: needed, kind: string, required: true}\n"
    "  - {name: kept, kind: array, default: [1]}\n"
    "  - {name: off, kind: boolean, default: false}\n"
    "  - {name: shown, kind: string, example: never}\n"
    "---\nHi"
)


def test_defaults_are_filled_in_and_examples_are_not() -> None:
    assert validate_inputs(DECLARED, {"needed": 5, "extra": object}) == {
        "needed": 5,
        "extra": object,
        "kept": [1],
        "off": False,
    }


def test_a_missing_input_is_the_specifications_error() -> None:
    with pytest.raises(ValueError, match=r"^Missing required input: needed$") as caught:
        validate_inputs(DECLARED)

    assert isinstance(caught.value, BadRequest)
    assert caught.value.param == "needed"


def test_what_is_given_wins_even_if_it_is_nothing() -> None:
    assert validate_inputs(DECLARED, {"needed": None, "kept": None, "off": None})["kept"] is None


def test_a_required_input_with_a_default_may_be_left_out() -> None:
    found = Prompty(inputs=(Property(name="a", required=True, default="b"),))

    assert validate_inputs(found) == {"a": "b"}


def test_neither_the_callers_nor_the_files_values_are_changed() -> None:
    given = {"needed": "x"}
    first = validate_inputs(DECLARED, given)
    first["kept"].append(2)
    first["needed"] = "y"

    assert given == {"needed": "x"}
    assert validate_inputs(DECLARED, given)["kept"] == [1]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "5", "5"),
        ("integer", "5", 5),
        ("float", "5.5", 5.5),
        ("boolean", "true", True),
        ("array", "[1]", [1]),
        ("object", '{"a": 1}', {"a": 1}),
        ("image", "https://x/y.png", "https://x/y.png"),
        ("union", "word", "word"),
    ],
)
def test_text_from_a_command_line_becomes_the_declared_kind(kind: str, text: str, value: object) -> None:
    assert read_input(Prompty(inputs=(Property(name="a", kind=kind),)), "a", text) == value


def test_text_that_is_not_of_the_declared_kind_is_refused() -> None:
    assert read_input(Prompty(), "undeclared", "5") == "5"
    with pytest.raises(BadRequest, match="the input 'a' is not of kind 'integer': 'many'"):
        read_input(Prompty(inputs=(Property(name="a", kind="integer"),)), "a", "many")
