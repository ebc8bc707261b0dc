"""Writes docs/compatibility.md from the table of addresses, the tables that the doors' readers go by, and `field_tables`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import field_tables

from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.doors.own import operations as own
from ronda.server.doors.responses import stored_responses, websocket
from ronda.server.http.operations import Operation
from ronda.testing import ScriptedModel
from ronda.wire.anthropic import blocks, declarations, fields
from ronda.wire.mistral import field_tables as mistral
from ronda.wire.openai_chat import server_request as chat
from ronda.wire.openai_completions import server_request as text
from ronda.wire.openai_responses import compaction
from ronda.wire.openai_responses import input as items
from ronda.wire.openai_responses import server_request as responses
from ronda.wire.resources import embeddings

# Of a server with the features that every server has.
ROUTES = create_app(Server(ServerConfig(model="script:test"), MemoryJournal(), provider=ScriptedModel())).routes
PAGE = Path(__file__).parent / "compatibility.md"

HEAD = """# Compatibility

Every address, and what becomes of every field of a request, door by door. `make docs` writes this page from tables, most of
which the server goes by.

- **read**: it does what its dialect says.
- **passed on**: the model's provider gets it. One that speaks another dialect gets what it knows, too; what would be lost is
  refused by name, or said in `warnings`.
- **ignored**: it may be there, and changes nothing.
- **refused**: a 400 (422 on Mistral's doors) that names the field.

A field with `null` is treated as left out.
"""

Table = Mapping[str, str]


def _fates(operation: Operation) -> Table:
    """What becomes of the parameters and fields of an address of our own: all are read, unless it says otherwise."""
    return {
        name: said if isinstance(said, str) else f"read: {said[1]}"
        for name, said in {**operation.query, **operation.fields}.items()
    }


TABLES: dict[str, dict[str, Table]] = {
    "OpenAI Chat Completions": {
        "POST /v1/chat/completions": chat.FIELDS,
        "POST /v1/completions": text.FIELDS,
        "POST /v1/embeddings": embeddings.FIELDS,
        "Clients of Mistral's at this address": field_tables.MISTRAL_CLIENTS,
    },
    "OpenAI Responses": {
        "POST /v1/responses": responses.FIELDS,
        "Items of `input`, by type": items.FIELDS,
        "Items of `tools`, by type": field_tables.RESPONSE_TOOLS,
        "POST /v1/responses/compact": compaction.FIELDS,
        **stored_responses.FIELDS,
        "Messages of the WebSocket at /v1/responses": websocket.FIELDS,
    },
    "Anthropic Messages": {
        "POST /v1/messages and /v1/messages/count_tokens": fields.FIELDS,
        "What a user may say, by type": blocks.HEARD,
        "What an assistant may have said, by type": blocks.SPOKEN,
        "Members of `tools[]`": declarations.TOOL_FIELDS,
        "Members of `tool_choice`": field_tables.TOOL_CHOICE,
    },
    "Mistral Agents": {
        "POST /v1/agents/completions": mistral.COMPLETION,
        "Members of `messages[]`": mistral.MESSAGES,
        "POST /v1/agents, PATCH /v1/agents/ID": mistral.AGENT,
        "POST /v1/conversations": mistral.START,
        "POST /v1/conversations/ID": mistral.APPEND,
        "POST /v1/conversations/ID/restart": mistral.RESTART,
        "Entries of `inputs`, by type": mistral.ENTRIES,
        "Chunks of `content`, by type": mistral.CHUNKS,
    },
    "App stream": {"The first message of the WebSocket at /generate-code": field_tables.APP_STREAM},
    "Ronda": {name: _fates(one) for name, one in own.OPERATIONS.items() if one.query or one.fields},
}


def page() -> str:
    names = dict.fromkeys([row.dialect.name for row in ROUTES.rows])
    return "\n".join([HEAD, *[_door(name, TABLES.get(name, {})) for name in names]])


def _door(name: str, tables: Mapping[str, Table]) -> str:
    addresses = [f"- `{row.method} {row.path}`" for row in ROUTES.rows if row.dialect.name == name]
    return "\n".join([f"## {name}\n", *addresses, "", *[_table(title, table) for title, table in tables.items()]])


def _table(title: str, table: Table) -> str:
    rows = [f"| {_name(name)} | {fate.replace('|', chr(92) + '|')} |" for name, fate in table.items()]
    return "\n".join([f"### {title}\n", "| field | |", "|---|---|", *rows, ""])


def _name(name: str) -> str:
    return name if " " in name else f"`{name}`"


if __name__ == "__main__":
    PAGE.write_text(page())
