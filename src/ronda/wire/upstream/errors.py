"""An upstream's refusals and failures, in whatever words its server or a proxy before it has for them → UpstreamError.

What a type of error means that comes without a status is the dialect's to say.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.errors import UpstreamError
from ronda.wire.codec.json import UNREADABLE, decode_or, encode

# Gateways have 5xx of their own, and 529 is "overloaded".
RETRYABLE: Final = frozenset({408, 409, 425, 429, *range(500, 600)})

# A 429 that waiting does not help: the account is empty, not busy.
_NEVER_AGAIN: Final = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})

# A conversation that is more than the model can take has no status and, but at two, no code of its own.
_REFUSALS: Final = frozenset({400, 413, 422})
_TOO_LONG_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})  # OpenAI, llama.cpp
_TOO_LONG: Final = (
    "maximum context length",  # OpenAI, vLLM; "… too large for model with 32768 maximum context length": Mistral
    "prompt is too long",  # Anthropic
    "exceed context limit",  # Anthropic, of the prompt and what may be said together
    "exceeds the maximum number of tokens",  # Gemini
    "exceeds the available context size",  # llama.cpp
    "exceeds the context window",
    "maximum prompt length is",  # xAI
    "reduce the length of the messages",  # Groq
    "greater than the context length",  # LM Studio
    "input is too long",  # Bedrock
)

_CODE: Final = re.compile(r"[a-z][a-z0-9_]{2,63}")

_STATUS: Final[Mapping[str, int]] = {"invalid_request_error": 400}


class _ErrorFields(Struct, frozen=True):
    """Inside an answer that began with 200, the true status has three names: Azure's, Groq's, OpenRouter's.

    They may be anything, and whatever they are must not hide the message.
    """

    message: str | None = None
    type: str | None = None
    status: Any = None
    status_code: Any = None
    code: Any = None

    @property
    def http_status(self) -> int | None:
        for number in (self.status, self.status_code, self.code):
            if type(number) is int and 400 <= number < 600:
                return number
        return None

    @property
    def words(self) -> set[str]:
        return {word for word in (self.code, self.type) if type(word) is str}


class _ErrorBody(Struct, frozen=True):
    error: Raw = NULL
    message: str | None = None  # some servers leave out the envelope
    detail: Raw = NULL


def error_of(body: bytes, status: int, retry_after: float | None = None) -> UpstreamError:
    """An answer that is not 200."""
    decoded = decode_or(_ErrorBody(), _ErrorBody, body)
    if decoded.error != NULL:
        return envelope_error(bytes(decoded.error), status, retry_after)
    if decoded.message is not None:
        return envelope_error(encode(decoded.message), status, retry_after)
    return envelope_error(bytes(decoded.detail) if decoded.detail != NULL else body, status, retry_after)


# What some servers write where there is no error.
_NO_ERROR: Final = frozenset({b"null", b'""', b"{}", b"[]", b"false"})


def is_error(raw: Raw) -> bool:
    """Of a member `error` in an answer with status 200."""
    return bytes(raw) not in _NO_ERROR


class _MiniMax(Struct, frozen=True):
    status_code: Any = None
    status_msg: str | None = None


class _Bare(Struct, frozen=True):
    object: Any = None
    type: Any = None
    code: Any = None
    message: str | None = None
    base_resp: _MiniMax | None = None


def bare_error(body: bytes) -> UpstreamError | None:
    """An error with status 200 and without the envelope, where a part of an answer was to be: vLLM's, Mistral's, MiniMax's."""
    decoded = decode_or(_Bare(), _Bare, body)
    if decoded.base_resp is not None and decoded.base_resp.status_code and decoded.base_resp.status_msg:
        return upstream_refusal(decoded.base_resp.status_msg, None, None)
    if decoded.message and ("error" in (decoded.object, decoded.type) or decoded.code is not None):
        return envelope_error(body)
    return None


def envelope_error(
    raw: bytes, status: int | None = None, retry_after: float | None = None, statuses: Mapping[str, int] = _STATUS
) -> UpstreamError:
    """The error itself: an object, a string, or something else altogether. `statuses`: what its type says of its status."""
    message, code, is_spent, is_too_long = None, "", False, False
    try:
        decoded = msgspec.json.decode(raw, type=_ErrorFields | str | None)
        if type(decoded) is _ErrorFields:
            message, code = decoded.message, code_of(decoded.code)
            is_spent = bool(_NEVER_AGAIN & decoded.words)
            is_too_long = bool(_TOO_LONG_CODES & decoded.words)
            if status is None:
                status = decoded.http_status or statuses.get(decoded.type or "")
        elif type(decoded) is str:
            message = decoded
    except UNREADABLE:
        pass
    text = message or raw.decode("utf-8", "replace")
    error = upstream_refusal(
        text_of_page(text) if is_page(text) else message or text[:500], status, retry_after, may_help=not is_spent
    )
    error.too_long = error.too_long or is_too_long
    error.code = code
    return error


_PAGE: Final = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)?<(?:!doctype|html|head|body|title|center|h1)\b",
    re.IGNORECASE | re.DOTALL,
)
_UNSEEN: Final = re.compile(r"<!--.*?-->|<(script|style|head)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
# Characters of a page that are looked at: on a hostile one the time grows with their square …
_LONGEST_PAGE: Final = 4_000
_SHOWN_OF_PAGE: Final = 200  # … and shown


def is_page(text: str) -> bool:
    """A proxy or a gateway answers with a page for people where the model's server would with JSON."""
    return _PAGE.match(text) is not None


def text_of_page(page: str) -> str:
    """What the page says: its title, which is the reason on most of these, or what there is to read in it."""
    page = page[:_LONGEST_PAGE]
    title = _TITLE.search(page)
    for found in (title[1] if title is not None else "", page):
        if text := " ".join(html.unescape(_UNSEEN.sub(" ", found)).split()):
            return text if len(text) <= _SHOWN_OF_PAGE else f"{text[:_SHOWN_OF_PAGE]}…"
    return "a page without text"


def code_of(code: object) -> str:
    """An upstream's code that programs compare, as `content_filter` is; nothing for numbers and sentences."""
    return code if type(code) is str and _CODE.fullmatch(code) else ""


def upstream_refusal(
    text: str, status: int | None, retry_after: float | None, *, may_help: bool = True
) -> UpstreamError:
    """`may_help`: nothing is said but the status against trying again."""
    where = f"the model's server answered {status}: " if status is not None else "the model's server reported: "
    retryable = (status is None or status in RETRYABLE) and may_help
    return UpstreamError(
        where + (text or "no reason given"),
        status=status,
        retryable=retryable,
        retry_after=retry_after,
        too_long=status in _REFUSALS and is_about_length(text),
    )


def is_about_length(text: str) -> bool:
    value = text.lower()
    return any(words in value for words in _TOO_LONG)
