"""What rewrites each text before it is kept, logged or traced, where a feature does that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Redaction(Protocol):
    """Asked for with `provided(Redaction)`: None where nothing is rewritten."""

    @property
    def placeholders(self) -> Sequence[str]:
        """What stands where words were."""

    def __call__(self, text: str) -> str: ...
