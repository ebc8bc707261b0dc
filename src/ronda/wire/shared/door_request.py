"""What a request asks of the server, whatever dialect it is in: what every door's reader gives and the server works with."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from ronda.core.events import RunStarted
from ronda.core.parts import Turn
from ronda.core.plan import AUTO, NO_OPTIONS, Approval, Options, ToolChoice, ToolSpec
from ronda.core.splice import SessionMode
from ronda.core.supplies import RequestedFile
from ronda.wire.codec.json import encode
from ronda.wire.shared.approvals import Decision
from ronda.wire.shared.capabilities import Need
from ronda.wire.shared.supplies import ANY_CONTAINER, ContainerWish

T = TypeVar("T")


@cache
def _decoder_of(options: type[T]) -> Callable[[Raw], T]:
    return msgspec.json.Decoder(options).decode


class AnswerOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a writer must know of the request that a run does not say. It is kept with the run, so a log is all that is
    needed to write its answer again.

    A dialect that has more to know extends this.
    """

    key: ClassVar[str] = "answer"  # where a run keeps it

    model: str = ""  # by the name it is to be called in the answer
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, start: RunStarted) -> Self:
        """Of a run that has none the usual ones: another door's, or one that was journaled before they were kept."""
        raw = start.about.get(cls.key)
        return cls() if raw is None else _decoder_of(cls)(raw)

    @property
    def about(self) -> dict[str, Raw]:
        return {self.key: Raw(encode(self))}


class Secrets(Struct, frozen=True):
    """What a request gives for the upstream only, and no journal has: `fields` in the place of options of the same names,
    `declarations` in the place of the tools' own, by their names."""

    fields: dict[str, Raw] = {}
    declarations: dict[str, Raw] = {}

    def __repr__(self) -> str:
        return "Secrets(…)"


OnBusy: TypeAlias = Literal["queue", "reject", "interrupt"]


class SessionWish(Struct, frozen=True, gc=False):
    """The session that a request continues, how, and what is to happen while another run does so."""

    name: str
    mode: SessionMode = "auto"
    on_busy: OnBusy = "queue"


class DoorRequest(Struct, frozen=True, kw_only=True):
    """A request that was found to make sense, as far as that can be said without knowing the server.

    A dialect that has more to remember for writing its answer extends this.
    """

    model: str
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = AUTO
    options: Options = NO_OPTIONS
    stream: bool = False
    n: int = 1
    max_tool_rounds: int | None = None
    max_tool_calls: int | None = None
    truncates: bool = False  # what is too long for the model may be cut
    session: SessionWish | None = None
    conversation: str = ""  # the one that the run is part of, where the dialect has its own
    parent: tuple[str, int] | None = None  # the run this one goes on from, where the dialect names it
    keep: Literal["stored", "memory"] = "stored"
    lingers: float = 0.0  # seconds that its runs go on when the client is gone; math.inf: until they are over
    permission: Approval = "auto"  # of every call of a tool that runs here: what the server says, or stricter
    disabled_tools: tuple[str, ...] = ()  # of the server, by name: the run goes without them
    background: bool = False  # it is queued, and no client waits for it
    inputs: dict[str, Any] = {}  # for an agent that has some
    ids: dict[str, str] = {}  # what the caller calls some of the calls → what the model called them
    needs: tuple[Need, ...] = ()  # what the server must have for it
    container: ContainerWish = ANY_CONTAINER  # where code is to run for it, and with what
    outputs: tuple[RequestedFile, ...] = ()  # files that it wants to get
    secrets: Secrets | None = None
    answer: AnswerOptions = AnswerOptions()
    about: dict[str, Raw] = {}  # kept with the run, beside the options of its answer
    is_usual: bool = False  # it says no more than `model`, `turns`, `stream` and `answer`
    # About calls that an earlier answer waits for: it goes on, and nothing else is read.
    decisions: tuple[Decision, ...] = ()
