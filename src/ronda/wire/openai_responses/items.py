"""Turns → input items.

A turn that this very server made, or that the caller brought, goes back as it came, item for item. Of a turn that another
server of this API made, its words and the client's calls go, without what only that server can read: thoughts it sealed, ids,
the items of its own tools. A turn of any other API is projected: its words and calls are said in this API's way, its thoughts
are left out, and ids are made to fit.

Four rules of the API make that more than a table. A call's id has 64 characters at most and must not come twice in a
conversation, while other upstreams count from 0 in every turn; so calls get their ids here, and results the same ones. A
reasoning item is refused without the item that follows it, so thoughts that came to nothing are not sent back. A model that
does not think refuses all of them, and OpenAI those it would have to look up, since it was asked to keep nothing; the items
behind one that is left out go without their own ids, which would ask for it. And a message holds text, images and files;
for anything else the model gets a note.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.arguments import is_object
from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
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
from ronda.wire.codec.json import decode_members, encode, encode_message
from ronda.wire.openai_chat.names import NO_NAMES, wire_name
from ronda.wire.openai_chat.quirks import ANYONE, Quirks
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import CALLS, Kind, decode_kind, decode_place, decode_raws, read_items
from ronda.wire.openai_responses.client_calls import ANSWERS, WAITING, answer_of, waits
from ronda.wire.upstream.fitting import fitting_arguments, fitting_id, is_elsewhere, media_type, wordless_note
from ronda.wire.upstream.input_files import file_note, is_listed
from ronda.wire.upstream.native import callers, speaks
from ronda.wire.upstream.projection import UNREPORTED, Changes

_ID_LENGTH = 64


class Items:
    """The items of one conversation, turn after turn. What it remembers are ids: which are taken, and whose results wait.

    `names`: a tool's own name → what it is called here, where they differ. `thinks`: the model takes thoughts. `lead`: so
    many turns at the beginning are the request's instructions, and no items. `home`: whose turns are this server's own
    (`native.maker`). `unsealed`: so many turns at the beginning go without what was sealed, since the server refused it.
    """

    __slots__ = (
        "_answers", "_changes", "_home", "_lead", "_names", "_quirks", "_taken", "_thinks", "_turn", "_unsealed", "buffer"
    )  # fmt: skip

    def __init__(
        self,
        names: Mapping[str, str],
        quirks: Quirks = ANYONE,
        thinks: bool = True,
        changes: Changes = UNREPORTED,
        lead: int = 0,
        home: str = API,
        unsealed: int = 0,
    ) -> None:
        self._lead = lead
        self._home = home
        self._unsealed = unsealed
        self._turn = 0  # which one is being written
        self._names = names
        self._quirks = quirks
        self._thinks = thinks
        self._changes = changes
        self._taken: set[str] = set()
        # Calls of the turn before: id → id here, type of the answer; "" where the call itself was left out.
        self._answers: dict[str, tuple[str, str]] = {}
        self.buffer = bytearray()

    def add(self, turn: Turn) -> None:
        if self._turn < self._lead:
            pass
        elif written := self.write(turn):
            buffer = self.buffer
            if buffer:
                buffer += b","
            buffer += written
        self._turn += 1

    def write(self, turn: Turn) -> bytes:
        """One turn as items, joined by commas. Empty where there is nothing to say, as in an interrupted turn."""
        match turn:
            case ToolTurn(results=results):
                return b",".join([item for result in results if (item := self._result(result))])
            case AssistantTurn():
                self._answers = {}
                if not speaks(turn.native, API):
                    return self._projected(turn)
                again = self._again(turn.native, all(is_object(call.as_written) for call in turn.calls))
                return again or self._wordless(turn)
            case UserTurn():
                if speaks(turn.native, API):
                    return _inside(turn.native.payload)
                return encode_message({"type": "message", "role": "user", "content": self._content(turn)})
            case SystemTurn():
                if speaks(turn.native, API):
                    return _inside(turn.native.payload)
                return encode_message({"type": "message", "role": turn.role, "content": turn.text})

    def _again(self, native: Native, is_readable: bool) -> bytes:
        """A turn's own items as they came, but for what would be refused."""
        is_foreign = native.api not in (self._home, callers(API))
        raws = decode_raws(native.payload)
        kinds = [decode_kind(raw) for raw in raws]
        changed = False
        while kinds and kinds[-1].type == "reasoning":  # a turn cut short while it thought
            kinds.pop()
            changed = True
        refused = [self._is_refused(raw, kind, is_foreign) for raw, kind in zip(raws, kinds, strict=False)]
        lost = is_foreign or any(refused)  # what stands behind an item that is left out would ask for it by its id
        self._tell_refused(kinds, refused, changed, is_foreign)
        texts: list[bytes] = []
        for raw, kind, is_refused in zip(raws, kinds, refused, strict=False):
            if is_refused:
                changed = True
                if kind.type in WAITING and (waiting := kind.call_id or kind.id):
                    self._answers[waiting] = (waiting, "")
                continue
            item = bytes(raw)
            if lost and kind.type == "message":
                parts, _ = read_items([raw], NO_NAMES)
                item, changed = _message([part for part in parts if type(part) is Text or type(part) is Refusal]), True
            elif lost and kind.call_id is not None and kind.type in _NAMELESS:
                members = decode_members(raw)
                members.pop("id", None)
                item, raw, changed = encode(members), Raw(encode(members)), True
            if kind.type == "function_call" and not is_readable:
                members = decode_members(raw)
                arguments = msgspec.json.decode(members.get("arguments", b'""'), type=str)
                raw = Raw(encode_message({**members, "arguments": fitting_arguments(arguments, self._changes)}))
                item, changed = bytes(raw), True
            if kind.type in WAITING and (waiting := kind.call_id or kind.id):
                self._answers[waiting] = (waiting, WAITING[kind.type].answer)
                self._taken.add(waiting)
            if kind.type in CALLS and kind.call_id is not None:
                call_id = self._claim(kind.call_id, CALLS[kind.type])
                if call_id != kind.call_id:  # too long for the API that made it (Codex), or given to two calls
                    item, changed = encode({**decode_members(raw), "call_id": call_id}), True
            texts.append(item)
        return b",".join(texts) if changed else _inside(native.payload)

    def _is_refused(self, raw: Raw, kind: Kind, is_foreign: bool) -> bool:
        if is_foreign:
            return kind.type not in _ANYWHERE or (kind.type in WAITING and not waits(decode_place(raw)))
        if kind.encrypted_content and self._turn < self._unsealed:
            return True
        return kind.type == "reasoning" and (
            not self._thinks or (self._quirks.looks_up_thoughts and not kind.encrypted_content)
        )

    def _tell_refused(self, kinds: list[Kind], refused: list[bool], cut: bool, is_foreign: bool) -> None:
        types = {kind.type for kind, is_refused in zip(kinds, refused, strict=True) if is_refused}
        if not is_foreign and self._turn < self._unsealed and any(kind.encrypted_content for kind in kinds):
            self._changes.tell("seal_refused", "what the model's server had encrypted is left out", SEAL_REFUSED)
        if cut or "reasoning" in types:
            why = _FOREIGN if is_foreign else _UNWANTED if "reasoning" in types else _CUT_SHORT
            self._changes.tell("reasoning_dropped", "the model's thoughts are left out", why)
        for name in sorted(types - {"reasoning"}):
            self._changes.tell("members_dropped", f"'{name}' is left out", _FOREIGN if is_foreign else _UNWANTED)

    def _projected(self, turn: AssistantTurn) -> bytes:
        if any(type(part) is Reasoning for part in turn.parts):
            self._changes.tell("reasoning_dropped", "the model's thoughts are left out", "they are another model's")
        texts: list[bytes] = []
        words: list[Text | Refusal] = []
        for part in turn.parts:
            match part:
                case Text() | Refusal():
                    if part.text:
                        words.append(part)
                case ToolCall():
                    if words:
                        texts.append(_message(words))
                        words = []
                    texts.append(self._call(part))
                case Reasoning():
                    pass  # left out
        if words:
            texts.append(_message(words))
        return b",".join(texts) or self._wordless(turn)

    def _wordless(self, turn: AssistantTurn) -> bytes:
        note = wordless_note(turn, self._changes)
        return _message([Text(note)]) if note else b""

    def _call(self, call: ToolCall) -> bytes:
        name = wire_name(call.name, self._names)
        if name != call.name:
            self._changes.tell("name_rewritten", f"the tool '{call.name}' is called '{name}'", _NAMES)
        return encode_message(
            {
                "type": "function_call",
                "call_id": self._claim(call.id, "function_call_output"),
                "name": name,
                "arguments": fitting_arguments(call.arguments, self._changes),
            }
        )

    def _claim(self, call_id: str, answer: str) -> str:
        """The id of a call here: its own if that fits and is not taken, else one derived from it."""
        fitting = fitting_id(
            call_id, lambda candidate: 0 < len(candidate) <= _ID_LENGTH and candidate not in self._taken, "call_", 32
        )
        if fitting != call_id:
            self._changes.tell("id_rewritten", f"the id '{call_id}' of a call becomes '{fitting}'", _IDS)
        self._taken.add(fitting)
        self._answers[call_id] = (fitting, answer)
        return fitting

    def _result(self, result: ToolResult) -> bytes:
        call_id, answer = self._answers.get(result.call_id, (result.call_id, "function_call_output"))
        if not answer:
            return b""
        if speaks(result.native, API):
            return _inside(result.native.payload)
        if answer in ANSWERS:
            return encode_message(answer_of(answer, call_id, result))
        output: str | list[dict[str, Any]] = result.content
        if result.attachments:
            text = [{"type": "input_text", "text": result.content}] if result.content else []
            output = [*text, *[self._part(part) for part in result.attachments]]
        return encode_message({"type": answer, "call_id": call_id, "output": output})

    def _content(self, turn: UserTurn) -> str | list[dict[str, Any]]:
        if len(turn.parts) == 1 and type(turn.parts[0]) is Text:
            return turn.parts[0].text
        return [self._part(part) for part in turn.parts]

    def _part(self, part: UserPart) -> dict[str, Any]:
        match part:
            case Text(text=text):
                return {"type": "input_text", "text": text}
            case Image(url=url, detail=detail):
                return self._image(url, detail)
            case Audio():
                return self._note("audio")
            case Video():
                return self._note("a video")
            case File() if is_listed(part):
                return {"type": "input_text", "text": file_note(part)}
            case File(data=data, name=name, id=file_id):
                return self._file(data, name, file_id)

    def _image(self, url: str, detail: str | None = None) -> dict[str, Any]:
        images = self._quirks.images
        if images is not None and not url.startswith(("http://", "https://")) and media_type(url) not in images:
            return self._note(f"an image of type {media_type(url) or 'unknown'}")
        # The default is said: in the SDK's types it must be there.
        return {"type": "input_image", "image_url": url, "detail": detail if detail in _DETAILS else "auto"}

    def _file(self, data: str | None, name: str | None, file_id: str | None) -> dict[str, Any]:
        if data is None and file_id is not None and is_elsewhere(file_id, "openai"):
            return self._note("a file of another provider")
        if data is None:
            return {"type": "input_file", "file_id": file_id} if file_id is not None else self._note("an empty file")
        if data.startswith(("http://", "https://")):
            return {"type": "input_file", "file_url": data}
        media = media_type(data)
        match media.partition("/")[0]:
            case "image":
                return self._image(data)
            case "audio":  # "got unsupported MIME type 'audio/mpeg'", says a recording
                return self._note(f"the audio file {name}" if name else "an audio file")
            case "video":
                return self._note(f"the video file {name}" if name else "a video file")
            case _:  # data without a name is refused
                return {"type": "input_file", "filename": name or f"file{_ending(media)}", "file_data": data}

    def _note(self, what: str) -> dict[str, Any]:
        """https://github.com/vllm-project/vllm/issues/47659: neither audio nor video is a part of a message in this API."""
        self._changes.tell("media_noted", f"{what} is only mentioned to the model", "this API has no way to send it")
        return {"type": "input_text", "text": f"[{what} was left out: this model cannot be sent it]"}


_DETAILS: Final = frozenset({"low", "high", "auto", "original"})
# Of another server's turn: its words, and calls that the client answers. Only that server knows what it did, or may do, itself.
_ANYWHERE: Final = frozenset({"message", *CALLS, *WAITING}) - {"mcp_approval_request"}
_NAMELESS: Final = _ANYWHERE - {
    "message",
    "local_shell_call",
    "computer_call",
}  # those two are refused without their ids
_FOREIGN: Final = "another server made it, or another account's key"
SEAL_REFUSED: Final = "the server that was asked could not open it; another one, or another account's key, had made it"
_UNWANTED: Final = "this model takes none, or they were not given in the form that can be sent back"
_CUT_SHORT: Final = "nothing follows them, which is refused"
_NAMES: Final = "names have letters, digits, '_' and '-' here, 64 at most"
_IDS: Final = "ids have 64 characters at most here, and none may come twice in a conversation"


def _ending(media: str) -> str:
    return mimetypes.guess_extension(media) or "" if media else ""


def _inside(payload: Raw) -> bytes:
    """A list of items without its brackets, so that others can stand next to them."""
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
    return encode_message({"type": "message", "role": "assistant", "content": content})
