"""What an answer owes: a call where one is required, JSON where a format is asked for.

An answer that breaks an obligation does not count. The model is asked once more, and told why (the nudge); if that does not
help, the run fails. A required call binds the first answer only.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from ronda.core.actions import Finish
from ronda.core.events import EndCode
from ronda.core.plan import Plan


class Obligations(Struct, gc=False):
    """`format` is owed until it was checked; `nudge` is for the next model call."""

    plan: Plan
    call: bool
    format: bool
    nudge: str | None = None
    was_asked_again: bool = False

    def no_call(self, tools: Iterable[str]) -> Finish | None:
        names = ", ".join(f"'{name}'" for name in self.plan.choice.names or tools)
        return self._ask_again(
            f"You must call a tool now: {names}. Answer with the call.",
            "Tool choice was required but no tools were called.",
            "no_call",
        )

    def not_the_format(self, problem: str) -> Finish | None:
        return self._ask_again(
            f"Your answer is not what was asked for: {problem}. Answer again, with nothing but the JSON.",
            f"the model's answer is not what response_format asks for: {problem}",
            "wrong_format",
        )

    def renew(self) -> None:
        """Something was said to the model: it will answer that, and owes the same for it."""
        self.was_asked_again = False
        self.format = self.plan.options.response_format is not None

    def _ask_again(self, nudge: str, message: str, code: EndCode) -> Finish | None:
        if self.was_asked_again or not self.plan.asks_again:
            return Finish("failed", message=message, code=code)
        self.renew()
        self.was_asked_again = True
        self.nudge = nudge
        return None
