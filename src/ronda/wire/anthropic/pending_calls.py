"""Calls that wait for a person, as blocks of a message that ends in `pause_turn`: a use without its result.

A client sends the message back to go on. The ids of such blocks say which approvals it waits for, so that it is found again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import Asked
from ronda.wire.anthropic.content import Part, input_of, use_part
from ronda.wire.codec.json import UNREADABLE
from ronda.wire.shared.approvals import Decision, read_approvals
from ronda.wire.web.calls import ronda_id

_MARK = "appr_"


def approval_block_id(approval: str, kind: str = "srvtoolu") -> str:
    return ronda_id(kind, approval)


def waiting_use(call_id: str, question: Asked) -> Part:
    """For a call of a tool that the API has no block for."""
    return use_part(call_id, question.tool, input_of(question.arguments))


class _Block(Struct):
    type: str = ""
    id: str = ""
    tool_use_id: str = ""


class _Message(Struct):
    role: str = ""
    content: list[_Block] | str | None = None


_decode_messages = msgspec.json.Decoder(list[Raw]).decode
_decode_message = msgspec.json.Decoder(_Message).decode


def read_decisions(fields: Mapping[str, Raw]) -> tuple[Decision, ...]:
    """What a request decides about calls that wait, in `approvals`; those that its last message only shows are waited for."""
    decided = read_approvals(fields)
    waiting = [] if "messages" not in fields else _waiting_in(fields["messages"])
    ids = {one.id for one in decided}
    return (*decided, *[Decision(call_id) for call_id in waiting if call_id not in ids])


def _waiting_in(messages: Raw) -> list[str]:
    try:
        last = _decode_messages(messages)[-1:]
        message = _decode_message(last[0]) if last else _Message()
    except UNREADABLE:  # the reader of the messages says it better
        return []
    if message.role != "assistant" or not isinstance(message.content, list):
        return []
    answered = {block.tool_use_id for block in message.content if block.tool_use_id}
    open_ids = [block.id for block in message.content if block.type.endswith("_tool_use") and block.id not in answered]
    return [_MARK + use_id.partition(f"_{_MARK}")[2] for use_id in open_ids if f"_ronda_{_MARK}" in use_id]
