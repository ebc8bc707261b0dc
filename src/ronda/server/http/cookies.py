"""The cookie of a browser: its name, how it is set, and whether it counts for a request.

A cookie goes along with whatever a browser sends to us, also with what another page makes it send. So it counts only where the
browser says that the page is ours (`Sec-Fetch-Site`; `Origin` where a browser says nothing of the former), whatever other pages
the operator lets in. Browsers tell no ports apart when they send cookies: without TLS the name has the port.
"""

from __future__ import annotations

from typing import Final

from ronda.server.http.incoming import Header, Incoming

SECURE: Final = "__Host-ronda"  # browsers take a cookie of such a name only over TLS, from the host itself
PLAIN: Final = "ronda"


def plain_name(request: Incoming) -> str:
    _, _, port = (request.header(b"host") or "").rpartition(":")
    return f"{PLAIN}-{port}" if port.isdigit() else PLAIN


def is_over_tls(request: Incoming) -> bool:
    """A proxy may have taken the TLS off; the browser's word for the page that it shows stays."""
    return request.scheme == "https" or (request.header(b"origin") or "").lower().startswith("https://")


def name_for(request: Incoming) -> str:
    return SECURE if is_over_tls(request) else plain_name(request)


def cookies_of(request: Incoming) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in (request.header(b"cookie") or "").split(";"):
        name, _, value = pair.strip().partition("=")
        found.setdefault(name, value)
    return found


def cookie_of(request: Incoming) -> tuple[str, str] | None:
    """The name and the value of our cookie."""
    found = cookies_of(request)
    for name in (SECURE, plain_name(request)):
        if found.get(name):
            return name, found[name]
    return None


def is_own_page(request: Incoming, name: str = "") -> bool:
    """Whether a page of ours sends this. `name` is that of the cookie: one that is for TLS counts for pages that have it."""
    site = request.header(b"sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    scheme, _, place = (request.header(b"origin") or "").lower().partition("://")
    if not place or place != (request.header(b"host") or "").lower():
        return False
    return scheme == "https" if name == SECURE else scheme in ("http", "https")


def set_cookie(name: str, value: str, seconds: float) -> Header:
    """For so long; 0: the browser is to forget it."""
    secure = "; Secure" if name == SECURE else ""
    text = f"{name}={value}; Path=/; Max-Age={seconds:.0f}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", text.encode("latin-1")
