"""What may stand around a call: text, thoughts, and the answer instead of it.

A text ends where a call's mark begins. Where the mark is a token, that is all there is to say. Where it is text, llguidance is
told to stop as soon as it has been written (`lazy`), and, when time is up (`max_tokens`), to continue with the mark itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.local.grammar import Cost
from ronda.local.markup.family import Family
from ronda.local.markup.forms import CHANNELS, Channels, form_of
from ronda.local.markup.lark import ANY_TEXT, Lark, alternatives, in_regex

_LINES: Final = '("\\n\\n" | "\\n")?'
_AFTER_THOUGHT: Final = "\n\n"
# How a line begins that is read as a call though nothing marks it.
_BARE_LINES: Final = {"json": '\\{\\s*"name"', "python": "\\[\\s*[A-Za-z_][A-Za-z0-9_.]*\\("}


class Frame:
    """The grammar of a whole answer, for a family. `thinking_open`: the prompt began a thought."""

    def __init__(self, family: Family, lark: Lark, *, thinking_open: bool) -> None:
        self._family = family
        self._form = form_of(family)
        self._lark = lark
        self._open = thinking_open
        self._channels = CHANNELS.get(family.name)
        self._think = family.think if self._channels is None else None

    # ---- a call that is owed -------------------------------------------------------------------------------------------

    def head_cost(self, cost: Cost) -> int:
        """Tokens that are forced before the mark, when time is up."""
        if self._channels is not None:
            return cost.literal(self._channels.turn)
        return 1 if self._think is None else 1 + cost.literal(self._think[1] + _AFTER_THOUGHT)

    def owed(self, calls: Sequence[str], ahead: int) -> str:
        """A call, after at most `ahead` tokens of something else."""
        rest = self._form.rest(self._lark, calls, several=False)
        if self._channels is not None:
            return f"{self._owed_in_channels(self._channels, ahead)} {rest}"
        if self._think is None:
            return f"{self._before(ahead, thought=False)} {rest}"
        thought, text = ahead * 3 // 4, ahead - ahead * 3 // 4
        if not ahead:
            close = self._lark.text(self._think[1], _AFTER_THOUGHT) if self._open else ""
            return f"{close} {self._mark()} {rest}".strip()
        after = self._before(text, thought=False)
        if self._open:
            return f"{self._thought(thought)} {after} {rest}"
        opening = self._lark.text(self._think[0])
        return f"({opening} {self._thought(thought)} {after} | {self._before(ahead, thought=True)}) {rest}"

    def _owed_in_channels(self, channels: Channels, ahead: int) -> str:
        mark, turn = self._mark(), self._lark.text(channels.turn)
        if not ahead:
            return f"{turn} {mark}" if self._open else mark
        text = self._lark.rule(self._channel_text(channels), f"max_tokens={ahead}")
        return f"{text} {turn} {mark}" if self._open else f"({self._lark.text(channels.thought)} {text} {turn})? {mark}"

    def _mark(self) -> str:
        return self._lark.text(self._form.mark)

    def _before(self, limit: int, *, thought: bool) -> str:
        """Text of at most `limit` tokens, and the mark. `thought`: one that begins a thought is spoken for."""
        if not limit:
            return self._mark()
        cut = self._lark.rule(self._terminal(ANY_TEXT, thought), f"max_tokens={limit}")
        if self._lark.is_token(self._form.mark):
            return f"{cut} {self._mark()}"
        natural = self._lark.rule(self._terminal(self._to_mark(), thought), f"lazy, max_tokens={limit}")
        forced = self._lark.text("\n", self._form.mark) if self._family.bare is not None else self._mark()
        return f"({cut} {forced} | {natural})"

    def _to_mark(self) -> str:
        mark = in_regex(self._form.mark)
        return f"(?s:.*\\n)?{mark}" if self._family.bare is not None else f"{ANY_TEXT}{mark}"

    def _terminal(self, regex: str, thought: bool) -> str:
        """A text, or one that does not begin like a thought."""
        if not thought or self._think is None or self._lark.is_token(self._think[0]):
            return self._lark.terminal(f"/{regex}/")
        opening = in_regex(self._think[0].rstrip())
        return self._lark.terminal(f"/{regex}/ & ~/\\s*{opening}{ANY_TEXT}/")

    def _thought(self, limit: int | None) -> str:
        """The rest of a thought and its end."""
        assert self._think is not None
        close = self._think[1]
        options = [] if limit is None else [f"max_tokens={limit}"]
        if self._lark.is_token(close):
            return f"{self._lark.rule(self._terminal(ANY_TEXT, False), ', '.join(options))} {self._lark.text(close)}"
        natural = self._lark.rule(self._terminal(f"{ANY_TEXT}{in_regex(close)}", False), ", ".join(["lazy", *options]))
        if limit is None:
            return natural
        cut = self._lark.rule(self._terminal(ANY_TEXT, False), ", ".join(options))
        return f"({cut} {self._lark.text(close, _AFTER_THOUGHT)} | {natural})"

    # ---- calls wherever the model begins one ---------------------------------------------------------------------------

    def anywhere(self, calls: Sequence[str], *, parallel: bool) -> str:
        rest = self._form.rest(self._lark, calls, several=parallel)
        if (channels := self._channels) is not None:
            text = self._lark.rule(self._channel_text(channels))
            return self._in_channels(channels, f"({self._final(channels, text)} | {self._mark()} {rest})")
        if self._family.bare is not None:
            return self._with_thought(f"({self._bare_calls(rest, parallel)} | {self._not_bare()})")
        thought = self._think is not None
        if self._lark.is_token(self._form.mark):
            text = self._lark.rule(self._terminal(ANY_TEXT, thought))
            call = f"{text} {self._mark()} {rest}"
        else:
            call = f"{self._lark.rule(self._terminal(self._to_mark(), thought), 'lazy')} {rest}"
            text = self._lark.rule(self._terminal(ANY_TEXT, thought))
        return self._with_thought(f"({call})* {text}" if parallel else f"({call} | {text})")

    def _bare_calls(self, rest: str, parallel: bool) -> str:
        one = f"{self._mark()} {rest}"
        return f'{one} ("\\n" {one})*' if parallel else one

    def _not_bare(self) -> str:
        """Text in which no line begins like a call."""
        thought = f" & ~/\\s*{in_regex(self._think[0].rstrip())}{ANY_TEXT}/" if self._think is not None else ""
        line = f"(?s:.*\\n)?\\s*{_BARE_LINES[self._family.bare or 'json']}(?s:.*)"
        return self._lark.rule(self._lark.terminal(f"/{ANY_TEXT}/ & ~/{line}/{thought}"))

    # ---- no call at all ------------------------------------------------------------------------------------------------

    def never(self) -> str:
        """Text, and nothing that would be read as a call."""
        if (channels := self._channels) is not None:
            return self._in_channels(channels, self._final(channels, self._lark.rule(self._channel_text(channels))))
        if self._family.bare is not None:
            return self._with_thought(self._not_bare())
        spoken = f" & ~/\\s*{in_regex(self._think[0].rstrip())}{ANY_TEXT}/" if self._think is not None else ""
        marks = "|".join(in_regex(mark) for mark in dict.fromkeys((*self._family.opens, self._form.mark)))
        return self._with_thought(
            self._lark.rule(self._lark.terminal(f"/{ANY_TEXT}/ & ~/{ANY_TEXT}({marks}){ANY_TEXT}/{spoken}"))
        )

    # ---- an answer, or calls instead of it -----------------------------------------------------------------------------

    def instead(self, calls: Sequence[str], answer: str, *, parallel: bool) -> str:
        if (channels := self._channels) is not None:
            call = f" | {self._mark()} {self._form.rest(self._lark, calls, several=False)}" if calls else ""
            return self._in_channels(channels, f"({self._final(channels, answer)}{call})")
        if not calls:
            return self._with_thought(answer)
        one = f"{self._mark()} {self._form.rest(self._lark, calls, several=parallel)}"
        join = f"{self._lark.text(self._form.join)} " if self._form.join else ""
        many = f"{one} ({join}{one})*" if parallel else one
        return self._with_thought(f"({many} | {answer})")

    def _with_thought(self, rest: str) -> str:
        if self._think is None:
            return rest
        thought = f"{self._thought(None)} {_LINES}"
        return f"{thought} {rest}" if self._open else f"({self._lark.text(self._think[0])} {thought})? {rest}"

    # ---- channels --------------------------------------------------------------------------------------------------------

    def _in_channels(self, channels: Channels, last: str) -> str:
        text, turn = self._lark.rule(self._channel_text(channels)), self._lark.text(channels.turn)
        heads = alternatives([self._lark.text(head) for head in (channels.thought, *channels.comments)])
        many = f"({heads} {text} {turn})* {last}"
        return f"{text} {turn} {many}" if self._open else many

    def _final(self, channels: Channels, answer: str) -> str:
        return f"{self._lark.text(channels.final)} {answer} {self._lark.text(channels.end)}"

    def _channel_text(self, channels: Channels) -> str:
        """Text without the markers that engines show as text."""
        return self._lark.terminal(f"/{ANY_TEXT}/ & ~/{ANY_TEXT}{channels.reserved}{ANY_TEXT}/")
