"""THE LOOP. A run is the fold of its events; what to do next is a function of the run.

    apply(event)   a fact happened: update the state
    todo()         actions, computed from the state only
    recover()      what a crash left unsaid, as events

Everything that decides how the loop goes on is in this file and the small ones it is made of, and nothing else is: no await, no
clock, no randomness, no network, no vendor's name. A run's driver does what `todo` says and reports what happened;
its followers read the same events. A run does not know whether it was restarted, whether a follower listens, or what a
model is.

    state         what a run is made of, and what the outside may ask of it
    calls         the calls of one turn, and what has become of each
    triage        which of them are answered at once, because they will not be run
    obligations   what an answer owes, and asking again for it
    stuck         how often a model may do what leads nowhere
    endings       how a run ends at a limit
    conversation  all turns, and those the model is shown; `context` cuts them to a budget

One round is one model call and the tools it asked for:

    ModelStarted ──► ModelFinished ──► calls?  no ──► Finish
         │                               │ yes
         │                               ▼
         │               ToolStarted … ToolFinished (any order)
         │                               │ all in: one ToolTurn, in the model's order
         └───────────────────────────────┘
    ModelInterrupted: the answer broke off after part of it was shown; the run ends, or asks again where the plan wants that
    ModelFailed:      no answer to be had; the run fails, or is shortened and asked again where that was the reason

Where the plan says so, a model call is preceded by Compact (the conversation outgrew its budget) and Check (a guardrail looks
at what goes in); what the model said, and each call before it is run, are looked at too. What people say meanwhile (Steered)
waits for the next model call, and makes one necessary where the run was about to finish.

A call that a person has to approve is asked about (Asked) and stays open until it is decided (Answered). The calls
next to it go on; when nothing else is left to do, `todo` is empty and the run `is_waiting`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec.structs import replace

from ronda.core.actions import Action, CallModel, Check, Finish
from ronda.core.calls import NO_CALLS, OUTCOME_UNKNOWN, OpenCalls
from ronda.core.endings import END_OF, LIMIT_ANSWER, end_at
from ronda.core.events import (
    Answered,
    Asked,
    CallDelta,
    Checked,
    Compacted,
    Event,
    Fact,
    LogprobsDelta,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    NativeDelta,
    Preview,
    ReasoningDelta,
    Recovered,
    RefusalDelta,
    Released,
    RunFinished,
    RunStarted,
    Steered,
    TextDelta,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from ronda.core.found_tools import with_found
from ronda.core.obligations import is_met
from ronda.core.output import fold
from ronda.core.parts import NO_USAGE, AssistantTurn, Text, ToolResult, ToolTurn
from ronda.core.permissions import permit_tool
from ronda.core.plan import ToolSpec
from ronda.core.sizes import LARGE, event_size, result_size, turns_size
from ronda.core.state import RunState
from ronda.core.taint import leaking, marks_in, marks_of, may_not_send, send_key, unasked
from ronda.core.triage import triage
from ronda.errors import ProtocolError

PROCESS_ENDED: Final = "the process ended during this model call"
MOST_RECOVERIES: Final = 3  # without anything that was finished in between


class Run(RunState):
    __slots__ = ()

    # ---- apply -------------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        if self.ended is not None:
            raise ProtocolError(f"run {self.id} has ended; {type(event).__name__} cannot follow")
        if self._is_timed:
            self._count_time(event)
        match event:
            case ModelFinished():
                self._recoveries = 0
                self._model_finished(event)
                if self._steering:
                    self._take_steering()
            case ToolFinished():
                self._recoveries = 0
                self.size += result_size(event)
                result = event.result
                self._calls.answer(self._marked(result) if self.plan.has_labels or result.marks else result)
                if event.usage is not NO_USAGE:  # most tools use no model
                    self.usage = self.usage + event.usage
                self.tool_calls += event.tool_calls
                if self.shown_tools is not self.plan.tools:
                    self.shown_tools = with_found(self.shown_tools, event, self.tools)
                if event.offers:
                    self._offer(event.offers)
                self._close_turn_when_answered()
            case ModelStarted():
                if self.model_is_running:
                    raise ProtocolError("a model call is already under way")
                self.model_is_running = True
                self._last = event.last
                self._partial = None
                self._obligations.nudge = None
                self.round = event.round + 1
                if self._may_leak:
                    self._leave_out()
            case ToolStarted():
                if self._calls.start(event.call_id, self.tools):
                    self.tool_calls += 1
            case RunFinished():
                self._finish(event)
            case ModelInterrupted():
                self.size += event_size(event, LARGE)
                self._model_interrupted(event)
            case ModelFailed():
                self._model_failed(event)
            case Checked():
                self.size += event_size(event, LARGE)
                self._was_checked(event)
                if self._steering:
                    self._take_steering()
            case Asked(child=""):
                self.size += event_size(event, LARGE)
                self._calls.ask(event)
                self.questions_asked += 1
                self._asked |= {event.id}
            case Asked():
                if self._calls.sleep(event):
                    self.tool_calls -= 1  # until it goes on
                self.children_asked |= {event.id}
            case Answered():
                self.size += event_size(event, LARGE)
                self._answered(event)
            case Steered():
                self.size += event_size(event, LARGE)
                self._steering.append(event.turn)
                self.marks |= marks_in((event.turn,))
                self._take_steering()
            case Compacted():
                if self.model_is_running or self._calls.asked or event.upto > len(self.shown):
                    raise ProtocolError("a conversation is compacted between two rounds, and only as far as it goes")
                self._conversation.compact(event.upto, event.kept, event.summary)
            case Released():
                self._is_released = True
                self._stuck.breaks = 0  # its model call did not break off by itself
            case Recovered():
                self._recoveries += not self._is_released
                self._is_released = False
                if self._recoveries >= MOST_RECOVERIES:
                    message = f"{MOST_RECOVERIES} processes ended while they drove this run, one after the other"
                    self._end = Finish("failed", message=message, code="crash_loop")
            case ModelRetried() | Warned():
                pass
            case RunStarted():
                raise ProtocolError("a run starts once")
            case TextDelta() | ReasoningDelta() | RefusalDelta() | CallDelta() | LogprobsDelta() | NativeDelta():
                pass
            case ToolProgressed():
                pass
            case _:
                assert_never(event)

    def _model_finished(self, event: ModelFinished) -> None:
        if not self.model_is_running:
            raise ProtocolError("a model finished that was not started")
        turn = event.turn
        self.model_is_running = False
        self._stuck.breaks = 0
        if self._hosted_marks:
            self.marks |= self._hosted_marks
        self.size += turns_size((turn,), LARGE)
        self.usage = self.usage + event.usage
        if event.budget is not None:
            self.budget = event.budget
        calls = turn.calls
        self._obligations.rejected = None
        if self._obligations.call and not self._last and self._breaks_its_word(turn):
            self._reject(self._obligations.no_call(self.tools, calls))
            return
        self._obligations.call = self._obligations.call and bool(calls) and turn.stop not in ("stop", "tool_calls")
        self._conversation.append(turn)
        self._unchecked_output = self._is_guarded and "output" in self.plan.guards and (bool(turn.text) or not calls)
        if not calls:
            self._answer = turn
            return
        asked = {call.id: call for call in calls}
        if self._last or not self.runs_tools:
            self._answer = turn
            self._calls = OpenCalls(asked)  # the caller's
            return
        if len(asked) != len(calls):
            raise ProtocolError("two calls of one turn have the same id")
        found = triage(turn, calls, self.plan, self.tools, self.usage.total, self.tool_calls)
        self._stuck.count(found, turn.stop)
        self._calls = OpenCalls(asked, found.results)
        if self._may_leak:
            self._calls.leaking = leaking(self.marks, self.plan.tools, self._trusted)
        if found.is_handed_over and turn.stop != "tool_calls":
            self._answer = turn
        self._end = found.end or self._end
        self.limit = found.limit or self.limit
        self._close_turn_when_answered()

    def _breaks_its_word(self, turn: AssistantTurn) -> bool:
        """A call was required, and the turn makes none that counts. Where unknown tools end a run, they do."""
        if turn.stop not in ("stop", "tool_calls") or (turn.calls and self.plan.on_unknown_tool == "raise"):
            return False
        return not is_met(turn, self.plan)

    def _reject(self, end: Finish | None) -> None:
        """The answer does not count."""
        self._answer = None
        self._unchecked_output = False
        self._end = end or self._end

    def _offer(self, specs: tuple[ToolSpec, ...]) -> None:
        """Tools that a result brings: behind the others, so that a provider's cache of the request holds."""
        new = [permit_tool(self.plan, spec) for spec in specs if spec.name not in self.tools]
        self.tools.update({spec.name: spec for spec in new})
        self.shown_tools = (*self.shown_tools, *new)

    def _leave_out(self) -> None:
        """What the model's own service would run, and a person would have to approve, is not offered."""
        if may_not_send(self.marks) and (names := unasked(self.shown_tools)):
            self.left_out |= names
            self.shown_tools = tuple([tool for tool in self.shown_tools if tool.name not in names])

    def _marked(self, result: ToolResult) -> ToolResult:
        """With what it lets the model read, as the labels of its tool, or the tool itself, say."""
        call = self._calls.asked.get(result.call_id)
        spec = None if call is None else self.tools.get(call.name)
        labels = () if spec is None else spec.labels
        if not labels and not result.marks:
            return result
        marks = marks_of((*labels, *result.marks))
        self.marks |= marks
        return result if marks.issubset(result.marks) else replace(result, marks=tuple(sorted(marks)))

    def _close_turn_when_answered(self) -> None:
        calls = self._calls
        if len(calls.results) < len(calls.asked):
            return
        self._conversation.append(ToolTurn(tuple(self._stuck.results_of(calls, self.plan.limits.repeats))))
        if self._stuck.end is not None:
            self.limit = "repeated_call"
            self._end = self._stuck.end
        self._calls = NO_CALLS
        self.tool_rounds += 1
        if self.limit is None and self.tool_rounds >= self.plan.limits.rounds:
            self.limit = "max_tool_rounds"
        if self.limit is not None and self._end is None:
            self._end = end_at(self.limit, self.plan.limits)
        if self._steering:
            self._take_steering()

    def _model_interrupted(self, event: ModelInterrupted) -> None:
        self.model_is_running = False
        self._partial = event.turn
        self._stuck.breaks += 1
        if event.cause == "upstream":
            retry = self.plan.retry
            may_ask = retry.on_interrupt == "again" and not event.announced and self._stuck.breaks < retry.tries
        else:
            # In the client-side flow the caller owns the loop and decides about asking again.
            may_ask = self.runs_tools and not self._stuck.is_broken_off
        if not may_ask:
            self._end = Finish("failed", message=event.reason, code="model_interrupted")
        if self._steering:
            self._take_steering()

    def _model_failed(self, event: ModelFailed) -> None:
        self.model_is_running = False
        if event.too_long and self.plan.truncates and self._conversation.tighten():
            self.round -= 1  # the same round, with less: what its answer owes it still owes
            self._is_guarded = True
        elif self._obligations.rejected is not None:
            self._answer = self._obligations.rejected
            self._conversation.append(self._answer)
            self._obligations.format = False
            self._unchecked_output = "output" in self.plan.guards
        else:
            self.failure = event

    def _take_steering(self) -> None:
        """Let the model hear what people said, if it may be called again: an answer that would have ended the run does not."""
        if self.model_is_running or self._calls.asked or self._end is not None or self.failure is not None:
            return
        if self._answer is not None:
            if self._last or self._check_of_answer(self._answer) is not None:
                return
            self._answer = None
            self._obligations.renew()
        for turn in self._steering:
            self._conversation.append(turn)
        self.steered += len(self._steering)
        self._steering = []

    def _was_checked(self, event: Checked) -> None:
        match event.stage:
            case "format":
                self._obligations.format = False
                if event.problem is not None and not self._obligations.takes_any_form:
                    self._obligations.rejected = self._answer if self.plan.format_is_wish else None
                    self._conversation.pop()
                    self._reject(self._obligations.not_the_format(event.problem))
            case "input":
                self._conversation.is_admitted = True
                if not event.allowed:
                    self._deny(event, "Input")
                elif isinstance(event.rewrite, tuple):
                    self._conversation.rewrite(event.rewrite)
            case "output":
                self._unchecked_output = False
                if not event.allowed:
                    self._conversation.unsay()
                    self._answer = None
                    self._calls = NO_CALLS
                    self._deny(event, "Output")
                elif isinstance(event.rewrite, str):
                    self._conversation.reword(event.rewrite)
                    if self._answer is not None:
                        self._answer = AssistantTurn((Text(event.rewrite),), self._answer.stop)
            case "tool":
                self._calls.judge(event)
                self._close_turn_when_answered()

    def _answered(self, event: Answered) -> None:
        question = self._calls.decide(event)
        if question.child:
            return
        if event.remember and question.kind == "approval":
            spec = self.tools[question.tool]
            if event.decision == "approve":
                self._trusted |= {spec.name} & self._calls.leaking
                if question.cause == "taint" and (key := send_key(spec.name, event.arguments or question.arguments)):
                    self.sends_approved += (key,)
            self.tools[spec.name] = replace(spec, approval="auto" if event.decision == "approve" else "deny")
        if event.decision != "approve":
            self._close_turn_when_answered()

    def _deny(self, event: Checked, what: str) -> None:
        self.denied = event
        reason = f": {event.problem}" if event.problem else ""
        self._end = Finish("failed", message=f"{what} guardrail denied{reason}", code="guardrail")

    def _finish(self, event: RunFinished) -> None:
        self.ended = event
        self.model_is_running = False
        if self._calls.asked and self.runs_tools:
            self._calls.abandon(event.reason, self.tools)
            if not self.open_calls:
                self._conversation.append(ToolTurn(tuple(self._calls.answers)))
                self._calls = NO_CALLS
        partial, self._partial = self._partial, None
        if partial is not None and partial.parts:
            self._conversation.append(partial)
        if event.answer is not None:
            if self.turns and type(self.turns[-1]) is AssistantTurn and not self.turns[-1].parts:
                self._conversation.pop()
            self._conversation.append(AssistantTurn((Text(event.answer),)))

    # ---- todo --------------------------------------------------------------------------------------------------------

    def todo(self) -> list[Action]:
        if self.ended is not None or self.model_is_running:
            return []
        if self._answer is not None:
            return [self._check_of_answer(self._answer) or self._finish_with(self._answer)]
        if self._unchecked_output:
            return [Check("output")]
        if self._end is not None and not self._calls.running:
            return [self._end]
        if self.failure is not None:
            return [Finish("failed", message=self.failure.reason, code="model_failed")]
        if self._calls.asked:
            return self._calls.todo(self.plan, self.tools)
        if self._is_guarded and (first := self._before_the_call()) is not None:
            return [first]
        last = self.limit is not None
        return [CallModel(self.round, last, self._obligations.nudge, owes=self._obligations.call and not last)]

    def _check_of_answer(self, answer: AssistantTurn) -> Check | None:
        if self._obligations.format and answer.stop == "stop" and not self._calls.asked and not answer.refusal:
            return Check("format", answer.text)
        return Check("output") if self._unchecked_output else None

    def _finish_with(self, answer: AssistantTurn) -> Finish:
        if self._calls.asked:
            return Finish("tool_calls" if answer.stop in ("tool_calls", "stop") else END_OF[answer.stop])
        instead = None if answer.text or answer.refusal or not self._last else LIMIT_ANSWER
        return Finish(END_OF[answer.stop], self.limit, answer=instead)

    def _before_the_call(self) -> Action | None:
        """What has to be done before the model may see the conversation as it stands."""
        if (compact := self._conversation.cut()) is not None:
            return compact
        return Check("input") if "input" in self.plan.guards and not self._conversation.is_admitted else None

    # ---- recover -----------------------------------------------------------------------------------------------------

    def recover(self, shown: Iterable[Preview] = ()) -> list[Fact]:
        """After a crash: close what was under way. Repeatable calls are started again, others have an unknown outcome.

        `shown` is what is kept of the previews since the last model call began: what the answer under way had said so far.
        The events are applied here; the recovery of a run journals them before it is driven.
        """
        facts: list[Fact] = []
        if self.ended is not None:
            return facts
        if self.model_is_running:
            facts.append(ModelInterrupted(fold(shown), PROCESS_ENDED))
        # What a tool wanted to know: the tool is gone, and if it runs again, it asks again.
        gone = [question.id for question in self._calls.questions.values() if question.kind == "input"]
        facts += [Answered(question_id, "expired", message="the process ended") for question_id in gone]
        for call in self._calls.running:
            spec = self.tools[call.name]
            if spec.repeatable or spec.is_agent:  # the run of an agent is there, and goes on
                self._calls.started.discard(call.id)
                self.tool_calls -= 1
            else:
                facts.append(ToolFinished(ToolResult(call.id, OUTCOME_UNKNOWN, failed=True), name=call.name))
        for event in facts:
            self.apply(event)
        return facts


def rebuild(events: list[Event]) -> Run:
    """The run that wrote these events."""
    if not events or type(events[0]) is not RunStarted:
        raise ProtocolError("a journal begins with RunStarted")
    run = Run(events[0])
    for event in events[1:]:
        run.apply(event)
    return run
