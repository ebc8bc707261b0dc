"""What driving a run asks of its tools and its listeners: protocols, and the values they pass. Of its model: `provider`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from ronda.core.events import Asked, Event, ModelFinished
from ronda.core.parts import NO_USAGE, Attachment, File, Turn, Usage
from ronda.core.plan import Options, ToolSpec
from ronda.errors import ToolFailed

NO_DEPS: Final = object()  # of a run whose program gave nothing to its tools: None may be what was given
NO_PERSON_TO_ASK: Final = "there is no person to ask"

# Of previews, False: the followers are far behind (`provider.Show`).
Emit: TypeAlias = Callable[[list[Event]], bool | None]
# Why the task that drives a run was cancelled: a caller wanted its end, another request wants its session, its process ends with
# it, or another process drives on.
StopReason: TypeAlias = Literal["cancelled", "superseded", "interrupted", "let go"]
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Exclusive: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]
Summarize: TypeAlias = Callable[[Sequence[Turn]], str | Awaitable[str]]
# (the tool's context, an agent, its inputs, "single" or "agentic") → what the agent said. It runs as a child of the run.
AskModel: TypeAlias = Callable[[str, Sequence[Turn], Options], Awaitable[ModelFinished]]
StartChild: TypeAlias = "Callable[[ToolContext, Any, dict[str, Any], str], Awaitable[ToolOutput]]"


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
        """The ids of files with results that were too long, in the conversation that the run continues."""
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

    The model reads `content` and sees the `attachments`. `details` are for people and programs: what is shown of the call besides
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

    async def shorten(self, output: ToolOutput, limit: int, spec: ToolSpec, context: ToolContext) -> ToolOutput:
        """Its beginning and its end, `limit` characters together, and in `whole` where all of it is; the same where that cannot
        be kept."""


OpenLongResults: TypeAlias = Callable[[], LongResults]  # with the first that is too long: most runs have none
