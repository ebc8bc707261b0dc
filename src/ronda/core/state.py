"""What a run is made of, and what the outside may ask of it.

All of it follows from the run's events. What changes it, and what is to be done next, is in `run`; nothing else writes here.
"""

from __future__ import annotations

from ronda.core.actions import Finish
from ronda.core.calls import NO_CALLS, OpenCalls
from ronda.core.conversation import Conversation
from ronda.core.events import Answered, Asked, Budget, Checked, Event, ModelFailed, Recovered, RunFinished, RunStarted
from ronda.core.found_tools import shown_in
from ronda.core.limits import LimitName
from ronda.core.obligations import Obligations
from ronda.core.parts import (
    NO_USAGE,
    AssistantTurn,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    are_words,
)
from ronda.core.permissions import permitted_tools
from ronda.core.plan import Plan, ToolSpec
from ronda.core.sizes import LARGE, start_size
from ronda.core.stuck import StuckDetector
from ronda.core.taint import CLEAN, marks_by_name, marks_in, marks_of, marks_of_hosted, may_leak


class RunState:
    # Many, and read in every round: slots stay quick however many there are, an instance's dictionary does not.
    __slots__ = (
        "_answer",
        "_asked",
        "_at",
        "_calls",
        "_conversation",
        "_end",
        "_hosted_marks",
        "_is_guarded",
        "_is_released",
        "_is_timed",
        "_last",
        "_may_leak",
        "_obligations",
        "_partial",
        "_recoveries",
        "_steering",
        "_stuck",
        "_trusted",
        "_unchecked_output",
        "began_with_words",
        "budget",
        "children_asked",
        "denied",
        "driven",
        "ended",
        "failure",
        "id",
        "left_out",
        "limit",
        "marks",
        "model_is_running",
        "plan",
        "questions_asked",
        "round",
        "runs_tools",
        "sends_approved",
        "shown_tools",
        "size",
        "start",
        "steered",
        "tool_calls",
        "tool_rounds",
        "tools",
        "turns",
        "usage",
    )  # fmt: skip

    def __init__(self, start: RunStarted) -> None:
        # Where every run begins.
        self.round = 0  # of the next model call
        self.tool_rounds = 0
        self.tool_calls = 0
        self.usage: Usage = NO_USAGE
        self.budget: Budget | None = None  # as it stood after the last model call, where there are some
        self.limit: LimitName | None = None  # that was reached
        self.ended: RunFinished | None = None
        self.failure: ModelFailed | None = None
        self.denied: Checked | None = None  # the guardrail's no that ends the run
        self.questions_asked = 0
        self._may_leak = False  # some of its tools send data out
        self._trusted: frozenset[str] = CLEAN  # tools that a person lets send data out
        self.left_out: frozenset[str] = CLEAN  # tools that the model is not offered any more, lest they send data out
        self.sends_approved: tuple[str, ...] = ()  # calls that may do so in the whole session (`taint.send_key`)
        self._asked: frozenset[str] = frozenset()  # the ids of its own questions
        self.children_asked: frozenset[str] = frozenset()  # the ids of what they asked
        self._recoveries = 0  # since something was finished, of those whose processes were not told to end
        self._is_released = False
        self.steered = 0  # messages of people that the model has been told
        self.model_is_running = False
        self._last = False  # the model call under way, or the last there was, is to be the last of the run
        self._calls: OpenCalls = NO_CALLS
        self._answer: AssistantTurn | None = None
        self._partial: AssistantTurn | None = None
        self._end: Finish | None = None
        self._unchecked_output = False  # the model said something that the output guardrail has not seen
        self.driven = 0.0  # seconds, up to the newest fact: waiting does not count. Only where they are limited
        # What it begins with.
        plan = start.plan
        self.start = start
        self.id = start.run
        self.plan: Plan = plan
        self.tools: dict[str, ToolSpec] = permitted_tools(plan) if plan.tools else {}
        self.shown_tools = plan.shown_tools  # what the model has found is added behind them: caches hold
        if self.shown_tools is not plan.tools:
            self.shown_tools = shown_in(self.shown_tools, start.turns, self.tools)
        self.runs_tools = plan.runs_tools
        self._conversation = Conversation(start.turns, plan.context_budget)
        self.turns: list[Turn] = self._conversation.turns
        self.size = start_size(start, LARGE)  # of all facts, as `sizes` counts
        self._obligations = Obligations(plan, plan.choice.mode == "required", plan.options.response_format is not None)
        self._stuck = StuckDetector()
        self._steering: list[UserTurn] = []  # said, but not heard yet
        self._is_guarded = bool(plan.guards) or plan.context_budget is not None
        self._is_timed = plan.limits.seconds is not None
        self._at = start.at  # of the newest fact, where time is limited
        self.began_with_words = are_words(start.turns)
        self.marks = CLEAN if self.began_with_words else marks_in(start.turns)  # what the model has read (`core.taint`)
        if start.marks:
            self.marks |= marks_of(start.marks)
        self._hosted_marks = marks_of_hosted(plan.tools) if plan.has_labels else CLEAN
        if plan.has_labels and may_leak(plan.tools):
            self._may_leak = True
            self.marks |= marks_by_name(start.turns, {name: tool.labels for name, tool in self.tools.items()})

    def _count_time(self, event: Event) -> None:
        """The time since the fact before counts, unless the run waited meanwhile: for people, or for another process."""
        at: float = getattr(event, "at", 0.0)
        if at > self._at:
            if self._at and type(event) is not Recovered and not self.is_waiting:
                self.driven += at - self._at
            self._at = at

    # ---- what the outside may ask ------------------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[Asked, ...]:
        """Those that are not answered yet."""
        return tuple(self._calls.questions.values())

    @property
    def is_waiting(self) -> bool:
        """Nothing is left to do until a person answers: no tool is running, and none can be started."""
        calls = self._calls
        return bool(calls.questions) and not calls.running and not calls.todo(self.plan, self.tools)

    @property
    def waits_for_people(self) -> bool:
        """Nothing happens until a person answers, although a tool may run: one that has asked, and waits in its process."""
        calls = self._calls
        if not calls.questions:
            return False
        asking = {question.call_id for question in calls.questions.values()}
        return all(call.id in asking for call in calls.running) and not calls.todo(self.plan, self.tools)

    @property
    def outlives(self) -> bool:
        """Whether it goes on when its client, or the process that drives it, is gone: it was to, or it has asked people."""
        has_asked = self.questions_asked > 0 or bool(self.children_asked)
        return self.start.outlives or (has_asked and self.plan.limits.approval_seconds != 0.0)

    def was_asked(self, question: str) -> bool:
        """Whether there was such a question, open or not."""
        return question in self._asked or question in self.children_asked

    def is_leaking(self, call: ToolCall) -> bool:
        """Whether this call, now, could send out what must not leave."""
        return self._calls.is_leaking(call, self.plan)

    def answers_for(self, call: str) -> list[Answered]:
        """What people said to the run that this call is."""
        return [answer for call_id, answer in self._calls.answered if call_id == call]

    def seconds_driven(self, now: float) -> float:
        """How much of `limits.seconds` is used up."""
        return self.driven + max(0.0, now - self._at)

    @property
    def in_last_call(self) -> bool:
        """A model call is under way whose answer must be the last: calls in it are dropped."""
        return self.model_is_running and self._last

    @property
    def was_interrupted(self) -> bool:
        """The last model call broke off, and there has been no other since."""
        return self._partial is not None

    @property
    def breaks(self) -> int:
        """How many answers broke off, one after the other."""
        return self._stuck.breaks

    @property
    def is_ending(self) -> bool:
        """Its end is decided: no model will be called any more."""
        return self._end is not None or self.failure is not None

    @property
    def can_be_steered(self) -> bool:
        """Whether the model may still be called: what is said after that is not for this run."""
        return not self.is_ending and not (self._last and self._answer is not None)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn that have no result yet: after `Finish("tool_calls")`, the caller's."""
        calls = self._calls
        return tuple([call for call_id, call in calls.asked.items() if call_id not in calls.results])

    @property
    def open_count(self) -> int:
        """How many `open_calls` there are."""
        return len(self._calls.asked) - len(self._calls.results)

    @property
    def hands_over(self) -> bool:
        """The turn under way makes calls that the caller gets, whatever becomes of ours next to them."""
        return self.runs_tools and any(self.tools[call.name].kind == "caller" for call in self.open_calls)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Our half of a turn that waits for the caller's."""
        return tuple(self._calls.answers)

    @property
    def last_results(self) -> tuple[ToolResult, ...]:
        """The result of the calls of the last round that is complete."""
        return next((turn.results for turn in reversed(self.turns) if type(turn) is ToolTurn), ())

    @property
    def generated(self) -> list[Turn]:
        """What this run added to its input."""
        return self.turns[len(self.start.turns) :]

    @property
    def shown(self) -> list[Turn]:
        """The conversation as the model is shown it: all turns, until some are summed up or rewritten."""
        return self._conversation.shown

    @property
    def instructions(self) -> int:
        """How many turns at the beginning are instructions, which are always shown."""
        return self._conversation.head

    def dropped(self, upto: int, kept: tuple[int, ...]) -> tuple[Turn, ...]:
        """What a compaction would take from the model's eyes."""
        return self._conversation.dropped(upto, kept)
