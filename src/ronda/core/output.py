"""What a run said in the end, and what a broken-off answer had said so far."""

from __future__ import annotations

from collections.abc import Iterable

from ronda.core.events import Preview, ReasoningDelta, RefusalDelta, TextDelta
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Refusal, Text
from ronda.core.run import Run


def final_text(run: Run) -> str:
    """The text of the last turn, which is the answer; a refusal where the model refused."""
    for turn in reversed(run.turns):
        if type(turn) is AssistantTurn:
            return turn.text or turn.refusal
    return ""


def fold(previews: Iterable[Preview]) -> AssistantTurn:
    """The turn that was shown so far. Calls are left out: an incomplete call must never look like one."""
    thought: list[str] = []
    said: list[str] = []
    refused: list[str] = []
    for preview in previews:
        match preview:
            case TextDelta(text=text):
                said.append(text)
            case ReasoningDelta(text=text):
                thought.append(text)
            case RefusalDelta(text=text):
                refused.append(text)
            case _:
                pass
    parts: list[AssistantPart] = []
    if thought:
        parts.append(Reasoning("".join(thought)))
    if said:
        parts.append(Text("".join(said)))
    if refused:
        parts.append(Refusal("".join(refused)))
    return AssistantTurn(tuple(parts), "interrupted")
