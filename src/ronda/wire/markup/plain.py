"""Text with calls and thoughts between markers → text, reasoning and calls. All families but Harmony.

At every moment one step reads on from where the last one stopped; what may be the beginning of a marker, and that only,
stays in the buffer until more text decides it. So the result does not depend on how the text was cut.

Three things are decided here once for all families:

- A marker that is text may be talked about. It counts only if a call follows; if not, it is shown as it was written. A
  marker that is a control token is never shown.
- A call written inside a thought may be a draft. It is a call if the thought never ends, and thought if it does.
- Blanks around calls and thoughts are not part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from ronda.core.plan import ToolSpec
from ronda.wire.markup.calls import CallReader, JsonCalls
from ronda.wire.markup.family import BARE, THINK, Family
from ronda.wire.markup.literals import overlap
from ronda.wire.markup.mistral_calls import NamedCall
from ronda.wire.markup.native import NativeCalls
from ronda.wire.markup.output import Out
from ronda.wire.markup.xml import XmlCalls, types_of

_LINE: Final = re.compile(r"[ \t]*(?:```(?:json|tool_call|tool_code)?[ \t]*\n\s{0,16})?\{")
_HALF_FENCE: Final = re.compile(r"[ \t]*(?:`{1,2}|```[a-z_]{0,9}[ \t]*(?:\n\s{0,16})?)\Z")
_AFTER_CALL: Final = re.compile(r"[\s}]+")
_AFTER_BARE: Final = re.compile(r"[\s;,`]+")

_Step: TypeAlias = Callable[[Out], bool]


class Plain:
    def __init__(
        self, family: Family, tool_names: frozenset[str], tools: Sequence[ToolSpec], *, thinking_open: bool
    ) -> None:
        self._family = family
        self._tool_names = tool_names
        self._types = types_of(tools) if family.name == "qwen_xml" else {}
        think, self._unthink = family.think or THINK  # also from models whose template does not mention it
        self._think = think.rstrip()
        self._bare = family.name in BARE and bool(tool_names)
        self._buffer = ""
        self._at = 0
        self._step: _Step = self._in_thought if thinking_open else self._in_text
        # Of the text: blanks that were not shown yet because nothing followed them, and whether a line begins here.
        self._lead: str | None = ""
        self._keep_lead = True
        self._line_start = True
        self._trail: str | None = None  # the same at the end of a thought; None before it began
        self._doubt = ""  # a marker without a call: text, unless the next thing is the marker again
        # Of the call being read:
        self._reader: CallReader = JsonCalls(tool_names)
        self._marker = ""
        self._undecided: list[str] = []  # what was read of it as long as it may be prose
        self._fenced = False
        self._draft = Out()  # where a call goes that is not believed yet

    def feed(self, text: str, out: Out) -> None:
        self._buffer = self._buffer[self._at :] + text
        self._at = 0
        while self._step(out):
            pass

    def end(self, out: Out) -> None:
        """There is no more text: what was held back is what it is."""
        if self._step == self._in_draft_to_end:
            self._rewind(self._undecided)
            self._leave_thought()
            self.feed("", out)
        rest = self._buffer[self._at :]
        if self._step == self._in_text:
            doubt, self._doubt = self._doubt, ""
            self._text(doubt + rest, out)
        elif self._step == self._in_thought:
            self._thought(rest, out)
        elif self._step == self._in_draft:
            self._thought("".join(self._undecided) + rest, out)
        elif self._step == self._in_junk:
            out.arguments(rest)
            if not self._family.close:
                out.close()
        elif self._step == self._in_call:
            self._end_call(rest, out)

    def _end_call(self, rest: str, out: Out) -> None:
        if self._reader.state == "call":
            self._reader.end(out)
        elif not self._marker:
            self._text("".join(self._undecided) + rest, out)
        elif self._reader.begun or out.calls:  # after a call, an opener with nothing behind it is one that was cut
            out.cut = True
        elif self._marker not in self._family.control:  # people write about markup too
            self._text(self._marker, out)

    # ---- text -----------------------------------------------------------------------------------------------------------

    def _in_text(self, out: Out) -> bool:
        family = self._family
        markers = tuple(filter(None, (*family.opens, self._think, self._unthink, family.close, *family.noise)))
        found = _first(self._buffer, markers, self._at)
        bare = self._find_bare(found[0] if found else len(self._buffer)) if self._bare else None
        if bare is not None:
            start, brace = bare
            self._text(self._buffer[self._at : start], out)
            self._at = start
            if brace >= 0:
                self._at = brace
                self._begin_call("", self._buffer[start:brace], JsonCalls(self._tool_names, bare=True))
            return brace >= 0
        if found is None:
            tail = overlap(self._buffer, markers, self._at)
            self._text(self._buffer[self._at : len(self._buffer) - tail], out)
            self._at = len(self._buffer) - tail
            return False
        start, marker = found
        self._text(self._buffer[self._at : start], out)
        self._at = start + len(marker)
        if marker in family.opens:
            self._begin_call(marker, marker, self._new_reader())
        elif marker == self._think and (self._line_start or marker in family.control):
            self._trail = None
            self._step = self._in_thought
        elif not self._is_stray(marker, out):
            self._text(marker, out)
        return True

    def _is_stray(self, marker: str, out: Out) -> bool:
        """Whether a marker with nothing to end is left over from something, or talked about."""
        if marker in self._family.control or marker in self._family.noise:
            return True
        if marker == self._unthink:
            return self._line_start  # a thought that the prompt began, and nobody told us
        return marker == self._family.close and out.calls > 0

    def _find_bare(self, limit: int) -> tuple[int, int] | None:
        """Where a line before `limit` begins with an object: its start, with a fence around it, and its brace.

        Without a brace: a fence that may be around one.
        """
        line = self._at if self._line_start else self._next_line(self._at)
        while line is not None and line < limit:
            if (match := _LINE.match(self._buffer, line)) and match.end() <= limit:
                return line + _indent(match[0]), match.end() - 1
            if limit == len(self._buffer) and (half := _HALF_FENCE.match(self._buffer, line)):
                return line + _indent(half[0]), -1
            line = self._next_line(line)
        return None

    def _next_line(self, at: int) -> int | None:
        newline = self._buffer.find("\n", at)
        return newline + 1 if newline >= 0 else None

    def _text(self, piece: str, out: Out) -> None:
        if self._doubt and piece:
            self._doubt += piece
            piece, self._doubt = (self._doubt, "") if piece.strip() else ("", self._doubt)
        if not piece:
            return
        self._line_start = not piece.rpartition("\n")[2].strip() and ("\n" in piece or self._line_start)
        if self._lead is not None:  # nothing but blanks so far
            self._lead += piece
            if not piece.strip():
                return
            piece = self._lead if self._keep_lead else self._lead.lstrip()
            self._lead = None
        out.text(piece)

    def _begin_text(self) -> None:
        """After a call or a thought: what follows is a text of its own, and its first blanks are nobody's."""
        self._lead, self._keep_lead, self._line_start = "", False, True

    # ---- thoughts -------------------------------------------------------------------------------------------------------

    def _in_thought(self, out: Out) -> bool:
        markers = (self._unthink, *self._family.opens)
        found = _first(self._buffer, markers, self._at)
        if found is None:
            tail = overlap(self._buffer, markers, self._at)
            self._thought(self._buffer[self._at : len(self._buffer) - tail], out)
            self._at = len(self._buffer) - tail
            return False
        start, marker = found
        self._thought(self._buffer[self._at : start], out)
        self._at = start + len(marker)
        if marker == self._unthink:
            self._leave_thought()
        elif marker in self._family.control:
            self._leave_thought()
            self._begin_call(marker, marker, self._new_reader())
        else:
            self._begin_call(marker, marker, self._new_reader())
            self._step = self._in_draft
            self._draft = Out()
        return True

    def _thought(self, piece: str, out: Out) -> None:
        if self._trail is None:
            piece = piece.lstrip()
            if not piece:
                return
        piece = (self._trail or "") + piece
        shown = piece.rstrip()
        self._trail = piece[len(shown) :]
        out.reasoning(shown)

    def _leave_thought(self) -> None:
        self._begin_text()
        self._step = self._in_text

    def _in_draft(self, out: Out) -> bool:
        """A call inside a thought: first, whether it is one."""
        end = self._reader.read(self._buffer, self._at, self._draft)
        self._undecided.append(self._buffer[self._at : end])
        self._at = end
        if self._reader.state == "prose":
            self._thought(self._undecided[0], out)
            self._rewind(self._undecided[1:])
            self._step = self._in_thought
        elif self._reader.state != "undecided":
            self._rewind(self._undecided)
            self._step = self._in_draft_to_end
        else:
            return False
        return True

    def _in_draft_to_end(self, out: Out) -> bool:
        """Then, whether the thought goes on after it."""
        end = self._buffer.find(self._unthink, self._at)
        if end < 0:
            tail = overlap(self._buffer, (self._unthink,), self._at)
            self._undecided.append(self._buffer[self._at : len(self._buffer) - tail])
            self._at = len(self._buffer) - tail
            return False
        self._thought("".join(self._undecided) + self._buffer[self._at : end], out)
        self._at = end + len(self._unthink)
        self._leave_thought()
        return True

    # ---- calls ----------------------------------------------------------------------------------------------------------

    def _new_reader(self) -> CallReader:
        match self._family.name:
            case "qwen_xml":
                return XmlCalls(self._tool_names, self._types)
            case "gemma4":
                return NativeCalls("gemma", self._tool_names)
            case "lfm2" | "llama3":
                return NativeCalls("python", self._tool_names)
            case "mistral" | "mistral_list":
                return NamedCall(self._tool_names)
            case _:
                return JsonCalls(self._tool_names)

    def _begin_call(self, marker: str, text: str, reader: CallReader) -> None:
        self._marker = marker
        self._doubt = ""
        self._undecided = [text]
        self._reader = reader
        self._step = self._in_call

    def _in_call(self, out: Out) -> bool:
        was_undecided = self._reader.state == "undecided"
        end = self._reader.read(self._buffer, self._at, out)
        if was_undecided:
            self._undecided.append(self._buffer[self._at : end])
        self._at = end
        match self._reader.state:
            case "prose":
                self._step = self._in_text
                rest = "".join(self._undecided[1:])
                if not self._marker:
                    self._text(self._undecided[0] + rest[:1], out)  # without its brace it is not looked at again
                    rest = rest[1:]
                elif self._marker not in self._family.control:
                    self._doubt = self._marker
                self._rewind([rest])
                return True
            case "done":
                self._begin_text()
                self._fenced = "```" in "".join(self._undecided[:1])
                self._undecided = []
                self._step = self._in_junk if self._reader.broken else self._after_call
                return True
            case _:
                return False

    def _after_call(self, out: Out) -> bool:
        """Between a call and the end of its wrapper, or the next call in it."""
        bare = not self._marker
        close = "" if bare else self._family.close
        if not close and not bare:
            self._step = self._in_text
            return True
        if between := (_AFTER_BARE if bare else _AFTER_CALL).match(self._buffer, self._at):
            self._undecided.append(between[0])
            self._at = between.end()
        rest = self._buffer[self._at : self._at + max(len(close), 1)]
        if not rest or (close and rest != close and close.startswith(rest)):
            return False
        if close and rest == close:
            self._at += len(close)
        elif rest[0] == "{" and (bare or self._family.name in ("hermes", "generic", "qwen_xml")):
            text = "".join(self._undecided)
            self._begin_call(self._marker, text, JsonCalls(self._tool_names, bare=bare))
            return True
        else:
            gap = "".join(self._undecided)
            self._rewind([gap.replace("```", "", 1) if self._fenced else gap])
        self._undecided = []
        self._step = self._in_text
        return True

    def _in_junk(self, out: Out) -> bool:
        """A call that makes no sense any more: all of it is its arguments, so that nothing can be made of them."""
        close = self._family.close
        end = self._buffer.find(close, self._at) if close else -1
        if end < 0:
            tail = overlap(self._buffer, (close,), self._at) if close else 0
            out.arguments(self._buffer[self._at : len(self._buffer) - tail])
            self._at = len(self._buffer) - tail
            return False
        out.arguments(self._buffer[self._at : end])
        out.close()
        self._at = end + len(close)
        self._step = self._in_text
        return True

    def _rewind(self, pieces: list[str]) -> None:
        """Look again at what was held back."""
        self._buffer = "".join(pieces) + self._buffer[self._at :]
        self._at = 0
        self._undecided = []


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def _first(text: str, markers: tuple[str, ...], start: int) -> tuple[int, str] | None:
    """The first marker in the text; the longest where two begin at the same place."""
    best: tuple[int, str] | None = None
    for marker in markers:
        at = text.find(marker, start, len(text) if best is None else best[0] + len(marker))
        if at >= 0 and (best is None or at < best[0] or (at == best[0] and len(marker) > len(best[1]))):
            best = (at, marker)
    return best
