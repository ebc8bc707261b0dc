"""What a tool of ours takes → the JSON Schema that a model is shown: an object that has these members and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw


def object_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


def parameters(properties: Mapping[str, Any], *required: str) -> Raw:
    return Raw(msgspec.json.encode(object_schema(properties, *required)))
