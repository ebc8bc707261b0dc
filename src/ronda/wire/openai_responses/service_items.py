"""What an upstream of this API did by itself, and what its texts cite: its items → those of our answer, in the same order.

They have ids of ours, as all items of a response have, by which a client can name them.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec import Raw

from ronda.core.parts import AssistantTurn
from ronda.wire.codec.json import UNREADABLE, decode_members, decode_text, encode, in_one_line
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import Item, decode_kind, decode_raws, is_service_item, read_item
from ronda.wire.openai_responses.output_items import Message, Output, OutputItem
from ronda.wire.upstream.native import speaks

_KIND: Final = re.compile(r"([a-z]{1,8})_")  # how ids of one kind of item begin


class ServiceItem(OutputItem):
    """It is reported when it is done, all of it at once."""

    def __init__(self, output: Output, raw: Raw) -> None:
        members = decode_members(raw)
        known = _KIND.match(_text(members, "id"))
        super().__init__(output, known[1] if known is not None else "item")
        item = in_one_line(encode({**members, "id": self._id.decode()}))
        self._announce(item)
        self._finish(item)


def _text(members: dict[str, Raw], name: str) -> str:
    try:
        return decode_text(members[name]) or ""
    except (KeyError, *UNREADABLE):
        return ""


def native_items(turn: AssistantTurn) -> list[tuple[Raw, Item | None]]:
    """The items of a turn of which the service has made some: each as it came, and as the loop reads it. Else none."""
    if not speaks(turn.native, API):
        return []
    raws = decode_raws(turn.native.payload)
    items = [(raw, read_item(raw)) for raw in raws]
    is_told = any(item.is_annotated if item is not None else is_service_item(decode_kind(raw)) for raw, item in items)
    return items if is_told else []


def annotate(message: Message, item: Item) -> None:
    """A message that ends with an upstream's, with what that one cites."""
    behind = len("".join(item.texts()))
    for part in item.content or ():
        for raw in part.annotations or ():
            message.annotate(msgspec.json.decode(raw, type=dict[str, Any]), behind)
        behind -= len(part.text or "") if part.type != "refusal" else 0
