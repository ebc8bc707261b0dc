"""Where a feature says that an owner should hear of something: a budget that is nearly spent, for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from ronda.core.events import Budget, RunStarted


@runtime_checkable
class NoticeSink(Protocol):
    """Asked for with `provided(NoticeSink)`: None where the server sends no notices."""

    def notify(self, owner: str, kind: str, data: Mapping[str, Any]) -> None:
        """Send a notice of this kind (`budget.warning`, `budget.exhausted`) to the owner's addresses. Returns at once."""

    def budget_used(self, start: RunStarted, budget: Budget, *, is_exhausted: bool) -> None:
        """Send a notice of a budget that a run spends from, if it is used far enough; once for each of its days, weeks or
        months. `is_exhausted`: a call did not fit into what is left. Returns at once."""
