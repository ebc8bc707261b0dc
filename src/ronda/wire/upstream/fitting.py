"""What a conversation from elsewhere has that a server would refuse → what it takes, the same for the same conversation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from ronda.core.arguments import as_object
from ronda.core.parts import AssistantTurn
from ronda.wire.upstream.projection import Changes

_ARGUMENTS: Final = "they were no JSON object, and some servers refuse a conversation with others"


# How a provider's own JSON says that an answer has a picture or a sound, which our parts cannot hold.
_WORDLESS: Final = (b'"inlineData"', b'"image_generation_call"', b'"images"', b'"image_url"', b'"audio"')
_ONLY_ITS_MAKER: Final = "only the provider that made it can be sent it"

Vendor: TypeAlias = Literal["openai", "anthropic", "gemini", "mistral"]
# Ids of files as each vendor makes them: file-BK7bzQj3FfZFXr7DbL6xJwfo, file_011CNha8iCJcU1wXNR6q4V8w, files/abc-123 or an
# address that ends so. What has none of these forms may be any server's: Mistral's are UUIDs, and small servers count (file-1).
_FILE_IDS: Final[dict[Vendor, re.Pattern[str]]] = {
    "openai": re.compile(r"file-[A-Za-z0-9]{20,}"),
    "anthropic": re.compile(r"file_01\w+"),
    "gemini": re.compile(r"(https://\S+/)?files/[\w-]+"),
}


def is_elsewhere(file_id: str, vendor: Vendor) -> bool:
    """Whether another vendor has this file: a request that names it is refused."""
    return any(other != vendor and form.fullmatch(file_id) is not None for other, form in _FILE_IDS.items())


def wordless_note(turn: AssistantTurn, changes: Changes) -> str:
    """What is said instead of an answer of another provider's that is nothing but a picture or a sound; else nothing."""
    if turn.parts or turn.native is None or not any(mark in bytes(turn.native.payload) for mark in _WORDLESS):
        return ""
    changes.tell("media_noted", "an answer without words is only mentioned to the model", _ONLY_ITS_MAKER)
    return "[Here I answered with a picture or a sound, which cannot be shown again.]"


def fitting_id(call_id: str, fits: Callable[[str], bool], prefix: str, digits: int) -> str:
    """The id of a call, or one derived from it. Not drawn: the same conversation gives the same bytes."""
    fitting, attempt = call_id, 0
    while not fits(fitting):
        mark = hashlib.sha256(f"{attempt}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()
        fitting, attempt = prefix + mark[:digits], attempt + 1
    return fitting


def fitting_arguments(arguments: str, changes: Changes) -> str:
    """Arguments that any server can read."""
    fitting = as_object(arguments)
    if fitting != arguments:
        changes.tell("arguments_rewritten", "the arguments of a call become an object", _ARGUMENTS)
    return fitting


def media_type(url: str) -> str:
    """The type of a data: URL, in small letters; "" where it is none."""
    return url[5:].partition(",")[0].partition(";")[0].strip().lower() if url.startswith("data:") else ""
