"""A Python function as a tool: its docstring and its types are what the model sees.

    @tool(repeatable=True)
    async def read_page(url: str, max_chars: int = 20_000) -> str: ...

An async generator shows what it yields while it runs, and what it yields last is its result.

A plain function runs in a thread of its own: a pool would fill up with calls that hang. Such a thread cannot be stopped, so a
cancelled or timed-out call of a plain function may still finish behind the scenes; an async function really ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, get_args, overload, runtime_checkable

import msgspec
from msgspec import Raw

from ronda.core.plan import Approval, ToolKind, ToolSpec
from ronda.drive import Tool, ToolContext, ToolOutput
from ronda.errors import BadConfig
from ronda.schema.signature import Signature, describe
from ronda.tools.deps import find_context, wanted_deps
from ronda.tools.output import output_of, to_output

Function = TypeVar("Function", bound=Callable[..., Any])

DEFAULT_TIMEOUT = 300.0


class FunctionTool:
    """Made by `tool`. Calling it calls the function, so a decorated function can still be used and tested as one."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        repeatable: bool = False,
        exclusive: str | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        strict: bool | None = None,
        bindings: Mapping[str, str] | None = None,
        kind: ToolKind = "function",
        approval: Approval = "auto",
        preview: Sequence[str] = (),
        labels: Sequence[str] = (),
    ) -> None:
        for pointer in preview:
            if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
                raise BadConfig(f"preview names {pointer!r}, which is no JSON pointer such as '/content'")
        if approval not in get_args(Approval):
            raise BadConfig(f"approval is {approval!r}; it can be 'auto', 'ask' or 'deny'")
        self.function = function
        self.bindings = dict(bindings or {})
        self.wanted_context = find_context(function)
        self._context_in = None if self.wanted_context is None else self.wanted_context.parameter
        hidden = frozenset(self.bindings) | ({self._context_in} if self._context_in else set())
        self._signature: Signature = describe(function, hide=hidden)
        parameters = inspect.signature(function).parameters
        for bound in self.bindings:
            if bound not in parameters:
                raise BadConfig(f"tool '{self._signature.name}' binds {bound!r}, which is not one of its parameters")
        if name is None and not self._signature.name.isidentifier():
            raise BadConfig(
                "a lambda has no name for a model to call it by; write tool(name='…')(lambda …), or a function"
            )
        if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
            raise BadConfig(f"timeout is {timeout!r}; it is a number of seconds, or None")
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004  # an object whose __call__ is async, not "is it callable"
        )
        self._yields = inspect.isasyncgenfunction(function)
        self.spec = ToolSpec(
            name=name or self._signature.name,
            description=self._signature.description if description is None else description,
            parameters=Raw(msgspec.json.encode(self._signature.parameters)),
            strict=strict,
            kind=kind,
            repeatable=repeatable,
            exclusive=exclusive,
            timeout=timeout,
            bound=tuple(self.bindings),
            no_arguments_needed=not self._signature.parameters.get("required"),
            approval=approval,
            preview=tuple(preview),
            labels=tuple(labels),
        )
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A decorated method is a tool of its instance."""
        if instance is None:
            return self
        return around(self, functools.partial(self.function, instance))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        typed = self._signature.bind(arguments)
        if self._context_in is not None:
            typed[self._context_in] = context
        if self._yields:
            value = await _last_of(self.function(**typed), context)
        elif self._is_async:
            value = await self.function(**typed)
        else:
            value = await in_thread(functools.partial(self.function, **typed))
            if inspect.isawaitable(value):  # a plain function that returns a coroutine: a lambda around an async one
                value = await value
        if type(value) is str:  # nearly always: a coroutine for it would cost more than all the rest
            return ToolOutput(value)
        return await output_of(value, self.spec.name)


def around(tool: FunctionTool, function: Callable[..., Any], bindings: Mapping[str, str] | None = None) -> FunctionTool:
    """The same tool around another function, or with other bindings: what it says of itself stays."""
    spec = tool.spec
    made = FunctionTool(
        function,
        name=spec.name,
        description=spec.description,
        repeatable=spec.repeatable,
        exclusive=spec.exclusive,
        timeout=spec.timeout,
        strict=spec.strict,
        bindings=tool.bindings if bindings is None else bindings,
        kind=spec.kind,
        approval=spec.approval,
        preview=spec.preview,
        labels=spec.labels,
    )
    made._is_async = tool._is_async
    return made


_OPTIONS = tuple((FunctionTool.__init__.__kwdefaults__ or {}).keys() - {"kind"})  # which is ours to say


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    repeatable: bool = False,
    exclusive: str | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    strict: bool | None = None,
    bindings: Mapping[str, str] | None = None,
    approval: Approval = "auto",
    preview: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool.

    Args:
        function: A plain or async function; its parameters' types become the JSON Schema the model sees.
        options: `repeatable` (may run again after a crash), `exclusive` (a key: calls with the same one never overlap within
            a session), `timeout` in seconds or None, `bindings` (parameter → name of an input that fills it; the model
            never sees it), `approval` ("ask": a person has to approve each call before it runs; "deny": none runs),
            `preview` (JSON pointers such as "/content": arguments that followers see while the model writes them),
            `labels` (for permission rules; "untrusted", "private" and "egress" keep data from leaving unasked),
            `name`, `description`, `strict`.
    """
    for option in options:
        if option not in _OPTIONS:
            from ronda._suggest import did_you_mean  # for mistakes only

            hint = did_you_mean(option, _OPTIONS, f"there is {', '.join(_OPTIONS)}")
            raise TypeError(f"a tool has no option {option!r}; {hint}")
    if function is None:
        return lambda function: FunctionTool(function, **options)
    return function if isinstance(function, FunctionTool) else FunctionTool(function, **options)


@runtime_checkable
class AsTool(Protocol):
    """What knows itself how to be a tool: an agent does."""

    def as_tool(self, *, name: str | None = None) -> Tool: ...


def as_tool(value: Tool | AsTool | Callable[..., Any], name: str | None = None) -> Tool:
    """What users put into `tools`: tools as they are, agents and functions made into tools."""
    if isinstance(value, AsTool):
        return value.as_tool(name=name)
    if hasattr(value, "spec") and hasattr(value, "run"):
        return value
    if callable(value):
        return FunctionTool(value, name=name)
    raise BadConfig(f"{value!r} is not a tool; give a function, or something made with @tool")


class BoundTool:
    """A tool with some parameters filled in from the run's inputs: after the check, out of the model's reach."""

    def __init__(self, tool: Tool, values: Mapping[str, Any], spec: ToolSpec | None = None) -> None:
        self._tool = tool
        self._values = dict(values)
        self.wanted_context = wanted_deps(tool)
        self.spec = spec or tool.spec

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        return await self._tool.run({**arguments, **self._values}, context)


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a plain function in a thread of its own, with the caller's context variables."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():  # cancelled or timed out meanwhile: it is not wanted any more
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def work() -> None:
        value: Any = None
        failed: BaseException | None = None
        try:
            value = context.run(function)
        except StopIteration as error:  # cannot travel through a future
            failed = RuntimeError(f"the function raised StopIteration: {error}")
        except BaseException as error:  # carried to the caller, not handled here
            failed = error
        try:
            loop.call_soon_threadsafe(settle, value, failed)
        except RuntimeError:  # the loop is closed: the run is long over
            return

    threading.Thread(target=work, name="ronda-tool", daemon=True).start()
    return await done


async def call_either(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function gives, plain or async: a plain one runs in a thread, and may give something to await, too."""
    call = functools.partial(function, *args, **kwargs)
    value = call() if inspect.iscoroutinefunction(function) else await in_thread(call)
    return await value if inspect.isawaitable(value) else value


async def _last_of(pieces: AsyncGenerator[Any, None], context: ToolContext) -> Any:
    """What a generator yields is shown as it comes; what it yields last is the result. A `ToolOutput` is only that."""
    value: Any = ""
    async with contextlib.aclosing(pieces):
        async for value in pieces:
            if not isinstance(value, ToolOutput):
                context.progress(to_output(value).content)
    return value
