"""What went wrong with a response: its own codes → errors that know if trying again may help.

An answer that is not 200 has the envelope that others have, too: `wire.upstream.errors` reads it.
"""

from __future__ import annotations

from msgspec import Struct

from ronda.errors import UpstreamError
from ronda.wire.upstream.errors import RETRYABLE, code_of, is_about_length

# https://developers.openai.com/api/docs/api-reference/responses/object (error.code): everything that is not the server's
# trouble is about what was sent, and will be refused again.
_STATUS = {
    "server_error": 500,
    "server_is_overloaded": 503,
    "slow_down": 429,
    "rate_limit_exceeded": 429,
    "vector_store_timeout": 504,
    "insufficient_quota": 429,
}
_NEVER_AGAIN = frozenset({"insufficient_quota"})
_REFUSALS = frozenset(
    {
        "bio_policy",
        "content_filter",
        "context_length_exceeded",
        "cyber_policy",
        "data_residency_mismatch",
        "empty_image_file",
        "failed_to_download_image",
        "misalignment_policy_violation",
        "model_not_found",
        "previous_response_not_found",
        "string_above_max_length",
    }
)
_REFUSED = ("invalid_", "image_", "unsupported_")


class Failure(Struct, frozen=True):
    """The error of a failed response, or an `error` event; some servers have a number for its code."""

    message: str | None = None
    code: str | int | None = None
    type: str | None = None


def upstream_error(failure: Failure) -> UpstreamError:
    code = failure.code
    status: int | None = None
    if type(code) is int:
        status = code if 400 <= code < 600 else None
    elif type(code) is str:
        status = _STATUS.get(code)
        if status is None and (code in _REFUSALS or code.startswith(_REFUSED)):
            status = 400
    if status is None and failure.type == "invalid_request_error":
        status = 400
    retryable = (status is None or status in RETRYABLE) and code not in _NEVER_AGAIN
    text = failure.message or (str(code) if code else "no reason given")
    named = f" ({code})" if failure.message and code else ""
    too_long = code == "context_length_exceeded" or (status == 400 and is_about_length(text))
    said_so = f"the model's server reported: {text}{named}"
    return UpstreamError(said_so, status=status, retryable=retryable, too_long=too_long, code=code_of(code))


def is_about_encryption(error: UpstreamError) -> bool:
    """A model that does not think refuses to be asked for encrypted thoughts (pydantic-ai#2865)."""
    return error.status == 400 and "encrypted content is not supported" in str(error).lower()


def is_about_seal(error: UpstreamError) -> bool:
    """What is sealed in the conversation does not open here. "The encrypted content gAAA… could not be verified." (codex#8145)"""
    text = str(error).lower()
    return error.status == 400 and (
        error.code == "invalid_encrypted_content"
        or ("encrypted" in text and any(words in text for words in _NOT_OPENED))
    )


# OpenAI's words for it, which gateways pass on without the code, and those of xAI and OpenRouter.
_NOT_OPENED = ("could not be verified", "could not be decrypted", "invalid encrypted", "invalid_encrypted", "decrypt")
