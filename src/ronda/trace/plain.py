"""Any value → plain JSON values, without secrets: what backends are told.

A secret is known by the name it stands under. Two lists of names are in use, the specification's and that of its Python
runtime: a name counts that either has. Taken literally the first would hide `prompt_tokens` and `authors` too; those stay,
and so does every number under the name of a token, since a count is no secret.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from datetime import date
from pathlib import PurePath
from typing import Any, Final

import msgspec

REDACTED: Final = "[REDACTED]"
MAX_DEPTH: Final = 40

_SECRET: Final = re.compile(
    r"secret|passw(?:or)?d|passphrase|credential|cookie|bearer|(?:api|private)[_.\s-]?key|auth(?!ors?(?![a-z]))",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile(r"token", re.IGNORECASE)
_COUNT: Final = re.compile(r"tokens|token[_-]?(?:count|limit|usage|budget|s?izer)|tokeni[sz]", re.IGNORECASE)
_DIGITS: Final = re.compile(r"[\d.,\s]*")


def plain(key: str, value: Any) -> Any:
    """What a backend is told under a key: plain, and redacted."""
    return _redact(key, to_dict(value))


def redact(value: Any) -> Any:
    """A plain value with the secrets inside of it taken out."""
    return _redact("", value)


def _redact(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool) or not key:
        pass
    elif _SECRET.search(key):
        return REDACTED
    elif _TOKEN.search(key):
        return _token(key, value)
    return _inside(value)


def _token(key: str, value: Any) -> Any:
    """Under the name of a token: a number is a count, whatever text there is may be the token itself."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return value if _COUNT.search(key) and _DIGITS.fullmatch(value) else REDACTED
    if isinstance(value, list):
        return [_token(key, item) for item in value]
    return _inside(value) if _COUNT.search(key) else REDACTED


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _redact(key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_inside(item) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[") and (_SECRET.search(value) or _TOKEN.search(value)):
        return _json_text(value)
    return value


def _json_text(text: str) -> str:
    """JSON inside of a text, as tool arguments and answers of APIs often are."""
    try:
        value = msgspec.json.decode(text)
        inner = _inside(value)
        return text if inner == value else msgspec.json.encode(inner).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def to_dict(value: Any, depth: int = 0) -> Any:
    """JSON values as they are; dates, paths, models and structs as JSON has them; what is left as text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {_text(key): to_dict(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_dict(item, depth + 1) for item in value]
    if isinstance(value, date):  # a datetime is one
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value)} bytes]"
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    try:
        if isinstance(value, msgspec.Raw):
            return msgspec.json.decode(value)
        if isinstance(value, msgspec.Struct):
            return _struct(value, depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {one.name: to_dict(getattr(value, one.name), depth + 1) for one in dataclasses.fields(value)}
        if hasattr(value, "model_dump") and not isinstance(value, type):
            return to_dict(value.model_dump(), depth + 1)
    except Exception:  # a foreign object's own trouble: its text will do
        return _text(value)
    return _text(value)


def _struct(value: msgspec.Struct, depth: int) -> dict[str, Any]:
    """Under the names that its JSON has, with its tag; what has its default and is left out there is left out here."""
    config = value.__struct_config__
    fields: dict[str, Any] = {}
    if config.tag_field is not None:
        fields[config.tag_field] = config.tag
    for name, called, default in zip(
        value.__struct_fields__, value.__struct_encode_fields__, _defaults(type(value)), strict=True
    ):
        item = getattr(value, name)
        if not (config.omit_defaults and default is not msgspec.NODEFAULT and item == default):
            fields[called] = to_dict(item, depth + 1)
    return fields


def _defaults(kind: type[msgspec.Struct]) -> list[Any]:
    return [
        one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
        for one in msgspec.structs.fields(kind)
    ]


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
