"""A run → the text of its answer, piece by piece: `PromptyStream`.

    for piece in invoke_agent("agent.prompty", inputs, stream=True): …
    async for piece in await invoke_agent_async("agent.prompty", inputs, stream=True): …

Text is shown as it arrives until the turn turns out to ask for a tool: from then on nothing of that turn is shown, and what
was shown of it is withdrawn. The same goes for a turn that broke off and was asked for again. A withdrawn piece says so
(`piece.withdrawn`), the stream lists them (`stream.withdrawn`), and `stream.text` is what stands. With `hold=True` nothing
is shown before it is known to stand.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, assert_never

from ronda.core.events import Event, LogprobsDelta, NativeDelta, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.output import final_text
from ronda.core.parts import AssistantTurn
from ronda.prompty.results import Refused
from ronda.trace.spans import span
from ronda.wire.showing import (
    CallsGrew,
    Ended,
    Showing,
    Shown,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnBroke,
    TurnClosed,
    Withdrawn,
)

if TYPE_CHECKING:
    from typing import Self

    from ronda.agent.start import Start
    from ronda.core.run import Run

Begin = Callable[[], "Awaitable[Start]"]


def signature_of(span: str) -> str:
    """Of the door that a span is about. That of a turn is the specification's."""
    return "prompty.turn" if span.split()[0] == "turn" else f"ronda.{span}"


class _Turn:
    """What is shown of one turn."""

    __slots__ = ("calls", "pieces", "withdrawn")

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.calls = False
        self.withdrawn = False


class Piece(str):
    """A piece of text. `withdrawn` turns true when it was not part of the answer after all."""

    __slots__ = ("_turn",)
    _turn: _Turn

    def __new__(cls, text: str, turn: _Turn) -> Piece:
        made = super().__new__(cls, text)
        made._turn = turn
        turn.pieces.append(made)
        return made

    @property
    def withdrawn(self) -> bool:
        return self._turn.withdrawn


class AnswerText:
    """Events → the pieces to show now. No clock, no await: the same for every way to read a stream."""

    def __init__(self, hold: bool) -> None:
        self.hold = hold
        self.withdrawn: list[Piece] = []
        self._showing: Showing | None = None
        self._turn = _Turn()
        self._held: list[str] = []

    @property
    def text(self) -> str:
        return "" if self._turn.withdrawn else "".join(self._turn.pieces)

    def take(self, run: Run, batch: Sequence[Event]) -> list[Piece]:
        showing = self._showing = self._showing or Showing(run)
        out: list[Piece] = []
        for event in batch:
            if type(event) is TextDelta:
                if self.hold or showing.holds_text:
                    self._held.append(event.text)
                elif not self._turn.calls:
                    out.append(Piece(event.text, self._turn))
            elif (shown := showing.take(event)) is not None:
                self._show(run, shown, out)
        return out

    def _show(self, run: Run, shown: Shown, out: list[Piece]) -> None:
        match shown:
            case CallsGrew():
                self._turn.calls = True
                self._withdraw()
            case TurnClosed(turn=turn):
                if turn.calls and run.runs_tools:
                    self._withdraw()
            case TurnBegan():
                self._withdraw()  # the turn before was not the answer, whatever it was
                self._turn = _Turn()
            case Withdrawn():
                self._withdraw()
            case Ended():
                if shown.failure is None:
                    out += self._rest(run)
            case TextDelta() | ReasoningDelta() | RefusalDelta() | LogprobsDelta() | NativeDelta():
                pass
            case TurnBroke() | ToolBegan() | ToolEnded():
                pass
            case _:
                assert_never(shown)

    def _withdraw(self) -> None:
        self._held = []
        if self._turn.pieces and not self._turn.withdrawn:
            self._turn.withdrawn = True
            self.withdrawn += self._turn.pieces

    def _rest(self, run: Run) -> list[Piece]:
        """What of the answer was not shown yet: all of it, where it was held or came in one piece."""
        if run.ended is not None and run.ended.reason == "tool_calls":
            return []
        final, shown = final_text(run), self.text
        if not final.startswith(shown) or self._turn.withdrawn:
            self._withdraw()
            self._turn, shown = _Turn(), ""
        rest = final[len(shown) :]
        pieces = self._held if "".join(self._held) == rest else [rest]
        return [Piece(piece, self._turn) for piece in pieces if piece]


class PromptyStream:
    """The text of an agent's answer as it comes, for `for` and for `async for`. The run starts with the first piece asked for.

    `result` is the answer when the stream is over. Leaving a `with` block, or `close`, ends the run where it is.
    """

    def __init__(self, begin: Begin, *, hold: bool = False, name: str = "invoke_agent", inputs: Any = None) -> None:
        self._begin = begin
        self._name = name
        self._inputs = inputs
        self._answer = AnswerText(hold)
        self._start: Start | None = None
        self._error: BaseException | None = None
        self._over = False
        self._pieces: deque[Piece] = deque()
        self._task: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._thread: _Thread | None = None

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
        if self._start is None or not self._over:
            raise RuntimeError("the stream is not over yet; read it to its end first")
        return self._result

    # ---- the run -----------------------------------------------------------------------------------------------------

    async def _drive(self, show: Callable[[list[Piece]], None]) -> None:
        with span(self._name, signature=signature_of(self._name), inputs=self._inputs) as emit:
            start = self._start = await self._begin()

            def take(batch: Sequence[Event]) -> None:
                if pieces := self._answer.take(start.run, batch):
                    show(pieces)

            start.live.add_tap(take)
            await start.drive()
            with span("PromptyStream", signature="ronda.PromptyStream") as emit_pieces:
                emit_pieces("result", list(self._answer._turn.pieces))
            self._result = start.result()
            last = next((turn for turn in reversed(start.run.turns) if type(turn) is AssistantTurn), None)
            if last is not None and last.refusal and not last.text:
                raise Refused(last.refusal)
            emit("result", self._result)
            self._over = True

    # ---- async for ---------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        if self._task is None:
            if self._thread is not None:
                raise RuntimeError("this stream is being read by `for`; it cannot be read by `async for` as well")
            self._task = asyncio.create_task(self._drive(self._take))
            self._task.add_done_callback(self._ring)
        while not self._pieces:
            if self._task.done():
                await self._end()
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        return self._pieces.popleft()

    async def _end(self) -> None:
        assert self._task is not None
        if self._error is not None or self._task.cancelled():
            return
        if (error := self._task.exception()) is not None:
            self._error = error
            raise error

    def _take(self, pieces: list[Piece]) -> None:
        self._pieces.extend(pieces)
        self._ring()

    def _ring(self, _: object = None) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def aclose(self) -> None:
        """End the run, and wait until nothing of it is running."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        elif self._thread is not None:
            await asyncio.to_thread(self.close)
        if self._task is not None and not self._task.cancelled() and self._error is None:
            self._task.exception()  # nobody reads on, so nobody is told

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
            if self._task is not None:
                raise RuntimeError("this stream is being read by `async for`; it cannot be read by `for` as well")
            self._thread = _Thread(self._drive)
        if not self._pieces:
            self._pieces.extend(self._thread.next())
        if self._pieces:
            return self._pieces.popleft()
        if self._error is None and (error := self._thread.error) is not None:
            self._error = error
            raise error
        raise StopIteration

    def close(self) -> None:
        """End the run, and wait until nothing of it is running."""
        if self._thread is not None:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Thread:
    """A run on an event loop of its own, for those who do not await."""

    def __init__(self, drive: Callable[[Callable[[list[Piece]], None]], Awaitable[None]]) -> None:
        self.error: BaseException | None = None
        self._arrived: queue.SimpleQueue[list[Piece]] = queue.SimpleQueue()  # an empty batch is the end
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self._stopped = False
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work, drive), name="ronda-stream", daemon=True)
        self._thread.start()

    def _work(self, drive: Callable[[Callable[[list[Piece]], None]], Awaitable[None]]) -> None:
        async def work() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            assert task is not None
            with self._lock:
                self._stop = partial(loop.call_soon_threadsafe, task.cancel)
                if self._stopped:
                    return
            try:
                await drive(self._arrived.put)
            finally:
                with self._lock:
                    self._stop = None

        try:
            asyncio.run(work())
        except asyncio.CancelledError:
            pass  # whoever closed the stream knows
        except BaseException as error:  # raised again in the thread that reads
            self.error = error
        finally:
            self._arrived.put([])

    def next(self) -> list[Piece]:
        pieces = self._arrived.get()
        if not pieces:
            self._arrived.put([])  # over stays over
            self._thread.join()
        return pieces

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._stop is not None:
                self._stop()
        self._thread.join()
