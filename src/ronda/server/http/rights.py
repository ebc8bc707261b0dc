"""What the key of a request may do, for all that is done for the request: in its task, and in tasks that it starts.

A run keeps it in its first event (`about_rights`), so that a run that goes on later, or in another process, may do no more.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

import msgspec
from msgspec import Raw

from ronda.core.events import RunStarted
from ronda.errors import BadRequest
from ronda.server.http.incoming import Incoming
from ronda.server.http.routing import Route
from ronda.store.values.scopes import Right, Scopes, scopes_of

# The scopes of the key; None: it has none, and may do what every key may.
RIGHTS: ContextVar[frozenset[str] | None] = ContextVar("ronda_rights", default=None)
_ABOUT: Final = "rights"


class Forbidden(BadRequest):
    """The key is good, but not for this."""

    status_hint = 403


def current_scopes() -> Scopes:
    return scopes_of(RIGHTS.get())


def use_rights(rights: frozenset[str] | None) -> None:
    """From now on, in this task."""
    if rights is not RIGHTS.get():
        RIGHTS.set(rights)


def about_rights(rights: frozenset[str]) -> dict[str, Raw]:
    return {_ABOUT: Raw(msgspec.json.encode(sorted(rights)))}


def rights_of(start: RunStarted) -> frozenset[str] | None:
    """What the key might do that a run was begun with."""
    kept = start.about.get(_ABOUT)
    return None if kept is None else frozenset(msgspec.json.decode(kept, type=list[str]))


def check_door(rights: frozenset[str], route: Route) -> None:
    """Raises Forbidden for an API that the key is not for."""
    door = route.dialect.door
    if door and not scopes_of(rights).allows_door(door):
        raise Forbidden(
            f"this API key is not for this address: it lacks the scope 'door:{door}'", code="door_not_allowed"
        )


def check_right(request: Incoming, right: Right) -> None:
    """Raises Forbidden for a key that lacks it. On a server without keys, callers without a name share one owner, who may
    look; what changes something for all owners needs a key."""
    may_look = right == "operate" and not request.owner and not request.key and request.rights is None
    if not may_look and not scopes_of(request.rights).has(right):
        raise Forbidden(f"this needs an API key with the scope '{right}'", code="scope_missing")
