"""Turns, tool tables and files of agents as JSON, and the hashes that they are found by."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from ronda.core.parts import Turn
from ronda.core.plan import ToolSpec

KNOWN_HASHES: Final = 20_000  # remembered, so that the usual start of a run asks the database nothing

encode = msgspec.json.Encoder().encode
decode_turn = msgspec.json.Decoder(Turn).decode
decode_tools = msgspec.json.Decoder(tuple[ToolSpec, ...]).decode
decode_file = msgspec.json.Decoder(tuple[dict[str, str], dict[str, str]]).decode


def hash_value(body: bytes) -> bytes:
    return blake2b(body, digest_size=20, person=b"value").digest()
