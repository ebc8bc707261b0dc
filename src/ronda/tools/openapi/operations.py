"""Paths and methods of a document → operations, and what the model sees of each.

The arguments of an operation are its parameters by their names, and the members of its body besides them; a body that is no
plain object, or has a member called like a parameter, is one argument called `body`. Two parameters of one name in
different places are told apart by the place: `id` and `query_id`.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.core.taint import EGRESS
from ronda.schema.lower_names import allowed_names
from ronda.schema.validate import check_schema
from ronda.tools.openapi.document import BadDocument, Document, Place
from ronda.tools.openapi.schemas import Schema, Schemas

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
TOOL_NAME: Final = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
TIMEOUT: Final = 60.0
MAX_DESCRIPTION: Final = 1_024

Where: TypeAlias = Literal["path", "query", "header", "cookie"]

_SAFE: Final = ("get", "head", "options")  # may be called again after a crash
# Headers that are not a caller's to set: the specification ignores the first three, the rest belong to the connection.
_NOT_OURS: Final = frozenset(
    {"accept", "content-type", "authorization", "host", "content-length", "transfer-encoding", "connection", "cookie"}
    | {"upgrade", "te", "trailer", "expect", "keep-alive", "proxy-authorization", "proxy-connection"}
)
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KINDS: Final = ("json", "form", "multipart", "text")


class Parameter(Struct, frozen=True):
    """`argument` is what the model calls it. `style` and `explode` say how lists and objects are written."""

    argument: str
    name: str
    where: Where
    required: bool = False
    style: str = "form"
    explode: bool = True
    is_json: bool = False


class Body(Struct, frozen=True):
    """The arguments that make it up: its `members`, or the one `argument` that is all of it."""

    kind: Literal["json", "form", "multipart", "text"]
    media_type: str
    required: bool
    members: tuple[str, ...] = ()
    argument: str | None = None


class Operation(Struct, frozen=True):
    """`security` is a choice of sets of scheme names, as the document has it; None where it says nothing about it."""

    spec: ToolSpec
    method: str
    path: str
    server: str | None
    parameters: tuple[Parameter, ...]
    body: Body | None
    security: tuple[tuple[str, ...], ...] | None


def read_operations(document: Document) -> list[Operation]:
    """All operations, in the document's order, under names that are legal and differ."""
    found: list[tuple[str, Operation]] = []
    seen: set[str] = set()
    for path, item in document.root.at("paths").items():
        if not path.startswith("/"):
            continue
        item = document.follow(item)
        for method, place in item.items():
            if method in METHODS and isinstance(place.value, dict):
                text = place.text("operationId") or _name(method, path)
                name = next(one for one in (text, *(f"{text}_{n}" for n in range(2, len(seen) + 3))) if one not in seen)
                seen.add(name)
                found.append((name, _operation(document, item, place, method, path)))
    names = allowed_names([name for name, _ in found], TOOL_NAME)
    return [
        msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, name=names[name])) for name, one in found
    ]


def _name(method: str, path: str) -> str:
    return "_".join([method, *re.findall(r"[A-Za-z0-9]+", path)])


def _operation(document: Document, item: Place, place: Place, method: str, path: str) -> Operation:
    schemas = Schemas(document)
    parameters, properties, required = _parameters(document, item, place, schemas, path)
    body = _body(document, place, schemas, properties, required)
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if schemas.defs:
        schema["$defs"] = schemas.defs
    if check_schema(schema) is not None:  # one that cannot be checked is shown as names only
        schema = {"type": "object", "properties": {name: {} for name in properties}, "required": required}
    text = "\n".join(dict.fromkeys(part for part in (place.text("summary"), place.text("description")) if part))
    spec = ToolSpec(
        name="",
        description=(text or f"{method.upper()} {path}")[:MAX_DESCRIPTION],
        parameters=Raw(msgspec.json.encode(schema)),
        repeatable=method in _SAFE,
        timeout=TIMEOUT,
        declared="openapi",
        labels=(EGRESS,),
        no_arguments_needed=not required,
    )
    servers = place.at("servers").each() or item.at("servers").each()
    server = server_url(servers[0]) if servers else None
    return Operation(spec, method, path, server, tuple(parameters), body, _security(document, place))


def server_url(place: Place) -> str:
    """A server's address, its variables filled in with what they are by default."""
    url = place.text("url")
    for name, variable in place.at("variables").items():
        url = url.replace(f"{{{name}}}", str(variable.value.get("default", "")) if variable.value else "")
    return url


def _security(document: Document, place: Place) -> tuple[tuple[str, ...], ...] | None:
    for owner in (place, document.root):
        security = owner.at("security")
        if isinstance(security.value, list):
            return tuple(tuple(name for name, _ in one.items()) for one in security.each())
    return None


# ---- parameters -------------------------------------------------------------------------------------------------------


def _parameters(
    document: Document, item: Place, place: Place, schemas: Schemas, path: str
) -> tuple[list[Parameter], dict[str, Any], list[str]]:
    fields: dict[tuple[str, str], Place] = {}
    for one in (
        *item.at("parameters").each(),
        *place.at("parameters").each(),
    ):  # the operation's own come last, and count
        one = document.follow(one)
        fields[one.text("in"), one.text("name")] = one
    for name in re.findall(r"\{([^{}]+)\}", path):  # a document that forgets to declare them: they are needed anyway
        fields.setdefault(("path", name), Place({"in": "path", "name": name, "schema": {"type": "string"}}))
    parameters: list[Parameter] = []
    properties: dict[str, Any] = {}
    required: list[str] = []
    for (where, name), one in fields.items():
        if not _is_ours(where, name, path):
            continue
        argument = name if name not in properties else f"{where}_{name}"
        content = one.at("content").items()
        schema = schemas.convert(content[0][1].at("schema") if content else one.at("schema"))
        if isinstance(schema, dict) and one.text("description"):
            schema = {**schema, "description": one.text("description")[:MAX_DESCRIPTION]}
        properties[argument] = schema
        needed = where == "path" or one.value.get("required") is True
        if needed:
            required.append(argument)
        style = one.text("style") or ("form" if where in ("query", "cookie") else "simple")
        explode = one.value.get("explode")
        parameters.append(
            Parameter(
                argument,
                name,
                where,  # type: ignore[arg-type]  # one of the four: it was looked at
                needed,
                style,
                explode if isinstance(explode, bool) else style == "form",
                bool(content),
            )
        )
    return parameters, properties, required


def _is_ours(where: str, name: str, path: str) -> bool:
    match where:
        case "path":
            return f"{{{name}}}" in path
        case "query":
            return bool(name)
        case "header":
            return bool(_TOKEN.fullmatch(name)) and name.lower() not in _NOT_OURS
        case "cookie":
            return bool(_TOKEN.fullmatch(name))
        case _:
            return False


# ---- bodies -----------------------------------------------------------------------------------------------------------


def _body(
    document: Document, place: Place, schemas: Schemas, properties: dict[str, Any], required: list[str]
) -> Body | None:
    body = document.follow(place.at("requestBody"))
    media = [(name, kind, one) for name, one in body.at("content").items() if (kind := _kind(name)) is not None]
    if not media:
        return None
    name, kind, content = min(media, key=lambda one: _KINDS.index(one[1]))
    needed = body.value.get("required") is True
    shape = _flat(document, content.at("schema")) if kind != "text" else None
    if shape is None or any(member in properties for member, _ in shape.at("properties").items()):
        argument = _free("body", properties)
        properties[argument] = schemas.convert(content.at("schema")) if kind != "text" else {"type": "string"}
        if needed:
            required.append(argument)
        return Body(kind, name, needed, argument=argument)
    whole = schemas.convert(shape)
    assert isinstance(whole, dict)
    members = whole.get("properties", {})
    properties.update(members)
    if needed:
        required += [member for member in whole.get("required", ()) if member in members]
    return Body(kind, name, needed, tuple(members))


def _free(name: str, properties: dict[str, Any]) -> str:
    return next(one for one in (name, f"request_{name}", f"the_{name}_of_the_request") if one not in properties)


def _kind(media_type: str) -> Literal["json", "form", "multipart", "text"] | None:
    essence = media_type.partition(";")[0].strip().lower()
    if essence == "application/json" or essence.endswith("+json") or essence in ("*/*", "application/*"):
        return "json"
    if essence == "application/x-www-form-urlencoded":
        return "form"
    if essence == "multipart/form-data":
        return "multipart"
    return "text" if re.fullmatch(r"[\w.+-]+/[\w.+-]+", essence) else None


def _flat(document: Document, schema: Place) -> Place | None:
    """The schema of a plain object, whose members can stand for themselves."""
    try:
        schema = document.follow(schema)
    except BadDocument:
        return None
    value = schema.value
    if not isinstance(value, dict) or any(key in value for key in ("allOf", "anyOf", "oneOf", "not", "if")):
        return None
    if value.get("type", "object") != "object" or value.get("nullable") or not value.get("properties"):
        return None
    # Members beyond those it names could not be told from anything else.
    return schema if not isinstance(value.get("additionalProperties"), dict) else None
