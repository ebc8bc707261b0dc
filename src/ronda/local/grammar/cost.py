"""What it takes to write something, in tokens: one a byte at the most, and for literals as many as the tokenizer says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

ENDLESS: Final = 10**9
_INSIDE_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[,:]')
_CONTROL: Final = re.compile(r"\\[nrtbf]")


class Cost(Struct, frozen=True):
    """What writing costs beyond JSON. `count` tells how many tokens a literal text takes; without it, one a byte."""

    count: Callable[[str], int] | None = None
    key: int = 0  # more than `, "key": `, in tokens
    quotes: int = 2  # around a string

    def literal(self, text: str) -> int:
        """Tokens of a text the decoder has no choice about. Two more where it begins and ends in the middle of a piece."""
        size = len(text.encode())
        return size if self.count is None else min(size, self.count(text) + 2)

    def value(self, text: str) -> int:
        """The most a value takes: with our separators, and with its control characters written the long way."""
        tokens = _INSIDE_JSON.findall(text)
        blanks = sum(token[0] in ",:" for token in tokens)
        more = (self.quotes - 2) * (len(tokens) - blanks)
        return len(text.encode()) + blanks + more + 4 * len(_CONTROL.findall(text.replace("\\\\", "  ")))
