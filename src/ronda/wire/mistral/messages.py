"""Turns → messages, one after the other, each with the members Mistral knows and no other: one more is a 422.

The order is Mistral's as well: a user's message never follows a result (3230), so an assistant's "OK" is put between; a
system message stands only at the beginning, and an assistant's never does; an assistant's message at the end is a prefix of
the answer; an empty one is left out. All of this is on the wire's copy alone.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ronda.core.arguments import recover
from ronda.core.parts import (
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    Reasoning,
    SystemTurn,
    Text,
    ToolCall,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
    Video,
)
from ronda.wire.json import encode
from ronda.wire.mistral import native_api
from ronda.wire.mistral.ids import wire_ids
from ronda.wire.mistral.tools import Tools

BEGIN: Final = b'{"role":"user","content":"(The conversation begins here.)"}'
_BRIDGE: Final = b'{"role":"assistant","content":"OK"}'
_ATTACHED: Final = {"type": "text", "text": "Attached by the tools above:"}
_DETAILS: Final = ("low", "auto", "high")


class _Asked(Struct, frozen=True):
    """A call (`ours` is its id in the turn) as it stands on the wire."""

    ours: str
    name: str
    id: str


class Messages:
    """Bytes that only grow: the messages of the next round are those of the last one and the new turns."""

    __slots__ = ("_api", "_asked", "_tools", "buffer", "role")

    def __init__(self, model: str, tools: Tools) -> None:
        self._api = native_api(model)
        self._tools = tools
        self._asked: list[_Asked] = []  # the calls that wait for their results
        self.buffer = bytearray()
        self.role = ""  # of the last message

    def add(self, turn: Turn) -> None:
        match turn:
            case AssistantTurn():
                if message := self._assistant(turn):
                    self._add("assistant", encode(message))
            case ToolTurn():
                self._add_results(turn)
            case UserTurn(parts=parts):
                self._add_user(_content(parts))
            case SystemTurn(text=text):
                if self.role not in ("", "system"):
                    self._add_user(text)
                elif text:
                    self._add("system", encode({"role": "system", "content": text}))

    def as_prefix(self, turn: AssistantTurn) -> bytes:
        """The last turn, for the model to go on from. It is not added: with another turn behind it it is no prefix."""
        asked = self._asked
        message = self._assistant(turn)
        self._asked = asked
        return encode({**message, "prefix": True}) if message else b""

    def _add(self, role: str, message: bytes) -> None:
        if self.buffer:
            self.buffer += b","
        elif role == "assistant":
            self.buffer += BEGIN + b","
        self.buffer += message
        self.role = role

    def _add_user(self, content: str | list[dict[str, Any]]) -> None:
        if self.role == "tool":
            self._add("assistant", _BRIDGE)
        self._add("user", encode({"role": "user", "content": content}))

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        native = turn.native
        content: Any = "".join([part.text for part in turn.parts if not isinstance(part, (ToolCall, Reasoning))])
        if native is not None and native.api == self._api:
            content = native.payload
        calls = turn.calls
        ids = wire_ids([call.id for call in calls])
        self._asked = [_Asked(call.id, self._tools.call_it(call.name), id) for call, id in zip(calls, ids, strict=True)]
        if not content and not calls:
            return {}
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {
                    "id": asked.id,
                    "type": "function",
                    "function": {"name": asked.name, "arguments": _arguments(call)},
                }
                for call, asked in zip(calls, self._asked, strict=True)
            ]
        return message

    def _add_results(self, turn: ToolTurn) -> None:
        attached: list[Attachment] = []
        for result in turn.results:
            asked = next((one for one in self._asked if one.ours == result.call_id), None)
            if asked is None:
                continue  # nobody asked: histories are repaired before they come here
            self._asked.remove(asked)
            said = {"role": "tool", "tool_call_id": asked.id, "name": asked.name, "content": result.content}
            self._add("tool", encode(said))
            attached += result.attachments
        if attached:  # what is not text follows as the user's, as in Chat Completions
            self._add_user([_ATTACHED, *[_part(item) for item in attached]])


def _arguments(call: ToolCall) -> str:
    """A JSON object in any case: whoever serves the model reads them before the model does."""
    if (read := recover(call.arguments)) is not None:
        return read.text
    return encode({"unreadable": call.as_written} if call.as_written else {}).decode()


def _content(parts: tuple[UserPart, ...]) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and type(parts[0]) is Text:
        return parts[0].text
    return [_part(part) for part in parts] or ""


def _part(part: UserPart) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image(url=url, detail=detail):
            image = {"url": url, "detail": detail} if detail in _DETAILS else {"url": url}
            return {"type": "image_url", "image_url": image}
        case Audio(data=data):
            return {"type": "input_audio", "input_audio": data}
        case Video(url=url):
            where = "" if url.startswith("data:") else f" at {url}"
            return {"type": "text", "text": f"[There is a video{where}, which you cannot see.]"}
        case File(data=data, name=name, id=id):
            if data is None:
                return {"type": "file", "file_id": id or ""}
            if data.startswith("data:image/"):
                return {"type": "image_url", "image_url": {"url": data}}
            document = {"type": "document_url", "document_url": data}
            return document if name is None else {**document, "document_name": name}
