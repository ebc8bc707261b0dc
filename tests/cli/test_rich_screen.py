"""What is drawn at a terminal while a run works."""

from __future__ import annotations

import io
import threading

import pytest
from tests.timeouts import TIMEOUT

from ronda.cli.rich_screen import RichScreen


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self._written = threading.Condition()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._written:
            self._written.notify_all()
            return super().write(text)

    def until(self, text: str) -> str:
        """All that is shown once this is."""
        with self._written:
            assert self._written.wait_for(lambda: text in self.getvalue(), TIMEOUT), self.getvalue()
            return self.getvalue()


def test_the_spinner_says_how_long_it_waits_once_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    now = 0.0
    terminal = Terminal()
    with RichScreen(terminal, as_they_come=True, clock=lambda: now) as screen:
        screen.status("thinking")
        assert "thinking ·" not in terminal.until("thinking")
        now = 75.0
        terminal.until("thinking · 75 s")
