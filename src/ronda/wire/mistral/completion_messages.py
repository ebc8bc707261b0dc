"""What the loop added to a conversation → messages of /v1/agents/completions, and what it used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Text, ToolCall, ToolResult, ToolTurn, Turn, Usage
from ronda.wire.mistral.chunks import write_content

BREAK: Final = "\n\n"  # behind the text of a message that another one follows


def write_usage(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
    }
    if usage.cached:
        fields["prompt_tokens_details"] = {"cached_tokens": usage.cached}
    if usage.reasoning:
        fields["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    if usage.cost is not None:
        fields["cost"] = usage.cost
    return fields


def write_call(call: ToolCall, index: int, shown_id: Callable[[str], str]) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": shown_id(call.id), "type": "function", "function": function, "index": index}


def write_turns(
    turns: Sequence[Turn], waiting: Sequence[ToolResult], shown_id: Callable[[str], str], *, holds_text: bool
) -> list[dict[str, Any]]:
    """What the loop added to the conversation, as messages.

    `waiting` is our half of a turn that waits for the caller's; `holds_text`: what is said on the way to the answer is not shown.
    `shown_id`: the model's id of a call → what the caller calls it.
    """
    messages: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    last = max([at for at, turn in enumerate(turns) if type(turn) is AssistantTurn], default=-1)
    for at, turn in enumerate([*turns, ToolTurn(tuple(waiting))]):
        if isinstance(turn, AssistantTurn):
            parts = turn.parts if at == last else _on_the_way(turn, holds_text)
            message: dict[str, Any] = {"role": "assistant", "content": write_content(parts)}
            if turn.calls:
                message["tool_calls"] = [write_call(call, n, shown_id) for n, call in enumerate(turn.calls)]
                names = {call.id: call.name for call in turn.calls}
            messages.append(message)
        elif isinstance(turn, ToolTurn):
            messages += [
                {
                    "role": "tool",
                    "tool_call_id": result.call_id,
                    "name": names.get(result.call_id, ""),
                    "content": result.content,
                }
                for result in turn.results
            ]
    return messages


def _on_the_way(turn: AssistantTurn, holds_text: bool) -> tuple[AssistantPart, ...]:
    """What a stream showed of a message that another one followed."""
    thoughts = tuple([part for part in turn.parts if type(part) is Reasoning])
    if holds_text:
        return thoughts
    return (*turn.parts, Text(BREAK)) if turn.text or turn.refusal else thoughts
