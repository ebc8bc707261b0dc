"""Messages in channels → text, reasoning and calls: Harmony, as gpt-oss writes it, and Atem, as Muse Glimmer does.

An answer is a row of messages. Each has a header, which ends at `<|message|>` and says what it is. In Harmony that is a channel
(analysis is thought, final and commentary are text) and perhaps who it is for: `to=functions.name` makes it a call, in whichever
place of the header it stands. In Atem it is who it is for alone: `to=self` is thought, `to=user` text, and all others are calls,
in tags of their own. The prompt ends with `<|start|>assistant`, so the first header is half written when we come.

A message ends at a marker of its dialect, where the engine shows it; the next `<|start|>` does so too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from ronda.local.markup.calls import BLANKS, Span
from ronda.local.markup.literals import overlap
from ronda.local.markup.output import Out

_MESSAGE: Final = "<|message|>"
_MAX_HEADER: Final = 512

_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]+)")

_Step: TypeAlias = Callable[[Out], bool]


class Dialect(Struct, frozen=True):
    begins: tuple[str, ...]
    ends: tuple[str, ...]
    noise: tuple[str, ...] = (_MESSAGE,)
    readers: tuple[str, ...] = ()  # to whom a message is text
    thinker: str = ""  # to whom it is thought


HARMONY_DIALECT: Final = Dialect(
    ("<|start|>", "<|channel|>"),
    ("<|end|>", "<|call|>", "<|return|>"),
    noise=("<|constrain|>", _MESSAGE),
    readers=("assistant", "user", "all", "final"),
)
ATEM_DIALECT: Final = Dialect(
    ("<|start|>",), ("<|eom|>", "<|eot|>", "<|end_of_text|>"), readers=("assistant", "user"), thinker="self"
)


class _Machine(Protocol):
    def feed(self, text: str, out: Out) -> None: ...

    def end(self, out: Out) -> None: ...


class Channels:
    """`inner` makes what reads a message that is a call; without it, such a message is the arguments and nothing else."""

    def __init__(self, dialect: Dialect, *, thinking_open: bool, inner: Callable[[], _Machine] | None = None) -> None:
        self._dialect = dialect
        self._new_inner = inner
        self._inner: _Machine | None = None
        self._buffer = ""
        self._at = 0
        self._kind: Literal["text", "reasoning", "call"] = "reasoning" if thinking_open else "text"
        self._last = ""  # the kind of message that was shown last
        self._first = not thinking_open
        self._is_new = False  # nothing of this message was shown
        self._span = Span()
        self._step: _Step = self._in_body if thinking_open else self._between

    def feed(self, text: str, out: Out) -> None:
        self._buffer = self._buffer[self._at :] + text
        self._at = 0
        while self._step(out):
            pass

    def end(self, out: Out) -> None:
        rest = self._buffer[self._at :]
        if self._step == self._in_body:
            self._body(rest, out)
            if self._inner is not None:
                self._inner.end(out)
            elif self._kind == "call" and self._span.complete:
                out.close()
        elif self._step == self._in_header:
            out.cut = "to=" in rest
        elif rest.strip() and not rest.startswith("<|"):
            self._kind = "text"
            self._body(rest, out)

    def _between(self, out: Out) -> bool:
        """Where a header should begin. The first may begin in its middle, with whom it is for."""
        if blanks := BLANKS.match(self._buffer, self._at):
            self._at = blanks.end() - 1
        rest = self._buffer[self._at : self._at + 16]
        if self._first and rest.lstrip().startswith("to="):
            self._step = self._in_header
            return True
        if not rest.lstrip() or (self._first and "to=".startswith(rest.lstrip())):
            return False
        self._at += len(rest) - len(rest.lstrip())
        rest = rest.lstrip()
        self._is_new = True
        begins, ends = self._dialect.begins, self._dialect.ends
        if rest.startswith(begins):
            self._step = self._in_header
        elif any(marker.startswith(rest) for marker in (*begins, *ends)):
            return False
        elif ended := next((marker for marker in ends if rest.startswith(marker)), None):
            self._at += len(ended)
        else:  # text without a header
            self._first = False
            self._kind = "text"
            self._inner = self._new_inner() if self._new_inner is not None else None
            self._step = self._in_body
        return True

    def _in_header(self, out: Out) -> bool:
        end = self._buffer.find(_MESSAGE, self._at)
        if end < 0 and len(self._buffer) - self._at <= _MAX_HEADER:
            return False
        self._first = False
        if end < 0 or end - self._at > _MAX_HEADER:  # not one, whatever it is
            self._kind = "text"
            begins = self._dialect.begins
            self._at += len(next((marker for marker in begins if self._buffer.startswith(marker, self._at)), ""))
        else:
            self._address(self._buffer[self._at : end], out)
            self._at = end + len(_MESSAGE)
        self._step = self._in_body
        return True

    def _address(self, header: str, out: Out) -> None:
        channels = _CHANNEL.findall(header)
        found = _RECIPIENT.search(header)
        recipient = found[1] if found else ""
        dialect = self._dialect
        if not recipient or recipient == dialect.thinker or recipient in dialect.readers:
            # gpt-oss sometimes addresses itself in front of the channel that counts: `commentary to=assistant`, then `analysis`.
            is_thought = channels[-1:] == ["analysis"] or (bool(recipient) and recipient == dialect.thinker)
            self._kind = "reasoning" if is_thought else "text"
        else:
            self._kind = "call"
            self._last = ""
            if self._new_inner is not None:
                self._inner = self._new_inner()
            else:
                self._span = Span()
                out.open(recipient.removeprefix("functions."))

    def _in_body(self, out: Out) -> bool:
        dialect = self._dialect
        markers = (*dialect.begins, *dialect.ends, *dialect.noise)
        found = min(
            ((at, marker) for marker in markers if (at := self._buffer.find(marker, self._at)) >= 0), default=None
        )
        if found is None:
            tail = overlap(self._buffer, markers, self._at)
            self._body(self._buffer[self._at : len(self._buffer) - tail], out)
            self._at = len(self._buffer) - tail
            return False
        start, marker = found
        self._body(self._buffer[self._at : start], out)
        self._at = start
        if marker in dialect.noise:
            self._at += len(marker)
            return True
        if self._inner is not None:
            self._inner.end(out)
            self._inner = None
        elif self._kind == "call":
            out.close()
        self._step = self._between
        return True

    def _body(self, piece: str, out: Out) -> None:
        if not piece:
            return
        if self._inner is not None:
            self._inner.feed(piece, out)
            return
        if self._kind == "call":
            if not self._span.complete:
                self._span.read(piece, 0)
            out.arguments(piece)
            return
        if self._last == self._kind and self._is_new:
            piece = f"\n\n{piece}"
        self._last, self._is_new = self._kind, False
        (out.text if self._kind == "text" else out.reasoning)(piece)
