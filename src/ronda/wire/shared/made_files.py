"""Files that tools made → the `File` objects that a loop's answers and streams have besides the dialect's own words."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from ronda.core.files import TEXT_FORMATS
from ronda.core.parts import File
from ronda.wire.shared.file_kinds import mime_type_of


def file_object(file: File, tool: str, round_index: int, turn: int, at: float) -> dict[str, Any]:
    """Exactly one of text, `data_base64` and `code` with `message` says what is in it. A content that was too long to travel
    along is fetched by the file's id."""
    head, _, body = (file.data or "").partition(",")
    mime_type = head.removeprefix("data:").partition(";")[0]
    written: dict[str, Any] = {
        "id": file.id,
        "name": file.name,
        "format": file.format,
        "mime_type": mime_type or mime_type_of(file.format),
        "bytes": file.size or 0,
        "created_at": int(at),
        "purpose": "agent_output",
        "source": {"tool": tool, "round": round_index, "turn": turn},
    }
    if file.problem:
        return {**written, "code": "not_produced", "message": file.problem}
    if file.format not in TEXT_FORMATS:
        return {**written, "data_base64": body} if file.data else written
    text = _decode_body(body) if file.data else None
    if text is not None:
        written["text"] = text
    return {**written, "preview": file.preview} if file.preview else written


def _decode_body(body: str) -> str | None:
    try:
        return base64.b64decode(body, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def placeholder_id(run: str, index: int) -> str:
    """Of a file that a run was to make, and did not. It is kept nowhere: a client that asks for it is told by the id only."""
    return f"file_{run[-12:]}_missing_{index}"


def is_placeholder(file_id: str) -> bool:
    return re.fullmatch(r"file_[0-9a-f]{1,12}_missing_[0-9]{1,3}", file_id) is not None
