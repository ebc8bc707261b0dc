"""Turns → messages as Prompty has them: what a tool returned is one message each, and calls are metadata of what was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.prompty.message_parts import Message, Part


def messages_of(turns: Sequence[Turn]) -> list[Message]:
    found: list[Message] = []
    for turn in turns:
        match turn:
            case SystemTurn(text=text, role=role):
                found.append(Message(role, (Part("text", text),)))
            case UserTurn(parts=parts):
                found.append(Message("user", tuple([_part(part) for part in parts])))
            case AssistantTurn():
                words = turn.text or turn.refusal
                content = (Part("text", words),) if words else ()
                calls = turn.calls
                found.append(
                    Message("assistant", content, {"tool_calls": [_call(call) for call in calls]} if calls else {})
                )
            case ToolTurn(results=results):
                found += [_result(result) for result in results]
    return found


def count_of(turns: Sequence[Turn]) -> int:
    """How many messages `messages_of` would give."""
    return sum([len(turn.results) if type(turn) is ToolTurn else 1 for turn in turns])


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.as_written}}


def _result(result: ToolResult) -> Message:
    content = (Part("text", result.content), *[_part(item) for item in result.attachments])
    return Message("tool", content, {"tool_call_id": result.call_id})


def _part(part: UserPart) -> Part:
    match part:
        case Text(text=text):
            return Part("text", text)
        case Image(url=url, detail=detail):
            return Part("image", url, detail=detail)
        case Audio(data=data, format=format):
            return Part("audio", data, f"audio/{format}")
        case Video(url=url):
            return Part("video", url)
        case File(data=data, name=name, id=id):
            return Part("file", data or "", name=name, id=id)
