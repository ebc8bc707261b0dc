"""An operation and arguments → a request. Nothing in an argument can change where it goes or what else it says.

Every value is encoded for the place it is put in: a slash in a path parameter stays inside its segment, a line break never
reaches a header. What cannot be encoded safely is refused, and the model reads why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec
from msgspec import Struct

from ronda.tools.openapi.operations import Body, Operation, Parameter

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class BadArgument(ValueError):
    """An argument that has no safe form in the place where it belongs."""


class Request(Struct):
    """`url` is written out and encoded. `fields` is a form of several parts, `data` any other body."""

    method: str
    url: str
    headers: dict[str, str]
    data: bytes | None = None
    fields: list[tuple[str, str]] | None = None


def write_request(operation: Operation, server: str, arguments: Mapping[str, Any]) -> Request:
    path = operation.path
    query: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for one in operation.parameters:
        value = arguments.get(one.argument)
        if value is None and one.where != "path":
            continue
        match one.where:
            case "path":
                path = path.replace(f"{{{one.name}}}", _segment(one, value))
            case "query":
                query += [(_encode(key), _encode(text)) for key, text in _pairs(one, value)]
            case "header":
                headers[one.name] = _header(one, value)
            case "cookie":
                cookies += [f"{key}={_encode(text)}" for key, text in _pairs(one, value)]
    if cookies:
        headers["Cookie"] = "; ".join(cookies)
    base, mark, more = server.partition("?")
    query_text = "&".join([*([more] if mark and more else ()), *(f"{key}={text}" for key, text in query)])
    url = f"{base.rstrip('/')}{_quote_path(path)}" + (f"?{query_text}" if query_text else "")
    request = Request(operation.method.upper(), url, headers)
    if operation.body is not None:
        _write_body(request, operation.body, arguments)
    return request


def _encode(text: str) -> str:
    return quote(text, safe="-._~", errors="replace")


def _quote_path(path: str) -> str:
    """The document's own part of the path: what is encoded already, and what a path may hold, stays."""
    return quote(path, safe="/%:@!$&'()*+,;=-._~", errors="replace")


# ---- parameters -------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()  # true, 1.5, null; what is nested deeper than a style reaches


def _segment(one: Parameter, value: Any) -> str:
    prefix = {"label": ".", "matrix": f";{_encode(one.name)}="}.get(one.style, "")
    text = prefix + _simple(one, value)
    if text in ("", ".", ".."):
        raise BadArgument(f"'{one.argument}' cannot be {text!r}: it is a part of the address")
    return text


def _simple(one: Parameter, value: Any) -> str:
    if one.is_json:
        return _encode(msgspec.json.encode(value).decode())
    if isinstance(value, list):
        return ",".join(_encode(_text(item)) for item in value)
    if isinstance(value, Mapping):
        joint = "=" if one.explode else ","
        return ",".join(f"{_encode(str(key))}{joint}{_encode(_text(item))}" for key, item in value.items())
    return _encode(_text(value))


def _header(one: Parameter, value: Any) -> str:
    if one.is_json:
        text = msgspec.json.encode(value).decode()
    elif isinstance(value, list):
        text = ",".join(_text(item) for item in value)
    elif isinstance(value, Mapping):
        joint = "=" if one.explode else ","
        text = ",".join(f"{key}{joint}{_text(item)}" for key, item in value.items())
    else:
        text = _text(value)
    if _CONTROL.search(text) or not text.isascii():
        raise BadArgument(f"'{one.argument}' is sent as a header, which can hold neither line breaks nor other scripts")
    return text.strip()


def _pairs(one: Parameter, value: Any) -> list[tuple[str, str]]:
    """A query or cookie parameter, in the style that the document asks for."""
    if one.is_json:
        return [(one.name, msgspec.json.encode(value).decode())]
    if isinstance(value, list):
        if one.style == "form" and one.explode:
            return [(one.name, _text(item)) for item in value]
        joint = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(one.style, ",")
        return [(one.name, joint.join(_text(item) for item in value))]
    if isinstance(value, Mapping):
        if one.style == "deepObject":
            return [(f"{one.name}[{key}]", _text(item)) for key, item in value.items()]
        if one.explode and one.where == "query":
            return [(str(key), _text(item)) for key, item in value.items()]
        return [(one.name, ",".join(part for key, item in value.items() for part in (str(key), _text(item))))]
    return [(one.name, _text(value))]


# ---- bodies -----------------------------------------------------------------------------------------------------------


def _write_body(request: Request, body: Body, arguments: Mapping[str, Any]) -> None:
    value: Any
    if body.argument is not None:
        if body.argument not in arguments:
            return
        value = arguments[body.argument]
    else:
        value = {name: arguments[name] for name in body.members if name in arguments}
        if not value and not body.required:
            return
    match body.kind:
        case "json":
            media_type = body.media_type if "*" not in body.media_type else "application/json"
            request.headers["Content-Type"] = media_type
            request.data = msgspec.json.encode(value)
        case "form":
            fields = _fields(value)
            request.headers["Content-Type"] = "application/x-www-form-urlencoded"
            request.data = "&".join(
                f"{quote_plus(key, errors='replace')}={quote_plus(text, errors='replace')}" for key, text in fields
            ).encode()
        case "multipart":
            request.fields = list(_fields(value))
        case "text":
            request.headers["Content-Type"] = body.media_type
            request.data = _text(value).encode("utf-8", "replace")


def _fields(value: Any) -> Iterable[tuple[str, str]]:
    """A form's fields: a list is a field several times, what is nested deeper is JSON."""
    if not isinstance(value, Mapping):
        raise BadArgument("the body of a form is an object")
    for key, item in value.items():
        for one in item if isinstance(item, list) else [item]:
            if one is not None:
                yield str(key), _text(one)
