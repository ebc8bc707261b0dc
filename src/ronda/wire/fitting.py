"""What a conversation from elsewhere has that a server would refuse → what it takes, the same for the same conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from ronda.core.arguments import as_object
from ronda.wire.projection import Changes

_ARGUMENTS: Final = "they were no JSON object, and some servers refuse a conversation with others"


def fitting_id(id: str, fits: Callable[[str], bool], prefix: str, digits: int) -> str:
    """The id of a call, or one derived from it. Not drawn: the same conversation gives the same bytes."""
    fitting, attempt = id, 0
    while not fits(fitting):
        mark = hashlib.sha256(f"{attempt}:{id}".encode("utf-8", "surrogatepass")).hexdigest()
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
