"""What a program does before and after each model call and each tool call of a run.

    class Audit(Hooks):
        async def before_tool(self, name, arguments, context):
            print("calling", name)

    run_agent(agent, "…", extensions=[Audit()])

Hooks are an extension (`host.extension`), so that the runs which a run starts have them, too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, Tool, ToolContext, ToolOutput, capabilities_of
from ronda.host.extension import Tap

if TYPE_CHECKING:
    from ronda.core.run import Run


T = TypeVar("T")
# What `await super().…` gives is T or None. A method may be plain as well: `Any` is what lets a type checker take one, and so it
# does not check what a plain method returns. (A union of both kinds could not be awaited, and one kind alone not be overridden.)
Changed: TypeAlias = Awaitable[T | None] | Any


class Hooks:
    """Override what you need, with `async def` or a plain `def`. Each method returns what is used from there on, or None to
    leave it as it is. The methods here change nothing: `await super().before_tool(…)` gives None."""

    def before_model(self, request: ModelRequest) -> Changed[ModelRequest]:
        """Before each attempt to get an answer. What you return is sent; the conversation of the run stays as it is."""
        return _UNCHANGED

    def after_model(self, request: ModelRequest, answer: ModelFinished) -> Changed[ModelFinished]:
        """With an answer that is complete. What you return becomes part of the conversation; a stream has shown the old one."""
        return _UNCHANGED

    def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Changed[dict[str, Any]]:
        """Before a call that was checked, and approved where that was needed. Raise `ToolFailed("…")` to refuse it: the model
        reads your words."""
        return _UNCHANGED

    def after_tool(
        self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext
    ) -> Changed[ToolOutput]:
        """With what a tool gave. Not asked about one that raised."""
        return _UNCHANGED

    # ---- as an extension ---------------------------------------------------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        return _HookedProvider(self, provider)

    def around_tool(self, run: Run, tool: Tool) -> Tool:
        return _HookedTool(self, tool)

    def tap(self, run: Run) -> Tap | None:
        return None


class _Unchanged:
    """None, to be awaited or not: a coroutine that a plain method drops would be warned about."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_UNCHANGED: Final = _Unchanged()


async def _answer(returned: Changed[T]) -> T | None:
    found: T | None = await returned if isawaitable(returned) else returned
    return found


class _HookedProvider:
    def __init__(self, hooks: Hooks, provider: Provider) -> None:
        self._hooks = hooks
        self._provider = provider

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        changed: ModelRequest | None = await _answer(self._hooks.before_model(request))
        if changed is not None and changed is not request:
            request = replace(changed, scratch={}, is_heavy=None)  # what was written for the old one does not hold
        answer = await self._provider.call(request, show)
        found: ModelFinished | None = await _answer(self._hooks.after_model(request, answer))
        if found is None or found.turn == answer.turn:
            return answer if found is None else found
        # The upstream's own JSON would be sent back to it in the place of the new turn.
        return replace(found, turn=replace(found.turn, native=None))


class _HookedTool:
    def __init__(self, hooks: Hooks, tool: Tool) -> None:
        self._hooks = hooks
        self._tool = tool
        self.spec = tool.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        name = self.spec.name
        changed: dict[str, Any] | None = await _answer(self._hooks.before_tool(name, arguments, context))
        arguments = arguments if changed is None else changed
        output = await self._tool.run(arguments, context)
        if output.questions:  # an agent that waits for people: it has given nothing yet
            return output
        found: ToolOutput | None = await _answer(self._hooks.after_tool(name, arguments, output, context))
        return output if found is None else found
