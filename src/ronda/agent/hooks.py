"""What a program does before and after each model call and each tool call of a run.

    class Audit(Hooks):
        async def before_tool(self, name, arguments, context):
            print("calling", name)

    run_agent(agent, "…", extensions=[Audit()])

Hooks are an extension (`host.extension`), so that the runs which a run starts have them, too.
"""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Capabilities, Provider, Show, Tool, ToolContext, ToolOutput, capabilities_of
from ronda.host.extension import Tap

if TYPE_CHECKING:
    from ronda.core.run import Run


T = TypeVar("T")
Changed: TypeAlias = T | Awaitable[T | None] | None  # what a plain method returns, or an async one


class Hooks:
    """Override what you need, with `async def` or a plain `def`. Each method returns what is used from there on, or None to
    leave it as it is."""

    def before_model(self, request: ModelRequest) -> Changed[ModelRequest]:
        """Before each attempt to get an answer. What you return is sent; the conversation of the run stays as it is."""
        return None

    def after_model(self, request: ModelRequest, answer: ModelFinished) -> Changed[ModelFinished]:
        """With an answer that is complete. What you return becomes part of the conversation; a stream has shown the old one."""
        return None

    def before_tool(self, name: str, arguments: dict[str, Any], context: ToolContext) -> Changed[dict[str, Any]]:
        """Before a call that was checked, and approved where that was needed. Raise `ToolFailed("…")` to refuse it: the model
        reads your words."""
        return None

    def after_tool(
        self, name: str, arguments: dict[str, Any], output: ToolOutput, context: ToolContext
    ) -> Changed[ToolOutput]:
        """With what a tool gave. Not asked about one that raised."""
        return None

    # ---- as an extension ---------------------------------------------------------------------------------------------

    def around(self, run: Run, provider: Provider) -> Provider:
        return _HookedProvider(self, provider)

    def around_tool(self, run: Run, tool: Tool) -> Tool:
        return _HookedTool(self, tool)

    def tap(self, run: Run) -> Tap | None:
        return None


async def _answer(returned: Changed[T]) -> T | None:
    return await returned if isawaitable(returned) else returned


class _HookedProvider:
    def __init__(self, hooks: Hooks, provider: Provider) -> None:
        self._hooks = hooks
        self._provider = provider

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        changed = await _answer(self._hooks.before_model(request))
        if changed is not None and changed is not request:
            request = replace(changed, scratch={}, is_heavy=None)  # what was written for the old one does not hold
        answer = await self._provider.call(request, show)
        found = await _answer(self._hooks.after_model(request, answer))
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
        changed = await _answer(self._hooks.before_tool(name, arguments, context))
        arguments = arguments if changed is None else changed
        output = await self._tool.run(arguments, context)
        if output.questions:  # an agent that waits for people: it has given nothing yet
            return output
        found = await _answer(self._hooks.after_tool(name, arguments, output, context))
        return output if found is None else found
