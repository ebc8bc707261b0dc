"""Addresses: a request → the row of the table that answers it, and what is said where there is none.

The table itself is in `routes`; this knows no dialect and no handler.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp

from ronda.server.http.failure import ErrorWriter
from ronda.server.http.incoming import NO_PLACES, Incoming
from ronda.store.values.scopes import Right
from ronda.wire.shared.capabilities import Capability
from ronda.wire.shared.failures import Failure

Handler: TypeAlias = Callable[[Incoming], Awaitable[ASGIApp]]

# What a key must be good for: nothing at all, looking at what is kept, changing it, or asking models.
KeyScope: TypeAlias = Literal["public", "read", "write", "run"]

ANTHROPIC_VERSION: Final = b"anthropic-version"  # a header that all clients of Anthropic's send
WEBSOCKET: Final = "WEBSOCKET"  # stands for the method of a connection that is upgraded

UNMATCHED: Final = "<unmatched>"  # the path of a request that no row answers, for logs and figures

# What probes, scrapers and the web page ask for all the time: left out of logs and figures.
_HOUSEKEEPING: Final = frozenset(
    ("/", "/health", "/ready", "/metrics", "/docs", "/openapi.json", "/api-doc/openapi.json", "/ui")
)

_PLACE: Final = re.compile(r"\{(\w+)(:path)?\}")
# Of 1: what is still taken for a slip of the pen. At 0.7 '/v1/moderations', which is not here, was close to '/v1/conversations'.
_CLOSE_ENOUGH: Final = 0.8
_LONGEST_GUESSED: Final = 100  # characters of an address that are compared with others


class Dialect(Struct, frozen=True):
    """An API that clients know: its name, and how it says that something went wrong.

    `loads` are modules that it is imported from with the first request, off the event loop.
    """

    name: str
    error: ErrorWriter
    loads: tuple[str, ...] = ()
    anthropic_error: ErrorWriter | None = None  # at addresses that clients of Anthropic's have too
    door: str = "own"  # its name in the scopes of keys; "": open to every key

    def error_for(self, headers: Mapping[bytes, bytes]) -> ErrorWriter:
        """How it says to this client that something went wrong."""
        return self.error if self.anthropic_error is None or ANTHROPIC_VERSION not in headers else self.anthropic_error


class Route(Struct, frozen=True):
    """One row. `{name}` in a path stands for one segment, `{name:path}` for all that is left.

    What needs a `capability` is there on servers that have it. What is asked of a run, its driver answers. What
    `needs_store` is refused while the database is away.
    """

    method: str
    path: str
    dialect: Dialect
    handler: Handler
    scope: KeyScope
    capability: Capability | None = None
    of_run: str | None = None  # the name of the run that its `id` stands for begins with this; None: it is about no run
    needs_store: bool = True
    loads: tuple[str, ...] = ()  # as those of a dialect: what answers is imported with the first request
    right: Right | None = None  # what concerns all owners: the scope that a key must have for it


def is_housekeeping(method: str, path: str) -> bool:
    """Of a row's path; so is a browser's question whether it may ask."""
    return method == "OPTIONS" or path in _HOUSEKEEPING or path.startswith("/ui/")


async def _no_handler(request: Incoming) -> ASGIApp:
    raise AssertionError("a request that no row answers has no handler")


def unmatched(method: str, dialect: Dialect) -> Route:
    """Stands for the row of a request that has none."""
    return Route(method, UNMATCHED, dialect, _no_handler, "public")


class Routes:
    """The table, ready to be looked up. A path that is written out hides those with places in it."""

    def __init__(self, rows: Iterable[Route], default: Dialect) -> None:
        """`default` is the dialect of addresses that no row is near to."""
        self.rows = tuple(rows)
        self._default = default
        self._fixed: dict[str, dict[str, Route]] = {}
        self._open: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        self._dialects: dict[str, Dialect] = {}
        for row in self.rows:
            if "{" in row.path:
                methods = self._open.setdefault(row.path, (_pattern(row.path), {}))[1]
            else:
                methods = self._fixed.setdefault(row.path, {})
            assert row.method not in methods, f"{row.method} {row.path} stands in the table twice"
            methods[row.method] = row
            if row.method == "GET":
                methods["HEAD"] = row
            self._dialects.setdefault(_family(row.path), row.dialect)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]] | Failure:
        """The row of a request and what stands in its places; or why there is none."""
        fixed = self._fixed.get(path)
        if fixed is not None and (row := fixed.get(method)) is not None:  # nearly always
            return row, NO_PLACES
        methods, places = self._at(path)
        if (row := methods.get(method)) is not None:
            return row, places
        if not methods.keys() - {WEBSOCKET}:
            return Failure(404, "invalid_request_error", f"there is nothing at {method} {path}" + self._guess(path))
        message = f"{path} does not take {method}; it takes {', '.join(self.allowed(path))}"
        return Failure(405, "invalid_request_error", message)

    def allowed(self, path: str) -> list[str]:
        """The methods of an address."""
        return sorted(self._at(path)[0].keys() - {WEBSOCKET})

    def dialect_of(self, path: str) -> Dialect:
        """In which dialect to say what is wrong with an address, whether it exists or not."""
        return self._dialects.get(_family(path), self._default)

    def _at(self, path: str) -> tuple[dict[str, Route], Mapping[str, str]]:
        # Clients join addresses in their own ways: one with a slash at its end is the same address.
        for address in (path, path.rstrip("/")):
            if (methods := self._fixed.get(address)) is not None:
                return methods, NO_PLACES
            for pattern, methods in self._open.values():
                if (found := pattern.fullmatch(address)) is not None:
                    return methods, found.groupdict()
            if not address.endswith("/"):
                break
        return {}, NO_PLACES

    def _guess(self, path: str) -> str:
        """A client whose base address lacks the /v1, or has it twice, is the commonest way to miss an address."""
        known = {_unversioned(address): address for address in self._fixed}
        close = difflib.get_close_matches(_unversioned(path[:_LONGEST_GUESSED]), known, 1, _CLOSE_ENOUGH)
        return f"; did you mean {known[close[0]]}?" if close else ""


def _unversioned(path: str) -> str:
    """Without the /v1, which all addresses share: that much alike tells nothing."""
    return "/".join([word for word in path.split("/") if word not in ("", "v1")])


def _pattern(path: str) -> re.Pattern[str]:
    pieces, at = [], 0
    for place in _PLACE.finditer(path):
        pieces += [re.escape(path[at : place.start()]), f"(?P<{place[1]}>{'.+' if place[2] else '[^/]+'})"]
        at = place.end()
    return re.compile("".join([*pieces, re.escape(path[at:])]), re.DOTALL)


def _family(path: str) -> str:
    """`/v1/responses/x/cancel` → `/v1/responses`, `/api/export` → `/api`: what a dialect's addresses begin with."""
    return "/".join(path.split("/", 3)[: 3 if path.startswith("/v1/") else 2])
