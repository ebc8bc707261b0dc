"""The table of addresses, and what features say of theirs → an OpenAPI document.

Nothing is written twice: an address, its method, its dialect's way to say what went wrong and the scope that a key needs are read
from the table that requests are answered by; fields from the tables that the doors' readers go by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ronda._version import __version__
from ronda.server.features.openapi.field_types import FIELD_TYPES
from ronda.server.http.operations import EVENT_STREAM, Field, Named, Operation, schema_of
from ronda.server.http.routing import WEBSOCKET, Route

_PLACE: Final = re.compile(r"\{(\w+)(:path)?\}")
_FORM: Final = "multipart/form-data"
_KEYS: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"header": []}, {"cookie": []}]

# What each dialect says where something went wrong, by the name of the dialect; the rest say it as OpenAI does.
_ERROR_FIELDS: Final = {"message": str, "type": str, "param": (str, None), "code": (str, None)}
OPENAI_ERROR: Final = Named("Error", {"error": _ERROR_FIELDS}, "What went wrong, as OpenAI's clients read it.")
ANTHROPIC_ERROR: Final = Named(
    "AnthropicError",
    {"type": "error", "error": {"type": str, "message": str}, "request_id": (str, None)},
    "What went wrong, as Anthropic's clients read it.",
)
_MISTRAL_ERROR: Final = Named(
    "MistralError",
    ({"object": "error", **_ERROR_FIELDS}, {"detail": [{"type": str, "loc": [], "msg": str}]}),
    "What went wrong, as Mistral's clients read it; a 422 says it place by place.",
)
_DETAIL: Final = Named("Detail", {"detail": (str, [])}, "What went wrong, as FastAPI says it.")
_JSON_RPC_ERROR: Final = Named(
    "JsonRpcError",
    {"jsonrpc": "2.0", "id": (str, int, None), "error": {"code": int, "message": str}},
    "What went wrong, as MCP's clients read it.",
)
_ERRORS: Final[Mapping[str, Any]] = {
    "Anthropic Messages": ANTHROPIC_ERROR,
    "Mistral Agents": _MISTRAL_ERROR,
    "App stream": _DETAIL,
}


def openapi_document(rows: Sequence[Route], operations: Mapping[str, Operation]) -> dict[str, Any]:
    """`operations` go by `METHOD PATH`. An address that no feature describes is in the document with its name only."""
    named: dict[str, Named] = {}
    paths: dict[str, dict[str, Any]] = {}
    taken: set[str] = set()
    for row in rows:
        found = operations.get(f"{row.method} {row.path}") or Operation(summary=_plain_name(row))
        method = "get" if row.method == WEBSOCKET else row.method.lower()
        written = _operation(row, found, named)
        written["operationId"] = _unique(found.name or _id_of(row), taken)
        if found.name:
            written["x-client"] = True  # our own clients have it
        item = paths.setdefault(_PLACE.sub(r"{\1}", row.path), {})
        item.setdefault(method, written)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ronda",
            "version": __version__,
            "description": "Agents over HTTP, behind the APIs of OpenAI, Anthropic and Mistral, and one of their own.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys([row.dialect.name for row in rows])],
        "paths": paths,
        "components": {"schemas": _components(named), "securitySchemes": _security_schemes()},
    }


def _components(named: dict[str, Named]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    while waiting := [one for name, one in named.items() if name not in written]:
        for one in waiting:
            schema = dict(one.schema) if one.schema is not None else schema_of(one.shape, named)
            written[one.name] = {"description": one.text, **schema} if one.text else schema
            brought = written[one.name].pop("$defs", {})  # names that a schema brings along stand next to it
            assert not (twice := brought.keys() & (named.keys() | written.keys())), (
                f"two shapes are named {sorted(twice)}"
            )
            written |= brought
    return dict(sorted(written.items()))


def _security_schemes() -> dict[str, Any]:
    return {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of this server, where it has keys."},
        "header": {
            "type": "apiKey",
            "in": "header",
            "name": "x-api-key",
            "description": "The same, as Anthropic's do.",
        },
        "cookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": "ronda",
            "description": "Of a browser that is signed in; requests that change something need the header X-Ronda-CSRF.",
        },
    }


def _operation(row: Route, found: Operation, named: dict[str, Named]) -> dict[str, Any]:
    written: dict[str, Any] = {"tags": [row.dialect.name], "summary": found.summary}
    if notes := list(_notes(row)):
        written["description"] = " ".join(notes)
    if parameters := [*_places(row), *_query(found, named)]:
        written["parameters"] = parameters
    if (body := _request_body(found, named)) is not None:
        written["requestBody"] = body
    written["responses"] = _responses(row, found, named)
    written["security"] = [] if row.scope == "public" else _KEYS
    return written


def _notes(row: Route) -> Iterable[str]:
    if row.method == WEBSOCKET:
        yield "A WebSocket: the connection is upgraded."
    if row.right is not None:
        yield f"The key needs the scope `{row.right}`."
    if row.capability is not None:
        yield f"Only on a server that has `{row.capability}`."


def _places(row: Route) -> list[dict[str, Any]]:
    found = []
    for name, is_rest in _PLACE.findall(row.path):
        place = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        if is_rest:
            place["description"] = "May have slashes in it."
        found.append(place)
    return found


def _query(found: Operation, named: dict[str, Named]) -> list[dict[str, Any]]:
    written = []
    for name, said in found.query.items():
        schema, text = _field(name, said, named)
        parameter: dict[str, Any] = {
            "name": name,
            "in": "query",
            "schema": schema or {"type": "string"},
            "description": text,
        }
        if name in found.needs:
            parameter["required"] = True
        written.append({key: value for key, value in parameter.items() if value != ""})
    return written


def _field(name: str, said: Field, named: dict[str, Named]) -> tuple[dict[str, Any], str]:
    """A schema, and a sentence. The tables of readers say what becomes of a field: `read: …`, `passed on: …`."""
    if isinstance(said, tuple):
        return schema_of(said[0], named), said[1]
    text = said.removeprefix("read").removeprefix(" (ours)").removeprefix(":").strip()
    return (schema_of(FIELD_TYPES[name], named) if name in FIELD_TYPES else {}), text


def _fields_schema(
    fields: Mapping[str, Field], needs: Sequence[str], named: dict[str, Named], *, nullable: bool
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, said in fields.items():
        if " " in name or (isinstance(said, str) and said.startswith("refused")):
            continue
        schema, text = _field(name, said, named)
        if nullable and schema and name not in needs:  # which is as good as a field that is left out
            schema = {"anyOf": [schema, {"type": "null"}]}
        properties[name] = {**schema, "description": text} if text else schema
    schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(needs)} if needs else schema


def _request_body(found: Operation, named: dict[str, Named]) -> dict[str, Any] | None:
    if found.form:
        schema = _fields_schema(found.form, found.needs, named, nullable=False)
        return {"required": True, "content": {_FORM: {"schema": schema}}}
    if found.body is not None:
        content = {"application/json": {"schema": schema_of(found.body, named)}}
        return {"required": not found.may_be_empty, "content": content}
    if not found.fields:
        return None
    needs = [name for name in found.needs if name in found.fields]
    schema = _fields_schema(found.fields, needs, named, nullable=True)
    return {"required": not found.may_be_empty, "content": {"application/json": {"schema": schema}}}


def _responses(row: Route, found: Operation, named: dict[str, Named]) -> dict[str, Any]:
    if row.method == WEBSOCKET:
        responses: dict[str, Any] = {"101": {"description": "The connection is a WebSocket now."}}
    else:
        responses = {str(found.status): _answer(found, named)}
        for status, shape in found.others.items():
            content = {} if shape is None else {"content": {found.kind: {"schema": schema_of(shape, named)}}}
            responses[str(status)] = {"description": _STATUSES.get(status, "Another answer."), **content}
    errors: dict[str, Any] = {"content": {"application/json": {"schema": schema_of(_error_of(row), named)}}}
    if found.errors_are_pages:
        errors["content"]["text/html"] = {"schema": {"type": "string"}}
    responses["4XX"] = {"description": "The request cannot be answered: what is wrong with it.", **errors}
    responses["5XX"] = {"description": "The server, or the model's, could not answer.", **errors}
    return responses


_STATUSES: Final = {
    202: "It is queued.",
    204: "There is nothing to say.",
    302: "It is elsewhere.",
    304: "It has not changed.",
}


def _error_of(row: Route) -> Any:
    if row.dialect.anthropic_error is not None:  # at addresses that clients of several APIs have
        return (OPENAI_ERROR, ANTHROPIC_ERROR)
    if row.dialect.door == "mcp":
        return (_JSON_RPC_ERROR, OPENAI_ERROR)
    return _ERRORS.get(row.dialect.name, OPENAI_ERROR)


def _answer(found: Operation, named: dict[str, Named]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if found.answer is not None:
        content[found.kind] = {"schema": schema_of(found.answer, named)}
    if found.events is not None:
        # No member of OpenAPI 3.1 can say what the data of each event is. The schema says no type: some programs hold the whole
        # text against it, others each event.
        schema = {"description": "Server-sent events; `x-event` is the schema of the data of each."}
        content[EVENT_STREAM] = {"schema": schema, "x-event": schema_of(found.events, named)}
    description = "A stream of events." if found.answer is None and content else "The answer."
    return {"description": description, "content": content} if content else {"description": "It is done."}


def _plain_name(row: Route) -> str:
    name = getattr(row.handler, "__name__", "") or row.path
    words = name.strip("_").replace("_", " ")
    return words[:1].upper() + words[1:]


def _id_of(row: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", _PLACE.sub(r"by \1", row.path).removeprefix("/v1"))
    method = "connect" if row.method == WEBSOCKET else row.method.lower()
    return "_".join([method, *words]) or method


def _unique(name: str, taken: set[str]) -> str:
    assert name not in taken, f"two operations are named {name}"
    taken.add(name)
    return name
