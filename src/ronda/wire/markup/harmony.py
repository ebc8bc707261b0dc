"""Harmony, as gpt-oss writes it → text, reasoning and calls.

An answer is a row of messages. Each has a header, which ends at `<|message|>` and names a channel (analysis is thought,
final and commentary are text) and perhaps who it is for: `to=functions.name` makes it a call, in whichever place of the
header it stands. The prompt ends with `<|start|>assistant`, so the first header is half written when we come.

`<|end|>`, `<|call|>` and `<|return|>` end a message, where the engine shows them; the next `<|start|>` does so too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from ronda.wire.markup.calls import BLANKS, Span
from ronda.wire.markup.literals import overlap
from ronda.wire.markup.output import Out

_MESSAGE: Final = "<|message|>"
_BEGINS: Final = ("<|start|>", "<|channel|>")
_ENDS: Final = ("<|end|>", "<|call|>", "<|return|>")
_NOISE: Final = ("<|constrain|>", _MESSAGE)
_MAX_HEADER: Final = 512

_CHANNEL: Final = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT: Final = re.compile(r"\bto=([^\s<]+)")
_NOBODY: Final = ("assistant", "user", "all", "final")

_Step: TypeAlias = Callable[[Out], bool]


class Harmony:
    def __init__(self, *, thinking_open: bool) -> None:
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
            if self._kind == "call" and self._span.complete:
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
        if self._first and rest.startswith(" to="):
            self._step = self._in_header
            return True
        if not rest.lstrip() or (self._first and " to=".startswith(rest)):
            return False
        self._at += len(rest) - len(rest.lstrip())
        rest = rest.lstrip()
        self._is_new = True
        if rest.startswith(_BEGINS):
            self._step = self._in_header
        elif any(marker.startswith(rest) for marker in (*_BEGINS, *_ENDS)):
            return False
        elif ended := next((marker for marker in _ENDS if rest.startswith(marker)), None):
            self._at += len(ended)
        else:  # text without a header
            self._first = False
            self._kind = "text"
            self._step = self._in_body
        return True

    def _in_header(self, out: Out) -> bool:
        end = self._buffer.find(_MESSAGE, self._at)
        if end < 0 and len(self._buffer) - self._at <= _MAX_HEADER:
            return False
        self._first = False
        if end < 0 or end - self._at > _MAX_HEADER:  # not one, whatever it is
            self._kind = "text"
            self._at += len(next((marker for marker in _BEGINS if self._buffer.startswith(marker, self._at)), ""))
        else:
            self._address(self._buffer[self._at : end], out)
            self._at = end + len(_MESSAGE)
        self._step = self._in_body
        return True

    def _address(self, header: str, out: Out) -> None:
        channels = _CHANNEL.findall(header)
        recipient = _RECIPIENT.search(header)
        name = recipient[1].removeprefix("functions.") if recipient and recipient[1] not in _NOBODY else ""
        if name:
            self._kind = "call"
            self._span = Span()
            self._last = ""
            out.open(name)
        else:
            self._kind = "reasoning" if channels and channels[-1] == "analysis" else "text"

    def _in_body(self, out: Out) -> bool:
        markers = (*_BEGINS, *_ENDS, *_NOISE)
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
        if marker in _NOISE:
            self._at += len(marker)
            return True
        if self._kind == "call":
            out.close()
        self._step = self._between
        return True

    def _body(self, piece: str, out: Out) -> None:
        if not piece:
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
