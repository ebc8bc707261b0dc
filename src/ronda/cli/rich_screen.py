"""A run at a terminal with `rich`: the answer as Markdown while it comes, tools in a line each, a spinner while something works.

What is complete (a paragraph, a list, a block of code) is printed for good; only the end of the answer is drawn again and again,
in the lines above the cursor. So a long answer scrolls as any text does, and can be copied.
"""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TextIO, cast

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown
from rich.segment import Segment
from rich.spinner import Spinner
from rich.syntax import Syntax
from rich.text import Text

from ronda.cli.screen import NoteKind, Screen, printable, usage_text
from ronda.core.parts import Usage

_PER_SECOND: Final = 12  # drawings of the end of the answer; more cannot be told apart
_LONG: Final = 3.0  # seconds after which a wait says how long it is
_MARGIN: Final = 3  # lines of the screen that are left free above what is drawn again
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_STYLES: Final[dict[NoteKind, tuple[str, str]]] = {  # a sign, and how its line looks
    "tool": ("● ", "cyan"),
    "result": ("  ↳ ", "dim"),
    "failure": ("  ✗ ", "red"),
    "plain": ("", "dim"),
}


class RichScreen(Screen):
    def __init__(
        self, out: TextIO, *, as_they_come: bool, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._console = Console(file=out, highlight=False)
        super().__init__(out, as_they_come=as_they_come, quiet=quiet, aside=cast("TextIO", _Aside(self)))
        self._tail = ""  # of the answer: what is not printed for good yet
        self._spinner = Spinner("dots", style="cyan")
        self._status: str | None = None
        self._since = 0.0  # when the status became what it is
        self._live: Live | None = None
        self._said = False

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status = None
        self._stop()
        self._print_tail()

    def _start(self) -> None:
        if self._live is None:
            self._live = Live(
                console=self._console, get_renderable=self._drawn, transient=True, refresh_per_second=_PER_SECOND,
                redirect_stdout=False, redirect_stderr=False,
            )  # fmt: skip
            self._live.start()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _drawn(self) -> RenderableType:
        """What is drawn again and again. Another thread asks for it."""
        shown: list[RenderableType] = [_markdown(tail).fitting()] if (tail := self._tail) else []
        if (status := self._status) is not None and not self.quiet:
            waited = self._clock() - self._since
            text = status if waited < _LONG else f"{status} · {waited:.0f} s"
            self._spinner.update(text=Text(text, style="dim"))
            shown.append(self._spinner)
        return Group(*shown)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._print_tail()
        self._stop()
        try:
            yield
        finally:
            self._start()

    # ---- what is said ------------------------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        if not self.as_they_come:
            return
        self._status = None
        self._said = True
        done, self._tail = split_done(self._tail + printable(text))
        if done.strip():
            self._console.print(_markdown(done))
            self._console.print()

    def end_text(self) -> None:
        self._print_tail()

    def _print_tail(self) -> None:
        tail, self._tail = self._tail, ""
        if tail.strip():
            self._console.print(_markdown(tail))

    def note(self, text: str, kind: NoteKind = "plain") -> None:
        self._print_tail()
        if not self.quiet:
            sign, style = _STYLES[kind]
            self._console.print(Text(sign + printable(text), style=style))

    def warn(self, text: str) -> None:
        self._print_tail()
        if not self.quiet:
            self._console.print(Text(f"ronda: {printable(text)}", style="yellow"))

    def status(self, text: str | None) -> None:
        self._status, self._since = None if text is None else printable(text), self._clock()

    def answer(self, result: Any) -> None:
        self._status = None
        if not isinstance(result, str):
            self._tail = ""
            shown = msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
            self._console.print(Syntax(shown, "json", background_color="default", word_wrap=True))
        elif self._said:
            self._print_tail()
        else:
            self._console.print(_markdown(printable(result)))

    def usage(self, usage: Usage) -> None:
        self._print_tail()
        self._console.print(Text(usage_text(usage), style="dim"))

    def print_aside(self, text: str) -> None:
        """What a tool printed, as it is."""
        self._console.file.flush()
        self._console.print(Text(text), end="", soft_wrap=True)


class _Heading(Heading):
    """At the left, as all other text: rich puts the largest into the middle of the terminal."""

    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading}


def _markdown(text: str) -> _Lines:
    """Links are written out: what a link leads to is to be seen before it is followed."""
    return _Lines(_Markdown(text, hyperlinks=False, code_theme="ansi_dark"))


def split_done(text: str) -> tuple[str, str]:
    """What is complete (up to the last empty line that is in no block of code), and the rest."""
    end = text.rfind("\n\n")
    while end >= 0:
        done = text[:end]
        if not _is_open(done):
            return done, text[end:].lstrip("\n")
        end = text.rfind("\n\n", 0, end)
    return "", text


def _is_open(text: str) -> bool:
    """Does it end inside a block of code?"""
    fence = ""
    for mark in _FENCE.findall(text):
        if not fence:
            fence = mark
        elif mark[0] == fence[0] and len(mark) >= len(fence):
            fence = ""
    return bool(fence)


class _Lines:
    """Something without the empty lines around it (rich puts some around each list, table and block of code), and of that the
    last lines only, where more do not fit on the screen."""

    def __init__(self, shown: RenderableType, *, fit: bool = False) -> None:
        self._shown = shown
        self._fit = fit

    def fitting(self) -> _Lines:
        return _Lines(self._shown, fit=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._shown, options, pad=False)
        full = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        lines = lines[full[0] : full[-1] + 1] if full else []
        for line in lines[-max(1, console.size.height - _MARGIN) :] if self._fit else lines:
            yield from line
            yield Segment.line()


class _Aside(io.TextIOBase):
    """Standard error for what tools print: above what is drawn again and again."""

    def __init__(self, screen: RichScreen) -> None:
        self._screen = screen
        self._line = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)  # `buffer`, for tools that write bytes

    def fileno(self) -> int:
        return sys.stderr.fileno()

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """By whole lines: half a line would be drawn over."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._screen.print_aside(f"{line}\n")
        return len(text)

    def flush(self) -> None:
        pass
