"""What a client carries for us without reading it: `encrypted_content`.

    a turn        with the provider's own JSON in it (signed thoughts, ids, order), for clients that keep their conversation
                  themselves: given back, the model goes on from its very own words. Only the client that was given it can use it
    a summary     of a conversation that was compacted; every client may read it, since it is what the next model is told

A seal is proof that this server wrote it, for this caller; it hides nothing that the caller has not seen. What is not ours,
or not whole, is not an error: the turn's plain words are there next to it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import msgspec
from msgspec import Struct

from ronda.core.parts import AssistantTurn
from ronda.errors import TooLarge
from ronda.wire.codec.json import UNREADABLE, encode

_TURN: Final = "ronda.turn.2."
_TURN_ALONE: Final = "ronda.turn.1."  # as earlier versions wrote it: without the ids
_SUMMARY: Final = "ronda.summary.1."
_SIGNATURE: Final = 16  # bytes
# Bytes of JSON in the seals of one request: they are packed, and a few bytes can hold very many.
_MOST: Final = 16 << 20


class SealedTurn(Struct, frozen=True, omit_defaults=True):
    """`ids`: what the caller calls the turn's calls, in their order; as the model does, if there are none."""

    turn: AssistantTurn
    ids: tuple[str, ...] = ()

    @property
    def caller_ids(self) -> dict[str, str]:
        """What the model calls its calls → what the caller does."""
        own = [call.id for call in self.turn.calls]
        return dict(zip(own, self.ids or own, strict=True))


_decode_turn = msgspec.json.Decoder(AssistantTurn).decode
_decode_sealed = msgspec.json.Decoder(SealedTurn).decode


class _Summary(Struct, frozen=True):
    summary: str


_decode_summary = msgspec.json.Decoder(_Summary).decode


class Room:
    """How much the seals of one request may still hold."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _MOST

    def unpack(self, packed: bytes) -> bytes:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(packed, self.left + 1)
        self.left -= len(text)
        if self.left < 0:
            raise TooLarge(f"what is packed in 'encrypted_content' is more than {_MOST} bytes", param="input")
        if not unpacker.eof:
            raise zlib.error("it breaks off")
        return text


class Sealer:
    """Seals with one caller's key: what one caller was given opens for no other."""

    __slots__ = ("_owner", "_secret")

    def __init__(self, secret: bytes, owner: str) -> None:
        self._secret = secret
        self._owner = owner

    def seal(self, turn: AssistantTurn, ids: Sequence[str] = ()) -> str:
        packed = zlib.compress(encode(SealedTurn(turn, tuple(ids))))
        return _TURN + base64.urlsafe_b64encode(self._sign(packed) + packed).decode()

    def open(self, sealed: str, room: Room) -> SealedTurn | None:
        if not is_sealed(sealed):
            return None
        packed = _bytes(sealed[len(_TURN) :])
        signature, packed = packed[:_SIGNATURE], packed[_SIGNATURE:]
        if not packed or not hmac.compare_digest(signature, self._sign(packed)):
            return None
        try:
            content = room.unpack(packed)
            return _decode_sealed(content) if sealed.startswith(_TURN) else SealedTurn(_decode_turn(content))
        except (*UNREADABLE, zlib.error):
            return None

    def _sign(self, packed: bytes) -> bytes:
        key = blake2b(self._owner.encode(), key=self._secret, digest_size=32).digest()
        return blake2b(packed, key=key, digest_size=_SIGNATURE).digest()


def is_sealed(text: str) -> bool:
    return text.startswith((_TURN, _TURN_ALONE))


def wrap_summary(summary: str) -> str:
    return _SUMMARY + base64.urlsafe_b64encode(zlib.compress(encode(_Summary(summary)))).decode()


def unwrap_summary(text: str, room: Room) -> str | None:
    """None for a compaction that another server made."""
    if not text.startswith(_SUMMARY):
        return None
    try:
        return _decode_summary(room.unpack(_bytes(text.removeprefix(_SUMMARY)))).summary
    except (*UNREADABLE, zlib.error):
        return None


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError):
        return b""
