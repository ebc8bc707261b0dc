"""What went wrong, as Anthropic's API says it. Apart from the rest of the dialect, which is large: an error may be all that a
server ever says in it."""

from __future__ import annotations

from typing import Any, Final

from ronda.wire.codec.json import encode
from ronda.wire.shared.failures import TOO_LONG

# Statuses that have a type of their own. https://platform.claude.com/docs/en/api/errors
_TYPES: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


# The API has no code for it, so its clients look for these words.
_TOO_LONG: Final = "prompt is too long"


def write_error(status: int, message: str, code: str | None = None, request_id: str | None = None) -> bytes:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    if code == TOO_LONG and _TOO_LONG not in message:
        message = f"{_TOO_LONG}: {message}"
    error: dict[str, Any] = {"type": kind, "message": message}
    if code is not None:
        error["details"] = {"error_code": code}
    return encode({"type": "error", "error": error, "request_id": request_id})
