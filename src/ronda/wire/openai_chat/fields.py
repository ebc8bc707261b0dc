"""Single fields of a request, decoded; what is wrong with one is said with its full path."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from ronda.errors import BadRequest
from ronda.schema.validate import check_schema


def decode_field(raw: Raw, kind: Any, path: str) -> Any:
    try:
        return decoder(kind).decode(raw)
    except RecursionError:
        raise BadRequest(f"'{path}' is nested too deeply", param=path) from None
    except msgspec.DecodeError as error:
        reason, _, where = str(error).partition(" - at `$")
        path += where.rstrip("`")
        raise BadRequest(f"'{path}': {reason}", param=path) from error
    except UnicodeError as error:
        raise BadRequest(f"'{path}' is not valid text: {error}", param=path) from error


@lru_cache(maxsize=256)  # msgspec would look at the type anew each time, which costs more than the decoding
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def bad(path: str, reason: str) -> BadRequest:
    return BadRequest(f"'{path}' {reason}", param=path)


def must_be_schema(raw: Raw, path: str) -> dict[str, Any]:
    schema = decode_field(raw, dict[str, Any], path)
    if (problem := _problem_with_schema(bytes(raw))) is not None:
        raise BadRequest(f"'{path}' is not a JSON Schema: {problem}", param=path)
    return schema  # type: ignore[no-any-return]  # decoded as such


@lru_cache(maxsize=512)  # a client declares the same tools with every request
def _problem_with_schema(schema: bytes) -> str | None:
    return check_schema(msgspec.json.decode(schema))
