"""The Python inside a sandbox that keeps its variables from call to call: frames of code in, frames of its result out.

Run as a text by whatever Python is inside (3.8 or newer), so it imports nothing of ours. What the code prints goes straight to
its stdout and stderr; only results travel in frames. The code shares the process and can forge them: the server trusts none.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import linecache
import os
import signal
import struct
import sys
import time
import traceback
import types
from typing import Any

_LONGEST_TEXT = 64 * 1024  # of a result or a traceback
# What frames are read and written with, as it is before the code gets hold of these modules: some programs change them.
_dumps, _loads, _pack, _unpack = json.dumps, json.loads, struct.pack, struct.unpack
_read_some, _write_some, _clock = os.read, os.write, time.monotonic


def main(pictures: Any) -> None:
    """`pictures` is what catches them: `figures.Pictures`."""
    channel = int(os.environ.pop("RONDA_CHANNEL"))
    os.set_inheritable(channel, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    builtins.input = _no_input
    sys.stdin = _NoInput()
    sys.path.insert(0, os.getcwd())
    module = _new_module()
    _write(channel, _pack("!I", 0))  # from here on it can be interrupted
    count = 0
    while True:
        request = _loads(_exactly(channel, _unpack("!I", _exactly(channel, 4))[0]))
        count += 1
        os.environ.update(request["environment"] or {})
        answer = _execute(request["code"], "<call " + str(count) + ">", module, pictures)
        answer["call"] = request["call"]
        frame = _dumps(answer).encode()
        _write(channel, _pack("!I", len(frame)) + frame)


def _exactly(channel: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = _read_some(channel, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def _write(channel: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_write_some(channel, view) :]


def _no_input(prompt: object = "") -> str:
    raise RuntimeError("no person can type an answer here: input() is not available")


class _NoInput(io.TextIOBase):
    """What stands in for stdin."""

    def read(self, size: Any = -1) -> str:
        return _no_input()

    def readline(self, size: Any = -1) -> str:  # type: ignore[override]  # its base class has it of two kinds
        return _no_input()

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0


def _new_module() -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    return module


def _execute(code: str, name: str, module: types.ModuleType, pictures: Any) -> dict[str, Any]:
    start = _clock()
    answer: dict[str, Any] = {"exception": None, "result": None, "result_type": None}
    try:
        value = _run(code, name, module)
        if value is not None:
            module.__dict__["_"] = value
            pillow = sys.modules.get("PIL.Image")
            if pillow is not None and isinstance(value, pillow.Image):
                pictures.add(value)
            answer["result"] = _plain(repr(value))[:_LONGEST_TEXT]
            answer["result_type"] = _plain(type(value).__name__)
    except SystemExit as error:
        answer["exception"] = "SystemExit: Code called sys.exit(" + repr(error.code) + ")."
    except KeyboardInterrupt:
        answer["exception"] = "KeyboardInterrupt: Execution was interrupted."
    except BaseException as error:
        answer["exception"] = _tell(error)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer.update(pictures.take())
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException as error:
        answer["exception"] = answer["exception"] or _tell(error)
    answer["execution_time_ms"] = int((_clock() - start) * 1000)
    return answer


def _run(code: str, name: str, module: types.ModuleType) -> Any:
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # so that a traceback shows its lines
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    first = compile(tree, name, "exec")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exec(first, module.__dict__)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), name, "eval"), module.__dict__)


def _plain(text: str) -> str:
    """Without what no JSON can hold: parts of odd file names."""
    return text.encode("utf-8", "backslashreplace").decode()


def _tell(error: BaseException) -> str:
    """The traceback without the frames of this file."""
    trace = traceback.TracebackException(type(error), error, error.__traceback__)
    at = next((at for at, frame in enumerate(trace.stack) if frame.filename.startswith("<call ")), len(trace.stack))
    trace.stack = traceback.StackSummary.from_list(list(trace.stack)[at:])
    text = _plain("".join(trace.format()))
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT // 2] + "\n…\n" + text[-_LONGEST_TEXT // 2 :]
    return text.rstrip("\n")
