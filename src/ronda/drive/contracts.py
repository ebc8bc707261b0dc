"""What driving a run asks of others: a model, tools, and a listener. Two small protocols, and the values they pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from ronda.core.events import Asked, Event, ModelFinished, Preview
from ronda.core.parts import NO_USAGE, Attachment, File, Turn, Usage
from ronda.core.plan import Options, Plan, ToolSpec
from ronda.core.request import ModelRequest
from ronda.errors import ToolFailed
from ronda.wire.upstream.projection import Projection

NO_DEPS: Final = object()  # of a run whose program gave nothing to its tools: None may be what was given
NO_PERSON_TO_ASK: Final = "there is no person to ask"

# False: the followers are far behind. A provider then awaits `request.room` before it reads on.
Show: TypeAlias = Callable[[list[Preview]], bool | None]
Emit: TypeAlias = Callable[[list[Event]], bool | None]  # of previews, the same
# Why the task that drives a run was cancelled: a caller wanted its end, another request wants its session, its process ends with
# it, or another process drives on.
StopReason: TypeAlias = Literal["cancelled", "superseded", "interrupted", "let go"]
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Exclusive: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]
Summarize: TypeAlias = Callable[[Sequence[Turn]], str | Awaitable[str]]
# (the tool's context, an agent, its inputs, "single" or "agentic") → what the agent said. It runs as a child of the run.
AskModel: TypeAlias = Callable[[str, Sequence[Turn], Options], Awaitable[ModelFinished]]
StartChild: TypeAlias = "Callable[[ToolContext, Any, dict[str, Any], str], Awaitable[ToolOutput]]"


CallMany: TypeAlias = Callable[[ModelRequest, list[Show]], Awaitable[list[ModelFinished]]]
Project: TypeAlias = Callable[[ModelRequest], Projection]


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
    """What a provider can do beside answering. None: it cannot."""

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
    # Takes the model out of this machine's memory until its next use; False while it answers. Waits: call it beside the loop.
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
    hosts_tools: bool = False  # its service is known to run tools of its own


_ANSWERS: Final = Capabilities()


def capabilities_of(provider: Provider) -> Capabilities:
    """What a provider says of itself, as `capabilities`. One that says nothing can answer, and no more."""
    capabilities: Capabilities = getattr(provider, "capabilities", _ANSWERS)
    return capabilities


class Channel(Protocol):
    """How a tool that is running reaches the run: shows something, asks a person, sees what the run was given."""

    @property
    def files(self) -> tuple[File, ...]: ...

    @property
    def whole_results(self) -> frozenset[str]: ...

    @property
    def marks(self) -> frozenset[str]: ...

    def progress(self, call_id: str, text: str, stream: str = "", part: int = 0) -> None: ...

    async def ask(self, call_id: str, message: str, schema: Mapping[str, Any] | None) -> dict[str, Any] | None: ...


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # typeshed has it: what the type checker reads is not installed

    Deps = TypeVar("Deps", default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")


class ToolContext(Struct, Generic[Deps], frozen=True):
    """What a tool may know of where it runs. `key` is the same when the same call is tried again.

    A tool that takes a `ToolContext[Database]` finds the program's own `Database` in `deps`: `run_agent(…, deps=database)`.
    """

    # Not gc=False: `channel` knows the run, and the traceback of a call that was cancelled knows this.

    run: str
    session: str
    round: int
    call_id: str
    start_child: StartChild | None = None  # how a tool starts an agent; None where it cannot
    owner: str = ""  # whose run it is
    deadline: float | None = None  # when the call is given up, in seconds since 1970
    workspace: str | None = None  # a folder for the files of its run, if it has one
    channel: Channel | None = None  # None where a tool is run without a run
    model: AskModel | None = None  # how a tool asks the run's own model; None where it cannot
    # What the program gave the run for its tools. Only those that name its type are given it (`tools.deps`).
    deps: Deps = cast("Any", None)  # a constant

    @property
    def key(self) -> str:
        return f"{self.run}-{self.round}-{self.call_id}"

    @property
    def files(self) -> tuple[File, ...]:
        """Those that the conversation has brought along."""
        return () if self.channel is None else self.channel.files

    @property
    def whole_results(self) -> frozenset[str]:
        """The ids of files with results that were too long, in the conversation that the run goes on with."""
        return frozenset() if self.channel is None else self.channel.whole_results

    @property
    def marks(self) -> frozenset[str]:
        """What the run has read so far, of what must not leave on a stranger's word (`core.taint`)."""
        return frozenset() if self.channel is None else self.channel.marks

    def progress(self, text: str, stream: str = "", part: int = 0) -> None:
        """Show the followers what there is so far: from any thread, and as often as you like. The model does not see it.

        `stream` and `part` are as in `ToolProgressed`.
        """
        if self.channel is not None:
            self.channel.progress(self.call_id, text, stream, part)

    async def ask_model(self, turns: Sequence[Turn], options: Options) -> ModelFinished:
        """One answer of the run's own model, within what the run has left. Raises ToolFailed where there is none to be had."""
        if self.model is None:
            raise ToolFailed("there is no model to ask")
        return await self.model(self.call_id, turns, options)

    async def ask(self, message: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Ask a person; None if they decline, or do not answer in time. `schema` says what the answer must look like.

        Raises ToolFailed where no person can be asked.
        """
        if self.channel is None:
            raise ToolFailed(NO_PERSON_TO_ASK)
        return await self.channel.ask(self.call_id, message, schema)


def question_id(run: str, number: int) -> str:
    """Of a run's next question: derived, so that a run that is driven again asks under the same one. As mistral.rs has them."""
    return f"appr_{blake2b(f'{run} {number}'.encode(), digest_size=16).hexdigest()}"


def child_id(run: str, round_index: int, call: str) -> str:
    """The run that a call of an agent is: derived, so that the parent's next driver finds it."""
    return f"run_{blake2b(f'{run} {round_index} {call}'.encode(), digest_size=12).hexdigest()}"


class ToolOutput(Struct, frozen=True, gc=False):
    """What a tool gave. One that is an agent says what that used; it counts as the run's own.

    The model reads `content` and sees the `attachments`. `details` are for people and programs: what is told of the call beside
    it, as JSON; `files` are those that the tool made.
    """

    content: str
    attachments: tuple[Attachment, ...] = ()
    failed: bool = False
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    details: Mapping[str, Any] | None = None
    files: tuple[File, ...] = ()
    questions: tuple[Asked, ...] = ()  # of an agent whose run waits for people: there is nothing else to say yet
    whole: str = ""  # the id of the file that has all of it, where `content` leaves something out
    marks: tuple[str, ...] = ()  # what the model reads by it, beside what the labels of the tool say (`core.taint`)


class Tool(Protocol):
    """Something that runs a call. It raises freely: any exception becomes a failed result the model can read."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput: ...


class LongResults(Protocol):
    """Keeps results that are too long for a model."""

    @property
    def reader(self) -> Tool:
        """What the model reads them with."""

    async def shorten(self, output: ToolOutput, most: int, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        """Its beginning and its end, `most` characters together, and in `whole` where all of it is; the same where that cannot
        be kept."""


OpenLongResults: TypeAlias = Callable[[], LongResults]  # with the first that is too long: most runs have none
