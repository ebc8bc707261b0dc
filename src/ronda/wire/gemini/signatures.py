"""Thought signatures in the words of Chat Completions: `extra_content.google.thought_signature`, on the call it belongs to.

Gemini wants a signature back on the very part that bore it, and a client of Chat Completions sends back what it was given of
a call. So that is where Google's own compatible endpoint puts it, and where we put it; next to it stands the model that made
it, since another one refuses it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from ronda.core.parts import AssistantTurn, Native
from ronda.wire.codec.json import decode_or
from ronda.wire.gemini import API
from ronda.wire.openai_chat import API as CHAT


class _NativeCall(Struct, frozen=True):
    name: str = ""


class _NativePart(Struct, frozen=True, rename="camel"):
    function_call: _NativeCall | None = None
    thought_signature: str | None = None


class _Google(Struct, frozen=True):
    thought_signature: str | None = None
    model: str | None = None


class _Extra(Struct, frozen=True):
    google: _Google | None = None

    def signature_for(self, model: str) -> str | None:
        extra = self.google
        return extra.thought_signature if extra is not None and extra.model in (None, model) else None


_NOTHING: Final = _Extra()


class _ChatCall(Struct, frozen=True):
    extra_content: _Extra | None = None


class _ChatMessage(Struct, frozen=True):
    extra_content: _Extra | None = None
    tool_calls: list[_ChatCall] | None = None


_decode_parts = msgspec.json.Decoder(list[_NativePart]).decode


def for_chat(turn: AssistantTurn) -> dict[str, dict[str, Any]]:
    """What a Chat client is given next to a call, by the call's id; nothing for a turn of any other model."""
    native = turn.native
    if native is None or not native.api.startswith(f"{API}:"):
        return {}
    model = native.api.partition(":")[2]
    signed = [part.thought_signature for part in _decode_parts(native.payload) if part.function_call is not None]
    return {
        call.id: {"google": {"thought_signature": signature, "model": model}}
        for call, signature in zip(turn.calls, signed, strict=False)
        if signature
    }


def from_chat(native: Native | None, calls: int, model: str) -> list[str | None]:
    """The signatures that a message of Chat Completions brings back to the model that made them, call by call."""
    none: list[str | None] = [None] * calls
    if native is None or native.api.partition(":")[0] != CHAT or b"thought_signature" not in bytes(native.payload):
        return none
    message = decode_or(_ChatMessage(), _ChatMessage, native.payload)
    found = [(call.extra_content or _NOTHING).signature_for(model) for call in message.tool_calls or ()]
    if len(found) != calls:
        return none
    if found and not any(found):  # before Gemini 3 it stood on the message; it is the first call's
        found[0] = (message.extra_content or _NOTHING).signature_for(model)
    return found
