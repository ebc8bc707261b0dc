"""What an answer owes: a call where one is required, JSON where a format is asked for.

An answer that breaks an obligation does not count. The model is asked once more, and told why (the nudge); if that does not
help, the run fails; or takes the answer as it is, where the format is a wish. A required call binds the first answer only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from ronda.core.actions import Finish
from ronda.core.events import EndCode
from ronda.core.parts import AssistantTurn, ToolCall
from ronda.core.plan import Plan
from ronda.errors import quote_names


def is_met(turn: AssistantTurn, plan: Plan) -> bool:
    """Whether a turn makes a call that is required: of a tool there is, and that may be called now.

    What the model's service runs itself is its own to insist on: such a call is none of the turn's.
    """
    called = {call.name for call in turn.calls}
    allows = plan.choice.allows
    return any((tool.is_hosted or tool.name in called) and allows(tool.name, is_owed=True) for tool in plan.tools)


class Obligations(Struct, gc=False):
    """`format` is owed until it was checked; `nudge` is for the next model call."""

    plan: Plan
    call: bool
    format: bool
    nudge: str | None = None
    was_asked_again: bool = False
    rejected: AssistantTurn | None = None  # stands if no better answer is to be had

    @property
    def takes_any_form(self) -> bool:
        """The format is a wish, and was asked for as often as it may be."""
        return self.plan.format_is_wish and (self.was_asked_again or not self.plan.asks_again)

    def no_call(self, tools: Iterable[str], instead: Sequence[ToolCall]) -> Finish | None:
        """`instead`: calls of tools that do not exist, or may not be called now."""
        names = quote_names(self.plan.choice.names or tools)
        nudge = f"You must call a tool now: {names}. Answer with the call."
        if not instead:
            return self._ask_again(nudge, "Tool choice was required but no tools were called.", "no_call")
        others = quote_names(dict.fromkeys([call.name for call in instead]))
        return self._ask_again(
            f"You cannot call {others} now. {nudge}",
            f"Tool choice was required but only other tools were called: {others}; it asks for {names}.",
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
