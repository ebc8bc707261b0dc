"""How often a model may do what leads nowhere, before it is told so, and before the run is ended for it.

Counted in a row: answers that break off, turns whose calls are cut or cannot be read, calls of tools that do not exist.
Counted over the run: the same call with the same arguments and the same result.
"""

from __future__ import annotations

from msgspec import Struct

from ronda.core.actions import Finish
from ronda.core.arguments import canonical, recover
from ronda.core.calls import OpenCalls
from ronda.core.events import EndReason
from ronda.core.limits import CUT_IN_A_ROW, REPEATS_BEFORE_TOLD, UNKNOWN_IN_A_ROW
from ronda.core.parts import Stop, ToolCall, ToolResult
from ronda.core.triage import Triage

_REPEATED = "\n\n[You have made this very call {n} times with the same result. Do something else, or answer with what you have.]"


class StuckDetector(Struct, gc=False):
    """`breaks`, `cut` and `unknown` are in a row."""

    breaks: int = 0
    cut: int = 0
    unknown: int = 0
    first: dict[tuple[str, str], str | None] = {}  # by tool and result: the arguments of its only call
    repeats: dict[tuple[str, bytes, str], int] = {}  # by tool, arguments and result: how often, of those that were not
    end: Finish | None = None  # the same call once too often

    @property
    def is_broken_off(self) -> bool:
        return self.breaks > CUT_IN_A_ROW

    def count(self, found: Triage, stop: Stop) -> None:
        """Count the trouble with a turn's calls; what has come too often is a limit, or the end."""
        if found.trouble in ("cut", "unreadable"):
            self.cut += 1
            if self.cut > CUT_IN_A_ROW and found.trouble == "unreadable":
                found.limit = "unreadable_calls"
            elif self.cut > CUT_IN_A_ROW:
                reason: EndReason = "content_filter" if stop == "content_filter" else "length"
                found.end = Finish(reason, message="the model's tool calls were cut off, again and again")
            return
        self.cut = 0
        if found.limit == "max_tokens":
            return
        self.unknown = self.unknown + 1 if found.trouble == "unknown" else 0
        if self.unknown > UNKNOWN_IN_A_ROW:
            found.limit = "unknown_tool"

    def results_of(self, calls: OpenCalls, limit: int | None) -> list[ToolResult]:
        """The results as the model reads them: one that goes round in circles is told so, and in the end stopped."""
        results: list[ToolResult] = []
        for call_id, call in calls.asked.items():
            result = calls.results[call_id]
            if call_id in calls.started:
                count = self._count_call(call, result.content)
                if count >= REPEATS_BEFORE_TOLD:
                    content = result.content + _REPEATED.format(n=count)
                    result = ToolResult(call_id, content, result.failed, result.attachments, marks=result.marks)
                if limit is not None and count >= limit:
                    self.end = _end_of(call.name, count)
            results.append(result)
        return results

    def _count_call(self, call: ToolCall, content: str) -> int:
        """How often this call has come to this result. Most results are new: then the arguments need not be read."""
        key = (call.name, content)
        if key not in self.first:
            self.first[key] = call.arguments
            return 1
        if (arguments := self.first[key]) is not None:
            self.first[key] = None
            self.repeats[call.name, _canonical(arguments), content] = 1
        same = (call.name, _canonical(call.arguments), content)
        count = self.repeats[same] = self.repeats.get(same, 0) + 1
        return count


def _canonical(arguments: str) -> bytes:
    recovered = recover(arguments)
    return arguments.encode() if recovered is None else canonical(recovered.value)


def _end_of(name: str, count: int) -> Finish:
    message = f"the model made the same call of '{name}' {count} times with the same arguments and result"
    return Finish("limit", "repeated_call", message, f"I stopped: {message}.")
