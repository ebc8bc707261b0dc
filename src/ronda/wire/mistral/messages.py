"""Turns → messages, one after the other, each with the members Mistral knows and no other: one more is a 422.

The order is Mistral's as well: a system message stands only at the beginning, and an assistant's never does; an assistant's
message at the end is a prefix of the answer; an empty one is left out. Servers that refuse a user's message behind a result
(3230), as all of Mistral's did until 2026, get an assistant's "OK" between the two. All of this is on the wire's copy only.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from ronda.core.arguments import as_object
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
from ronda.wire.codec.json import encode_message
from ronda.wire.mistral import native_api
from ronda.wire.mistral.call_ids import wire_ids
from ronda.wire.mistral.tools import Tools
from ronda.wire.upstream.fitting import is_elsewhere, wordless_note
from ronda.wire.upstream.input_files import file_note, is_listed
from ronda.wire.upstream.projection import UNREPORTED, Changes

BEGIN: Final = b'{"role":"user","content":"(The conversation begins here.)"}'
_BRIDGE: Final = b'{"role":"assistant","content":"OK"}'
_ATTACHED: Final = {"type": "text", "text": "Attached by the tools above:"}
_DETAILS: Final = ("low", "auto", "high")


class _WireCall(Struct, frozen=True):
    """A call (`ours` is its id in the turn) as it stands on the wire."""

    ours: str
    name: str
    id: str


class Messages:
    """Bytes that only grow: the messages of the next round are those of the last one and the new turns.

    `bridges`: the server refuses a user's message behind a result.
    """

    __slots__ = ("_api", "_bridges", "_changes", "_tools", "_wire_calls", "buffer", "role")

    def __init__(self, model: str, tools: Tools, changes: Changes = UNREPORTED, bridges: bool = False) -> None:
        self._changes = changes
        self._bridges = bridges
        self._api = native_api(model)
        self._tools = tools
        self._wire_calls: list[_WireCall] = []  # the calls that wait for their results
        self.buffer = bytearray()
        self.role = ""  # of the last message

    def add(self, turn: Turn) -> None:
        match turn:
            case AssistantTurn():
                if message := self._assistant(turn):
                    self._add("assistant", encode_message(message))
            case ToolTurn():
                self._add_results(turn)
            case UserTurn(parts=parts):
                self._add_user(self._content(parts))
            case SystemTurn(text=text):
                if self.role not in ("", "system"):
                    self._changes.tell("role_changed", "the instruction is told as the user's", _SYSTEM)
                    self._add_user(text)
                elif text:
                    self._add("system", encode_message({"role": "system", "content": text}))

    def as_prefix(self, turn: AssistantTurn) -> bytes:
        """The last turn, for the model to go on from. It is not added: with another turn behind it it is no prefix."""
        open_calls = self._wire_calls
        message = self._assistant(turn)
        self._wire_calls = open_calls
        return encode_message({**message, "prefix": True}) if message else b""

    def _add(self, role: str, message: bytes) -> None:
        if self.buffer:
            self.buffer += b","
        elif role == "assistant":
            self._changes.tell(
                "message_added", "the user begins the conversation", "it cannot begin with the assistant"
            )
            self.buffer += BEGIN + b","
        self.buffer += message
        self.role = role

    def _add_user(self, content: str | list[dict[str, Any]]) -> None:
        if self.role == "tool" and self._bridges:
            self._changes.tell("message_added", "the assistant says 'OK' in between", _BRIDGED)
            self._add("assistant", _BRIDGE)
        self._add("user", encode_message({"role": "user", "content": content}))

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        native = turn.native
        content: Any = "".join([part.text for part in turn.parts if not isinstance(part, (ToolCall, Reasoning))])
        if native is not None and native.api == self._api:
            content = native.payload
        elif any(isinstance(part, Reasoning) for part in turn.parts):
            self._changes.tell("reasoning_dropped", "the model's thoughts are left out", "they are another model's")
        calls = turn.calls
        ids = wire_ids([call.id for call in calls])
        self._wire_calls = [
            _WireCall(call.id, self._tools.call_it(call.name), call_id)
            for call, call_id in zip(calls, ids, strict=True)
        ]
        self._tell_of(calls)
        content = content or wordless_note(turn, self._changes)
        if not content and not calls:
            return {}
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [
                {
                    "id": wire_call.id,
                    "type": "function",
                    "function": {"name": wire_call.name, "arguments": self._arguments(call)},
                }
                for call, wire_call in zip(calls, self._wire_calls, strict=True)
            ]
        return message

    def _add_results(self, turn: ToolTurn) -> None:
        attached: list[Attachment] = []
        for result in turn.results:
            wire_call = next((one for one in self._wire_calls if one.ours == result.call_id), None)
            if wire_call is None:
                continue  # no call asked for it: histories are repaired before they come here
            self._wire_calls.remove(wire_call)
            fields = {"role": "tool", "tool_call_id": wire_call.id, "name": wire_call.name, "content": result.content}
            self._add("tool", encode_message(fields))
            attached += result.attachments
        if attached:  # what is not text follows as the user's, as in Chat Completions
            self._changes.tell(
                "message_added", "what a tool attached follows as the user's", "a tool's message is text"
            )
            self._add_user([_ATTACHED, *[self._part(item) for item in attached]])

    def _tell_of(self, calls: tuple[ToolCall, ...]) -> None:
        for call, wire_call in zip(calls, self._wire_calls, strict=True):
            if wire_call.id != call.id:
                self._changes.tell("id_rewritten", f"the id '{call.id}' of a call becomes '{wire_call.id}'", _IDS)
            if wire_call.name != call.name:
                self._changes.tell("name_rewritten", f"the tool '{call.name}' is called '{wire_call.name}'", _NAMES)

    def _arguments(self, call: ToolCall) -> str:
        """A JSON object in any case: Mistral's server reads them before the model does."""
        fitting = as_object(call.arguments)
        if fitting != call.arguments:
            self._changes.tell("arguments_rewritten", f"the arguments of '{call.name}' become an object", _ARGUMENTS)
        return fitting

    def _content(self, parts: tuple[UserPart, ...]) -> str | list[dict[str, Any]]:
        if len(parts) == 1 and type(parts[0]) is Text:
            return parts[0].text
        return [self._part(part) for part in parts] or ""

    def _part(self, part: UserPart) -> dict[str, Any]:
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
                return self._note(f"a video{where}")
            case File() if is_listed(part):
                return {"type": "text", "text": file_note(part)}
            case File(data=data, name=name, id=file_id):
                if data is None:
                    if file_id and is_elsewhere(file_id, "mistral"):
                        return self._note("a file of another provider")
                    return {"type": "file", "file_id": file_id} if file_id else self._note("an empty file")
                if data.startswith("data:image/"):
                    return {"type": "image_url", "image_url": {"url": data}}
                document = {"type": "document_url", "document_url": data}
                return document if name is None else {**document, "document_name": name}

    def _note(self, what: str) -> dict[str, Any]:
        self._changes.tell("media_noted", f"{what} is only mentioned to the model", "Mistral has no way to be sent it")
        return {"type": "text", "text": f"[There is {what}, which you cannot see.]"}


_SYSTEM: Final = "system messages stand at the beginning here, and this one is said in the middle"
_BRIDGED: Final = "a user's message must not follow a tool's"
_IDS: Final = "ids have nine letters or digits here, and no two are the same in a message"
_NAMES: Final = "names have letters, digits, '_' and '-' here, 64 at most"
_ARGUMENTS: Final = "they were no JSON object, and must be one"
