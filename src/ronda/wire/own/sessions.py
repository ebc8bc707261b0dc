"""A session as a JSON document, both ways: to be saved, moved to another server, and read by people.

    {"messages": […], "images": [], "videos": [], "files": [], …}     as mistral.rs has it, with plain messages of Chat

Read are also documents that mistral.rs wrote, in which every value of a message is tagged (`{"Left": "user"}`), results are
paired with calls by their order, and images stand next to the messages. Where messages cannot say all that was said (a provider's
own JSON, say), `turns` has the rest; it counts if it still says what the messages say, so that a document may be edited.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import SystemTurn, Turn
from ronda.errors import BadRequest
from ronda.wire.codec.json import decode_or, encode
from ronda.wire.openai_chat.messages import read_messages
from ronda.wire.openai_chat.turns import Messages
from ronda.wire.shared.fields import MAX_MESSAGES, bad, check_count, decode_field, field, read_fields

MAX_TITLE: Final = 500
MAX_METADATA: Final = 16 * 1024
_IMAGES: Final = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


class Labels(Struct, frozen=True, omit_defaults=True):
    """What the owner of a session notes on it."""

    title: str | None = None
    metadata: dict[str, Any] | None = None


class SessionFile(Struct, frozen=True):
    """A file of a session's workspace; None in the place of a content that is too large for a document."""

    name: str  # as the system has it: code may give a file a name that is no text
    content: bytes | None

    @property
    def shown(self) -> SessionFile:
        """With a name that JSON can have: bytes that are no text are written as \\xff."""
        if self.name.isascii():
            return self
        name = self.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        return SessionFile(name, self.content)


class SessionDocument(Struct, frozen=True):
    turns: tuple[Turn, ...]
    labels: Labels = Labels()
    files: tuple[SessionFile, ...] = ()


# ---- writing -----------------------------------------------------------------------------------------------------------


def write_messages(turns: Sequence[Turn]) -> bytes:
    """As a JSON list."""
    messages = Messages()
    for turn in turns:
        messages.add(turn)
    return b"[" + messages.buffer + b"]"


def write_document(turns: Sequence[Turn], head: Mapping[str, Any], files: Sequence[SessionFile] = ()) -> bytes:
    """`head` is what is said of the session before all."""
    messages = write_messages(turns)
    # Of a struct, bytes are base64 in JSON.
    fields: dict[str, Any] = {
        **head,
        "messages": Raw(messages),
        "images": [],
        "videos": [],
        "files": [file.shown for file in files],
    }
    if not _say_all(messages, turns):
        fields["turns"] = turns
    return encode(fields)


def _say_all(messages: bytes, turns: Sequence[Turn]) -> bool:
    """Whether messages are read as these very turns."""
    if not turns:
        return True
    try:
        return read_messages({"messages": Raw(messages)}) == tuple(turns)
    except BadRequest:  # more of them than a request may bring, say
        return False


# ---- reading -----------------------------------------------------------------------------------------------------------


def read_document(body: bytes) -> SessionDocument:
    fields = read_fields(body)
    if "messages" not in fields:
        raise BadRequest("'messages' is missing: what was said in the session, as a list", param="messages")
    labels = read_labels(fields)
    listed: list[SessionFile] = field(fields, "files", list[SessionFile], [])
    files = tuple([file for file in listed if file.content is not None])
    messages = decode_field(fields["messages"], list[dict[str, Any]], "messages")
    check_count(messages, MAX_MESSAGES, "messages")
    if field(fields, "videos", list[Any], []):
        raise bad("videos", "cannot be taken in as frames; put a part of type 'video_url' into the message")
    if "turns" in fields and (turns := _same_turns(fields["turns"], fields["messages"])) is not None:
        return SessionDocument(turns, labels, files)
    plain = [_untagged(message) for message in messages]
    _put_images_in(plain, field(fields, "images", list[str], []))
    _pair_calls(plain)
    read = read_messages({"messages": Raw(encode(plain))}) if plain else ()
    return SessionDocument(tuple([turn for turn in read if type(turn) is not SystemTurn]), labels, files)


def read_labels(fields: Mapping[str, Raw]) -> Labels:
    title: str | None = field(fields, "title", str, None)
    if title is not None and len(title) > MAX_TITLE:
        raise bad("title", f"has {len(title)} characters; it can have {MAX_TITLE}")
    if len(bytes(fields.get("metadata", b""))) > MAX_METADATA:
        raise bad("metadata", f"is too large; it can have {MAX_METADATA} bytes")
    return Labels(title, field(fields, "metadata", dict[str, Any], None))


def _same_turns(raw: Raw, messages: Raw) -> tuple[Turn, ...] | None:
    """The turns of a document, if its messages still say the same."""
    turns: tuple[Turn, ...] | None = decode_or(None, tuple[Turn, ...], raw)
    if turns is None:
        return None
    written = msgspec.json.decode(write_messages(turns))
    same: bool = written == msgspec.json.decode(messages) and not any(type(turn) is SystemTurn for turn in turns)
    return turns if same else None


def _untagged(message: dict[str, Any]) -> dict[str, Any]:
    return {name: _without_tag(value) for name, value in message.items() if value is not None}


def _without_tag(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(tag, inner)] = value.items()
        return inner if tag in ("Left", "Right") else value
    return value


def _put_images_in(messages: list[dict[str, Any]], images: list[str]) -> None:
    """A part that only says that here is an image gets the next one; what is left belongs to what was said last."""
    urls = deque([_image_url(image, index) for index, image in enumerate(images)])
    for message in messages:
        parts = message.get("content")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "image" and "image_url" not in part:
                if not urls:
                    raise bad("images", "has fewer images than the messages refer to")
                part.update(type="image_url", image_url={"url": urls.popleft()})
    if urls:
        last = next((message for message in reversed(messages) if message.get("role") == "user"), None)
        if last is None:
            raise bad("images", "has images, and no message of a user that they could belong to")
        content = last.get("content") or ""
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        last["content"] = [*parts, *[{"type": "image_url", "image_url": {"url": url}} for url in urls]]


def _image_url(image: str, at: int) -> str:
    try:
        data = b64decode(image, validate=True)
    except (binascii.Error, ValueError):
        raise bad(f"images[{at}]", "is not base64") from None
    kind = next((kind for mark, kind in _IMAGES.items() if data.startswith(mark)), None)
    if kind is None:
        raise bad(f"images[{at}]", "is no PNG, JPEG, GIF or WebP image")
    return f"data:image/{kind};base64,{image}"


def _pair_calls(messages: list[dict[str, Any]]) -> None:
    """Results without an id answer the calls before them in their order; ids that stand for several calls are made apart."""
    used: set[str] = set()
    waiting: deque[tuple[str, str]] = deque()  # the ids that calls came with, and those they have now
    for index, message in enumerate(messages):
        if message.get("role") != "tool":
            waiting = deque(_number_calls(message.get("tool_calls"), used))
            continue
        wanted = message.get("tool_call_id")
        pair = next((pair for pair in waiting if pair[0] == wanted), waiting[0] if waiting and not wanted else None)
        if pair is None:
            raise bad(f"messages[{index}]", "is the result of a call, and no message before it makes that call")
        waiting.remove(pair)
        message["tool_call_id"] = pair[1]


def _number_calls(calls: Any, used: set[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            continue  # which is refused with the other members
        call_id = call.get("id")
        name = call_id if isinstance(call_id, str) and call_id and call_id not in used else f"call_{len(used)}"
        while name in used:
            name += "x"
        used.add(name)
        call["id"] = name
        found.append((call_id if isinstance(call_id, str) else "", name))
    return found
