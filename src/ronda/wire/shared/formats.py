"""The form of an answer as Chat Completions asks for it (`response_format`), which clients of other doors send too."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.core.plan import ResponseFormat
from ronda.wire.shared.fields import bad, decode_field, must_be_schema


class NamedSchema(Struct, frozen=True):
    name: str = "answer"
    schema: Raw = NULL
    strict: bool | None = None
    description: str | None = None

    def must_fit(self, path: str) -> ResponseFormat:
        """`path` is where this stands in the request."""
        if self.schema != NULL:
            must_be_schema(self.schema, f"{path}.schema")
        return ResponseFormat("json_schema", self.name, self.schema.copy(), self.strict, self.description)


class JsonSchema(NamedSchema, frozen=True, forbid_unknown_fields=True):
    pass


class _Format(Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


def read_response_format(raw: Raw) -> ResponseFormat | None:
    answer_format: _Format = decode_field(raw, _Format, "response_format")
    if answer_format.type == "text":
        return None
    if answer_format.type == "json_object":
        return ResponseFormat("json_object")
    if answer_format.json_schema is None:
        raise bad("response_format.json_schema", "is missing")
    return answer_format.json_schema.must_fit("response_format.json_schema")
