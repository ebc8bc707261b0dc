"""How many tokens a conversation takes, roughly: for models that cannot be asked.

A token is taken for four bytes of text, which is about right for English and for JSON, too many for other alphabets' letters
(two to four bytes each, and most of them a token); each turn and each tool costs a few more for what marks it. A picture is
taken for 1500, the maximum that Anthropic's models spend on one; a file for what its text would be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ronda.core.parts import (
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    SystemTurn,
    Text,
    ToolCall,
    ToolTurn,
    Turn,
    UserTurn,
    Video,
)
from ronda.core.plan import ToolSpec

BYTES_A_TOKEN: Final = 4
A_TURN: Final = 4
A_TOOL: Final = 8
AN_IMAGE: Final = 1500
A_FILE: Final = 500  # of which nothing but its name or address is known


def estimate(turns: Iterable[Turn], tools: Iterable[ToolSpec]) -> int:
    """At least 1."""
    size, more = 0, 0
    for turn in turns:
        more += A_TURN
        match turn:
            case SystemTurn(text=text):
                size += _bytes(text)
            case UserTurn(parts=parts):
                for part in parts:
                    if type(part) is Text:
                        size += _bytes(part.text)
                    else:
                        more += _attachment_tokens(part)
            case AssistantTurn(parts=answer_parts):
                for one in answer_parts:
                    size += _bytes(one.name + one.arguments if isinstance(one, ToolCall) else one.text)
            case ToolTurn(results=results):
                for result in results:
                    size += _bytes(result.content)
                    more += sum(map(_attachment_tokens, result.attachments))
    for tool in tools:
        more += A_TOOL
        size += _bytes(tool.name) + _bytes(tool.description) + len(bytes(tool.parameters))
    return max(1, more + -(-size // BYTES_A_TOKEN))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _attachment_tokens(part: Attachment | Text) -> int:
    match part:
        case Image():
            return AN_IMAGE
        case File(data=str(data)) if data.startswith("data:"):
            return max(A_FILE, len(data) * 3 // 4 // BYTES_A_TOKEN)
        case Audio(data=data):
            return max(A_FILE, len(data) // 100)
        case Text() | File() | Video():
            return A_FILE
