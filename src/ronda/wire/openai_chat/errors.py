"""An upstream's refusals and failures, in whatever words its server has for them."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.errors import UpstreamError
from ronda.wire.json import UNREADABLE, encode


class _SaidError(Struct, frozen=True):
    """Inside an answer that began with 200, the true status has three names: Azure's, Groq's, OpenRouter's."""

    message: str | None = None
    type: str | None = None
    status: str | int | None = None
    status_code: str | int | None = None
    code: str | int | None = None

    @property
    def http_status(self) -> int | None:
        for number in (self.status, self.status_code, self.code):
            if type(number) is int and 400 <= number < 600:
                return number
        return None


def said_error(raw: bytes, status: int | None = None, retry_after: float | None = None) -> UpstreamError:
    """An error as an upstream words it: an object, a string, or something else altogether."""
    is_spent = False
    try:
        said = msgspec.json.decode(raw, type=_SaidError | str | None)
        message = said if type(said) is str else said.message if said is not None else None
        if type(said) is _SaidError:
            is_spent = bool(_NEVER_AGAIN & {said.code, said.type})
        if status is None and type(said) is _SaidError:
            status = said.http_status
            if status is None and said.type == "invalid_request_error":
                status = 400
    except UNREADABLE:
        message = None
    text = message or raw[:500].decode("utf-8", "replace") or "no reason given"
    where = f"the model's server answered {status}: " if status is not None else "the model's server reported: "
    retryable = (status is None or status in RETRYABLE) and not is_spent
    return UpstreamError(where + text, status=status, retryable=retryable, retry_after=retry_after)


class _ErrorBody(Struct, frozen=True):
    error: Raw = NULL
    message: str | None = None  # some servers leave out the envelope
    detail: Raw = NULL


def error_of(body: bytes, status: int, retry_after: float | None = None) -> UpstreamError:
    """An answer that is not 200, in whatever words its server has for it."""
    try:
        said = msgspec.json.decode(body, type=_ErrorBody)
    except UNREADABLE:
        return said_error(body, status, retry_after)
    if said.error != NULL:
        return said_error(bytes(said.error), status, retry_after)
    if said.message is not None:
        return said_error(encode(said.message), status, retry_after)
    return said_error(bytes(said.detail) if said.detail != NULL else body, status, retry_after)


# A 429 that waiting does not help: the account is empty, not busy.
_NEVER_AGAIN = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

RETRYABLE = frozenset({408, 409, 425, 429, *range(500, 600)})  # gateways have 5xx of their own
