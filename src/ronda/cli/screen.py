"""What a run shows → a terminal or a pipe.

Piped, only the answer goes to standard output, and what happens on the way goes to standard error in brackets. At a terminal
with `rich` installed (`pip install ronda[cli]`) it is Markdown in colours, with a spinner while the model or a tool works:
`rich_screen`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from ronda.core.parts import Usage

NoteKind: TypeAlias = Literal["tool", "result", "failure", "plain"]


class PrintableText:
    """A terminal for what models say: what it would act on is written out."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(printable(text))

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        return self._out.isatty()


def printable(text: str) -> str:
    return "".join([one if one.isprintable() or one in "\n\t" else _escape(one) for one in text])


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class Screen:
    """Plain text. `quiet` leaves out what happens on the way."""

    def __init__(self, out: TextIO, *, as_they_come: bool, quiet: bool = False, aside: TextIO | None = None) -> None:
        self._out = cast("TextIO", PrintableText(out)) if out.isatty() else out
        self.as_they_come = as_they_come
        self.quiet = quiet
        self.aside: TextIO = sys.stderr if aside is None else aside  # where tools print

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def text(self, text: str) -> None:
        """The next piece of what the model says."""
        if self.as_they_come:
            print(text, end="", flush=True, file=self._out)

    def end_text(self) -> None:
        """The model has said something, and goes on to call tools."""
        if self.as_they_come:
            print(flush=True, file=self._out)

    def note(self, text: str, kind: NoteKind = "plain") -> None:
        """What happens on the way to the answer. Only the answer goes to standard output."""
        if not self.quiet:
            print(f"[{text}]", file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        if not self.quiet:
            print(f"ronda: {text}", file=sys.stderr)

    def status(self, text: str | None) -> None:
        """What is waited for. Plain text has no place for it."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While a person is asked."""
        yield

    def answer(self, result: Any) -> None:
        """The answer, at the end."""
        print("" if self.as_they_come and isinstance(result, str) else answer_text(result), file=self._out)

    def usage(self, usage: Usage) -> None:
        print(f"[{usage_text(usage)}]", file=sys.stderr, flush=True)


def answer_text(result: Any) -> str:
    return result if isinstance(result, str) else msgspec.json.encode(result).decode()


def usage_text(usage: Usage) -> str:
    """Tokens, and money where it is known."""
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    thought = f" ({usage.reasoning:,} of them thinking)" if usage.reasoning else ""
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out{thought}{cost}"


def can_draw(out: TextIO, plain: bool) -> bool:
    """Can it show colours and moves, and is there what draws them?"""
    if plain or not out.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return importlib.util.find_spec("rich") is not None


def open_screen(
    out: TextIO,
    *,
    as_they_come: bool | None = None,
    quiet: bool = False,
    plain: bool = False,
    aside: TextIO | None = None,
) -> Screen:
    """`as_they_come` of None: at a terminal."""
    shown = out.isatty() if as_they_come is None else as_they_come
    if can_draw(out, plain):
        from ronda.cli.rich_screen import RichScreen  # loads rich: 50 ms

        return RichScreen(out, as_they_come=shown, quiet=quiet)
    return Screen(out, as_they_come=shown, quiet=quiet, aside=aside)
