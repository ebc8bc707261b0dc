"""Names of spans → the backends that get them, each of them whatever the others do.

    with span("prepare", inputs={...}) as emit:
        emit("result", messages)

A backend is called with the span and gives a context manager, whose value is called with keys and values. The span is its
name, a string; it also knows its parent and its times, since spans of a run are made from events and need not end in the
order in which they began. Values are made plain and secrets taken out of them once, before any backend sees them.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, ClassVar, TypeAlias

from ronda.trace.plain import plain

Emit: TypeAlias = Callable[[str, Any], None]
Backend: TypeAlias = "Callable[[Span], AbstractContextManager[Emit]]"

_count = itertools.count(1)


class Span(str):
    """A span's name, and with it where and when it is. Times are seconds since 1970; `ended` is None until it has."""

    __slots__ = ("began", "context", "ended", "id", "parent")

    id: int
    parent: Span | None
    began: float
    ended: float | None
    # Where its backends are entered and left: what one of them keeps in a context variable is there for the spans inside
    # this one, and for no other, even while two of them are open side by side.
    context: contextvars.Context


_current: contextvars.ContextVar[Span | None] = contextvars.ContextVar("ronda_span", default=None)


def current_span() -> Span | None:
    """The span that this code runs in; None outside of all, and where nothing is traced."""
    return _current.get()


class Tracer:
    """The backends of this process. Safe from any thread; a child agent's spans go where its parent's go."""

    _lock: ClassVar = threading.Lock()
    # Replaced, never changed: read without the lock. Every run looks whether there are any.
    backends: ClassVar[tuple[tuple[str, Backend], ...]] = ()

    @classmethod
    def add(cls, name: str, backend: Backend) -> None:
        """Register a backend; one that has the name already is replaced."""
        with cls._lock:
            cls.backends = (*(one for one in cls.backends if one[0] != name), (name, backend))

    @classmethod
    def remove(cls, name: str) -> None:
        """Forget a backend. Spans that it has begun to follow are still told to it."""
        with cls._lock:
            cls.backends = tuple(one for one in cls.backends if one[0] != name)

    @classmethod
    def clear(cls) -> None:
        with cls._lock:
            cls.backends = ()

    @classmethod
    def start(cls, name: str, attributes: Mapping[str, Any] | None = None) -> AbstractContextManager[Emit]:
        """A span around a block; its value emits a key and a value to every backend."""
        if not cls.backends:
            return _NOTHING
        return _Block(name, dict(attributes or {}))

    @classmethod
    def is_idle(cls) -> bool:
        return not cls.backends


def span(name: str, **emitted: Any) -> AbstractContextManager[Emit]:
    """A span around a block; `emitted` is told first, such as `signature` and `inputs`.

    An exception that leaves the block becomes the span's `result`, and goes on.
    """
    if not Tracer.backends:
        return _NOTHING
    return _Block(name, emitted)


@contextmanager
def inside(opened: OpenSpan) -> Iterator[None]:
    """A block inside of a span that does not end with it, but with an exception that leaves it."""
    before = _current.get()
    _current.set(opened.span)
    try:
        yield
    except BaseException as error:
        opened.fail(error)
        opened.close(error=error)
        raise
    finally:
        _current.set(before)


def go_on(opened: OpenSpan) -> AbstractContextManager[Emit]:
    """The rest of a span that has begun, around a block."""
    return _Block("", {}, opened)


class OpenSpan:
    """A span that has begun, and the backends that follow it. Nothing here raises."""

    __slots__ = ("_followers", "span")

    def __init__(self, name: str, parent: Span | None, began: float | None = None) -> None:
        made = self.span = Span(name)
        made.id = next(_count)
        made.parent = parent
        made.began = time.time() if began is None else began
        made.ended = None
        made.context = contextvars.copy_context() if parent is None else parent.context.copy()
        self._followers: list[tuple[str, AbstractContextManager[Emit], Emit]] = []
        for called, backend in Tracer.backends:
            try:
                manager = made.context.run(backend, made)
                self._followers.append((called, manager, made.context.run(manager.__enter__)))
            except Exception as error:
                _complain(called, made, error)

    def emit(self, key: str, value: Any) -> None:
        try:
            plain_value = plain(key, value)
        except Exception as error:  # a foreign object's own trouble
            plain_value = f"<{type(value).__name__} that cannot be told: {type(error).__name__}>"
        for called, _, tell in self._followers:
            try:
                tell(key, plain_value)
            except Exception as error:
                _complain(called, self.span, error)

    def fail(self, error: BaseException) -> None:
        """An exception as the span's result."""
        import traceback  # where nothing fails, and where nothing is traced, neither this nor logging is needed

        lines = traceback.format_exception(error, limit=20)
        self.emit("result", {"exception": type(error).__name__, "message": str(error), "traceback": "".join(lines)})

    def close(self, ended: float | None = None, error: BaseException | None = None) -> None:
        if self.span.ended is not None:
            return
        self.span.ended = time.time() if ended is None else ended
        about = (type(error), error, error.__traceback__) if error is not None else (None, None, None)
        for called, manager, _ in reversed(self._followers):
            try:
                self.span.context.run(manager.__exit__, *about)
            except Exception as trouble:
                if trouble is not error:
                    _complain(called, self.span, trouble)
            except BaseException as trouble:  # a generator lets through what was thrown into it
                if trouble is not error:
                    raise


class _Block:
    __slots__ = ("_before", "_emitted", "_name", "_open", "_opened")

    def __init__(self, name: str, emitted: dict[str, Any], opened: OpenSpan | None = None) -> None:
        self._name = name
        self._emitted = emitted
        self._before: Span | None = None
        self._opened = opened

    def __enter__(self) -> Emit:
        self._before = _current.get()
        self._open = self._opened or OpenSpan(self._name, self._before)
        _current.set(self._open.span)
        for key, value in self._emitted.items():
            self._open.emit(key, value)
        return self._open.emit

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        # Not `reset`: a block in a generator may be left in another context than it was entered in.
        _current.set(self._before)
        if error is not None:
            self._open.fail(error)
        self._open.close(error=error)


def ignore(key: str, value: Any) -> None:
    return


_NOTHING = nullcontext(ignore)  # without a tracer


def _complain(backend: str, span: Span, error: Exception) -> None:
    import logging

    logging.getLogger("ronda.trace").warning("the trace backend '%s' failed in span '%s': %r", backend, span, error)
