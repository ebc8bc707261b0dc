"""What an assistant says, piece by piece: thoughts and text in order, each shown once, one message per round.

Where the caller gave the beginning of the answer (`prefix: true`), the text begins with it: some models repeat it, others go
on from it.
"""

from __future__ import annotations

from ronda.core.events import RunStarted
from ronda.core.parts import AssistantPart, AssistantTurn, Reasoning, Text


class MessageText:
    """`parts` are those of the message of this round."""

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
