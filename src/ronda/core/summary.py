"""Turns that are about to go → a few lines that say what they were about, without asking a model.

Media never gets in: a summary with a picture's base64 in it would be longer than what it sums up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.context import SUMMARY
from ronda.core.parts import AssistantTurn, SystemTurn, Text, ToolTurn, Turn, UserTurn

_LINE = 200
_USER_LABEL = "User asked: "
_OMITTED_LINE = "... (older messages omitted)"


def room_for(budget: int) -> int:
    """Characters a summary may have: it must not be what fills the budget."""
    return max(1000, min(4000, budget // 2))


def excerpt(turns: Sequence[Turn], room: int) -> str:
    """What was asked and answered, one line each. Where there is not room for all, what was asked stays longest."""
    lines: list[str] = []
    for turn in turns:
        match turn:
            case UserTurn():
                if words := _text(turn):
                    lines.append(f"{_USER_LABEL}{_short(words)}")
            case AssistantTurn():
                if words := (turn.text or turn.refusal).strip():
                    lines.append(f"Assistant: {_short(words)}")
                if names := [call.name for call in turn.calls]:
                    lines.append(f"  Called tools: {', '.join(names)}")
            case SystemTurn(text=text) if text.startswith(SUMMARY):
                lines += text.removeprefix(SUMMARY).split("\n")
            case _:
                pass
    return _fit_lines([line for line in lines if line != _OMITTED_LINE], room)


def _fit_lines(lines: list[str], room: int) -> str:
    if sum(map(len, lines)) + len(lines) <= room:
        return "\n".join(lines)
    taken: set[int] = set()
    newest_first = range(len(lines) - 1, -1, -1)
    for wanted in (True, False):
        for at in newest_first:
            if lines[at].startswith(_USER_LABEL) is wanted and len(lines[at]) < room:
                taken.add(at)
                room -= len(lines[at]) + 1
    return "\n".join([_OMITTED_LINE, *[lines[at] for at in sorted(taken)]])


def written_out(turns: Sequence[Turn]) -> str:
    """The turns as text, for a model that is to sum them up."""
    lines: list[str] = []
    for turn in turns:
        match turn:
            case SystemTurn(text=text):
                lines.append(f"[summary]: {text.removeprefix(SUMMARY)}")
            case UserTurn():
                lines.append(f"[user]: {_text(turn)}")
            case AssistantTurn():
                if words := (turn.text or turn.refusal).strip():
                    lines.append(f"[assistant]: {words}")
                lines += [f"Called: {call.name}({call.arguments})" for call in turn.calls]
            case ToolTurn(results=results):
                lines += [f"[tool]: {result.content}" for result in results]
    return "\n".join(lines)


def _text(turn: UserTurn) -> str:
    return "".join([part.text for part in turn.parts if type(part) is Text]).strip()


def _short(text: str) -> str:
    return text if len(text) <= _LINE else text[:_LINE] + "…"
