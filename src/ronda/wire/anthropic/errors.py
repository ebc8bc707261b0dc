"""What Anthropic says when it says no → UpstreamError with its own words, the true status, and whether to try again."""

from __future__ import annotations

import re
from typing import Final

from ronda.errors import UpstreamError
from ronda.wire.upstream import errors

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
    text = str(error).lower()
    return error.status == 400 and any(words in text for words in _TOO_MUCH)


# "messages.1.content.0: Invalid `signature` in `thinking` block", "Invalid `data` in `redacted_thinking` block"; of a search,
# `encrypted_content`. https://github.com/anthropics/anthropic-sdk-python/issues/1598
_SEAL: Final = re.compile(r"invalid\W+(signature|data|encrypted_content|encrypted_index)\W+in\W", re.IGNORECASE)


def is_about_seal(error: UpstreamError) -> bool:
    """A signature of another server's, or another account's: the conversation is fine without what it is on."""
    return error.status == 400 and _SEAL.search(str(error)) is not None


def envelope_error(raw: bytes) -> UpstreamError:
    """The error of an answer that began with 200."""
    return errors.envelope_error(raw, statuses=_STATUS)
