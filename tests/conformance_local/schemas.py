"""Ten tools with different schemas, from a single word to nested lists: what forced calls are tried on."""

from __future__ import annotations

from typing import Any


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 1000}

TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": _object(["city"], city=_TEXT),
    "set_light": _object(["on"], on={"type": "boolean"}, room=_TEXT),
    "pick_colour": _object(["colour"], colour={"enum": ["red", "green", "blue"]}),
    "add": _object(["a", "b"], a={"type": "number"}, b={"type": "number"}),
    "order": _object(
        ["items"],
        items={"type": "array", "minItems": 1, "items": _object(["name", "count"], name=_TEXT, count=_COUNT)},
    ),
    "book": _object(
        ["day", "people"], day={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, people=_COUNT
    ),
    "tag": _object(["tags"], tags={"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 4}),
    "move": _object(["to"], to=_object(["x", "y"], x={"type": "integer"}, y={"type": "integer"})),
    "pay": _object(
        ["amount", "with"], amount={"type": "number", "minimum": 0}, **{"with": {"anyOf": [_TEXT, {"type": "null"}]}}
    ),
    "ping": _object([]),
}


def declared(name: str, *, strict: bool = True) -> dict[str, Any]:
    function = {
        "name": name,
        "description": f"Do it: {name.replace('_', ' ')}.",
        "parameters": TOOLS[name],
        "strict": strict,
    }
    return {"type": "function", "function": function}
