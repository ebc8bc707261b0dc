"""Whose JSON a turn's `Native` is, as `Native.api` names it.

    DIALECT:HOST#ACCOUNT    a server's own: what it sealed (thoughts) and numbered opens only there, and only for that account
    DIALECT@caller          the caller's words, in a request of this dialect
    DIALECT                 of an unknown host: nothing sealed is sent from it

An account is told by a fingerprint of its key, which a journal may hold.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, TypeGuard
from urllib.parse import urlsplit

from msgspec.structs import replace

from ronda.core.parts import AssistantTurn, Native

_PORTS: Final = {"http": 80, "https": 443}


def maker(api: str, url: str, account: str | None) -> str:
    """`account`: the key, or another secret or name that stays the same while keys change."""
    if account is None:
        return f"{api}:{_host(url)}"
    fingerprint = blake2b(account.encode("utf-8", "surrogatepass"), digest_size=6, person=b"ronda account").hexdigest()
    return f"{api}:{_host(url)}#{fingerprint}"


def _host(url: str) -> str:
    try:
        address = urlsplit(url)
        host, port = address.hostname or "", address.port
    except ValueError:  # no address at all, as the first call will find
        return ""
    return host if port in (None, _PORTS.get(address.scheme)) else f"{host}:{port}"


def callers(api: str) -> str:
    return f"{api}@caller"


def speaks(native: Native | None, api: str) -> TypeGuard[Native]:
    """Whether it is JSON of this dialect, of any host."""
    return native is not None and native.api.startswith(api) and native.api[len(api) : len(api) + 1] in ("", ":", "@")


def made_by(turn: AssistantTurn, name: str) -> AssistantTurn:
    """A turn whose own JSON is this one's: a wire's reader knows the dialect, and its caller whom it listens to."""
    native = turn.native
    return turn if native is None else replace(turn, native=Native(name, native.payload))
