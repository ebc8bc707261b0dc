"""A run that is being set up, as features are told of it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ronda.core.parts import Turn
from ronda.core.plan import ToolChoice
from ronda.server.services.models import Target
from ronda.wire.capabilities import Need
from ronda.wire.door_request import DoorRequest


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
