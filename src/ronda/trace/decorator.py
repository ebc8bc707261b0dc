"""A function → the same function, each call of it a span: plain, async, and generators of both sorts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from typing import Any, TypeVar, overload

from ronda.trace.spans import OpenSpan, Span, Tracer, _current, span

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def trace(function: Function, /) -> Function: ...
@overload
def trace(
    *, name: str | None = None, ignore: Collection[str] = (), **emitted: Any
) -> Callable[[Function], Function]: ...


def trace(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    ignore: Collection[str] = (),
    **emitted: Any,
) -> Any:
    """Trace a function: its signature, its inputs, and its result or the exception it raised.

    Args:
        function: Any function or method. A generator's result is the list of what it gave.
        name: The span's name, if not the function's.
        ignore: Parameters that are not told, beside `self` and `cls`.
        emitted: More keys and values to record with every call.
    """
    if function is None:
        return lambda function: trace_one(function, name, ignore, emitted)
    return trace_one(function, None, (), {})


def trace_one(
    function: Callable[..., Any], name: str | None, ignore: Collection[str], emitted: dict[str, Any]
) -> Callable[..., Any]:
    called = _TracedFunction(function, name, ignore, emitted)
    if inspect.isasyncgenfunction(function):
        wrapper: Callable[..., Any] = _async_generator(called)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(called)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(called)
    else:
        wrapper = _plain(called)
    return functools.wraps(function)(wrapper)


class _TracedFunction:
    """What is said of every call of one function."""

    def __init__(
        self, function: Callable[..., Any], name: str | None, ignore: Collection[str], emitted: dict[str, Any]
    ) -> None:
        self.function = function
        self.name: str = name or str(getattr(function, "__name__", type(function).__name__))
        home = getattr(function, "__module__", "")
        qualified = getattr(function, "__qualname__", self.name)
        self._attributes = {"signature": f"{home}.{qualified}" if home else qualified, **emitted}
        self._ignored = {"self", "cls", *ignore}

    def attributes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except (TypeError, ValueError):  # a call that cannot be made says so itself
            return {**self._attributes, "inputs": {"args": args, "kwargs": kwargs}}
        bound.apply_defaults()
        inputs = {key: value for key, value in bound.arguments.items() if key not in self._ignored}
        return {**self._attributes, "inputs": inputs}


def _plain(called: _TracedFunction) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if Tracer.is_idle():
            return called.function(*args, **kwargs)
        with span(called.name, **called.attributes(args, kwargs)) as emit:
            result = called.function(*args, **kwargs)
            emit("result", result)
            return result

    return wrapper


def _coroutine(called: _TracedFunction) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if Tracer.is_idle():
            return await called.function(*args, **kwargs)
        with span(called.name, **called.attributes(args, kwargs)) as emit:
            result = await called.function(*args, **kwargs)
            emit("result", result)
            return result

    return wrapper


class _Steps:
    """A generator's span: the current one only while the generator itself runs, not in its reader."""

    def __init__(self, called: _TracedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._open = OpenSpan(called.name, _current.get())
        for key, value in called.attributes(args, kwargs).items():
            self._open.emit(key, value)
        self._items: list[Any] = []
        self._before: Span | None = None

    def __enter__(self) -> None:
        self._before = _current.get()
        _current.set(self._open.span)

    def __exit__(self, *about: object) -> None:
        _current.set(self._before)

    def gave(self, item: Any) -> Any:
        self._items.append(item)
        return item

    def end(self, error: BaseException | None = None) -> None:
        """Run out, failed, or left early by its reader: what it gave is its result then."""
        if error is None or isinstance(error, GeneratorExit):
            self._open.emit("result", self._items)
            error = None
        else:
            self._open.fail(error)
        self._open.close(error=error)


def _generator(called: _TracedFunction) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        if Tracer.is_idle():
            return (yield from called.function(*args, **kwargs))
        steps = _Steps(called, args, kwargs)
        inner = called.function(*args, **kwargs)
        step = functools.partial(next, inner)
        try:
            while True:
                try:
                    with steps:
                        item = step()
                except StopIteration as end:
                    steps.end()
                    return end.value
                try:
                    sent = yield steps.gave(item)
                    step = functools.partial(inner.send, sent)
                except GeneratorExit:
                    inner.close()
                    raise
                except BaseException as error:
                    step = functools.partial(inner.throw, error)
        except BaseException as error:
            steps.end(error)
            raise

    return wrapper


def _async_generator(called: _TracedFunction) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = called.function(*args, **kwargs)
        if Tracer.is_idle():
            try:
                async for item in inner:
                    yield item
            finally:
                await inner.aclose()
            return
        steps = _Steps(called, args, kwargs)
        step = inner.__anext__
        try:
            while True:
                try:
                    with steps:
                        item = await step()
                except StopAsyncIteration:
                    steps.end()
                    return
                try:
                    sent = yield steps.gave(item)
                    step = functools.partial(inner.asend, sent)
                except GeneratorExit:
                    await inner.aclose()
                    raise
                except BaseException as error:
                    step = functools.partial(inner.athrow, error)
        except BaseException as error:
            steps.end(error)
            raise

    return wrapper
