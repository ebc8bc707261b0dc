"""What an answer has to be: a JSON Schema, or a type that msgspec or pydantic can read. What a model is asked for then, and
its answer read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.plan import ResponseFormat
from ronda.errors import BadConfig
from ronda.schema.signature import is_pydantic


class _Member(msgspec.Struct):
    """An answer that is no object by itself (a list, a number, one of several types) is asked for as the member of one."""

    value: Raw


_VALUE: Final = _Member.__struct_fields__[0]


def output_format(output: Any) -> ResponseFormat:
    """Raises BadConfig for what is neither a schema nor a type."""
    if isinstance(output, Mapping):
        schema: Mapping[str, Any] = output
        from ronda.schema.validate import check_schema  # much to import, and text needs none of it

        if (problem := check_schema(dict(output))) is not None:
            raise BadConfig(f"output is not a JSON Schema: {problem}")
        name = "answer"
    else:
        schema = _schema_of(output)
        schema = schema if _is_object(schema) else _as_member(schema)
        name = getattr(output, "__name__", "answer")
    return ResponseFormat("json_schema", name, Raw(msgspec.json.encode(schema)))


def read_output(output: Any, text: str) -> Any:
    """An answer as `output` asked for it. Raises `ValueError` where it does not fit."""
    if isinstance(output, Mapping):
        return msgspec.json.decode(text)
    is_itself = _is_object(_schema_of(output))
    return read_as(output, text if is_itself else bytes(msgspec.json.decode(text, type=_Member).value))


def read_as(kind: Any, text: str | bytes) -> Any:
    """JSON as a value of this type. Raises `ValueError` where it does not fit."""
    return _adapter(kind).validate_json(text) if is_pydantic(kind) else msgspec.json.decode(text, type=kind)


def _schema_of(output: Any) -> dict[str, Any]:
    """With a root that says what it is, and does not refer to it: OpenAI refuses such a schema."""
    if is_pydantic(output):
        schema: dict[str, Any] = _adapter(output).json_schema()
    else:
        try:
            schema = msgspec.json.schema(output)
        except (TypeError, NameError) as error:
            raise BadConfig(
                f"output is {output!r:.200}; give a JSON Schema, or a type that msgspec or pydantic can read: {error}"
            ) from error
    if (reference := schema.get("$ref")) is None:
        return schema
    definitions = schema["$defs"]
    name = reference.removeprefix("#/$defs/")
    others = {key: value for key, value in definitions.items() if key != name}
    if reference.encode() in msgspec.json.encode(definitions):  # it has itself as a member
        others = definitions
    return {**definitions[name], **({"$defs": others} if others else {})}


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def _as_member(schema: dict[str, Any]) -> dict[str, Any]:
    """Vendors take no schema whose root is anything else than an object."""
    member = {key: value for key, value in schema.items() if key != "$defs"}
    root = {"type": "object", "properties": {_VALUE: member}, "required": [_VALUE], "additionalProperties": False}
    return {**root, "$defs": schema["$defs"]} if "$defs" in schema else root


def _adapter(output: Any) -> Any:
    import pydantic  # the user's: ours does not need it

    return pydantic.TypeAdapter(output)
