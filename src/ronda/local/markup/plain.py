"""Text with calls and thoughts between markers → text, reasoning and calls. All families but those with channels.

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
from ronda.local.markup.calls import CallReader, JsonCalls
from ronda.local.markup.family import NOISE_ANYWHERE, READ_ANYWHERE, THINK, Family
from ronda.local.markup.literals import overlap
from ronda.local.markup.named import NamedCall
from ronda.local.markup.native import NativeCalls
from ronda.local.markup.output import Out
from ronda.local.markup.tags import TagCalls, types_of
from ronda.local.markup.wrapper import Named, Tags, Wrapper

# Where a line begins that may be a call without a marker: an object or a list of them, or a list of calls in Python.
_FENCE: Final = r"(?:```(?:json|tool_call|tool_code|python)?[ \t]*\n\s{0,16})"
_LINES: Final = {
    "json": re.compile(rf"[ \t]*{_FENCE}?[\[{{]"),
    "python": re.compile(rf"[ \t]*(?:{_FENCE}?[\[{{]|{_FENCE}(?=[A-Za-z_]))"),
}
_HALF_FENCE: Final = re.compile(r"[ \t]*(?:`{1,2}|```[a-z_]{0,9}[ \t]*(?:\n\s{0,16})?)\Z")
_AFTER_CALL: Final = re.compile(r"[\s}`]+")
_AFTER_BARE: Final = re.compile(r"[\s;,`]+")

_Step: TypeAlias = Callable[[Out], bool]
_NO_WRAPPER: Final = Wrapper("")


class Plain:
    def __init__(
        self, family: Family, tool_names: frozenset[str], tools: Sequence[ToolSpec], *, thinking_open: bool
    ) -> None:
        self._family = family
        self._tool_names = tool_names
        self._types = types_of(tools)
        think, self._unthink = family.think or THINK  # also from models whose template does not mention it
        self._think = think.rstrip()
        self._bare = _LINES[family.bare] if family.bare is not None and tool_names else None
        self._wrappers = {
            one.open: one for one in reversed((*family.wrappers, *READ_ANYWHERE)) if one.open not in family.noise
        }
        self._closes = frozenset(close for one in self._wrappers.values() for close in one.closes)
        self._noise = frozenset((*family.noise, *NOISE_ANYWHERE))
        # A thought that begins again inside itself: its marks, where they are no words.
        again = (
            [] if family.is_text(self._think) else [self._think, *[one for one in family.noise if one in self._think]]
        )
        self._in_texts = tuple(
            dict.fromkeys((*self._wrappers, self._think, self._unthink, *self._closes, *self._noise))
        )
        self._in_thoughts = tuple(dict.fromkeys((self._unthink, *self._wrappers, *again, *self._noise)))
        self._again = frozenset(again)
        self._has_thought = False
        self._is_over = False  # there is no more text
        self._buffer = ""
        self._at = 0
        self._step: _Step = self._in_thought if thinking_open else self._in_text
        # Of the text: blanks that were not shown yet because nothing followed them, and whether a line begins here.
        self._lead: str | None = ""
        self._keep_lead = True
        self._line_start = True
        # The same at the end of a thought, with marks that may belong to a call; None before it began.
        self._trail: str | None = None
        self._doubt = ""  # a marker without a call: text, unless the next thing is the marker again
        # Of the call being read:
        self._reader: CallReader = JsonCalls(tool_names)
        self._marker = ""
        self._wrapper = _NO_WRAPPER
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
        self._is_over = True
        self.feed("", out)
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
            if not self._wrapper.close:
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
        markers = self._in_texts
        found = _first(self._buffer, markers, self._at)
        bare = self._find_bare(self._bare, found[0] if found else len(self._buffer)) if self._bare else None
        if bare is not None:
            start, brace = bare
            self._text(self._buffer[self._at : start], out)
            self._at = start
            if brace >= 0:
                self._at = brace
                self._begin_call("", self._buffer[start:brace], self._bare_reader(start, brace))
            return brace >= 0
        if found is None:
            tail = overlap(self._buffer, markers, self._at)
            self._text(self._buffer[self._at : len(self._buffer) - tail], out)
            self._at = len(self._buffer) - tail
            return False
        start, marker = found
        self._text(self._buffer[self._at : start], out)
        self._at = start
        if self._may_go_on(marker, markers):
            return False
        self._at += len(marker)
        if marker in self._wrappers:
            self._begin_call(marker, marker, self._new_reader(marker))
        elif marker == self._think and (self._line_start or not self._family.is_text(marker)):
            self._trail = None
            self._step = self._in_thought
        elif not self._is_stray(marker, out):
            self._text(marker, out)
        return True

    def _may_go_on(self, marker: str, markers: tuple[str, ...]) -> bool:
        """Whether what is here may be the beginning of a longer marker."""
        if self._is_over:
            return False
        rest = self._buffer[self._at :]
        return any(len(one) > len(rest) and one.startswith(rest) for one in markers if one != marker)

    def _is_stray(self, marker: str, out: Out) -> bool:
        """Whether a marker with nothing to end is left over from something, or talked about."""
        if marker in self._family.control or marker in self._noise:
            return True
        if marker == self._unthink:  # perhaps of a thought that the prompt began, and we were not told
            begun = self._family.think is not None and not self._has_thought
            return begun or self._line_start or not self._family.is_text(marker)
        return marker in self._closes and out.calls > 0

    def _find_bare(self, lines: re.Pattern[str], limit: int) -> tuple[int, int] | None:
        """Where a line before `limit` begins with an object: its start, with a fence around it, and its brace.

        Without a brace: a fence that may be around one.
        """
        line = self._at if self._line_start else self._next_line(self._at)
        while line is not None and line < limit:
            if (match := lines.match(self._buffer, line)) and match.end() <= limit:
                return line + _indent(match[0]), match.end() - match[0].endswith(("[", "{"))
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
        """After a call or a thought: what follows is a text of its own, and its first blanks belong to neither."""
        self._lead, self._keep_lead, self._line_start = "", False, True

    # ---- thoughts -------------------------------------------------------------------------------------------------------

    def _in_thought(self, out: Out) -> bool:
        self._has_thought = True
        markers = self._in_thoughts
        found = _first(self._buffer, markers, self._at)
        if found is None:
            tail = overlap(self._buffer, markers, self._at)
            self._thought(self._buffer[self._at : len(self._buffer) - tail], out)
            self._at = len(self._buffer) - tail
            return False
        start, marker = found
        self._thought(self._buffer[self._at : start], out)
        self._at = start
        if self._may_go_on(marker, markers):
            return False
        self._at += len(marker)
        if marker == self._unthink:
            self._leave_thought()
        elif marker in self._wrappers:
            self._begin_call(marker, marker, self._new_reader(marker))
            self._step = self._in_draft
            self._draft = Out()
        elif (
            marker not in self._again
        ):  # it may belong to a call: shown if the thought goes on, and has not begun with it
            self._trail = (self._trail or "") + marker
        return True

    def _thought(self, piece: str, out: Out) -> None:
        if not piece.strip():
            self._trail = None if self._trail is None else self._trail + piece
            return
        piece = piece.lstrip() if self._trail is None else self._trail + piece
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

    def _new_reader(self, marker: str) -> CallReader:
        wrapper = self._wrappers[marker]
        match wrapper.notation:
            case Tags() as tags:
                return TagCalls(tags, self._tool_names, self._types, begun=marker == tags.call)
            case Named() as named:
                return NamedCall(named, self._tool_names)
            case "gemma" | "function_gemma" | "python":
                return NativeCalls(wrapper.notation, self._tool_names)
            case "json":
                return JsonCalls(self._tool_names)

    def _bare_reader(self, start: int, brace: int) -> CallReader:
        """Of a call without a marker: in Python, if the family writes it so and it does not look like JSON."""
        if self._family.bare == "python" and not self._buffer.startswith("{", brace):
            return NativeCalls("python", self._tool_names, bare=True)
        return JsonCalls(self._tool_names, bare=True)

    def _begin_call(self, marker: str, text: str, reader: CallReader) -> None:
        self._marker = marker
        self._wrapper = self._wrappers[marker] if marker else _NO_WRAPPER
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
                elif self._marker.isalpha():  # a word, such as `functools`: it may well come twice
                    self._text(self._marker, out)
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
        close = self._wrapper.close
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
        elif again := self._another_call(rest[0], bare=bare):
            self._begin_call(self._marker, "".join(self._undecided), again)
            return True
        else:
            gap = "".join(self._undecided)
            self._rewind([gap.replace("```", "", 1) if self._fenced else gap])
        self._undecided = []
        self._step = self._in_text
        return True

    def _another_call(self, char: str, *, bare: bool) -> CallReader | None:
        """What reads on where one call follows another without the wrapper in between."""
        notation = self._wrapper.notation
        if char == "{" and (bare or notation == "json" or isinstance(notation, Tags)):
            return JsonCalls(self._tool_names, bare=bare)
        if notation == "python" and not bare and (char.isalpha() or char == "_"):
            return NativeCalls("python", self._tool_names)
        return None

    def _in_junk(self, out: Out) -> bool:
        """A call that makes no sense any more: all of it is its arguments, so that nothing can be made of them."""
        close = self._wrapper.close
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
