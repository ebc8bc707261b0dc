"""What driving a run asks of others: a model, tools, and somebody who listens. Two small protocols, and the values they pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from ronda.core.events import Event, ModelFinished, Preview
from ronda.core.parts import NO_USAGE, Attachment, Turn, Usage
from ronda.core.plan import Options, Plan, ToolSpec
from ronda.core.request import ModelRequest

# False: whoever watches is far behind. A provider then awaits `request.room` before it reads on.
Show: TypeAlias = Callable[[list[Preview]], bool | None]
Emit: TypeAlias = Callable[[list[Event]], bool | None]  # of previews, the same
Barrier: TypeAlias = Callable[[], Awaitable[None]]
Exclusive: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]
Summarize: TypeAlias = Callable[[Sequence[Turn]], str | Awaitable[str]]
# (the tool's context, an agent, its inputs, "single" or "agentic") → what the agent said. It runs as a child of the run.
StartChild: TypeAlias = "Callable[[ToolContext, Any, dict[str, Any], str], Awaitable[ToolOutput]]"


class Provider(Protocol):
    """A model somewhere. Raises UpstreamError; once it has shown something it is not asked to repeat it."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished: ...


def check_plan(provider: Provider, plan: Plan) -> None:
    """Let a provider that can tell refuse what it cannot do, by name and before a run starts."""
    check = getattr(provider, "check", None)
    if check is not None:
        check(plan)


def enforces_format(provider: Provider, options: Options) -> bool:
    """Whether the provider cannot but answer in the form that was asked for: always, or in forms it can tell."""
    enforces = getattr(provider, "enforces_format", False)
    return bool(enforces(options) if callable(enforces) else enforces)


class ToolContext(Struct, frozen=True):
    """What a tool may know of where it runs. `key` is the same when the same call is tried again."""

    # Not gc=False: `start_child` knows the run, and the traceback of a call that was cancelled knows this.

    run: str
    session: str
    round: int
    call_id: str
    start_child: StartChild | None = None  # how a tool starts an agent; None where nobody can

    @property
    def key(self) -> str:
        return f"{self.run}-{self.round}-{self.call_id}"


class ToolOutput(Struct, frozen=True, gc=False):
    """What a tool gave. One that is an agent says what that used; it counts as the run's own."""

    content: str
    attachments: tuple[Attachment, ...] = ()
    failed: bool = False
    usage: Usage = NO_USAGE
    tool_calls: int = 0


class Tool(Protocol):
    """Something that runs a call. It raises freely: any exception becomes a failed result the model can read."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput: ...
