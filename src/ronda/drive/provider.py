"""What driving a run asks of a model: one method, and what else it can do, if it says so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import Usage
from ronda.core.plan import Options, Plan
from ronda.core.request import ModelRequest

if TYPE_CHECKING:
    from ronda.wire.upstream.projection import Projection

# False: the followers are far behind. A provider then awaits `request.room` before it reads on.
Show: TypeAlias = Callable[[list[Preview]], bool | None]
CallMany: TypeAlias = Callable[[ModelRequest, list[Show]], Awaitable[list[ModelFinished]]]
Project: TypeAlias = "Callable[[ModelRequest], Projection]"


class Provider(Protocol):
    """A model somewhere. Raises UpstreamError; once it has shown something it is not asked to repeat it."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished: ...


def takes_any(plan: Plan) -> None:
    return


def _enforces_none(options: Options) -> bool:
    return False


def _takes_no_file(media_type: str) -> bool:
    return False


class Capabilities(Struct, frozen=True):
    """What a provider can do besides answering. None: it cannot."""

    # Refuses what the provider cannot do, by name and before a run starts: raises BadRequest.
    check: Callable[[Plan], None] = takes_any
    # Whether the provider cannot but answer in the form that these options ask for.
    enforces_format: Callable[[Options], bool] = _enforces_none
    # Several answers to one request; they are in the order of those they are shown to.
    call_many: CallMany | None = None
    # How many tokens a request takes. No model is called; raises UpstreamError where it is not known.
    count_tokens: Callable[[ModelRequest], Awaitable[int]] | None = None
    # What would be sent for a request, and what was changed for it.
    project: Project | None = None
    # Loads the model ahead of its first use; a line that says what was chosen for this machine.
    load: Callable[[], Awaitable[str]] | None = None
    # Takes the model out of this machine's memory until its next use; False while it answers. Waits: call it off the loop.
    unload: Callable[[], bool] | None = None
    is_loaded: Callable[[], bool] | None = None
    # Why the model cannot answer now, as is known without asking it; None if it can.
    problem: Callable[[], str | None] | None = None
    thinks: bool = False  # a model whose name does not tell: it thinks if it is told to
    takes_addresses: bool = False  # of files: it fetches them itself
    # Whether a file of this media type goes to the model as it is. Others are shown to it as text.
    takes_file: Callable[[str], bool] = _takes_no_file
    keeps_files: bool = False  # its service does: an id that is not ours may be one of its own
    # What a call that used so much would cost, in US dollars; None where no price is known.
    cost: Callable[[Usage], float | None] | None = None
    # Output tokens that it asks for where the options name no number. None: it asks for no number.
    default_output: Callable[[Options], int] | None = None
    hosts_tools: bool = False  # its service is known to run tools of its own


_ANSWERS: Final = Capabilities()


def capabilities_of(provider: Provider) -> Capabilities:
    """What a provider says of itself, as `capabilities`. One that says nothing can answer, and no more."""
    capabilities: Capabilities = getattr(provider, "capabilities", _ANSWERS)
    return capabilities
