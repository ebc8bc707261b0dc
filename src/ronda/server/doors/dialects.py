"""The dialects that addresses speak: what each is called, and how it says that something went wrong."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from ronda.server.doors.chat import chat_error
from ronda.server.doors.messages_route import messages_error
from ronda.server.doors.mistral.endpoint import mistral_error
from ronda.server.doors.responses.create import responses_error
from ronda.server.http.routing import Dialect

CHAT: Final = Dialect("OpenAI Chat Completions", chat_error, door="chat")
RESPONSES: Final = Dialect("OpenAI Responses", responses_error, door="responses")
MESSAGES: Final = Dialect("Anthropic Messages", messages_error, ("ronda.server.doors.messages",), door="messages")
MISTRAL: Final = Dialect("Mistral Agents", mistral_error, door="mistral")
FILES: Final = Dialect("Files", chat_error, anthropic_error=messages_error, door="files")
SKILLS: Final = Dialect("Skills", chat_error, anthropic_error=messages_error, door="skills")
OWN: Final = Dialect("Ronda", chat_error)
MODELS: Final = structs.replace(CHAT, door="")  # clients of every API ask for the list
MCP: Final = structs.replace(OWN, door="mcp")
