"""Turns → input items.

A turn this API made goes back as it came, item for item. A turn of anybody else is projected: its words and calls are said
in this API's way, its thoughts are left out, and ids are made to fit.

Three rules of the API make that more than a table. A call's id has 64 characters at most and must not come twice in a
conversation, while other upstreams count from 0 in every turn; so calls get their ids here, and results the same ones. A
reasoning item is refused without the item that follows it, so thoughts that came to nothing are not sent back. And a
message holds text, images and files; for anything else the model gets a note.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Mapping
from typing import Any, TypeGuard

import msgspec
from msgspec import Raw

from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    Video,
)
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.answers import CALLS, decode_kind, decode_raws, encode

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID_LENGTH = 64
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Items:
    """The items of one conversation, turn after turn. What it remembers are ids: which are taken, and whose results wait.

    `names`: a tool's own name → what it is called here, where they differ.
    """

    __slots__ = ("_answers", "_names", "_taken")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._taken: set[str] = set()
        self._answers: dict[str, tuple[str, str]] = {}  # calls of the turn before: id → id here, type of the answer

    def write(self, turn: Turn) -> bytes:
        """One turn as items, joined by commas. Empty where there is nothing to say, as in an interrupted turn."""
        match turn:
            case ToolTurn(results=results):
                return b",".join([self._result(result) for result in results])
            case AssistantTurn():
                self._answers = {}
                return self._again(turn.native.payload) if is_ours(turn.native) else self._projected(turn)
            case UserTurn():
                if is_ours(turn.native):
                    return _inside(turn.native.payload)
                return encode({"type": "message", "role": "user", "content": _content(turn)})
            case SystemTurn():
                if is_ours(turn.native):
                    return _inside(turn.native.payload)
                return encode({"type": "message", "role": turn.role, "content": turn.text})

    def _again(self, payload: Raw) -> bytes:
        """The API's own items of a turn, as they came."""
        raws = decode_raws(payload)
        kinds = [decode_kind(raw) for raw in raws]
        changed = False
        while kinds and kinds[-1].type == "reasoning":  # a turn cut short while it thought
            kinds.pop()
            changed = True
        said: list[bytes] = []
        for raw, kind in zip(raws, kinds, strict=False):
            item = bytes(raw)
            if kind.type in CALLS and kind.call_id is not None:
                id = self._claim(kind.call_id, CALLS[kind.type])
                if id != kind.call_id:  # too long for the API that made it (Codex), or given to two calls
                    item, changed = encode({**_decode_members(raw), "call_id": id}), True
            said.append(item)
        return b",".join(said) if changed else _inside(payload)

    def _projected(self, turn: AssistantTurn) -> bytes:
        said: list[bytes] = []
        words: list[Text | Refusal] = []
        for part in turn.parts:
            match part:
                case Text() | Refusal():
                    if part.text:
                        words.append(part)
                case ToolCall():
                    if words:
                        said.append(_message(words))
                        words = []
                    said.append(self._call(part))
        if words:
            said.append(_message(words))
        return b",".join(said)

    def _call(self, call: ToolCall) -> bytes:
        return encode(
            {
                "type": "function_call",
                "call_id": self._claim(call.id, "function_call_output"),
                "name": called(call.name, self._names),
                "arguments": call.arguments,
            }
        )

    def _claim(self, id: str, answer: str) -> str:
        """The id of a call here: its own if that fits and is not taken, else one derived from it."""
        fits = id
        attempt = 0
        while not 0 < len(fits) <= _ID_LENGTH or fits in self._taken:
            # Derived, not drawn: the same conversation gives the same bytes.
            mark = hashlib.sha256(f"{attempt}:{id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
            fits = f"call_{mark}"
            attempt += 1
        self._taken.add(fits)
        self._answers[id] = (fits, answer)
        return fits

    def _result(self, result: ToolResult) -> bytes:
        if is_ours(result.native):
            return _inside(result.native.payload)
        id, answer = self._answers.get(result.call_id, (result.call_id, "function_call_output"))
        output: str | list[dict[str, Any]] = result.content
        if result.attachments:
            text = [{"type": "input_text", "text": result.content}] if result.content else []
            output = [*text, *[_part(part) for part in result.attachments]]
        return encode({"type": answer, "call_id": id, "output": output})


def called(name: str, names: Mapping[str, str]) -> str:
    """What a tool is called here. A history may hold calls of tools that are not there any more."""
    if name in names:
        return names[name]
    if _NAME.fullmatch(name):
        return name
    from ronda.schema.lower_names import renamed

    return renamed([name], _NAME.pattern)[name]


def is_ours(native: Native | None) -> TypeGuard[Native]:
    return native is not None and native.api == API


def _inside(payload: Raw) -> bytes:
    """A list of items without its brackets, so that others can stand beside them."""
    return bytes(payload).strip()[1:-1].strip()


def _message(words: list[Text | Refusal]) -> bytes:
    content: str | list[dict[str, str]]
    if all(type(part) is Text for part in words):
        content = "".join([part.text for part in words])
    else:
        content = [
            {"type": "output_text", "text": part.text}
            if type(part) is Text
            else {"type": "refusal", "refusal": part.text}
            for part in words
        ]
    return encode({"type": "message", "role": "assistant", "content": content})


def _content(turn: UserTurn) -> str | list[dict[str, Any]]:
    if len(turn.parts) == 1 and type(turn.parts[0]) is Text:
        return turn.parts[0].text
    return [_part(part) for part in turn.parts]


_DETAILS = frozenset({"low", "high", "auto", "original"})


def _part(part: Text | Image | Audio | Video | File) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "input_text", "text": text}
        case Image(url=url, detail=detail):
            image = {"type": "input_image", "image_url": url}
            return image if detail not in _DETAILS else {**image, "detail": detail}
        case Audio():
            return _note("audio")
        case Video():
            return _note("a video")
        case File(data=data, name=name, id=id):
            return _file(data, name, id)


def _file(data: str | None, name: str | None, id: str | None) -> dict[str, Any]:
    if data is None:
        return {"type": "input_file", "file_id": id} if id is not None else _note("an empty file")
    if data.startswith(("http://", "https://")):
        return {"type": "input_file", "file_url": data}
    media = data[5:].partition(",")[0].partition(";")[0] if data.startswith("data:") else ""
    match media.partition("/")[0]:
        case "image":
            return {"type": "input_image", "image_url": data}
        case "audio":  # "got unsupported MIME type 'audio/mpeg'", says a recording
            return _note(f"the audio file {name}" if name else "an audio file")
        case "video":
            return _note(f"the video file {name}" if name else "a video file")
    # Data without a name is refused.
    return {"type": "input_file", "filename": name or f"file{_ending(media)}", "file_data": data}


def _ending(media: str) -> str:
    return mimetypes.guess_extension(media) or "" if media else ""


def _note(what: str) -> dict[str, Any]:
    """https://github.com/vllm-project/vllm/issues/47659: neither audio nor video is a part of a message in this API."""
    return {"type": "input_text", "text": f"[{what} was left out: this model cannot be sent it]"}
