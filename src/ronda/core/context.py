"""What the model is shown when the conversation outgrows its budget: turns → where to cut, and what is left.

Cut is only where a group ends: a call is never parted from its result, nor reasoning from its call, and a provider's own turn
stays whole. Where a question goes, its answer goes too: the summary would say what was asked behind what was answered.
Instructions are never cut, the user's last message is kept, and so is the group at the end. Sizes are characters, counted as
the Prompty specification does; nothing here knows a tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ronda.core.actions import Compact
from ronda.core.parts import AssistantTurn, Reasoning, Refusal, SystemTurn, Text, ToolCall, ToolTurn, Turn, UserTurn

_MESSAGE = 4  # what a message costs besides its role and its text
_MEDIUM = 200  # an image, a file, a sound
_CALL = len('{"id": , "type": "function", "function": {"name": , "arguments": }}')
SUMMARY = "[Summary of earlier conversation] "


def estimate(turns: Sequence[Turn]) -> int:
    return sum([_size(turn) for turn in turns])


def _size(turn: Turn) -> int:
    match turn:
        case ToolTurn(results=results):
            return sum([8 + len(result.content) + _MEDIUM * len(result.attachments) for result in results])
        case AssistantTurn(parts=parts):
            size = len("assistant") + _MESSAGE
            calls = 0
            for part in parts:
                match part:
                    case ToolCall(id=id, name=name):
                        calls += _CALL + len(id) + len(name) + 4 + len(msgspec.json.encode(part.as_written))
                    case Text() | Reasoning() | Refusal():
                        size += len(part.text)
            return size + (calls + 2 if calls else 0)
        case UserTurn(parts=parts):
            sizes = [len(part.text) if type(part) is Text else _MEDIUM for part in parts]
            return len("user") + _MESSAGE + sum(sizes)
        case SystemTurn():
            return len(turn.role) + _MESSAGE + len(turn.text)


def summary_turn(summary: str) -> SystemTurn:
    return SystemTurn(SUMMARY + summary)


def leading(turns: Sequence[Turn]) -> int:
    """How many turns at the beginning are instructions."""
    return next((index for index, turn in enumerate(turns) if type(turn) is not SystemTurn), len(turns))


def groups(turns: Sequence[Turn], start: int) -> list[range]:
    """Where one may cut: what the model said, with the results of its calls, is one piece; anything else is one by itself."""
    found: list[range] = []
    begun = start
    for index in range(start, len(turns)):
        before = turns[index - 1] if index > begun else None
        this = type(turns[index])
        joined = type(before) is AssistantTurn and this in (AssistantTurn, ToolTurn)
        joined = joined or (type(before) is ToolTurn and this is ToolTurn)
        if index > begun and not joined:
            found.append(range(begun, index))
            begun = index
    if begun < len(turns):
        found.append(range(begun, len(turns)))
    return found


def cut(turns: Sequence[Turn], head: int, body: int, budget: int) -> Compact | None:
    """What has to go for the rest to fit; None if it fits, or if nothing more can go.

    `head` counts the instructions; behind them, up to `body`, stands the summary of what is gone already, if there is one.
    """
    size = estimate(turns)
    if size <= budget:
        return None
    fits = budget - min(5000, budget // 20)  # leaves room for the summary
    size -= estimate(turns[head:body])
    pieces = groups(turns, body)
    asked = next((index for index in range(len(turns) - 1, body - 1, -1) if type(turns[index]) is UserTurn), -1)
    gone: set[int] = set()
    upto = body
    question_is_gone = False
    for piece in pieces[:-1]:
        kind = type(turns[piece.start])
        if kind is SystemTurn:
            continue
        is_orphan = question_is_gone and kind is not UserTurn
        if size <= fits and not is_orphan:
            break
        if kind is UserTurn:
            question_is_gone = asked not in piece
        if asked in piece:
            continue
        gone.update(piece)
        upto = piece.stop
        size -= estimate(turns[piece.start : piece.stop])
    if not gone:
        return None
    return Compact(upto, tuple([index for index in range(body, upto) if index not in gone]))


def dropped_turns(turns: Sequence[Turn], head: int, upto: int, kept: Sequence[int]) -> tuple[Turn, ...]:
    """What a compaction takes away, an earlier summary included."""
    stay = set(kept)
    return tuple([turns[index] for index in range(head, upto) if index not in stay])


def compact(turns: Sequence[Turn], head: int, upto: int, kept: Sequence[int], summary: str) -> list[Turn]:
    summaries = [summary_turn(summary)] if summary else []
    return [*turns[:head], *summaries, *[turns[at] for at in kept], *turns[upto:]]
