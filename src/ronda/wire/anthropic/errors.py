"""What Anthropic says when it says no → UpstreamError with its own words, the true status, and whether to try again."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.errors import UpstreamError

# What decoding raises on bytes from outside: not JSON or not of this shape, not UTF-8, nested beyond all reason.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeError, RecursionError)

RETRYABLE: Final = frozenset({408, 409, 425, 429, *range(500, 600)})  # 529 is Anthropic's "overloaded"

# Inside a stream that began with 200 the type is all there is. https://platform.claude.com/docs/en/api/errors
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


# "The compiled grammar is too large …" (anthropic-sdk-python#1185), "Schema is too complex for compilation …"
# (cherry-studio#18179): how much is too much is documented nowhere.
_TOO_MUCH: Final = ("grammar is too large", "too complex for compilation", "schema is too complex")


def is_about_grammar(error: UpstreamError) -> bool:
    """Strict tools, or the form of the answer, were more than the API decodes under; without them the request is fine."""
    said = str(error).lower()
    return error.status == 400 and any(words in said for words in _TOO_MUCH)


class _SaidError(Struct, frozen=True):
    message: str | None = None
    type: str | None = None


class _ErrorBody(Struct, frozen=True):
    error: Raw = NULL
    message: str | None = None  # gateways leave out the envelope
    detail: Raw = NULL


def said_error(raw: bytes, status: int | None = None, retry_after: float | None = None) -> UpstreamError:
    """The `error` of an envelope: an object, or whatever a gateway put there."""
    try:
        said = msgspec.json.decode(raw, type=_SaidError | str | None)
        message = said if type(said) is str else said.message if type(said) is _SaidError else None
        if status is None and type(said) is _SaidError:
            status = _STATUS.get(said.type or "")
    except UNREADABLE:
        message = None
    text = message or raw[:500].decode("utf-8", "replace") or "no reason given"
    where = f"the model's server answered {status}: " if status is not None else "the model's server reported: "
    retryable = status is None or status in RETRYABLE
    return UpstreamError(where + text, status=status, retryable=retryable, retry_after=retry_after)


def error_of(body: bytes, status: int, retry_after: float | None = None) -> UpstreamError:
    """An answer that is not 200."""
    try:
        said = msgspec.json.decode(body, type=_ErrorBody)
    except UNREADABLE:
        return said_error(body, status, retry_after)
    if said.error != NULL:
        return said_error(bytes(said.error), status, retry_after)
    if said.message is not None:
        return said_error(msgspec.json.encode(said.message), status, retry_after)
    return said_error(bytes(said.detail) if said.detail != NULL else body, status, retry_after)
