"""One turn → the blocks of a message, joined by commas.

A turn that the server said itself, or a caller in its name, goes back as it was, byte for byte. Any other is projected to what
the API takes: no thoughts (they carry a signature, which holds at the server and for the account that it was made for, or are
refused), no blank text, calls behind the words, ids of the API's own shape. The blocks of a turn are bytes that never change,
so that a conversation can be written once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import (
    AssistantTurn,
    Native,
    Reasoning,
    SystemTurn,
    ToolCall,
    ToolResult,
    ToolTurn,
    UserTurn,
)
from ronda.wire.anthropic import API, VERSION
from ronda.wire.anthropic.media import text_block, write_part
from ronda.wire.anthropic.names import Ids, Names
from ronda.wire.codec.json import UNREADABLE, decode_members, decode_or, decode_text, encode, encode_message
from ronda.wire.upstream.fitting import wordless_note
from ronda.wire.upstream.native import callers, speaks
from ronda.wire.upstream.projection import UNREPORTED, Changes

# How the API wants to hear of arguments that were no JSON (fine-grained-tool-streaming).
INVALID_JSON: Final = "INVALID_JSON"
CALLERS: Final = callers(API)
_THINKING: Final = ("thinking", "redacted_thinking")
_ATTACHED: Final = encode(text_block("Attached by the tools above:"))


class _StoredMessage(Struct, frozen=True):
    """What `Native` holds where content is not enough to go on."""

    content: Raw
    container: str | None = None


class _TypedBlock(Struct, frozen=True):
    type: str = ""


def is_ours(native: Native | None) -> TypeGuard[Native]:
    """Whether it is content of this API, of any host."""
    return speaks(native, API)


class Home(Struct, frozen=True):
    """Whose turns are the server's own (`native.maker`). `unsealed`: of so many turns at the beginning, those with something
    signed in them are said anew, since the server refused a signature."""

    maker: str = API
    unsealed: int = 0

    def own(self, turn: AssistantTurn, index: int) -> Native | None:
        """What goes back as it came."""
        native = turn.native
        if native is None or native.api not in (self.maker, CALLERS) or self.refuses(turn, index):
            return None
        return native

    def refuses(self, turn: AssistantTurn, index: int) -> bool:
        native = turn.native
        if native is None or index >= self.unsealed or native.api not in (self.maker, CALLERS):
            return False
        return any(mark in bytes(native.payload) for mark in _SEALS)


# Thoughts, and what a search of the API's own found.
_SEALS: Final = (b'"signature"', b'"redacted_thinking"', b'"encrypted_')


def own_message(native: Native) -> _StoredMessage:
    if bytes(native.payload)[:1] == b"{":
        return msgspec.json.decode(native.payload, type=_StoredMessage)
    return _StoredMessage(native.payload)


def begins_with_thought(native: Native | None) -> bool:
    if native is None or b"thinking" not in (content := bytes(own_message(native).content)):
        return False
    blocks: list[_TypedBlock] = decode_or([], list[_TypedBlock], content)
    return bool(blocks) and blocks[0].type in _THINKING


def write_system(turn: SystemTurn) -> str | bytes:
    """Plain words, or blocks where they say more."""
    if is_ours(turn.native):
        return _inside(turn.native.payload)
    return turn.text if turn.text.strip() else ""


def system_blocks(texts: Iterable[str | bytes]) -> Raw:
    blocks = [one if isinstance(one, bytes) else encode_message(text_block(one)) for one in texts]
    return Raw(b"[%b]" % b",".join(blocks))


def write_user(turn: UserTurn, version: str, changes: Changes = UNREPORTED) -> bytes:
    if is_ours(turn.native):
        payload = turn.native.payload
        if version == VERSION and b'"citations"' in bytes(payload):
            payload = _without_citations(payload, changes)
        return _inside(payload)
    return encode_message([block for part in turn.parts if (block := write_part(part, changes)) is not None])[1:-1]


def write_assistant(
    turn: AssistantTurn,
    native: Native | None,
    names: Names,
    ids: Ids,
    version: str,
    changes: Changes = UNREPORTED,
    advised: bool = False,
) -> bytes:
    """`native`: what goes back as it came. `advised`: the request declares the advisor, whose words may stand in the history
    then and only then."""
    calls = turn.calls
    if calls:
        ids.begin()
    if native is not None:
        for call in calls:
            ids.keep(call.id)
        return _inside(taken_back(own_message(native).content, version, advised, changes))
    if any(isinstance(part, Reasoning) for part in turn.parts):
        changes.tell("reasoning_dropped", "the model's thoughts are left out", "they bear no signature that holds here")
    for call in calls:
        if (name := names.wire(call.name)) != call.name:
            why = "names have letters, digits, '_' and '-' here, 64 at most"
            changes.tell("name_rewritten", f"the tool '{call.name}' is called '{name}'", why)
    texts = [part.text for part in turn.parts if not isinstance(part, (Reasoning, ToolCall)) and part.text.strip()]
    if note := wordless_note(turn, changes):
        texts = [note]
    blocks = [text_block(text) for text in texts] + [write_call(call, names, ids) for call in calls]
    return encode_message(blocks)[1:-1]


def as_beginning(written: bytes) -> bytes | None:
    """The blocks of an assistant's turn as words for the model to go on from; None where the last of them are no words.

    "final assistant content cannot end with trailing whitespace"; what else is said of the words, as for a cache, stays.
    """
    *before, last = _decode_blocks(b"[%b]" % written)
    text = decode_text(last["text"]) if _kind(last) == "text" else None
    if not text or not text.strip():
        return None
    if text == text.rstrip():
        return written
    return encode([*before, {**last, "text": Raw(encode(text.rstrip()))}])[1:-1]


def write_call(call: ToolCall, names: Names, ids: Ids) -> dict[str, Any]:
    return {"type": "tool_use", "id": ids.call(call.id), "name": names.wire(call.name), "input": _input(call.arguments)}


def write_results(turn: ToolTurn, ids: Ids, changes: Changes = UNREPORTED) -> bytes:
    """All results of a turn, and behind them what a failed one had to show: an error holds text only."""
    blocks: list[bytes] = []
    attached: list[bytes] = []
    for result in turn.results:
        use_id = ids.result(result.call_id)
        if is_ours(result.native) and use_id == result.call_id:
            blocks.append(bytes(result.native.payload))
            continue
        blocks.append(encode_message(write_result(result, use_id, changes)))
        if result.failed:
            shown = [write_part(item, changes) for item in result.attachments]
            attached += [encode_message(block) for block in shown if block is not None]
    return b",".join([*blocks, _ATTACHED, *attached] if attached else blocks)


def write_result(result: ToolResult, use_id: str, changes: Changes = UNREPORTED) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": use_id, "content": result.content}
    if result.failed:
        # "content cannot be empty if `is_error` is true"
        return {**block, "content": result.content if result.content.strip() else "Error", "is_error": True}
    if result.attachments:
        shown = [made for item in result.attachments if (made := write_part(item, changes)) is not None]
        block["content"] = [*([text_block(result.content)] if result.content.strip() else []), *shown]
    return block


def _input(arguments: str) -> Raw | dict[str, Any]:
    if not arguments.strip():
        return {}
    return object_of(arguments) or {INVALID_JSON: arguments}


def object_of(arguments: str) -> Raw | None:
    """What a model wrote for a call, if it is an object."""
    try:
        decode_members(arguments)
    except UNREADABLE:
        return None
    return Raw(arguments.encode())


def _inside(content: Raw) -> bytes:
    """The blocks of a content without the brackets; a string is one block of text."""
    line = bytes(content).strip()
    if line[:1] == b"[":
        return line[1:-1].strip()
    text = msgspec.json.decode(line, type=str | None)
    return encode_message(text_block(text)) if text and text.strip() else b""


_decode_blocks = msgspec.json.Decoder(list[dict[str, Raw]]).decode


def _without_citations(content: Raw, changes: Changes) -> Raw:
    """2026-10-21 refuses citations on what a user said; those on a document, a setting, stay."""
    if bytes(content)[:1] == b'"':
        return content
    blocks = _decode_blocks(content)
    cited = [block for block in blocks if _kind(block) == "text" and "citations" in block]
    for block in cited:
        del block["citations"]
    if not cited:
        return content
    changes.tell("members_dropped", "'citations' is left out", f"the API of {VERSION} takes none from a user")
    return Raw(encode(blocks))


def taken_back(content: Raw, version: str, advised: bool, changes: Changes) -> Raw:
    """What the API said itself, or a caller in its name: byte for byte, unless it would be refused."""
    text = bytes(content)
    if text[:1] == b'"' or not any(mark in text for mark in _MARKS):
        return content
    blocks = _decode_blocks(content)
    fit = [block for block in blocks if not _is_refused(block, version, advised, changes)]
    return Raw(encode(fit)) if len(fit) < len(blocks) else content


# Where none of these is in it, nothing in it can be wrong.
_MARKS: Final = (b'"thinking"', b'"document"', b"advisor")


def _is_refused(block: dict[str, Raw], version: str, advised: bool, changes: Changes) -> bool:
    match _kind(block):
        case "thinking" if bytes(block.get("signature", b"null")) in (b"null", b'""'):
            changes.tell(
                "reasoning_dropped", "a thought without its signature is left out", "it was cut off, and is refused"
            )
        case "document" if version == VERSION:  # those inside a block are a server tool's, and stay
            why = f"the API of {VERSION} takes none from the assistant"
            changes.tell("members_dropped", "a document of the assistant's is left out", why)
        case "server_tool_use" if not advised and bytes(block.get("name", b"")) == b'"advisor"':
            changes.tell("members_dropped", "what the advisor said is left out", "it is no tool of this request")
        case "advisor_tool_result" if not advised:
            pass
        case _:
            return False
    return True


def _kind(block: dict[str, Raw]) -> str:
    return bytes(block.get("type", b"")).decode().strip('"')
