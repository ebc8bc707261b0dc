"""What rewrites each text before it is kept, logged or traced, where a feature does that."""

from __future__ import annotations

from typing import Protocol


class Redaction(Protocol):
    """Asked for with `provided(Redaction)`: None where nothing is rewritten."""

    def __call__(self, text: str) -> str: ...
