"""What comes next to the answer at a terminal: what tools print, and what is logged.

A tool starts while the terminal may still be behind with the text before it, so what it prints waits for its turn. A traceback
is for a file: at the terminal the reason is in the line that says that the tool failed.
"""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from logging.handlers import RotatingFileHandler
from typing import Any, Final, TextIO

LOG_BYTES: Final = 1_000_000  # of the log file; one that is full is kept next to the new one
_log = logging.getLogger("ronda")


class ToolPrints(io.TextIOBase):
    """A stream for what tools print: held while there may be text of the model that is not shown yet, else passed on."""

    def __init__(self, shown: TextIO) -> None:
        self._shown = shown
        self._held: list[str] = []
        self._is_holding = False
        self._is_inside_line = False
        self._lock = threading.Lock()  # tools print from threads

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shown, name)  # `buffer`, for tools that write bytes

    def fileno(self) -> int:
        return self._shown.fileno()

    def isatty(self) -> bool:
        return self._shown.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            self._put(text)
        return len(text)

    def _put(self, text: str) -> None:
        if self._is_holding:
            self._held.append(text)
        else:
            self._shown.write(text)
        if text:
            self._is_inside_line = not text.endswith("\n")

    def end_line(self) -> None:
        """What is shown next begins a line of its own."""
        with self._lock:
            if self._is_inside_line:
                self._put("\n")

    def flush(self) -> None:
        with self._lock:
            if not self._is_holding and not self._shown.closed:  # Python flushes it once more when it is collected
                self._shown.flush()

    def hold(self) -> None:
        with self._lock:
            self._is_holding = True

    def release(self) -> None:
        with self._lock:
            self._is_holding = False
            self._shown.write("".join(self._held))
            self._held.clear()
            self._shown.flush()


@contextmanager
def beside_the_answer(shown: TextIO) -> Iterator[ToolPrints]:
    """What tools print, and what is logged, goes to `shown` when it is its turn; tracebacks go to a file."""
    prints = ToolPrints(shown)
    handler = _TerminalLog(prints)
    _log.addHandler(handler)
    try:
        with redirect_stdout(prints):
            yield prints
    finally:
        _log.removeHandler(handler)
        handler.close()
        prints.release()


class _TerminalLog(logging.Handler):
    """The file is `ronda.log` in the state folder; it is made with the first traceback."""

    def __init__(self, shown: ToolPrints) -> None:
        super().__init__(logging.WARNING)
        self._shown = shown
        self._file: RotatingFileHandler | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            with suppress(OSError):  # a folder that cannot be written to: why the tool failed is shown anyway
                self._open().emit(record)
        if not record.exc_info or record.name != "ronda.tools":  # that a tool failed is shown where it happens
            self._say(record.getMessage())

    def _say(self, line: str) -> None:
        self._shown.end_line()
        self._shown.write(f"{line}\n")

    def _open(self) -> RotatingFileHandler:
        if self._file is None:
            from ronda.cli.serve import state_folder  # with a server's settings behind it

            folder = state_folder()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = RotatingFileHandler(folder / "ronda.log", maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8")
            self._file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
            self._say(f"[tracebacks are in {self._file.baseFilename}]")
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()
