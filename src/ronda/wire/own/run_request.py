"""POST /v1/runs: a request in our own words → what is to be run, in how many variants."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ronda.core.parts import SystemTurn, Turn, user
from ronda.errors import BadRequest
from ronda.wire.shared.conversation import read_turns
from ronda.wire.shared.fields import (
    DISABLED,
    DISABLED_FATE,
    check_count,
    field,
    read_bounded,
    read_disabled_tools,
    read_fields,
)

MAX_VARIANTS: Final = 8
MAX_FILES: Final = 100

# For docs/compatibility.md.
FIELDS: Final = {
    "input": "read: a text, or a list of messages",
    "model": "read: a name, or a list of names that variants take in turn; the server's model if left out",
    "instructions": "read: what stands before the conversation",
    "variants": f"read: how many runs, up to {MAX_VARIANTS}; 1 if left out",
    "files": "read: paths and texts; the runs then have the tools that build a page, and only those",
    DISABLED: DISABLED_FATE,
    "parent": "read: a run that is over; its conversation, and its files, are continued",
}
_UNSAID: Final = object()


class RunRequest(Struct, frozen=True):
    """`files` is None for runs that build no page."""

    turns: tuple[Turn, ...]
    models: tuple[str, ...] = ()
    variants: int = 1
    files: dict[str, str] | None = None
    parent: str | None = None
    disabled_tools: tuple[str, ...] = ()


def read_run_request(body: bytes) -> RunRequest:
    fields = read_fields(body)
    if unknown := sorted(fields.keys() - FIELDS.keys()):
        raise BadRequest(f"'{unknown[0][:60]}' is not known here; there is {', '.join(FIELDS)}", param=unknown[0])
    files: dict[str, str] | None = field(fields, "files", dict[str, str], None)
    if files is not None:
        check_count(files, MAX_FILES, "files")
        if odd := [path for path in files if not _is_path(path)]:
            raise BadRequest(f"'files' names {odd[0][:60]!r}, which is no path within a project", param="files")
    models: str | list[str] = field(fields, "model", str | list[str], [])
    messages: Any = field(fields, "input", str | list[dict[str, Any]], _UNSAID)
    if messages is _UNSAID:
        raise BadRequest("'input' is missing", param="input")
    turns = (user(messages),) if isinstance(messages, str) else read_turns(messages, "input")
    instructions: str = field(fields, "instructions", str, "")
    return RunRequest(
        (SystemTurn(instructions), *turns) if instructions else turns,
        (models,) if isinstance(models, str) else tuple(models),
        read_bounded(fields, "variants", 1, MAX_VARIANTS) or 1,
        files,
        field(fields, "parent", str, None),
        read_disabled_tools(fields),
    )


def _is_path(path: str) -> bool:
    parts = path.split("/")
    return len(path) <= 200 and path.isprintable() and not {"", ".", ".."}.intersection(parts) and "\\" not in path
