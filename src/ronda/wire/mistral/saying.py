"""What an assistant says, piece by piece: thoughts and text in order, each shown once, one message per round.

Where the caller gave the beginning of the answer (`prefix: true`), the text begins with it: some models repeat it, others go
on from it.
"""

from __future__ import annotations


class Saying:
    """`parts` are those of the message of this round."""

    __slots__ = ("_parts", "_prefix", "_refused", "_said", "_thought", "_waiting")

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix  # what the text must begin with, until that is settled
        self._waiting = ""  # text that may be a repetition of the prefix
        self.begin_round()

    def begin_round(self) -> None:
        self._parts: list[tuple[bool, list[str]]] = []
        self._said = self._thought = self._refused = 0  # characters of this round that were taken

    # Each takes a piece, or the whole of a round, and gives what is to be shown of it.

    def text(self, piece: str) -> str:
        self._said += len(piece)
        return self._keep(False, self._behind_prefix(piece))

    def thought(self, piece: str) -> str:
        self._thought += len(piece)
        return self._keep(True, piece)

    def refusal(self, piece: str) -> str:
        self._refused += len(piece)
        return self._keep(False, self._behind_prefix(piece))

    def rest_of_text(self, whole: str) -> str:
        return self.text(whole[self._said :])

    def rest_of_thought(self, whole: str) -> str:
        return self.thought(whole[self._thought :])

    def rest_of_refusal(self, whole: str) -> str:
        return self.refusal(whole[self._refused :])

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
    def parts(self) -> list[tuple[bool, str]]:
        """(is it a thought, the text)"""
        return [(thought, "".join(pieces)) for thought, pieces in self._parts]
