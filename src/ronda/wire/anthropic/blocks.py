"""Messages of a request → turns. What a message says beyond what our own writer would say stays with the turn, as it came.

Results stand before the words of the messages they come with, since they answer the assistant's calls; several messages of
the user's in a row are one to this API, so the results of all of them are. A thought without a signature is one of ours (or
was cut): it is read, and never goes back to an upstream that would refuse it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import (
    NO_USAGE,
    NULL,
    AssistantTurn,
    Native,
    SystemTurn,
    Text,
    ToolResult,
    ToolTurn,
    Turn,
    UserPart,
    UserTurn,
)
from ronda.errors import BadRequest
from ronda.wire.anthropic import API, VERSION
from ronda.wire.anthropic.client_answer import Block, finish
from ronda.wire.anthropic.names import NO_NAMES
from ronda.wire.anthropic.search_blocks import without_citations
from ronda.wire.anthropic.told_blocks import segments_of
from ronda.wire.anthropic.user_blocks import READ, UserBlock, is_plain, need, read_result
from ronda.wire.codec.json import encode
from ronda.wire.shared.fields import MAX_MESSAGES, bad, check_count, decode_field
from ronda.wire.upstream.native import callers, made_by


class _Message(Struct, frozen=True):
    role: str
    content: str | list[Raw]
    output_config: dict[str, Raw] | None = None
    clear_at: str | None = None

    def refuse_settings(self, path: str) -> None:
        """What only one message asks for: turns of several messages are sent as one, and have no place for it."""
        if self.output_config:
            raise bad(f"{path}.output_config", "is not supported here; give 'output_config' next to 'messages'")
        if self.clear_at not in (None, "never"):
            raise bad(f"{path}.clear_at", "can only be 'never' here; leave the message out once it is not to be read")


# Which blocks stand on which side, and what becomes of them. Those of the assistant's that have no word here stay in the
# turn's own JSON.
_ANTHROPIC_S: Final = "passed on to Anthropic; elsewhere ignored: its answer is in the text behind it"
HEARD: Final[dict[str, str]] = {
    "text": "read",
    "image": "read: base64, url; of a file its id",
    "document": "read: text as text, base64 and url as a file; of a file its id",
    "search_result": "read: as text",
    "tool_result": "read: text, images, documents, search results; anything else as its JSON",
    "container_upload": "read: the file's id",
}
SPOKEN: Final[dict[str, str]] = {
    "text": "read",
    "thinking": "read; signed, passed on to Anthropic as it came",
    "redacted_thinking": "passed on to Anthropic; elsewhere ignored: no other provider can read it",
    "tool_use": "read",
    "server_tool_use": f"{_ANTHROPIC_S}; one that was made here is read as a call",
    "mcp_tool_use": f"{_ANTHROPIC_S}; one that was made here is read as a call",
    "*_tool_result": f"{_ANTHROPIC_S}; one that was made here is read as the result of its call",
    "compaction": "read: as text",
}
_CARRIED: Final = frozenset({"redacted_thinking", "server_tool_use", "mcp_tool_use"})
_SPOKEN_ONLY: Final = frozenset({"thinking", "tool_use", "compaction", *_CARRIED})
_ROLES: Final = ("user", "assistant", "system")


class Conversation(Struct, frozen=True):
    """`unknown` names blocks of kinds that Ronda does not know: an upstream of this dialect may have."""

    turns: tuple[Turn, ...]
    unknown: tuple[str, ...] = ()


def read_conversation(fields: dict[str, Raw], version: str | None) -> Conversation:
    if "messages" not in fields:
        raise BadRequest("'messages' is missing", param="messages")
    if bytes(fields["messages"])[:1] == b'"':  # a question only, as on our other doors
        text = decode_field(fields["messages"], str, "messages")
        return Conversation((*_read_system(fields), UserTurn((Text(text),))))
    messages: list[_Message] = decode_field(fields["messages"], list[_Message], "messages")
    if not messages:
        raise BadRequest("'messages' is empty", param="messages")
    check_count(messages, MAX_MESSAGES, "messages")
    reader = _Reader(version)
    for index, message in enumerate(messages):
        message.refuse_settings(f"messages[{index}]")
        reader.add(message, f"messages[{index}]")
    turns = reader.end()
    if not turns:
        raise BadRequest("'messages' says nothing", param="messages")
    return Conversation((*_read_system(fields), *turns), tuple(reader.unknown))


class _Reader:
    def __init__(self, version: str | None) -> None:
        self.unknown: list[str] = []
        self._strict = version == VERSION
        self._turns: list[Turn] = []
        self._results: list[ToolResult] = []  # of the user's messages since the assistant's last
        self._user_turns: list[Turn] = []

    def add(self, message: _Message, path: str) -> None:
        match message.role:
            case "user":
                self._add_user(message.content, f"{path}.content")
            case "assistant":
                self._close()
                self._add_assistant(message.content, f"{path}.content")
            case "system":
                self._user_turns.append(_system_turn(message.content, f"{path}.content", self.unknown))
            case role:
                raise bad(f"{path}.role", f"is {role[:40]!r}; it can be {', '.join(_ROLES)}")

    def end(self) -> list[Turn]:
        self._close()
        return self._turns

    def _close(self) -> None:
        if self._results:
            self._turns.append(ToolTurn(tuple(self._results)))
        self._turns += self._user_turns
        self._results, self._user_turns = [], []

    def _add_user(self, content: str | list[Raw], path: str) -> None:
        if isinstance(content, str):
            self._user_turns.append(UserTurn((Text(content),)))
            return
        if not content:
            raise bad(path, "is an empty list")
        parts: list[UserPart] = []
        rest: list[Raw] = []
        plain = True
        for index, raw in enumerate(content):
            where = f"{path}[{index}]"
            block: UserBlock = decode_field(raw, UserBlock, where)
            if block.type == "tool_result":
                self._results.append(read_result(block, raw, where))
                continue
            read = READ.get(block.type)
            if read is not None:
                if self._strict and block.type == "text" and block.citations != NULL:
                    raise bad(f"{where}.citations", f"is not taken in what a user says by the API of {VERSION}")
                parts += read(block, where)
            elif block.type in _SPOKEN_ONLY or block.type.endswith("_tool_result"):
                raise bad(f"{where}.type", f"is {block.type!r}, which only the assistant says")
            else:
                self.unknown.append(f"'{where}.type' is {block.type[:60]!r}; it can be {', '.join(HEARD)}")
            rest.append(raw)
            plain = plain and is_plain(raw)
        if rest:
            native = None if plain else Native(API, Raw(encode(rest)))
            self._user_turns.append(UserTurn(tuple(parts), native=native))

    def _add_assistant(self, content: str | list[Raw], path: str) -> None:
        """One turn, as a rule; several where our tools ran between, and none for an answer that said nothing."""
        if isinstance(content, str):
            if content:
                self._turns.append(AssistantTurn((Text(content),)))
            return
        blocks: list[dict[str, Raw]] = []
        ids: set[str] = set()
        for index, raw in enumerate(content):
            where = f"{path}[{index}]"
            self._check_spoken(decode_field(raw, UserBlock, where), ids, where)
            blocks.append(without_citations(decode_field(raw, dict[str, Raw], where)))
        for segment in segments_of(blocks, path):
            if segment.blocks:
                turn = finish(segment.blocks, None, None, NO_USAGE, None, NO_NAMES).finished.turn
                turn = made_by(turn, callers(API))
                summaries = [Text(text) for block in segment.blocks if (text := _summary(block))]
                parts = (*summaries, *turn.parts)
                self._turns.append(msgspec.structs.replace(turn, parts=parts) if summaries else turn)
            if segment.is_mixed:
                self._results += segment.results  # the caller's come with the next message
            elif segment.results:
                self._turns.append(ToolTurn(tuple(segment.results)))

    def _check_spoken(self, block: UserBlock, ids: set[str], where: str) -> None:
        match block.type:
            case "":
                raise bad(f"{where}.type", "is empty")
            case "text":
                need(block.text, f"{where}.text")
            case "thinking":
                need(block.thinking, f"{where}.thinking")
            case "tool_use":
                block_id = need(block.id, f"{where}.id")
                need(block.name, f"{where}.name")
                if block.input is None:
                    raise bad(f"{where}.input", "is missing")
                if block_id in ids:
                    raise bad(f"{where}.id", f"is {block_id[:100]!r}, which another call of this message has already")
                ids.add(block_id)
            case "document" if self._strict:
                raise bad(f"{where}.type", f"is 'document', which the API of {VERSION} takes from the user only")
            case "tool_result" | "image" | "search_result" | "container_upload":
                raise bad(f"{where}.type", f"is {block.type!r}, which only the user says")
            case "document" | "compaction":
                pass
            case kind:
                if kind not in _CARRIED and not kind.endswith("_tool_result"):
                    self.unknown.append(f"'{where}.type' is {kind[:60]!r}; it can be {', '.join(SPOKEN)}")


def _summary(block: Block) -> str:
    """What stands for turns that were compacted away: every model must hear it."""
    if block.text("type") != "compaction" or bytes(block.members.get("content", NULL))[:1] != b'"':
        return ""
    return block.text("content")


# ---- the system -------------------------------------------------------------------------------------------------------


def _read_system(fields: dict[str, Raw]) -> list[SystemTurn]:
    if "system" not in fields:
        return []
    system: str | list[Raw] = decode_field(fields["system"], str | list[Raw], "system")
    return [_system_turn(system, "system", None)] if system else []


def _system_turn(content: str | list[Raw], path: str, unknown: list[str] | None) -> SystemTurn:
    """Among the messages it can say more than words, to models that have a place for it: which tools come and go."""
    if isinstance(content, str):
        return SystemTurn(content)
    texts: list[str] = []
    for index, raw in enumerate(content):
        block: UserBlock = decode_field(raw, UserBlock, f"{path}[{index}]")
        if block.type == "text":
            texts.append(need(block.text, f"{path}[{index}].text"))
            continue
        problem = f"is {block.type[:60]!r}; only text can stand here"
        if unknown is None:
            raise bad(f"{path}[{index}].type", problem)
        unknown.append(f"'{path}[{index}].type' {problem}")
    plain = len(content) == 1 and is_plain(content[0])
    return SystemTurn("\n".join(texts), native=None if plain else Native(API, Raw(encode(content))))
