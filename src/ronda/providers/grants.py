"""What a client needs to ask for a token. Apart from the asking, so that naming it loads no HTTP."""

from __future__ import annotations

from msgspec import Struct


class Grant(Struct, frozen=True):
    """Who asks, where, and for what."""

    url: str
    client: str
    secret: str
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the secret: this ends up in logs and tracebacks."""
        return f"Grant({self.url!r}, {self.client!r})"
