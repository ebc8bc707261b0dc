"""A run's events → the events of Prompty's `turn`: `on_event(type, data)`, as they happen.

    token, thinking      {token}                            a piece of what the model says or thinks
    status               {message}                          the loop starts, tries again, takes a steering message
    tool_call_start      {id, name, arguments}              `arguments` is the model's own text
    tool_result          {id, name, result, errorKind?}     the text the model reads; `errorKind` if the tool failed
    messages_updated     {messages, message_count, reason}
    retry                {operation, attempt, maxAttempts, reason}
    compaction_…         start {droppedCount} · failed {message} · complete {removed, remaining, summaryLength}
    error                {message, errorKind, phase}        the run ends without an answer
    cancelled            {reason}
    done                 {response, messages}               the last one of a run that has an answer

Where the specification's text and its conformance vectors differ, the payloads hold what both name. Where they cannot both be
had, the vectors win: `result` is a text, a tool that fails is no `error`, `message_count` counts the reply that is to come, and
"Starting agent loop" is said when there is a loop: not before a run that is answered at once.

A callback that raises is logged and otherwise ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias, assert_never

from ronda.core import events
from ronda.core.calls import OUTCOME_UNKNOWN
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.run import Run
from ronda.core.transcript import final_text
from ronda.prompty.turns import count_of, messages_of

OnTurnEvent: TypeAlias = Callable[[str, dict[str, Any]], object]
_log = logging.getLogger("ronda.turn")


class TurnEvents:
    """Call it with every event of a run, from its RunStarted on. It folds them itself, so a journal will do as well.

    `read` makes of a finished run what `done` shows as its response; the final text, if it is left out.
    """

    def __init__(self, on_event: OnTurnEvent, read: Callable[[Run], Any] = final_text) -> None:
        self._on_event = on_event
        self._read = read
        self._run: Run | None = None
        self._calls: dict[str, ToolCall] = {}
        self._shown_results: set[str] = set()  # calls whose result was shown
        self._shown_starts: set[str] = set()  # calls whose start was shown
        self._denied: set[str] = set()  # by the tool guardrail, or by a person
        self._questions: dict[str, str] = {}  # id of a question → the call it is about
        self._looping = False
        self._steered = 0
        self._tool_rounds = 0

    def __call__(self, event: events.Event) -> None:
        if type(event) is events.RunStarted:
            self._run = Run(event)
            return
        run = self._run
        assert run is not None, "a run's events begin with RunStarted"
        if type(event) is events.RunFinished:
            self._finished(run, event)
            return
        before = count_of(run.shown) if type(event) is events.Compacted else 0
        if type(event) not in events.PREVIEWS:
            self._steering_taken(run, event)
            run.apply(event)
        match event:
            case events.TextDelta(text=text):
                self._emit("token", token=text)
            case events.ReasoningDelta(text=text):
                self._emit("thinking", token=text)
            case events.ModelRetried():
                self._retried(event)
            case events.ModelFinished(turn=turn):
                self._calls = {call.id: call for call in turn.calls}
                self._shown_results.clear()
                self._shown_starts.clear()
                self._denied.clear()
                self._settled(run)
            case events.Checked():
                self._checked(run, event)
            case events.ToolStarted(call_id=call_id):
                self._start(self._calls[call_id])
            case events.ToolFinished(result=result):
                self._result(result)
                self._settled(run)
            case events.Compacted():
                self._compacted(run, event, before)
            case events.Asked():
                self._approval_requested(event)
            case events.Answered():
                self._answered(run, event)
            case (
                events.RunStarted()
                | events.ModelStarted()
                | events.ModelInterrupted()
                | events.ModelFailed()
                | events.Steered()
                | events.Warned()
                | events.Released()
                | events.Recovered()
                | events.RunFinished()
            ):
                pass
            case (
                events.RefusalDelta()
                | events.CallDelta()
                | events.LogprobsDelta()
                | events.NativeDelta()
                | events.ToolProgressed()
            ):
                pass
            case _:
                assert_never(event)

    def _emit(self, kind: str, **data: Any) -> None:
        try:
            self._on_event(kind, data)
        except Exception:
            _log.exception("on_event failed with a %r event; the run goes on", kind)

    def _status(self, message: str) -> None:
        self._emit("status", message=message)

    def _begin(self) -> None:
        if not self._looping:
            self._looping = True
            self._status("Starting agent loop")

    def _updated(self, run: Run, reason: str) -> None:
        messages = messages_of(run.shown)
        self._emit("messages_updated", messages=messages, message_count=len(messages) + 1, reason=reason)

    # ---- steering, retries, compaction -------------------------------------------------------------------------------

    def _steering_taken(self, run: Run, next_event: events.Event) -> None:
        """Messages that were taken together are told together: when something else comes."""
        if run.steered > self._steered and type(next_event) is not events.Steered:
            self._steered = run.steered
            self._begin()
            self._status("Injecting steering message")
            self._updated(run, "steering")

    def _retried(self, event: events.ModelRetried) -> None:
        self._status(f"LLM call failed, retrying (attempt {event.attempt}/{event.tries})...")
        self._emit("retry", operation="llm", attempt=event.attempt, maxAttempts=event.tries, reason=event.reason)

    def _compacted(self, run: Run, event: events.Compacted, before: int) -> None:
        after = count_of(run.shown)
        dropped_count = before - after + bool(event.summary)
        self._begin()
        self._emit("compaction_start", droppedCount=dropped_count)
        if event.failure is not None:
            self._emit("compaction_failed", message=event.failure)
        self._emit("compaction_complete", removed=dropped_count, remaining=after, summaryLength=len(event.summary))
        self._updated(run, "compaction")

    # ---- tools -------------------------------------------------------------------------------------------------------

    def _start(self, call: ToolCall) -> None:
        if call.id in self._shown_starts:
            return
        self._shown_starts.add(call.id)
        self._begin()
        self._emit("tool_call_start", id=call.id, name=call.name, arguments=call.as_written)

    def _result(self, result: ToolResult) -> None:
        self._shown_results.add(result.call_id)
        call = self._calls[result.call_id]
        kind = tool_error_kind(result, denied=call.id in self._denied)
        failure = {} if kind is None else {"errorKind": kind}
        self._emit("tool_result", id=call.id, name=call.name, result=result.content, **failure)

    def _checked(self, run: Run, event: events.Checked) -> None:
        if event.stage == "tool" and event.call_id is not None:
            if not event.allowed:
                self._denied.add(event.call_id)
            self._start(self._calls[event.call_id])
            self._settled(run)
        elif event.stage == "input" and event.rewrite is not None:
            self._begin()
            self._updated(run, "guardrail")

    def _approval_requested(self, event: events.Asked) -> None:
        self._questions[event.id] = event.call_id
        self._begin()
        self._emit("permission_requested", requestId=event.id, toolCallId=event.call_id, permission=event.tool)

    def _answered(self, run: Run, event: events.Answered) -> None:
        approved = event.decision == "approve"
        reason = {} if event.message is None else {"reason": event.message}
        is_open = {question.id for question in run.questions}
        for question in [
            question_id for question_id in self._questions if question_id not in is_open
        ]:  # several, if the answer is remembered
            call = self._questions.pop(question)
            if not approved:
                self._denied.add(call)
            self._emit("permission_completed", requestId=question, toolCallId=call, approved=approved, **reason)
        self._settled(run)

    def _settled(self, run: Run) -> None:
        """Results that no tool computed (a denial, arguments that cannot be read), and the end of a round."""
        closed = run.tool_rounds > self._tool_rounds
        for result in run.last_results if closed else run.results:
            if result.call_id not in self._shown_results:
                self._start(self._calls[result.call_id])
                self._result(result)
        if closed:
            self._tool_rounds = run.tool_rounds
            self._updated(run, "tool_results")

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _finished(self, run: Run, event: events.RunFinished) -> None:
        self._steering_taken(run, event)
        place = _place(run)
        run.apply(event)
        match event.reason:
            case "cancelled":
                self._emit("cancelled", reason=f"Cancellation requested {place}")
            case "failed":
                kind, phase = "guardrail" if run.denied else "llm" if run.failure else "loop", place
                self._emit("error", message=event.message or "the run failed", errorKind=kind, phase=phase)
            case "limit" if run.plan.limits.on_limit == "error":
                self._emit("error", message=event.message or "the run failed", errorKind="limit", phase=place)
            case _:
                try:
                    response = self._read(run)
                except Exception as error:  # the caller that asked for the answer gets it from the door itself
                    self._emit("error", message=str(error), errorKind="output", phase="process")
                    return
                self._emit("done", response=response, messages=messages_of(run.shown))


def _place(run: Run) -> str:
    """Where in the loop a run stands, in words."""
    if run.was_interrupted or run.model_is_running or run.failure is not None:
        return "during the model call"
    if run.round == 0:
        return "before first iteration"
    if run.results and run.open_calls:
        return "after tool execution"
    if run.open_calls:
        return "before tool execution"
    return f"before iteration {run.round + 1}"


def tool_error_kind(result: ToolResult, *, denied: bool) -> str | None:
    """Why a tool has no answer: a guardrail's word, a restart in the middle of it, or its own exception."""
    if result.content == OUTCOME_UNKNOWN:
        return "outcome_unknown"
    if not result.failed:
        return None
    return "permission_denied" if denied else "exception"
