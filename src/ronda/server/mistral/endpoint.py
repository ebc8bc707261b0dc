"""One address of Mistral's API: a request → an answer, and everything that goes wrong on the way in Mistral's words."""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from ronda.server.exchange import Incoming, Json
from ronda.wire.failures import Failure
from ronda.wire.json import encode
from ronda.wire.mistral.details import Invalid, read_value, refuse

if TYPE_CHECKING:
    from ronda.server.app import Server

# What stands in the address, by name.
Places: TypeAlias = dict[str, str]
Handler: TypeAlias = Callable[["Server", Incoming, Places], Awaitable[ASGIApp]]

MOST_ON_A_PAGE = 1000
# mistralai 3.7.0 sends its own word for "not said" where a filter is left out.
_UNSET: Final = '"~?~unset~?~sentinel~?~"'


def mistral_error(failure: Failure) -> bytes:
    return encode(
        {
            "object": "error",
            "message": failure.message,
            "type": failure.type,
            "param": failure.param,
            "code": failure.code,
        }
    )


def invalid(error: Invalid) -> Json:
    return Json(error.body(), 422)


class Endpoint:
    """What a route calls. Errors other than a 422 are said by the app, which knows the dialect of the address."""

    def __init__(self, server: Server, handler: Handler) -> None:
        self._server = server
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._handler(self._server, Incoming(scope, receive), _places(scope))
        except Invalid as error:
            answer = invalid(error)
        await answer(scope, receive, send)


def _places(scope: Scope) -> Places:
    return {**scope.get("path_params", {}), "?": scope.get("query_string", b"").decode("latin-1")}


class Asks:
    """What a query asks for, checked: a 422 names what cannot be read."""

    def __init__(self, places: Places) -> None:
        self._said = urllib.parse.parse_qs(places["?"], keep_blank_values=True, encoding="utf-8", errors="replace")

    def text(self, name: str) -> str | None:
        said = self._said.get(name)
        return said[-1] if said else None

    def texts(self, name: str) -> list[str]:
        return self._said.get(name, [])

    def needed(self, name: str) -> str:
        said = self.text(name)
        if said is None:
            refuse("missing", ("query", name), "Field required")
        return said

    def number(self, name: str, default: int | None, least: int = 0, most: int = 2**53) -> int:
        said = self.text(name)
        if said is None:
            if default is None:
                refuse("missing", ("query", name), "Field required")
            return default
        try:
            number = int(said) if len(said) < 20 else -1
        except ValueError:
            refuse("int_parsing", ("query", name), "Input should be a valid integer", said)
        if not least <= number <= most:
            refuse("value_error", ("query", name), f"Input should be from {least} to {most}", said)
        return number

    def flag(self, name: str) -> bool | None:
        said = self.text(name)
        if said is None or said == "":
            return None
        if said.lower() not in ("true", "false", "1", "0"):
            refuse("bool_parsing", ("query", name), "Input should be a valid boolean", said)
        return said.lower() in ("true", "1")

    def metadata(self) -> dict[str, Any] | None:
        said = self.text("metadata")
        if not said or said == _UNSET:
            return None
        wanted: dict[str, Any] | None = read_value(said.encode(), dict[str, Any] | None, ("query", "metadata"))
        return wanted

    def page(self, size: int) -> tuple[int, int]:
        """Which items: (from, to)."""
        page = self.number("page", 0)
        size = self.number("page_size", size, 1, MOST_ON_A_PAGE)
        return page * size, (page + 1) * size


def matches(kept: Any, wanted: Any) -> bool:
    """Whether metadata has all that a filter asks for."""
    if isinstance(wanted, dict):
        return isinstance(kept, dict) and all(name in kept and matches(kept[name], wanted[name]) for name in wanted)
    return bool(kept == wanted)
