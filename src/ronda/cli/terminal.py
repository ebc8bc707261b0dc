"""The standard streams: any text can be read and written, whatever the locale, and a reader may go away.

What the terminal cannot show is written as an escape, as Python does on standard error; the answer was paid for.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import TextIO

from ronda.errors import BadConfig

READER_GONE = 141  # what a shell shows for a program that SIGPIPE ended, as it does others in front of `head`


def prepare_streams() -> None:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def has_colours(out: TextIO) -> bool:
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def is_piped(stream: TextIO) -> bool:
    """Whether another program or a file was put there on purpose. A terminal, /dev/null, or what a service manager leaves open
    was not, and reading it could wait for ever."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # replaced by the program that calls us
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


@contextlib.contextmanager
def answer_alone() -> Iterator[TextIO]:
    """Standard output for the answer only. What else is written to it meanwhile goes to standard error: what tools print,
    their threads, and the programs they start, which inherit the file descriptor."""
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        if not _is_standard_output(stdout):  # replaced by the calling program: there is no descriptor to turn
            yield stdout
            return
        stdout.flush()
        descriptor = os.dup(1)
        try:
            with contextlib.suppress(OSError):  # standard error may be closed
                os.dup2(2, 1)
            with open(descriptor, "w", encoding=stdout.encoding, errors=stdout.errors, closefd=False) as answer:
                yield answer
        finally:
            os.dup2(descriptor, 1)
            os.close(descriptor)


def _is_standard_output(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False


def leave_quietly() -> int:
    """Standard output is not read any more: what is still buffered must not fail when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def as_utf8(text: str, what: str) -> str:
    """Text from outside, whatever Python took its bytes for. Lone surrogates are bytes that it could not read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        try:
            return os.fsencode(text).decode()
        except UnicodeError as error:
            raise BadConfig(f"{what} is not UTF-8 text") from error
    return text
