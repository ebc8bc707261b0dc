"""Declared properties as JSON Schema, as they are and strict."""

from __future__ import annotations

import pytest

from ronda.prompty.errors import BadPrompty
from ronda.prompty.model import FunctionTool, Property
from ronda.prompty.parameters import parameters_of, schema_of
from ronda.prompty.tool_specs import spec_of, without_nulls

CITY = Property(name="city", required=True, description="A city")
UNIT = Property(name="unit", enum_values=("c", "f"))
NESTED = Property(name="style", kind="object", properties=(CITY, UNIT))
LIST = Property(name="list", kind="array", items=Property(kind="object", properties=(UNIT,)))


def test_what_is_not_required_may_be_left_out() -> None:
    assert parameters_of([CITY, UNIT, NESTED]) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "A city"},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "style": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A city"},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                },
                "required": ["city"],
            },
        },
        "required": ["city"],
    }
    assert "required" not in parameters_of([UNIT])


def test_strict_requires_everything_and_lets_the_optional_be_null_at_every_depth() -> None:
    inner = {
        "type": "object",
        "properties": {"unit": {"type": ["string", "null"], "enum": ["c", "f", None]}},
        "required": ["unit"],
        "additionalProperties": False,
    }
    assert parameters_of([CITY, LIST], strict=True) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "A city"},
            "list": {"type": ["array", "null"], "items": inner},
        },
        "required": ["city", "list"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(("kind", "type"), [("float", "number"), ("integer", "integer"), ("boolean", "boolean")])
def test_kinds_have_json_types(kind: str, type: str) -> None:
    assert schema_of(Property(kind=kind)) == {"type": type}


@pytest.mark.parametrize("kind", ["thread", "image", "whatever"])
def test_a_kind_without_a_type_constrains_nothing(kind: str) -> None:
    assert parameters_of([Property(name="x", kind=kind)], strict=True)["properties"] == {"x": {}}


def test_a_union_is_said_as_it_is_declared_and_gets_a_null_branch() -> None:
    branches = (Property(kind="string"), Property(kind="integer"))
    one, any_ = Property(name="a", kind="union", one_of=branches), Property(name="b", kind="union", any_of=branches)
    types = [{"type": "string"}, {"type": "integer"}]

    assert parameters_of([one, any_])["properties"] == {"a": {"oneOf": types}, "b": {"anyOf": types}}
    assert parameters_of([one], strict=True)["properties"] == {"a": {"oneOf": [*types, {"type": "null"}]}}
    with pytest.raises(BadPrompty, match="the union 'x' needs oneOf or anyOf, and not both"):
        schema_of(Property(name="x", kind="union", one_of=branches, any_of=branches))


def test_what_may_be_null_says_so_in_either_form() -> None:
    said = Property(name="x", nullable=True, required=True)

    assert parameters_of([said])["properties"] == {"x": {"type": ["string", "null"]}}
    assert parameters_of([said], strict=True)["properties"] == {"x": {"type": ["string", "null"]}}


def test_a_bound_parameter_is_not_the_models_and_a_null_of_strict_mode_is_no_value() -> None:
    from ronda.prompty.model import Binding

    tool = FunctionTool(
        name="t",
        parameters=(CITY, UNIT, Property(name="user", required=True)),
        strict=True,
        bindings={"user": Binding("who")},
    )
    spec = spec_of(tool)

    assert bytes(spec.parameters) == (
        b'{"type":"object","properties":{"city":{"type":"string","description":"A city"},'
        b'"unit":{"type":["string","null"],"enum":["c","f",null]}},"required":["city","unit"],'
        b'"additionalProperties":false}'
    )
    assert (spec.strict, spec.bound) == (True, ("user",))
    assert without_nulls(tool, {"city": "Paris", "unit": None}) == {"city": "Paris"}
    assert without_nulls(FunctionTool(name="t", parameters=(UNIT,)), {"unit": None}) == {"unit": None}
