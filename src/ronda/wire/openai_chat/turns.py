"""Turns → messages of Chat Completions, one after the other.

A message of this dialect's own goes out as it came, unless another server wrote things into it that this one refuses. Any
other turn is projected: its words and calls are said in this dialect's way, its thoughts are left out. What is remembered
from turn to turn are ids of calls that had to be changed, for their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.arguments import is_object
from ronda.core.parts import (
    NULL,
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
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
from ronda.wire.codec.json import UNREADABLE, decode_members, encode, encode_message
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.names import NO_NAMES, is_name, wire_name
from ronda.wire.openai_chat.quirks import ANYONE, Quirks
from ronda.wire.upstream.fitting import fitting_arguments, fitting_id, media_type, wordless_note
from ronda.wire.upstream.input_files import file_note, is_listed
from ronda.wire.upstream.projection import UNREPORTED, Changes

_Message: TypeAlias = dict[str, Any]

_ATTACHED: Final = {"type": "text", "text": "Attached by the tools above:"}
_decode_calls = msgspec.json.Decoder(list[dict[str, Raw]] | None).decode


class _Function(Struct, frozen=True):
    name: str


class _Call(Struct, frozen=True):
    function: _Function
    id: str = ""


class _Part(Struct, frozen=True):
    type: str = ""


_decode_content = msgspec.json.Decoder(str | list[_Part] | None).decode
_decode_call = msgspec.json.Decoder(_Call).decode


class Messages:
    """The messages of one conversation. `api` names the server whose own messages go back to it as they came."""

    __slots__ = ("_api", "_changes", "_ids", "_names", "_quirks", "buffer")

    def __init__(
        self,
        names: Mapping[str, str] = NO_NAMES,
        quirks: Quirks = ANYONE,
        api: str = API,
        changes: Changes = UNREPORTED,
    ) -> None:
        self._names = names
        self._quirks = quirks
        self._api = api
        self._changes = changes
        self._ids: list[tuple[str, str]] = []  # of the calls of the turn before, where one had to be changed
        self.buffer = bytearray()

    def add(self, turn: Turn) -> None:
        if written := self.write(turn):
            buffer = self.buffer
            if buffer:
                buffer += b","
            buffer += written

    def write(self, turn: Turn) -> bytes:
        """One turn as messages, joined by commas. Empty where there is nothing to say, as in an interrupted turn."""
        match turn:
            case ToolTurn(results=results):
                return self._results(results)
            case AssistantTurn():
                return self._assistant(turn)
            case UserTurn():
                if (content := self._own(turn.native)) is not None:
                    return content
                message: _Message = {"role": "user", "content": self._content(turn.parts)}
                if turn.name is not None:
                    message["name"] = turn.name
                return encode_message(message)
            case SystemTurn():
                if (content := self._own(turn.native)) is not None:
                    return content
                return encode_message({"role": turn.role, "content": turn.text})

    # ---- as it came ------------------------------------------------------------------------------------------------------

    def _own(self, native: Native | None) -> bytes | None:
        """A message of the dialect's own, the caller's words or what this very server said; None if it is to be said anew."""
        if native is None or native.api not in (API, self._api):
            return None
        quirks = self._quirks
        is_taken = not quirks.foreign or (native.api != API and not quirks.checks_own)
        return bytes(native.payload) if is_taken else self._fitting(native.payload)

    def _fitting(self, payload: Raw) -> bytes | None:
        """The same without what another server added to it; None where it says something that cannot be left out."""
        try:
            members = decode_members(payload)
            calls = _decode_calls(members.get("tool_calls", b"null")) or []
            read_calls = [_decode_call(encode(call)) for call in calls]
            content = _decode_content(members.get("content", b"null"))
        except UNREADABLE:
            return None
        foreign = self._quirks.foreign
        theirs = {name for one in (members, *calls) for name in one.keys() & foreign}
        parts = {part.type for part in content} & self._quirks.foreign_parts if isinstance(content, list) else set()
        for name in sorted(theirs | parts):
            self._changes.tell("members_dropped", f"'{name}' is left out", _FOREIGN)
        longest = self._quirks.id_length or len(payload)
        ids = [call.id for call in read_calls]
        fit = all(0 < len(call_id) <= longest for call_id in ids) and len(set(ids)) == len(ids)
        if self._quirks.plain_names:
            fit = fit and all(is_name(call.function.name) for call in read_calls)
        if not fit or parts:
            return None
        if not theirs:
            return bytes(payload)
        kept = _without(members, foreign)
        if calls:
            kept["tool_calls"] = Raw(encode([_without(call, foreign) for call in calls]))
        return encode(kept) if any(bytes(kept.get(name, NULL)) != b"null" for name in _SAYS) else None

    # ---- what the model said ---------------------------------------------------------------------------------------------

    def _assistant(self, turn: AssistantTurn) -> bytes:
        self._ids = []
        if (payload := self._own(turn.native)) is not None and (
            payload := self._readable(payload, turn.calls)
        ) is not None:
            return payload
        if Reasoning in map(type, turn.parts):
            self._changes.tell("reasoning_dropped", "the model's thoughts are left out", _THOUGHTS)
        message: _Message = {"role": "assistant", "content": turn.text or None}
        if refusal := turn.refusal:
            message["refusal"] = refusal
        if calls := turn.calls:
            message["tool_calls"] = self._calls(calls)
        elif message["content"] is None and not refusal:
            message["content"] = wordless_note(turn, self._changes)
            if not message["content"]:
                return b""
        return encode_message(message)

    def _readable(self, message: bytes, calls: Sequence[ToolCall]) -> bytes | None:
        """The model's own message with arguments that any server can read; nearly always, as it came. None: say it anew."""
        if all(is_object(call.as_written) for call in calls):
            return message
        try:
            members = decode_members(message)
            written = _decode_calls(members.get("tool_calls", b"null")) or ()
            for call in written:
                if "function" in call:
                    function = decode_members(call["function"])
                    arguments = msgspec.json.decode(function.get("arguments", b'""'), type=str)
                    call["function"] = Raw(
                        encode_message({**function, "arguments": fitting_arguments(arguments, self._changes)})
                    )
        except UNREADABLE:
            return None
        return encode({**members, "tool_calls": written})

    def _calls(self, calls: Sequence[ToolCall]) -> list[_Message]:
        ids = self._wire_ids(calls)
        entries = []
        for call, call_id in zip(calls, ids, strict=True):
            name = call.name
            if name in self._names or self._quirks.plain_names:
                name = wire_name(name, self._names)
                if name != call.name:
                    self._changes.tell("name_rewritten", f"the tool '{call.name}' is called '{name}'", _NAMES)
            arguments = fitting_arguments(call.arguments, self._changes)
            entries.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
        return entries

    def _wire_ids(self, calls: Sequence[ToolCall]) -> list[str]:
        own = [call.id for call in calls]
        longest = self._quirks.id_length
        if len(set(own)) == len(own) and (longest is None or (all(own) and max(map(len, own), default=0) <= longest)):
            return own
        made: list[str] = []

        def fits(candidate: str) -> bool:
            return candidate not in made and (longest is None or 0 < len(candidate) <= longest)

        for call_id in own:
            fitting = fitting_id(call_id, fits, "call_", 24)
            if fitting != call_id:
                self._changes.tell("id_rewritten", f"the id '{call_id}' of a call becomes '{fitting}'", _IDS)
            made.append(fitting)
        self._ids = list(zip(own, made, strict=True))
        return made

    # ---- results ----------------------------------------------------------------------------------------------------

    def _results(self, results: Sequence[ToolResult]) -> bytes:
        texts: list[bytes] = []
        attached: list[Attachment] = []
        for result in results:
            call_id = self._id_of(result)
            own = self._own(result.native) if call_id == result.call_id else None
            if own is not None:
                texts.append(own)
                continue
            texts.append(encode_message({"role": "tool", "tool_call_id": call_id, "content": result.content}))
            attached += result.attachments
        if attached:
            # A tool message holds text only in this dialect; what else a tool returned follows as the user's.
            self._changes.tell(
                "message_added", "what a tool attached follows as the user's", "a tool's message is text"
            )
            texts.append(
                encode_message({"role": "user", "content": [_ATTACHED, *[self._part(item) for item in attached]]})
            )
        return b",".join(texts)

    def _id_of(self, result: ToolResult) -> str:
        for index, (own, made) in enumerate(self._ids):
            if own == result.call_id:
                del self._ids[index]
                return made
        return result.call_id

    # ---- what the user said ----------------------------------------------------------------------------------------------

    def _content(self, parts: Sequence[UserPart]) -> str | list[_Message]:
        if len(parts) == 1 and type(parts[0]) is Text:
            return parts[0].text
        return [self._part(part) for part in parts] or ""

    def _part(self, part: UserPart) -> _Message:
        quirks = self._quirks
        match part:
            case Text(text=text):
                return _text(text)
            case Image(url=url, detail=detail):
                if quirks.images is not None and not _is_at_web(url) and media_type(url) not in quirks.images:
                    return self._note(f"an image of type {media_type(url) or 'unknown'}")
                image = {"url": url}
                if detail is not None and (quirks.details is None or detail in quirks.details):
                    image["detail"] = detail
                return {"type": "image_url", "image_url": image}
            case Audio(data=data, format=audio_format):
                if quirks.audio is not None and audio_format not in quirks.audio:
                    return self._note(f"audio ({audio_format})")
                return {"type": "input_audio", "input_audio": {"data": data, "format": audio_format}}
            case Video(url=url):
                if not quirks.video:
                    return self._note("a video")
                return {"type": "video_url", "video_url": {"url": url}}
            case File():
                return self._file(part)

    def _file(self, file: File) -> _Message:
        data, name = file.data, file.name
        if is_listed(file):
            return _text(file_note(file))
        if data is None and not file.id:
            return self._note("an empty file")
        if self._quirks.files_are_data and data is not None:
            media = media_type(data)
            if media.startswith("image/"):
                return self._part(Image(data))
            if not media or media.startswith(("audio/", "video/")):
                return self._note(f"a file{f' named {name!r}' if name else ''} of type {media or 'unknown'}")
            name = name or "file"
        fields = {"file_data": data, "filename": name, "file_id": file.id}
        return {"type": "file", "file": {key: value for key, value in fields.items() if value is not None}}

    def _note(self, what: str) -> _Message:
        self._changes.tell("media_noted", f"{what} is only mentioned to the model", "this server cannot be sent it")
        return _text(f"[{what} was attached here, which you cannot be shown]")


_FOREIGN: Final = "it is another server's, and refused by this one"
_SAYS: Final = ("content", "tool_calls", "refusal", "audio", "function_call")  # an assistant's message has one of them
_THOUGHTS: Final = "they are another model's, or this dialect has no place for them"
_NAMES: Final = "names have letters, digits, '_' and '-' here, 64 at most"
_IDS: Final = "ids are not empty here, not too long, and no two the same in a message"


def _without(members: Mapping[str, Raw], names: frozenset[str]) -> dict[str, Raw]:
    return {name: value for name, value in members.items() if name not in names}


def _text(text: str) -> _Message:
    return {"type": "text", "text": text}


def _is_at_web(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def write_turn(turn: Turn) -> bytes:
    """A single turn, for no particular service."""
    return Messages().write(turn)
