"""A run that is over → what its caller wants to know of it. Worked out when it is asked for: most want only the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct

from ronda.core.parts import NO_USAGE, AssistantTurn, ToolResult, ToolTurn, Turn, Usage

if TYPE_CHECKING:
    from ronda.agent.start import Start
    from ronda.core.events import Asked
    from ronda.core.limits import LimitName
    from ronda.core.run import Run


def outcome(start: Start) -> Result:
    """Of a run that is over, or waits."""
    return Result(None if start.run.is_waiting else start.result(), start.run)


class CalledTool(Struct, frozen=True):
    """A call that the model made, and its result. `content` is None where nothing ran it."""

    round: int
    id: str
    name: str
    arguments: dict[str, Any]  # {} where the model's text could not be read; then the call failed
    content: str | None
    failed: bool


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # typeshed has it: what the type checker reads is not installed

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Result(Generic[T]):
    """The answer of a run (`output`: its text, or the structured value), and what it took to get there.

    A run that waits for people has no answer yet, but `questions`: `resume_agent` takes the answers to them.
    """

    __slots__ = ("_output", "_run")

    def __init__(self, output: T, run: Run | None) -> None:
        self._output = output
        self._run = run  # None: one request for a vector or an image, which is no conversation

    def __repr__(self) -> str:
        what = f"questions={self.questions!r}" if self.questions else f"output={self._output!r}"
        return f"Result({what}, run_id={self.run_id!r}, usage={self.usage!r})"

    if not TYPE_CHECKING:  # which says it anyway

        def __getattr__(self, name: str) -> object:
            from ronda.agent.other_names import no_attribute  # for mistakes only

            known = ["output", "messages", "questions", "run_id", "usage", "cost", "limit", "tool_calls"]
            raise no_attribute("a Result", name, known)

    @property
    def output(self) -> T:
        """The answer. Raises `RunWaiting` if the run waits for one of a person first."""
        if self._run is not None and self._run.is_waiting:
            from ronda.agent.approve import waiting  # few runs wait

            raise waiting(self._run)
        return self._output

    @property
    def questions(self) -> list[Asked]:
        """What a person has to decide before the run goes on. None are left of a run that is over."""
        return [] if self._run is None else list(self._run.questions)

    @property
    def run_id(self) -> str:
        """Under which a journal has the run."""
        return "" if self._run is None else self._run.id

    @property
    def messages(self) -> list[Turn]:
        """The whole conversation: what was given, and what the run added. It is the `history` of the next question."""
        return [] if self._run is None else list(self._run.turns)

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls, those of agents that were called as tools included."""
        return NO_USAGE if self._run is None else self._run.usage

    @property
    def cost(self) -> float | None:
        """US dollars: as the provider says (OpenRouter does), else by the table of prices (`pip install 'ronda[prices]'`). None:
        not known, since the price of some call is not."""
        return self.usage.cost

    @property
    def limit(self) -> LimitName | None:
        """The limit that ended the run with an answer, if one did (`on_limit="answer"`)."""
        return None if self._run is None or self._run.ended is None else self._run.ended.limit

    @property
    def tool_calls(self) -> list[CalledTool]:
        """The calls of this run, in the order the model asked."""
        turns: list[Turn] = [] if self._run is None else self._run.generated
        results = {result.call_id: result for turn in turns if type(turn) is ToolTurn for result in turn.results}
        asked = [turn for turn in turns if type(turn) is AssistantTurn]
        return [
            _called_tool(round_index, call.id, call.name, call.arguments, results.get(call.id))
            for round_index, turn in enumerate(asked)
            for call in turn.calls
        ]


def _called_tool(round_index: int, call_id: str, name: str, arguments: str, result: ToolResult | None) -> CalledTool:
    try:
        read = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError):
        read = {}
    content, failed = (None, False) if result is None else (result.content, result.failed)
    return CalledTool(round_index, call_id, name, read, content, failed)
