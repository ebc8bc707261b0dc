"""Google's errors → ours: `{"error": {code, message, status, details}}`, bare or in a list."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.errors import UpstreamError
from ronda.wire.codec.json import decode_or
from ronda.wire.upstream import errors

_SECONDS: Final = re.compile(r"(\d+(?:\.\d+)?)s")

# google.rpc.Code by name, where an error has come without its HTTP status.
_STATUS: Final = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "CANCELLED": 499,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


class _Detail(Struct, frozen=True, rename="camel"):
    retry_delay: str | None = None


class _Error(Struct, frozen=True):
    message: str | None = None
    code: int | None = None
    status: str | None = None
    details: list[Raw] | None = None


class _Envelope(Struct, frozen=True):
    error: Raw = NULL


def error_of(body: bytes, status: int, retry_after: float | None = None) -> UpstreamError:
    """An answer that is not 200."""
    decoded: _Envelope | list[_Envelope] = decode_or([], _Envelope | list[_Envelope], body)
    envelopes = [decoded] if isinstance(decoded, _Envelope) else decoded
    found = next((one.error for one in envelopes if one.error != NULL), None)
    if found is None:  # a proxy in between, in whatever words
        return errors.error_of(body, status, retry_after)
    return envelope_error(bytes(found), status, retry_after)


def envelope_error(raw: bytes, status: int | None = None, retry_after: float | None = None) -> UpstreamError:
    error: _Error | None = decode_or(None, _Error, raw)
    if error is None:
        return errors.envelope_error(raw, status, retry_after)
    if status is None:
        known = error.code is not None and 400 <= error.code < 600
        status = error.code if known else _STATUS.get(error.status or "")
    if retry_after is None:
        retry_after = _delay(error.details or [])
    return errors.upstream_refusal(error.message or error.status or "", status, retry_after)


def _delay(details: list[Raw]) -> float | None:
    """google.rpc.RetryInfo, which stands where others have a Retry-After header: {"retryDelay": "34s"}."""
    for raw in details:
        detail = decode_or(_Detail(), _Detail, raw)
        if detail.retry_delay is not None and (seconds := _SECONDS.fullmatch(detail.retry_delay)):
            return float(seconds[1])
    return None
