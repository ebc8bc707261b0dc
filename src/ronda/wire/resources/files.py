"""Files as clients of OpenAI, Anthropic and Mistral know them: forms and queries in, objects and pages out.

The addresses are the same for all three. What is sent tells whose client it is; an answer to Anthropic's holds the fields of both
versions of its API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from ronda.core.files import StoredFile
from ronda.errors import BadRequest
from ronda.wire.codec.json import encode
from ronda.wire.resources.pages import (
    PAGE_TOKEN,
    Query,
    in_order,
    last_value,
    openai_list,
    page_after,
    read_limit,
    whole_number,
)

FileShape: TypeAlias = Literal["openai", "anthropic", "mistral"]

_ANTHROPIC: Final = ("anthropic-version", "anthropic-beta")
_MISTRAL_QUERY: Final = ("page_size", "include_total")
_MOST_IDS: Final = 100
_HOUR, _DAY = 3600, 86400


def shape_of(headers: Mapping[str, str], query: Query) -> FileShape:
    """Mistral's client differs from OpenAI's in its name, and in how it asks for pages."""
    if any(name in headers for name in _ANTHROPIC):
        return "anthropic"
    if "mistral" in headers.get("user-agent", "").lower() or any(name in query for name in _MISTRAL_QUERY):
        return "mistral"
    return "openai"


# ---- what comes in ---------------------------------------------------------------------------------------------------


class FileForm(Struct, frozen=True):
    """What a form says of its file. `lifetime` is in seconds."""

    purpose: str
    lifetime: float | None = None


def read_form(fields: Mapping[str, str], shape: FileShape) -> FileForm:
    match shape:
        case "openai":
            return FileForm(_purpose(fields), _openai_lifetime(fields))
        case "anthropic":
            return FileForm("user_data", _seconds(fields, "expires_in_seconds", _HOUR, 90 * _DAY))
        case "mistral":  # its hours are not bounded by its client
            hours = _seconds(fields, "expiry", 1, 24 * 365 * 10)
            return FileForm(fields.get("purpose") or "user_data", None if hours is None else hours * _HOUR)


def _purpose(fields: Mapping[str, str]) -> str:
    purpose = fields.get("purpose", "").strip()
    if not purpose:
        raise BadRequest("Missing required multipart field `purpose`.", param="purpose")
    if len(purpose) > 64:
        raise BadRequest("`purpose` has more than 64 characters.", param="purpose")
    return purpose


def _openai_lifetime(fields: Mapping[str, str]) -> float | None:
    anchor = fields.get("expires_after[anchor]", "created_at")
    if anchor != "created_at":
        raise BadRequest(
            f"expires_after[anchor] must be 'created_at', not {anchor[:100]!r}", param="expires_after[anchor]"
        )
    return _seconds(fields, "expires_after[seconds]", _HOUR, 30 * _DAY)


def _seconds(fields: Mapping[str, str], name: str, least: int, most: int) -> float | None:
    return None if not fields.get(name) else float(whole_number(fields[name], name, least, most))


# ---- one file --------------------------------------------------------------------------------------------------------


def file_object(file: StoredFile, shape: FileShape) -> dict[str, Any]:
    return _anthropic_object(file) if shape == "anthropic" else _openai_object(file, shape)


def _openai_object(file: StoredFile, shape: FileShape) -> dict[str, Any]:
    written: dict[str, Any] = {
        "id": file.id,
        "object": "file",
        "bytes": file.size,
        "created_at": int(file.created),
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
        "mime_type": file.mime_type,
    }
    if file.expires is not None:
        written["expires_at"] = int(file.expires)
    if file.format:
        written["format"] = file.format
    if shape == "mistral":  # whose client wants these to be there, and texts
        return {**written, "sample_type": "instruct", "source": "upload", "mimetype": file.mime_type, "deleted": False}
    return {**written, "source": {"tool": file.source.tool, "round": file.source.round, "turn": file.source.turn}}


def _anthropic_object(file: StoredFile) -> dict[str, Any]:
    return {
        "id": file.id,
        "type": "file",
        "filename": file.name,
        "mime_type": file.mime_type,
        "size_bytes": file.size,
        "created_at": when(file.created),
        "downloadable": True,
        "expires_at": None if file.expires is None else when(file.expires),
    }


def write_file(file: StoredFile, shape: FileShape) -> bytes:
    return encode(file_object(file, shape))


def write_deleted(file_id: str, shape: FileShape) -> bytes:
    if shape == "anthropic":
        return encode({"id": file_id, "type": "file_deleted"})
    return encode({"id": file_id, "object": "file", "deleted": True})


def when(seconds: float) -> str:
    """RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def content_disposition(name: str, how: Literal["inline", "attachment"]) -> str:
    """How a file is called that is sent as it is: for clients of today, and in ASCII for the rest."""
    plain = "".join([sign if " " <= sign <= "~" and sign not in '"\\' else "_" for sign in name])
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='', errors='replace')}"


# ---- pages -----------------------------------------------------------------------------------------------------------


def write_page(files: Sequence[StoredFile], query: Query, shape: FileShape) -> bytes:
    """The part of an owner's files, in the order they came, that a query asks for."""
    match shape:
        case "openai":
            return encode(_openai_page(files, query))
        case "anthropic":
            return encode(_anthropic_page(files, query))
        case "mistral":
            return encode(_mistral_page(files, query))


def _openai_page(files: Sequence[StoredFile], query: Query) -> dict[str, Any]:
    found = [file for file in files if file.purpose == last_value(query, "purpose", file.purpose)]
    limit = read_limit(query, 10_000, 10_000)
    page, has_more = page_after(in_order(found, query), last_value(query, "after", ""), limit, "after", "a file")
    return openai_list([file_object(file, "openai") for file in page], has_more=has_more)


def _anthropic_page(files: Sequence[StoredFile], query: Query) -> dict[str, Any]:
    if (ids := query.get("ids[]")) is not None:
        if len(ids) > _MOST_IDS or "limit" in query or "page" in query:
            raise BadRequest(f"'ids[]' takes at most {_MOST_IDS} ids, without 'limit' and 'page'", param="ids[]")
        page, has_more = [file for file in files if file.id in ids], False
    else:
        limit = read_limit(query, 20, 1000)
        if (scope := last_value(query, "scope_id", "")) != "":
            files = [file for file in files if file.session == scope]
        if before := last_value(query, "before_id", ""):
            page, has_more = page_after(files[::-1], before, limit, "before_id", "a file")
            page = page[::-1]
        else:
            token = last_value(query, "page", "")
            after = token.removeprefix(PAGE_TOKEN) if token else last_value(query, "after_id", "")
            page, has_more = page_after(files, after, limit, "page" if token else "after_id", "a file")
    data = [file_object(file, "anthropic") for file in page]
    first, last = (page[0].id, page[-1].id) if page else (None, None)
    next_page = f"{PAGE_TOKEN}{last}" if has_more else None
    return {"data": data, "has_more": has_more, "first_id": first, "last_id": last, "next_page": next_page}


def _mistral_page(files: Sequence[StoredFile], query: Query) -> dict[str, Any]:
    wanted = {name: set(query[name]) for name in ("purpose", "mimetypes", "source", "sample_type") if name in query}
    text = last_value(query, "search", "").lower()
    found = []
    for file in files:
        facts = {"purpose": file.purpose, "mimetypes": file.mime_type, "source": "upload", "sample_type": "instruct"}
        if text in file.name.lower() and all(facts[name] in values for name, values in wanted.items()):
            found.append(file)
    number = whole_number(last_value(query, "page", "0"), "page", 0, 10**9)
    size = whole_number(last_value(query, "page_size", "100"), "page_size", 1, 1000)
    page = found[number * size : (number + 1) * size]
    written: dict[str, Any] = {"object": "list", "data": [file_object(file, "mistral") for file in page]}
    if last_value(query, "include_total", "true").lower() != "false":
        written["total"] = len(found)
    return written
