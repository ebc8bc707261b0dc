"""Whose a request is: decided once, at the edge, by what its headers say, before anything else of it is read."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Protocol

from ronda.server.exchange import Header


class Auth(Protocol):
    async def owner(self, headers: Iterable[Header]) -> str:
        """The name of whoever asks; "" for somebody who says nothing of themselves."""


class AnyBearer:
    """For a server without keys: any is accepted, but one bearer never finds another's runs."""

    async def owner(self, headers: Iterable[Header]) -> str:
        said = credential(headers)
        return blake2b(said, digest_size=16).hexdigest() if said else ""


def credential(headers: Iterable[Header]) -> bytes:
    """`Bearer KEY`, under whichever of its names it comes; or what else `Authorization` says."""
    found = b""
    for name, value in headers:
        if name == b"authorization":
            # Schemes are the same in small letters and in capitals.
            found = b"Bearer" + value[6:] if value[:7].lower() == b"bearer " else value
        elif name == b"x-api-key" and not found:  # the same key under Anthropic's older name
            found = b"Bearer " + value
    return found
