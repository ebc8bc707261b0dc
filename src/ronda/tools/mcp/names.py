"""A tool's name on its server → its name for the model: unique, at most 64 characters of those that every vendor takes, and the
same each time.

A name that had to be changed beyond its prefix ends in a piece of the hash of the whole, so that it depends on nothing but
itself.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import Final

MAX_NAME: Final = 64  # OpenAI's and Mistral's limit; Anthropic takes more
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_-]+")


def offered_name(prefix: str | None, tool: str) -> str:
    whole = tool if prefix is None else f"{prefix}_{tool}"
    name = _FORBIDDEN.sub("_", whole)
    if name == whole and len(name) <= MAX_NAME and name[:1].isidentifier():
        return name
    return _with_hash(name, whole)


def distinct_names(
    tools: Iterable[tuple[str, str | None, str]], others: Collection[str] = ()
) -> dict[tuple[str, str], str]:
    """(server, its prefix, tool) → the name of each, by (server, tool). The first of two that would share a name keeps it.

    `others` are names of tools that come from elsewhere."""
    names: dict[tuple[str, str], str] = {}
    taken = set(others)
    for server, prefix, tool in tools:
        name = offered_name(prefix, tool)
        if name in taken:
            name = _with_hash(name, f"{server}\0{tool}")
        taken.add(name)
        names[server, tool] = name
    return names


def _with_hash(name: str, whole: str) -> str:
    mark = blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    if not name[:1].isidentifier():  # Gemini wants a letter or `_` first
        name = f"t_{name}"
    return f"{name[: MAX_NAME - 9]}_{mark}"
