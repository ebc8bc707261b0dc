"""What an address takes and answers, as values: what GET /openapi.json, the reference page and the clients are made of.

    schema_of({"id": str, "state": Words("queued", "running"), "cost?": (float, None), "data": [RUN]})  →  a JSON Schema

It is a notation for people: the shape of a value looks like the value. Nothing of it is read while a request is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

# str, int, float, bool, None: a value of that type; a text: itself; [shape]: a list; (shape, shape): one of them;
# {"name": shape, "name?": shape}: an object, of which the second member may be missing, and which may have others;
# {"*": shape}: an object with any names; Words, Named, and `Any` for anything.
Shape: TypeAlias = Any

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"


class Words(tuple[str, ...]):
    """One of these texts."""

    __slots__ = ()

    def __new__(cls, *words: str) -> Words:
        return super().__new__(cls, words)


class Named(Struct, frozen=True, eq=False):
    """A shape that has a name of its own in the document, and a type of that name in the clients. `schema` is given where it is
    made elsewhere."""

    name: str
    shape: Shape = Any
    text: str = ""
    schema: Mapping[str, Any] | None = None


# What is said of a field: its shape and a sentence; or the sentence only, as the tables of the doors' readers have it.
Field: TypeAlias = "tuple[Shape, str] | str"


class Operation(Struct, frozen=True, kw_only=True):
    """One row of the table of addresses, described. `name` is how clients of ours call it: those without one are for the clients
    of others, or for people."""

    summary: str
    name: str = ""
    query: Mapping[str, Field] = {}
    fields: Mapping[str, Field] = {}  # of a JSON body
    needs: tuple[str, ...] = ()  # fields, or parameters, that must be there
    may_be_empty: bool = False  # the body may be left out
    form: Mapping[str, Field] = {}  # of a body that is a form with files
    body: Shape = None  # of a body that is no object with `fields`
    answer: Shape = Any  # None: no body
    status: int = 200
    kind: str = JSON  # the media type of the answer
    events: Shape = None  # of each server-sent event, where the answer is a stream of them, or may be one
    others: Mapping[int, Shape] = {}  # what else may be answered that is no error
    errors_are_pages: bool = False  # for people: a browser was sent here


_PLAIN: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(shape: Shape, named: dict[str, Named]) -> dict[str, Any]:
    """`named` is called with every shape that has a name."""
    if shape is Any:
        return {}
    if shape is None:
        return {"type": "null"}
    if isinstance(shape, type):
        return {"type": _PLAIN[shape]}
    if isinstance(shape, str):
        return {"type": "string", "const": shape}
    if isinstance(shape, Words):
        return {"type": "string", "enum": list(shape)}
    if isinstance(shape, Named):
        known = named.setdefault(shape.name, shape)
        assert known is shape, f"two shapes are named {shape.name}"
        if shape.schema is None:
            schema_of(shape.shape, named)  # for the names within it
        return {"$ref": f"#/components/schemas/{shape.name}"}
    if isinstance(shape, tuple):
        return {"anyOf": [schema_of(one, named) for one in shape]}
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0], named) if shape else {}}
    return _object_schema(shape, named)


def _object_schema(shape: Mapping[str, Shape], named: dict[str, Named]) -> dict[str, Any]:
    if "*" in shape:
        return {"type": "object", "additionalProperties": schema_of(shape["*"], named)}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name.removesuffix("?"): schema_of(one, named) for name, one in shape.items()},
    }
    if required := [name for name in shape if not name.endswith("?")]:
        schema["required"] = required
    return schema
