"""Tools of Anthropic's own that the client runs: its bash, its editor, its memory. A model of another API is offered a function
that takes the same; the client gets a `tool_use` as it expects it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.plan import ToolSpec
from ronda.wire.anthropic import API

_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_RANGE: Final = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}


class ClientTool(Struct, frozen=True):
    description: str
    properties: dict[str, Any]
    required: tuple[str, ...] = ()

    def spec(self, name: str, raw: Raw) -> ToolSpec:
        schema = {"type": "object", "properties": self.properties, "required": list(self.required)}
        parameters = Raw(msgspec.json.encode(schema))
        no_arguments_needed = not self.required
        return ToolSpec(
            name,
            self.description,
            parameters,
            kind="caller",
            no_arguments_needed=no_arguments_needed,
            native=raw.copy(),
            native_api=API,
        )


# By their type without its date.
CLIENT_TOOLS: Final[dict[str, ClientTool]] = {
    "bash": ClientTool(
        "Run a command in a bash session on the user's machine that stays open; `restart` begins a new one.",
        {"command": _TEXT, "restart": {"type": "boolean"}},
    ),
    "text_editor": ClientTool(
        "View and edit text files on the user's machine. Commands: view, create, str_replace, insert.",
        {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert"]},
            "path": _TEXT,
            "view_range": _RANGE,
            "file_text": _TEXT,
            "old_str": _TEXT,
            "new_str": _TEXT,
            "insert_line": _NUMBER,
            "insert_text": _TEXT,
        },
        ("command", "path"),
    ),
    "memory": ClientTool(
        "View and edit files of memory below /memories. Commands: view, create, str_replace, insert, delete, rename.",
        {
            "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
            "path": _TEXT,
            "view_range": _RANGE,
            "file_text": _TEXT,
            "old_str": _TEXT,
            "new_str": _TEXT,
            "insert_line": _NUMBER,
            "insert_text": _TEXT,
            "old_path": _TEXT,
            "new_path": _TEXT,
        },
        ("command",),
    ),
}
