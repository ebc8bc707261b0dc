"""A run → the text of its answer, piece by piece: `PromptyStream`.

    for piece in invoke_agent("agent.prompty", inputs, stream=True): …
    async for piece in await invoke_agent_async("agent.prompty", inputs, stream=True): …

It follows the run's log as fast as it is read: a model whose reader stalls is held back. A withdrawn piece says so
(`piece.withdrawn`), the stream lists them (`stream.withdrawn`), and `stream.text` is what stands. With `hold=True` nothing
is shown before it is known to stand.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ronda.agent.answer_text import AnswerText, Piece
from ronda.agent.thread_reader import ThreadReader
from ronda.core.parts import AssistantTurn
from ronda.host.run import look_at
from ronda.prompty.results import ModelRefused
from ronda.trace.spans import Emit, span

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Self

    from ronda.agent.start import Start
    from ronda.host.channel import ChannelReader

Begin = Callable[[], "Awaitable[Start]"]
OpenSpan = Callable[[], "AbstractContextManager[Emit]"]


class PromptyStream:
    """The text of an agent's answer as it comes, for `for` and for `async for`. The run starts with the first piece asked for.

    `result` is the answer when the stream is over. Leaving a `with` block, or `close`, ends the run where it is; so does
    forgetting the stream.
    """

    def __init__(self, begin: Begin, open_span: OpenSpan, *, hold: bool = False) -> None:
        self._answer = AnswerText(hold)
        self._read = partial(_Reading, begin, self._answer, open_span)
        self._reading: _Reading | None = None  # by `async for`
        self._thread: ThreadReader[list[Piece]] | None = None  # by `for`
        self._driving: list[asyncio.Task[Any]] = []  # by `for`: the task that drives the run, once there is one
        self._pieces: deque[Piece] = deque()
        self._result: Any = None
        self._error: BaseException | None = None
        self._over = False

    def __del__(self) -> None:
        """No reader is left: the run must not wait for one."""
        if (run := self._reading or self._thread) is not None:
            run.let_go()

    # ---- what there is to know ---------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """What was shown so far and stands."""
        return self._answer.text

    @property
    def withdrawn(self) -> list[Piece]:
        """What was shown and does not stand: said before a tool was called, or before the model broke off."""
        return list(self._answer.withdrawn)

    @property
    def result(self) -> Any:
        """The answer: its text, or the structured value. Asked for before the stream is over, it says so."""
        if self._error is not None:
            raise self._error
        if not self._over:
            raise RuntimeError("the stream is not over yet; read it to its end first")
        return self._result

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Everything was read. Raises what went wrong, the first time."""
        if self._over or self._error is not None or task.cancelled():
            return
        if (error := task.exception()) is not None:
            self._error = error
            raise error
        self._result, self._over = task.result(), True

    # ---- async for ---------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        if self._reading is None:
            if self._thread is not None:
                raise RuntimeError("this stream is being read by `for`; it cannot be read by `async for` as well")
            self._reading = self._read()
        if not self._pieces:
            self._pieces.extend(await self._reading.next())
        if self._pieces:
            return self._pieces.popleft()
        self._end(self._reading.task)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the run, and wait until nothing of it is running."""
        if self._reading is not None:
            await self._reading.close()
        elif self._thread is not None:
            await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # ---- for ---------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Piece:
        if self._thread is None:
            if self._reading is not None:
                raise RuntimeError("this stream is being read by `async for`; it cannot be read by `for` as well")
            self._thread = ThreadReader(partial(_put_pieces, self._read, self._driving))
        if not self._pieces:
            self._pieces.extend(self._thread.next() or ())
        if self._pieces:
            return self._pieces.popleft()
        for task in self._driving:
            self._end(task)
        raise StopIteration

    def close(self) -> None:
        """End the run, and wait until nothing of it is running."""
        if self._thread is not None:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Reading:
    """A run that is driven in a task of its own, and its one reader. It does not know the stream, which may be forgotten."""

    def __init__(self, begin: Begin, answer: AnswerText, open_span: OpenSpan) -> None:
        self._begin = begin
        self._answer = answer
        self._start: Start | None = None
        self._reader: ChannelReader | None = None
        self._has_begun = asyncio.Event()
        self._was_read = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.task = self._loop.create_task(self._drive(open_span))
        self.task.add_done_callback(look_at)

    async def _drive(self, open_span: OpenSpan) -> Any:
        with open_span() as emit:
            try:
                start = self._start = await self._begin()
                self._reader = start.live.read()
            finally:
                self._has_begun.set()
            await start.drive()
            await self._was_read.wait()
            with span("PromptyStream", signature="ronda.PromptyStream") as emit_pieces:
                emit_pieces("result", self._answer.pieces)
            result = start.result()
            last = next((turn for turn in reversed(start.run.turns) if type(turn) is AssistantTurn), None)
            if last is not None and last.refusal and not last.text:
                raise ModelRefused(last.refusal)
            emit("result", result)
            return result

    async def next(self) -> list[Piece]:
        """What is to be shown next. Nothing: the run is over."""
        await self._has_begun.wait()
        if self._start is not None and (reader := self._reader) is not None:
            while not reader.is_over:
                if not (events := reader.pull()):
                    await reader.wait()
                elif pieces := self._answer.take(self._start.run, events):
                    return pieces
        self._was_read.set()
        await asyncio.wait([self.task])
        return []

    async def close(self) -> None:
        if not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])

    def let_go(self) -> None:
        """End the run, from whichever thread, without waiting for it."""
        if not self.task.done() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.task.cancel)


async def _put_pieces(
    read: Callable[[], _Reading], driving: list[asyncio.Task[Any]], put: Callable[[list[Piece]], Awaitable[None]]
) -> None:
    reading = read()
    driving.append(reading.task)
    try:
        while pieces := await reading.next():
            await put(pieces)
    finally:
        await reading.close()
