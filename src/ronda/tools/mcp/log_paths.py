"""Addresses of servers → logs of the packages that call them, without paths and passwords: a path may be as secret as a key.

Ronda's own lines leave them out themselves (`connection`). The packages write whole addresses, `httpx2` for every request. A path
is known here for as long as a connection with its server is open.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

# Each that writes lines: a filter of a logger does not see the lines of those below it.
_LOGGERS: Final = (
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.auth.utils",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "websockets.client",
)
_known: Final[Counter[str]] = Counter()
_format_error: Final = logging.Formatter().formatException


class _WithoutPaths(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = _hide(record.getMessage()), ()
        if record.exc_info:
            record.exc_text, record.exc_info = _hide(_format_error(record.exc_info)), None
        return True


_filter: Final = _WithoutPaths()


def _hide(text: str) -> str:
    for path in sorted(_known, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(path, "…@" if path.endswith("@") else "/…")
    return text


@contextmanager
def hidden_path(address: str) -> Iterator[None]:
    """What these packages log meanwhile says nothing of the address's path and query, nor of a name and a password in it."""
    parts = urlsplit(address)
    user, mark, _ = parts.netloc.rpartition("@")
    hidden = {parts.path + (f"?{parts.query}" if parts.query else ""), parts.path, user + mark} - {"", "/"}
    if not hidden:
        yield
        return
    _known.update(hidden)
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_filter)  # which adds it once
    try:
        yield
    finally:
        _known.subtract(hidden)
        for one in hidden:
            if _known[one] <= 0:
                del _known[one]
