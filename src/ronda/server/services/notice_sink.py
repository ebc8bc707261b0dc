"""Where a feature says that an owner should hear of something: a budget that is nearly spent, for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class NoticeSink(Protocol):
    """Asked for with `provided(NoticeSink)`: None where the server sends no notices."""

    def notify(self, owner: str, kind: str, data: Mapping[str, Any]) -> None:
        """Send a notice of this kind (`budget.warning`, `budget.exhausted`) to the owner's addresses. Returns at once."""
