"""What may stand around a call: text, thoughts, and the answer instead of it.

A text ends where a call's mark begins. Where the mark is a token, that is all there is to say. Where it is text, llguidance is
told to stop as soon as it has been written (`lazy`), and, when time is up (`max_tokens`), to go on with the mark itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ronda.schema.grammar import Cost
from ronda.wire.markup.family import BARE, Family
from ronda.wire.markup.forms import FORMS
from ronda.wire.markup.lark import ANY_TEXT, Lark, in_regex

_LINES: Final = '("\\n\\n" | "\\n")?'
_AFTER_THOUGHT: Final = "\n\n"
_ASSISTANT: Final = "<|end|><|start|>assistant"
_ANALYSIS: Final = "<|channel|>analysis<|message|>"
_FINAL: Final = "<|channel|>final<|message|>"


class Frame:
    """The grammar of a whole answer, for a family. `thinking_open`: the prompt began a thought."""

    def __init__(self, family: Family, lark: Lark, *, thinking_open: bool) -> None:
        self._family = family
        self._form = FORMS[family.name]
        self._lark = lark
        self._open = thinking_open
        self._think = family.think
        if family.name == "harmony":
            self._think = None

    # ---- a call that is owed -------------------------------------------------------------------------------------------

    def head_cost(self, cost: Cost) -> int:
        """Tokens that are forced before the mark, when time is up."""
        if self._family.name == "harmony":
            return cost.literal(_ASSISTANT)
        return 1 if self._think is None else 1 + cost.literal(self._think[1] + _AFTER_THOUGHT)

    def owed(self, calls: Sequence[str], ahead: int) -> str:
        """A call, after at most `ahead` tokens of something else."""
        rest = self._form.rest(self._lark, calls, several=False)
        if self._family.name == "harmony":
            return f"{self._owed_in_channels(ahead)} {rest}"
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

    def _owed_in_channels(self, ahead: int) -> str:
        mark, turn = self._mark(), self._lark.text(_ASSISTANT)
        if not ahead:
            return f"{turn} {mark}" if self._open else mark
        text = self._lark.rule(self._channel_text(), f"max_tokens={ahead}")
        return f"{text} {turn} {mark}" if self._open else f"({self._lark.text(_ANALYSIS)} {text} {turn})? {mark}"

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
        forced = self._lark.text("\n", self._form.mark) if self._family.name in BARE else self._mark()
        return f"({cut} {forced} | {natural})"

    def _to_mark(self) -> str:
        mark = in_regex(self._form.mark)
        return f"(?s:.*\\n)?{mark}" if self._family.name in BARE else f"{ANY_TEXT}{mark}"

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
        if self._family.name == "harmony":
            text = self._lark.rule(self._channel_text())
            final = f"{self._lark.text(_FINAL)} {text} {self._lark.text('<|return|>')}"
            return self._in_channels(f"({final} | {self._mark()} {rest})")
        if self._family.name in BARE:
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
        line = '(?s:.*\\n)?\\s*\\{\\s*"name"(?s:.*)'
        return self._lark.rule(self._lark.terminal(f"/{ANY_TEXT}/ & ~/{line}/{thought}"))

    # ---- no call at all ------------------------------------------------------------------------------------------------

    def never(self) -> str:
        """Text, and nothing that would be read as a call."""
        if self._family.name == "harmony":
            text = self._lark.rule(self._channel_text())
            return self._in_channels(f"{self._lark.text(_FINAL)} {text} {self._lark.text('<|return|>')}")
        if self._family.name in BARE:
            return self._with_thought(self._not_bare())
        spoken = f" & ~/\\s*{in_regex(self._think[0].rstrip())}{ANY_TEXT}/" if self._think is not None else ""
        marks = "|".join(in_regex(mark) for mark in self._family.opens)
        return self._with_thought(
            self._lark.rule(self._lark.terminal(f"/{ANY_TEXT}/ & ~/{ANY_TEXT}({marks}){ANY_TEXT}/{spoken}"))
        )

    # ---- an answer, or calls instead of it -----------------------------------------------------------------------------

    def instead(self, calls: Sequence[str], answer: str, *, parallel: bool) -> str:
        if self._family.name == "harmony":
            final = f"{self._lark.text(_FINAL)} {answer} {self._lark.text('<|return|>')}"
            call = f" | {self._mark()} {self._form.rest(self._lark, calls, several=False)}" if calls else ""
            return self._in_channels(f"({final}{call})")
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

    def _in_channels(self, last: str) -> str:
        text, turn = self._lark.rule(self._channel_text()), self._lark.text(_ASSISTANT)
        commentary = self._lark.text("<|channel|>commentary<|message|>")
        many = f"(({self._lark.text(_ANALYSIS)} | {commentary}) {text} {turn})* {last}"
        return f"{text} {turn} {many}" if self._open else many

    def _channel_text(self) -> str:
        """Text without the markers that engines show as text."""
        return self._lark.terminal(f"/{ANY_TEXT}/ & ~/{ANY_TEXT}<\\|(channel|message|start|constrain)\\|>{ANY_TEXT}/")
