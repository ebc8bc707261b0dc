"""Where pages find what this server serves: the address that the operator names, or the one that was asked for."""

from __future__ import annotations

import re
from typing import Final

from ronda.server.http.incoming import Incoming

_HOST: Final = re.compile(r"[A-Za-z0-9.\-]{1,255}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")


def public_address(public: str | None, incoming: Incoming) -> str:
    """`public` is what the settings say. "" where the request names no host that could be one: addresses are then relative to
    the page's own."""
    if public is not None:
        return public.rstrip("/")
    host = incoming.header(b"host") or ""
    scheme = "https" if incoming.scheme in ("wss", "https") else "http"
    return f"{scheme}://{host}" if _HOST.fullmatch(host) else ""
