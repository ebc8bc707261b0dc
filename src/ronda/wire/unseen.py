"""A whole turn, and how much of it previews have shown → the pieces that were not shown yet."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct

from ronda.core.events import ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import AssistantTurn, Reasoning, Refusal, Text, ToolCall
from ronda.wire.updates import Delta


class ShownLengths(Struct, gc=False):
    """Characters of a turn that were shown."""

    text: int = 0
    reasoning: int = 0
    refusal: int = 0


def unseen_pieces(turn: AssistantTurn, seen: ShownLengths, *, holds_text: bool, refusal_is_text: bool) -> list[Delta]:
    """In the order of the turn. Text that is held back is left out."""
    unseen: list[Delta] = []
    for part in turn.parts:
        match part:
            case Text(text=text):
                rest, seen.text = _behind(text, seen.text)
                if not holds_text:
                    _add(unseen, TextDelta, rest)
            case ToolCall():
                pass
            case Reasoning(text=text):
                rest, seen.reasoning = _behind(text, seen.reasoning)
                _add(unseen, ReasoningDelta, rest)
            case Refusal(text=text):
                rest, seen.refusal = _behind(text, seen.refusal)
                if not refusal_is_text:
                    _add(unseen, RefusalDelta, rest)
                elif not holds_text:
                    _add(unseen, TextDelta, rest)
            case _:
                assert_never(part)
    return unseen


def _behind(text: str, seen: int) -> tuple[str, int]:
    """What of a part comes behind what was seen of the turn, and what was seen of the parts behind it."""
    return (text[seen:], max(0, seen - len(text))) if seen else (text, 0)


def _add(unseen: list[Delta], kind: type[TextDelta | ReasoningDelta | RefusalDelta], text: str) -> None:
    """Neighbours of one kind are one piece."""
    if unseen and type(last := unseen[-1]) is kind:
        unseen[-1] = kind(last.text + text)
    elif text:
        unseen.append(kind(text))
