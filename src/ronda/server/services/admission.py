"""Runs that go on without their clients: whether one may (`on_disconnect`), and under which name it is found (X-Ronda-Run)."""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from ronda.errors import BadRequest
from ronda.store.queue import may_have
from ronda.wire.shared.door_request import DoorRequest

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig
    from ronda.server.services.runs import Runs

# Of a run that its client names: not 24 hexadecimal digits, which an id has that Ronda makes (`runs.new_id`). So an address says
# which of the two it has, and to give another owner's id as a name tells nothing of that run.
_NAME: Final = re.compile(r"run_(?![0-9a-f]{24}$)[0-9A-Za-z]{8,64}")


class NameTaken(BadRequest):
    status_hint = 409


class TooManyDetached(BadRequest):
    status_hint = 429


def check_detach(runs: Runs, config: ServerConfig, request: DoorRequest, owner: str) -> None:
    """Whether another run may go on without its client."""
    if request.keep != "stored":
        raise BadRequest("'on_disconnect' needs a run that is stored; leave 'store' out", param="on_disconnect")
    if request.lingers != math.inf and request.lingers > config.max_grace:
        raise BadRequest(
            f"'on_disconnect' asks for {request.lingers:g} seconds; this server gives {config.max_grace:g}",
            param="on_disconnect",
        )
    owners = [live.run.start.owner for live in runs.live.values() if live.run.start.outlives]
    if not may_have(owners.count(owner), len(owners), config.max_detached, config.max_detached_per_owner):
        whose, number = ("", len(owners)) if len(owners) >= config.max_detached else (" of yours", owners.count(owner))
        raise TooManyDetached(
            f"{number} runs{whose} that outlive their connection are under way, and no more are allowed; try again later",
            param="on_disconnect",
        )


def check_background(request: DoorRequest, *, has_place: bool) -> None:
    """Whether a run may be left to the queue."""
    if not has_place:
        raise BadRequest("'background' does not go with this address", param="background")
    if request.keep != "stored":
        raise BadRequest("'background' needs a run that is stored; leave 'store' out", param="background")


async def check_name(runs: Runs, request: DoorRequest, owner: str, name: str) -> str:
    """The id of the run that its client names itself. The owner may not have given the name before."""
    if request.n > 1:
        raise BadRequest("the header X-Ronda-Run names one run; it does not go with 'n'", param="n")
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"the header X-Ronda-Run is {name[:80]!r}; a run is named run_ and 8 to 64 letters and digits, "
            "and not with 24 hexadecimal digits, as Ronda names runs itself",
            param="X-Ronda-Run",
        )
    run = named_run(owner, name)
    is_taken = run in runs.live or bool(await runs.journal.read(run) or await runs.memory.read(run))
    if is_taken or await runs.read(name, owner):
        raise NameTaken(f"you have a run named '{name}' already; choose another name", param="X-Ronda-Run")
    return run


def named_run(owner: str, name: str) -> str:
    """The id of a run that its owner has named: it tells nothing of another owner's names, and takes none of them."""
    return "run_" + blake2b(f"{owner}\0{name}".encode(), digest_size=12).hexdigest()


async def find_named(runs: Runs, owner: str, name: str) -> str | None:
    """The id of the run that the owner has given this name; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    run = named_run(owner, name)
    is_there = run in runs.live or await runs.journal.read(run)
    return run if is_there else None
