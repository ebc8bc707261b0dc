"""The Python of one session, in its sandbox: code in, its result out.

What the code says of itself is read within bounds, since it shares the process with our worker and can say anything.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from ronda.drive.offload import LIGHT_BYTES, aside
from ronda.errors import ToolFailed
from ronda.sandbox.box import Sandbox
from ronda.sandbox.process import Process, Stream
from ronda.tools.code.long_output import LongCapture, text_decoder
from ronda.wire.codec.json import UNREADABLE

_START_SECONDS = 30.0
_GRACE = 3.0  # seconds for code that was interrupted to end
_MOST_OUTPUT = 32 * 1024  # bytes of each stream that a model is shown of a call: its beginning and its end
_LONGEST_ANSWER = 32 * 1024 * 1024
_LONGEST_TEXT = 64 * 1024  # of a result or an exception
_MOST_PICTURES = 32


class PythonResult(Struct, frozen=True):
    """The result of one call of Python. Everything in it was said by the code."""

    call: str = ""  # which one
    exception: str | None = None
    result: str | None = None
    result_type: str | None = None
    images: tuple[str, ...] = ()  # PNG, in base64
    frames: tuple[str, ...] = ()  # of animations that were saved, the same; of many some …
    frame_count: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # … of so many
    execution_time_ms: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class Execution(Struct, frozen=True):
    """One call of Python: `executed` is None when it had to be ended; `interrupted` when its time was up."""

    stdout: LongCapture
    stderr: LongCapture
    executed: PythonResult | None
    interrupted: bool = False
    problem: str | None = None  # why there is no answer
    began_anew: bool = False  # the Python of earlier calls was gone
    may_write: bool = True  # False: the session has too many files


class Session:
    """One sandbox, and the Python in it. The file `marker` notes that there was one, beyond the life of a server."""

    def __init__(self, sandbox: Sandbox, marker: Path | None = None, *, owns_sandbox: bool = True) -> None:
        """`owns_sandbox`: whether it is used only here."""
        self.sandbox = sandbox
        self.users = 0  # calls under way
        self._owns_sandbox = owns_sandbox
        self._environment: dict[str, str] | None = None  # that its Python does not know yet
        self._marker = marker
        self._began_anew = False
        self.used = time.monotonic()
        self._process: Process | None = None
        self._take: Callable[[Stream, bytes], None] = lambda stream, data: None

    async def execute(self, code: str, *, timeout: float, show: Callable[[str, Stream], None]) -> Execution:
        captures: dict[Stream, LongCapture] = {name: LongCapture(_MOST_OUTPUT) for name in ("stdout", "stderr")}
        decoders = {name: text_decoder() for name in captures}

        def take(stream: Stream, data: bytes) -> None:
            captures[stream].add(data)
            if captures[stream].total <= _MOST_OUTPUT:  # a flood is not worth watching
                show(decoders[stream].decode(data), stream)

        self._take = take
        self.used = time.monotonic()
        executed, interrupted, problem, may_write = None, False, None, True
        self._began_anew = False
        try:
            process = await self._python()
            may_write = process.may_write
            exchange = asyncio.ensure_future(self._exchange(process, code))
            try:
                done, _ = await asyncio.wait([exchange], timeout=timeout)
                if not done:
                    interrupted = True
                    process.interrupt()
                    done, _ = await asyncio.wait([exchange], timeout=_GRACE)
                if not done:
                    process.kill("timeout")
                answer = await exchange
            except asyncio.CancelledError:
                process.kill()
                exchange.cancel()
                raise
            process.drain()
            executed = answer
        except ToolFailed as error:
            problem = str(error)
        finally:
            self._take = lambda stream, data: None
            self.used = time.monotonic()
        return Execution(
            captures["stdout"], captures["stderr"], executed, interrupted, problem, self._began_anew, may_write
        )

    async def _exchange(self, process: Process, code: str) -> PythonResult:
        """Sends code, and receives its result. The answer names the call, which what was written before it cannot."""
        call, environment = secrets.token_hex(8), self._environment
        self._environment = None
        await process.send(msgspec.json.encode({"code": code, "call": call, "environment": environment}))
        answer = await process.receive(_LONGEST_ANSWER)
        executed = _read_answer(answer) if len(answer) < LIGHT_BYTES else await aside(_read_answer, answer)
        if executed is None or executed.call != call:
            process.kill()  # who has lost its way once does not find back: the next call begins with a new Python
            raise ToolFailed("the code has sent something that is no result")
        return executed

    async def warm_up(self) -> None:
        """Starts its Python before there is a call."""
        await self._python()

    @property
    def is_warm(self) -> bool:
        return self._process is not None and self._process.is_running

    def move(self, rename: Callable[[str], str | None]) -> bool:
        """Its folder gets another name. False: it has not."""
        if not self.sandbox.move(rename):
            return False
        self._environment = self.sandbox.environment
        return True

    def mark(self, marker: Path) -> None:
        """Its Python is that of a session which has had none."""
        self._marker = marker
        marker.touch(mode=0o600)

    async def close(self) -> None:
        if self._owns_sandbox:
            await self.sandbox.close()
        elif self._process is not None:
            await self._process.end()

    async def reset(self) -> None:
        """The next call begins with a new Python."""
        if self._process is not None:
            await self._process.end()
        if self._marker is not None:
            self._marker.unlink(missing_ok=True)

    async def _python(self) -> Process:
        if self._process is not None and not self._process.may_write and await self.sandbox.has_room():
            await self._process.end()  # it would never be able to write
        if self._process is None or not self._process.is_running:
            self._process = None
            process = await self.sandbox.start_python(
                _worker(), channel=True, on_output=lambda stream, data: self._take(stream, data)
            )
            try:
                async with asyncio.timeout(_START_SECONDS):
                    await process.receive(most=0)
            except TimeoutError:
                process.kill()
                raise ToolFailed("Python did not start in time") from None
            except BaseException:
                process.kill()
                raise
            self._process = process
            if self._marker is not None:
                self._began_anew = self._marker.exists()
                self._marker.touch(mode=0o600)
        return self._process


def _read_answer(answer: bytes) -> PythonResult | None:
    """Within the bounds that our worker keeps to, and the code, which can write frames of its own, need not."""
    try:
        executed = msgspec.json.decode(answer, type=PythonResult)
    except UNREADABLE:
        return None
    return PythonResult(
        executed.call,
        _clip(executed.exception),
        _clip(executed.result),
        _clip(executed.result_type),
        tuple([image for image in executed.images[:_MOST_PICTURES] if _is_png(image)]),
        tuple([frame for frame in executed.frames[:_MOST_PICTURES] if _is_png(frame)]),
        executed.frame_count,
        executed.execution_time_ms,
    )


def _clip(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _is_png(text: str) -> bool:
    """Its beginning, and that it can be a part of an address: all that a model's service would stumble over."""
    try:
        return base64.b64decode(text, validate=True).startswith(b"\x89PNG\r\n\x1a\n")
    except ValueError:
        return False


@cache
def _worker() -> str:
    """Both files as one program."""
    figures, worker = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("figures.py", "worker.py")
    )
    begin = "worker['main'](figures['Pictures']())"
    return f"figures, worker = {{}}, {{}}\nexec({figures!r}, figures)\nexec({worker!r}, worker)\n{begin}"
