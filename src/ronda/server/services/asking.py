"""A run that is being set up, as features are told about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from msgspec import Struct

from ronda.core.parts import Turn
from ronda.core.plan import ToolChoice
from ronda.server.services.models import Target
from ronda.wire.shared.capabilities import Need
from ronda.wire.shared.door_request import DoorRequest

# The id of the API key that a request came with, for the runs that it opens: a feature that counts by keys sets it.
CALLER_KEY: ContextVar[str] = ContextVar("ronda_caller_key", default="")


class Ask(Struct, frozen=True):
    """A run that is being set up: who asks whom for what. `rights`: what the caller's key may do; None is everything."""

    owner: str
    request: DoorRequest
    target: Target
    needs: Sequence[Need]  # of the request and of its target
    turns: tuple[Turn, ...]
    choice: ToolChoice
    exclusive: bool = False  # the target's tools are all that there are
    rights: frozenset[str] | None = None
