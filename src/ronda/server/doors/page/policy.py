"""What a browser lets the page do, and a preview inside it: headers.

The page runs no script and loads nothing but its own files, and makes no node of a text: a model's words stay words. A preview
is a page of its own without an origin: it reaches neither the page around it, nor what that keeps, nor the network.
"""

from __future__ import annotations

from typing import Final

from ronda.server.http.incoming import Header

_PAGE: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob: data:",
        "font-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
)
_FRAME: Final = (
    "sandbox allow-scripts; default-src 'unsafe-inline' data: blob:; connect-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'"
)

_BOTH: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PAGE_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-security-policy", _PAGE.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    *_BOTH,
)
FRAME_HEADERS: Final[tuple[Header, ...]] = ((b"content-security-policy", _FRAME.encode()), *_BOTH)
