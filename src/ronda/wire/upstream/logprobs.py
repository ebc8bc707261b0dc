"""Token probabilities in the one shape the loop carries them in, which is that of Chat Completions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from ronda.core.parts import NULL
from ronda.wire.codec.json import decode_or, encode


def join_logprobs(pieces: Sequence[Raw]) -> Raw:
    """Token probabilities of a stream as a plain answer would have them."""
    if not pieces:
        return NULL
    joined: dict[str, list[Raw] | None] = {}
    for piece in pieces:
        # Some server's own shape is nothing that can be joined; not worth an answer.
        lists: dict[str, list[Raw] | None] = decode_or({}, dict[str, list[Raw] | None], piece)
        for name, values in lists.items():
            if values is None:
                joined.setdefault(name, None)
            else:
                joined[name] = (joined.get(name) or []) + values
    return Raw(encode(joined)) if joined else NULL
