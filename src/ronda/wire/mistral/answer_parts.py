"""What Mistral's two answers are made of: the text of a message, piece by piece; messages that are whole; what was used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Text, ToolCall, ToolResult, ToolTurn, Turn, Usage
from ronda.wire.mistral.chunks import write_content

BREAK: Final = "\n\n"  # behind the text of a message that another one follows


class MessageText:
    """What an assistant says: thoughts and text in order, each shown once, one message per round. `parts` are those of the
    message of this round.

    Where the caller gave the beginning of the answer (`prefix: true`), the text begins with it: some models repeat it, others
    continue from it."""

    __slots__ = ("_parts", "_prefix", "_waiting")

    def __init__(self, start: RunStarted) -> None:
        last = start.turns[-1] if start.turns else None
        self._prefix = ""  # what the text must begin with, until that is settled
        if "prefix" in start.about and type(last) is AssistantTurn:
            self._prefix = last.text
        self._waiting = ""  # text that may be a repetition of the prefix
        self.begin_round()

    def begin_round(self) -> None:
        self._parts: list[tuple[bool, list[str]]] = []

    # Each takes a piece, and gives what is to be shown of it. A refusal is text here.

    def text(self, piece: str) -> str:
        return self._keep(False, self._behind_prefix(piece))

    def thought(self, piece: str) -> str:
        return self._keep(True, piece)

    def end(self) -> str:
        """Nothing more comes: what waited is shown behind the prefix it is not a repetition of."""
        waiting, self._waiting = self._waiting, ""
        if not waiting:
            return ""
        prefix, self._prefix = self._prefix, ""
        return self._keep(False, prefix + waiting)

    def _behind_prefix(self, text: str) -> str:
        if not self._prefix or not text:
            return text
        self._waiting += text
        if len(self._waiting) < len(self._prefix) and self._prefix.startswith(self._waiting):
            return ""
        waiting, prefix = self._waiting, self._prefix
        self._waiting = self._prefix = ""
        return waiting if waiting.startswith(prefix) else prefix + waiting

    def _keep(self, thought: bool, text: str) -> str:
        if text:
            if not self._parts or self._parts[-1][0] != thought:
                self._parts.append((thought, []))
            self._parts[-1][1].append(text)
        return text

    @property
    def parts(self) -> list[AssistantPart]:
        return [Reasoning("".join(one)) if is_thought else Text("".join(one)) for is_thought, one in self._parts]


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
    last = max([index for index, turn in enumerate(turns) if type(turn) is AssistantTurn], default=-1)
    for index, turn in enumerate([*turns, ToolTurn(tuple(waiting))]):
        if isinstance(turn, AssistantTurn):
            parts = turn.parts if index == last else _on_the_way(turn, holds_text)
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
