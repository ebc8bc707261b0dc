"""Who sent a call: a signature that only those can make who know the secret.

    X-Ronda-Signature: t=1763300000,v1=<HMAC-SHA256 of "1763300000." and the body, in hexadecimal digits>

The time is part of what is signed, so that a copy of an old call cannot be sent again.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from typing import Final

HEADER: Final = "X-Ronda-Signature"
TOLERANCE: Final = 300.0  # seconds between two clocks, and on the way

_SIGNATURE: Final = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")


def sign(secret: str, body: bytes, at: float) -> str:
    """The value of the header."""
    return f"t={at:.0f},v1={_digest(secret, f'{at:.0f}', body)}"


def verify(secret: str, header: str, body: bytes, *, now: float | None = None, tolerance: float = TOLERANCE) -> bool:
    """For the receiver of calls: was this body signed with the secret, less than `tolerance` seconds ago?"""
    if (found := _SIGNATURE.fullmatch(header)) is None:
        return False
    at, digest = found.groups()
    is_fresh = abs((time.time() if now is None else now) - int(at)) <= tolerance
    return hmac.compare_digest(digest, _digest(secret, at, body)) and is_fresh


def _digest(secret: str, at: str, body: bytes) -> str:
    return hmac.new(secret.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
