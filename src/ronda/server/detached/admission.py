"""Runs that go on without their clients: whether one may (`on_disconnect`), and under which name it is found (X-Ronda-Run)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from ronda.errors import BadRequest
from ronda.wire.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.app import Server

_NAME: Final = re.compile(r"run_[0-9A-Za-z]{8,64}")


class NameTaken(BadRequest):
    status_hint = 409


class TooManyDetached(BadRequest):
    status_hint = 429


def check_detach(server: Server, request: DoorRequest) -> None:
    """Whether another run may go on without its client."""
    config = server.config
    if request.keep != "stored":
        raise BadRequest("'on_disconnect' needs a run that is stored; leave 'store' out", param="on_disconnect")
    if request.lingers != math.inf and request.lingers > config.max_grace:
        raise BadRequest(
            f"'on_disconnect' asks for {request.lingers:g} seconds; this server gives {config.max_grace:g}",
            param="on_disconnect",
        )
    if sum([live.run.start.outlives for live in server.runs.live.values()]) >= config.max_detached:
        raise TooManyDetached(
            f"{config.max_detached} runs that outlive their connection are under way, and no more are allowed; try again later",
            param="on_disconnect",
        )


def check_background(request: DoorRequest, *, has_place: bool) -> None:
    """Whether a run may be left to the queue."""
    if not has_place:
        raise BadRequest("'background' does not go with this address", param="background")
    if request.keep != "stored":
        raise BadRequest("'background' needs a run that is stored; leave 'store' out", param="background")


async def check_name(server: Server, request: DoorRequest, name: str) -> None:
    """A client may name its run itself, if nobody has."""
    if request.n > 1:
        raise BadRequest("the header X-Ronda-Run names one run; it does not go with 'n'", param="n")
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"the header X-Ronda-Run is {name[:80]!r}; a run is named run_ and 8 to 64 letters and digits",
            param="X-Ronda-Run",
        )
    runs = server.runs
    if name in runs.live or await runs.journal.read(name) or await runs.memory.read(name):
        raise NameTaken(f"there is a run named '{name}' already; choose another name", param="X-Ronda-Run")
