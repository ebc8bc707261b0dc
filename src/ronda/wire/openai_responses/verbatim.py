"""An item as it came, for an upstream of this API: what the item says beyond what our turns hold is not lost on the way there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL, Native
from ronda.wire.codec.json import decode_members, encode
from ronda.wire.openai_responses import API
from ronda.wire.upstream.native import callers


class _KnownPart(Struct, frozen=True, forbid_unknown_fields=True):
    type: str | None = None
    text: str | None = None
    image_url: Raw = NULL
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: Raw = NULL
    video_url: Raw = NULL
    file: Raw = NULL


class _KnownMessage(Struct, frozen=True, forbid_unknown_fields=True):
    type: str | None = None
    role: str | None = None
    id: str | None = None
    status: str | None = None
    content: str | list[_KnownPart] | None = None


_decode_known = msgspec.json.Decoder(_KnownMessage).decode


def native_items(items: Sequence[Raw]) -> Native:
    return Native(callers(API), Raw(b"[" + b",".join(map(bytes, items)) + b"]"))


def message_as_it_came(raw: Raw) -> Native | None:
    """None where it says no more than we would write."""
    try:
        _decode_known(raw)
    except msgspec.ValidationError:
        return native_items([without_id(raw)])
    return None


def without_id(raw: Raw) -> Raw:
    """An upstream that has not kept an item of this id would refuse the whole request for it."""
    if b'"id"' not in bytes(raw) and b'"status"' not in bytes(raw):
        return raw.copy()
    members = decode_members(raw)
    members.pop("id", None)
    members.pop("status", None)
    return Raw(encode(members))
