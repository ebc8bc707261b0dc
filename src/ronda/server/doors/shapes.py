"""Addresses that several APIs share: a handler is told whose client asks, and what goes wrong is told in that API's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Final, TypeVar

from starlette.types import ASGIApp

from ronda.errors import RondaError
from ronda.server.doors.chat import chat_error
from ronda.server.doors.messages_route import messages_error
from ronda.server.http.failure import error_answer, failure_of
from ronda.server.http.incoming import Incoming
from ronda.store import StoreError

S = TypeVar("S", bound=str)
D = TypeVar("D")  # a door

_TELLING: Final = ("anthropic-version", "anthropic-beta", "user-agent")  # headers that tell whose client it is


def with_shape(
    shape_of: Callable[[Mapping[str, str], Mapping[str, Sequence[str]]], S],
) -> Callable[[Callable[[D, Incoming, S], Awaitable[ASGIApp]]], Callable[[D, Incoming], Awaitable[ASGIApp]]]:
    """`shape_of` decides by headers and query; the names of Anthropic's shapes begin with `anthropic`."""

    def decorate(
        handler: Callable[[D, Incoming, S], Awaitable[ASGIApp]],
    ) -> Callable[[D, Incoming], Awaitable[ASGIApp]]:
        @wraps(handler)
        async def handle(door: D, incoming: Incoming) -> ASGIApp:
            headers = {name: value for name in _TELLING if (value := incoming.header(name.encode())) is not None}
            shape = shape_of(headers, incoming.query)
            try:
                return await handler(door, incoming, shape)
            except RondaError as error:
                if incoming.method == "DELETE" and isinstance(error, StoreError):
                    raise  # the app may make room, and ask again
                return error_answer(failure_of(error), messages_error if shape.startswith("anthropic") else chat_error)

        return handle

    return decorate
