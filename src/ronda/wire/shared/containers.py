"""Sessions as the containers of OpenAI's and Anthropic's APIs: one for one, so that neither needs a table of its own."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

SESSION_SECONDS: Final = 30 * 86400  # that a session's folder stays after its last use
PREFIX: Final = "cntr_"
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def container_id(session: str) -> str:
    """A session's name as it is, or in letters that an address can have."""
    if _PLAIN.fullmatch(session):
        return PREFIX + session
    return f"{PREFIX}_{base64.urlsafe_b64encode(session.encode()).decode().rstrip('=')}"


def session_of(container: str) -> str | None:
    """None for what is no id of a container."""
    name = container.removeprefix(PREFIX)
    if name == container:
        return None
    if not name.startswith("_"):
        return name if _PLAIN.fullmatch(name) else None
    try:
        session = base64.b64decode(name[1:] + "=" * (-len(name[1:]) % 4), b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return session if session and container_id(session) == container else None
