"""MCP servers that a request names: what any dialect says of one → one value. It holds secrets, and is never journaled."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Raw, Struct

from ronda.core.parts import NULL
from ronda.wire.codec.json import decode_members, decode_or, encode
from ronda.wire.shared.fields import bad

ERRORS: Final = "mcp_errors"  # where a run keeps what was wrong with a server, by its label
MAX_HEADERS: Final = 32
MAX_HEADER: Final = 8192  # characters of one, with its name
MAX_LABEL: Final = 128
# Those that a connection has itself: a caller who could say them could say whose request it is.
_OWN_HEADERS: Final = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "te", "upgrade", "cookie"}
)


class ToolFilter(Struct, frozen=True):
    """Of a server's tools those that fit all of it: None fits every tool."""

    names: tuple[str, ...] | None = None
    but: tuple[str, ...] = ()
    read_only: bool | None = None  # whether the server says that it changes nothing

    def fits(self, tool: str, *, is_read_only: bool) -> bool:
        if tool in self.but or (self.names is not None and tool not in self.names):
            return False
        return self.read_only is None or self.read_only == is_read_only


EVERY: Final = ToolFilter()
NO_TOOL: Final = ToolFilter(names=())


class NamedServer(Struct, frozen=True, kw_only=True):
    """Without a `url` a server of the operator's is meant: the one that has the name `configured`."""

    label: str
    url: str = ""
    configured: str = ""
    headers: Mapping[str, str] = {}
    token: str | None = None
    allowed: ToolFilter = EVERY
    always_asks: ToolFilter = NO_TOOL
    never_asks: ToolFilter = EVERY
    deferred: ToolFilter = NO_TOOL  # not shown to the model before it looks for them

    def __repr__(self) -> str:
        """Without what is secret: this ends up in logs and tracebacks."""
        return f"NamedServer({self.label!r})"

    def allows(self, tool: str, *, is_read_only: bool) -> bool:
        return self.allowed.fits(tool, is_read_only=is_read_only)

    @property
    def may_ask(self) -> bool:
        return self.always_asks.names != () or self.never_asks != EVERY

    @property
    def always_is_asked(self) -> bool:
        """Whether a person must approve every call, of whatever tool."""
        return self.always_asks == EVERY or self.never_asks == NO_TOOL

    def asks(self, tool: str, *, is_read_only: bool) -> bool:
        """Whether a person must approve a call. What is in neither list does."""
        if self.always_asks.fits(tool, is_read_only=is_read_only):
            return True
        return not self.never_asks.fits(tool, is_read_only=is_read_only)


def without_secrets(declaration: Raw, secret: Collection[str], address: str) -> Raw:
    """A server's declaration without these members, and without the query of its address: as it may be journaled."""
    members = decode_members(declaration)
    open_members = {name: value for name, value in members.items() if name not in secret}
    url = decode_or("", str, members.get(address, NULL))
    if url != (bare := url.partition("?")[0].partition("#")[0]):
        open_members[address] = Raw(encode(bare))
    return declaration if open_members == members else Raw(encode(open_members))


def check_label(label: str | None, path: str) -> str:
    if not label:
        raise bad(path, "is missing")
    if len(label) > MAX_LABEL or not label.isprintable():
        raise bad(path, f"must be 1 to {MAX_LABEL} printable characters")
    return label


def check_headers(headers: Mapping[str, str], path: str) -> dict[str, str]:
    if len(headers) > MAX_HEADERS:
        raise bad(path, f"has {len(headers)} headers; there can be {MAX_HEADERS}")
    for name, value in headers.items():
        is_name = (
            bool(name) and name.isascii() and all(letter.isalnum() or letter in "!#$%&'*+-.^_`|~" for letter in name)
        )
        if (
            not is_name
            or len(name) + len(value) > MAX_HEADER
            or not (value.isascii() and (value.isprintable() or not value))
        ):
            raise bad(path, "has a header that cannot be sent")  # which may be a secret: it is not repeated
        if name.lower() in _OWN_HEADERS:
            raise bad(f"{path}.{name}", "cannot be given: the connection has its own")
    return dict(headers)
