"""THE LOOP. A run is the fold of its events; what to do next is a function of the run.

    apply(event)   a fact happened: update the state
    todo()         actions, computed from the state alone
    recover()      what a crash left unsaid, as events

Everything that decides how the loop goes on is in this file, and nothing else is: no await, no clock, no randomness, no
network, no vendor's name. Whoever drives a run does what `todo` says and reports what happened; whoever watches one reads
the same events. A run does not know whether it was restarted, whether anybody listens, or what a model is.

One round is one model call and the tools it asked for:

    ModelStarted ──► ModelFinished ──► calls?  no ──► Finish
         │                               │ yes
         │                               ▼
         │               ToolStarted … ToolFinished (any order)
         │                               │ all in: one ToolTurn, in the model's order
         └───────────────────────────────┘
    ModelInterrupted: the answer broke off after part of it was shown; asked again, three times in a row at the most
    ModelFailed:      no answer to be had; the run fails

An answer that breaks an obligation (a call was required, JSON was asked for) does not count: the model is asked once more and
told why, and if that does not help the run fails.

A call is open from ModelFinished until it has a result. Results that nobody had to compute (a tool that does not exist, a
turn that was cut) are made here, so that every call always has exactly one.
"""

from __future__ import annotations

from ronda.core.actions import Action, CallModel, CallTool, Check, Finish
from ronda.core.arguments import canonical, recover
from ronda.core.events import (
    PREVIEWS,
    Checked,
    EndReason,
    Event,
    Fact,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.limits import CUT_IN_A_ROW, REPEATS_BEFORE_TOLD, UNKNOWN_IN_A_ROW, LimitName
from ronda.core.parts import NO_USAGE, AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, Usage
from ronda.core.plan import Plan, ToolSpec
from ronda.errors import ProtocolError

OUTCOME_UNKNOWN = (
    "Error: the outcome of this call is unknown: it was running when the process ended. "
    "It may or may not have taken effect; check before calling again."
)
_CUT = "Error: not run: your turn was cut off before it was complete. Ask again, more briefly."
_UNREADABLE_SIBLING = "Error: not run: another call of the same turn could not be read. Ask again."
_TOLD = "\n\n[You have made this very call {n} times with the same result. Do something else, or answer with what you have.]"


class Run:
    __slots__ = (
        "_answer",
        "_asked_again",
        "_breaks",
        "_busy",
        "_checked",
        "_cut",
        "_end",
        "_executed",
        "_last",
        "_limit",
        "_nudge",
        "_obliged",
        "_open",
        "_partial",
        "_repeats",
        "_results",
        "_started",
        "_unknown",
        "ended",
        "failure",
        "id",
        "plan",
        "round",
        "runs_tools",
        "start",
        "tool_calls",
        "tool_rounds",
        "tools",
        "turns",
        "usage",
    )

    def __init__(self, start: RunStarted) -> None:
        self.start = start
        self.id = start.run
        self.plan: Plan = start.plan
        self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in start.plan.tools}
        self.runs_tools = start.plan.runs_tools
        self.turns: list[Turn] = list(start.turns)
        self.round = 0  # of the next model call
        self.tool_rounds = 0
        self.tool_calls = 0
        self.usage: Usage = NO_USAGE
        self.ended: RunFinished | None = None
        self.failure: ModelFailed | None = None
        self._busy = False
        self._last = False
        self._answer: AssistantTurn | None = None
        self._obliged = start.plan.choice.mode == "required"
        self._asked_again = False
        self._nudge: str | None = None
        self._checked = start.plan.options.response_format is None
        self._partial: AssistantTurn | None = None
        self._open: dict[str, ToolCall] = {}
        self._results: dict[str, ToolResult] = {}
        self._started: set[str] = set()
        self._executed: set[str] = set()
        self._limit: LimitName | None = None
        self._end: Finish | None = None
        self._cut = 0
        self._breaks = 0
        self._unknown = 0
        self._repeats: dict[tuple[str, bytes, str], int] = {}

    # ---- what the outside may ask ------------------------------------------------------------------------------------

    @property
    def limit(self) -> LimitName | None:
        return self._limit

    @property
    def in_last_call(self) -> bool:
        """A model call is under way whose answer must be the last: calls in it are dropped."""
        return self._busy and self._last

    @property
    def model_is_running(self) -> bool:
        return self._busy

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn that have no result yet: after `Finish("tool_calls")`, the caller's."""
        return tuple([call for call in self._open.values() if call.id not in self._results])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Our half of a turn that waits for the caller's."""
        return tuple([self._results[id] for id in self._open if id in self._results])

    @property
    def generated(self) -> list[Turn]:
        """What this run added to its input."""
        return self.turns[len(self.start.turns) :]

    # ---- apply -------------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        if self.ended is not None:
            raise ProtocolError(f"run {self.id} has ended; {type(event).__name__} cannot follow")
        match event:
            case ModelFinished():
                self._model_finished(event)
            case ToolFinished():
                self._resolve(event.result)
                self._close_turn_when_answered()
            case ModelStarted():
                if self._busy:
                    raise ProtocolError("a model call is already under way")
                self._busy = True
                self._last = event.last
                self._partial = None
                self._nudge = None
                self.round = event.round + 1
            case ToolStarted():
                self._tool_started(event.call_id)
            case ModelInterrupted():
                self._model_interrupted(event)
            case ModelFailed():
                self._busy = False
                self.failure = event
            case RunFinished():
                self._finish(event)
            case Checked(problem=problem):
                self._checked = True
                if problem is not None:
                    self.turns.pop()
                    self._reject(
                        f"Your answer is not what was asked for: {problem}. Answer again, with nothing but the JSON.",
                        f"the model's answer is not what response_format asks for: {problem}",
                    )
            case ModelRetried() | Warned():
                pass
            case RunStarted():
                raise ProtocolError("a run starts once")
            case _ if type(event) in PREVIEWS:
                pass
            case _:
                raise ProtocolError(f"not an event of a run: {event!r}")

    def _model_finished(self, event: ModelFinished) -> None:
        if not self._busy:
            raise ProtocolError("a model finished that was not started")
        turn = event.turn
        self._busy = False
        self._breaks = 0
        self.usage = self.usage + event.usage
        calls = turn.calls
        if self._obliged and not self._last and not calls and turn.stop == "stop":
            self._reject(
                f"You must call a tool now: {self._callable_names()}. Answer with the call.",
                "Tool choice was required but no tools were called.",
            )
            return
        self._obliged = False
        self.turns.append(turn)
        if not calls or self._last or not self.runs_tools:
            self._answer = turn
            if calls:
                self._open = {call.id: call for call in calls}  # the caller's
            return
        self._open = {call.id: call for call in calls}
        if len(self._open) != len(calls):
            raise ProtocolError("two calls of one turn have the same id")
        self._results = {}
        self._started.clear()
        self._executed.clear()
        self._sort_out(turn, calls)
        self._close_turn_when_answered()

    def _reject(self, nudge: str, message: str) -> None:
        """The answer does not count. Once the model is asked again; then the run fails."""
        self._answer = None
        if self._asked_again:
            self._end = Finish("failed", message=message)
            return
        self._asked_again = True
        self._checked = self.plan.options.response_format is None
        self._nudge = nudge

    def _callable_names(self) -> str:
        names = self.plan.choice.names or tuple(self.tools)
        return ", ".join(f"'{name}'" for name in names)

    def _sort_out(self, turn: AssistantTurn, calls: tuple[ToolCall, ...]) -> None:
        """Answer at once what will not be run."""
        tokens = self.plan.limits.tokens
        if turn.stop != "tool_calls":
            self._answer_rest(_CUT)
            self._cut += 1
            if self._cut > CUT_IN_A_ROW:
                reason: EndReason = "content_filter" if turn.stop == "content_filter" else "length"
                self._end = Finish(reason, message="the model's tool calls were cut off, again and again")
            return
        if any(call.problem for call in calls):
            for call in calls:
                said = f"Error: {call.problem}" if call.problem else _UNREADABLE_SIBLING
                self._results[call.id] = ToolResult(call.id, said, failed=True)
            self._cut += 1
            if self._cut > CUT_IN_A_ROW:
                self._limit = "unreadable_calls"
            return
        self._cut = 0
        if tokens is not None and self.usage.total >= tokens:
            self._answer_rest(f"Error: not run: the run has used its {tokens} tokens.")
            self._limit = "max_tokens"
            return
        unknown = False
        room = None if self.plan.limits.tool_calls is None else self.plan.limits.tool_calls - self.tool_calls
        for call in calls:
            spec = self.tools.get(call.name)
            if spec is None or not self.plan.choice.allows(call.name):
                unknown = True
                self._results[call.id] = ToolResult(call.id, self._no_such_tool(call.name), failed=True)
                if self.plan.on_unknown_tool == "raise":
                    self._end = Finish("failed", message=f"Tool not registered: {call.name}")
            elif spec.kind == "caller":
                if self.plan.on_unknown_tool == "raise":
                    self._end = Finish(
                        "failed", message=f"No handler registered for tool: {call.name} (kind: function)"
                    )
            elif room is not None and room <= 0:
                text = f"Error: not run: the limit of {self.plan.limits.tool_calls} tool calls is reached."
                self._results[call.id] = ToolResult(call.id, text, failed=True)
                self._limit = "max_tool_calls"
            elif room is not None:
                room -= 1
        self._unknown = self._unknown + 1 if unknown else 0
        if self._unknown > UNKNOWN_IN_A_ROW:
            self._limit = "unknown_tool"

    def _no_such_tool(self, name: str) -> str:
        allowed = [tool for tool in self.tools if self.plan.choice.allows(tool)]
        there_is = ", ".join(f"'{tool}'" for tool in allowed) or "no tool at all"
        return f"Error: Tool '{name}' is not available; this agent has {there_is}."

    def _answer_rest(self, text: str) -> None:
        for id in self._open:
            if id not in self._results:
                self._results[id] = ToolResult(id, text, failed=True)

    def _tool_started(self, call_id: str) -> None:
        call = self._open.get(call_id)
        if call is None or call_id in self._results:
            raise ProtocolError(f"no open call {call_id!r} to start")
        if call_id in self._started and not self.tools[call.name].repeatable:
            raise ProtocolError(f"call {call_id!r} was started twice and is not repeatable")
        if call_id not in self._started:
            self.tool_calls += 1
        self._started.add(call_id)

    def _resolve(self, result: ToolResult) -> None:
        if result.call_id not in self._open:
            raise ProtocolError(f"a result for {result.call_id!r}, which is not open")
        if result.call_id in self._results:
            raise ProtocolError(f"a second result for {result.call_id!r}")
        self._results[result.call_id] = result
        self._executed.add(result.call_id)

    def _close_turn_when_answered(self) -> None:
        if len(self._results) < len(self._open):
            return
        results = [self._told_of_repeats(self._results[id]) for id in self._open]
        self.turns.append(ToolTurn(tuple(results)))
        self._open = {}
        self._results = {}
        self.tool_rounds += 1
        if self._limit is None and self.tool_rounds >= self.plan.limits.rounds:
            self._limit = "max_tool_rounds"
        if self._limit is not None and self._end is None:
            self._end = self._end_at(self._limit)

    def _told_of_repeats(self, result: ToolResult) -> ToolResult:
        """A model that goes round in circles is told so, and in the end stopped."""
        if result.call_id not in self._executed:
            return result
        call = self._open[result.call_id]
        same = (call.name, _canonical(call.arguments), result.content)
        count = self._repeats.get(same, 0) + 1
        self._repeats[same] = count
        if count < REPEATS_BEFORE_TOLD:
            return result
        if count >= self.plan.limits.repeats:
            self._limit = "repeated_call"
            message = f"the model made the same call of '{call.name}' {count} times with the same arguments and result"
            self._end = Finish("limit", "repeated_call", message, f"I stopped: {message}.")
        told = result.content + _TOLD.format(n=count)
        return ToolResult(result.call_id, told, result.failed, result.attachments)

    def _end_at(self, limit: LimitName) -> Finish | None:
        """How the plan wants a run to end at a limit; None for one last answer with tools off."""
        limits = self.plan.limits
        if limits.on_limit == "error":
            said = {
                "max_tool_rounds": f"Agent loop exceeded {limits.rounds} iterations",
                "max_tool_calls": f"Agent loop exceeded {limits.tool_calls} tool calls",
                "max_tokens": f"Agent loop exceeded {limits.tokens} tokens",
                "unknown_tool": "the model kept asking for tools that do not exist",
                "unreadable_calls": "the model kept writing tool calls that cannot be read",
            }
            return Finish("limit", limit, said[limit])
        if limit == "max_tokens":  # a last call would cost more of what there is no more of
            return Finish("limit", limit, f"the run used its {limits.tokens} tokens", _LIMIT_ANSWER)
        return None

    def _model_interrupted(self, event: ModelInterrupted) -> None:
        self._busy = False
        self._partial = event.turn
        self._breaks += 1
        if not self.runs_tools or self._breaks > CUT_IN_A_ROW:
            # In the client-side flow the caller owns the loop and decides about asking again.
            self._end = Finish("failed", message=event.reason)

    def _finish(self, event: RunFinished) -> None:
        self.ended = event
        if self._busy:
            self._busy = False
        if self._open and event.reason != "tool_calls" and self.runs_tools:
            why = "cancelled" if event.reason == "cancelled" else "ended"
            for id in self._open:
                if id not in self._results:
                    text = OUTCOME_UNKNOWN if id in self._started else f"Error: not run: the run was {why} first."
                    if id in self._started and event.reason == "cancelled":
                        text = "Error: cancelled while it was running; it may have taken effect."
                    self._results[id] = ToolResult(id, text, failed=True)
            self.turns.append(ToolTurn(tuple([self._results[id] for id in self._open])))
            self._open = {}
            self._results = {}
        partial, self._partial = self._partial, None
        if partial is not None and partial.parts:
            self.turns.append(partial)
        if event.answer is not None:
            if self.turns and type(self.turns[-1]) is AssistantTurn and not self.turns[-1].parts:
                self.turns.pop()
            self.turns.append(AssistantTurn((Text(event.answer),)))

    # ---- todo --------------------------------------------------------------------------------------------------------

    def todo(self) -> list[Action]:
        if self.ended is not None or self._busy:
            return []
        if self._answer is not None:
            if not self._checked and self._answer.stop == "stop" and not self._open and not self._answer.refusal:
                return [Check(self._answer.text)]
            return [self._finish_with(self._answer)]
        if self._end is not None and not self._running:
            return [self._end]
        if self.failure is not None:
            return [Finish("failed", message=self.failure.reason)]
        if self._open:
            return self._calls_to_start()
        return [CallModel(self.round, last=self._limit is not None, nudge=self._nudge)]

    @property
    def _running(self) -> bool:
        return len(self._started) > 0 and any(id in self._open and id not in self._results for id in self._started)

    def _finish_with(self, turn: AssistantTurn) -> Finish:
        if self._open:
            return Finish("tool_calls" if turn.stop in ("tool_calls", "stop") else _END_OF[turn.stop])
        answer = None if turn.text or turn.refusal or not self._last else _LIMIT_ANSWER
        return Finish(_END_OF[turn.stop], self._limit, answer=answer)

    def _calls_to_start(self) -> list[Action]:
        start: list[Action] = []
        running = False
        taken: set[str] = set()  # exclusive keys in use, or promised to an earlier call
        for id, call in self._open.items():
            if id in self._results:
                continue
            spec = self.tools[call.name]
            if spec.kind == "caller":
                continue
            key = spec.exclusive
            if id in self._started:
                running = True
            elif not self.plan.parallel and (running or start):
                break
            elif key is None or key not in taken:
                start.append(CallTool(call))
            if key is not None:
                taken.add(key)
        if start or running:
            return start
        return [Finish("tool_calls")]

    # ---- recover -----------------------------------------------------------------------------------------------------

    def recover(self) -> list[Fact]:
        """After a crash: close what was under way. Repeatable calls are started again, others have an unknown outcome.

        The events are applied here; whoever recovers a run journals them before driving on.
        """
        said: list[Fact] = []
        if self.ended is not None:
            return said
        if self._busy:
            said.append(ModelInterrupted(AssistantTurn((), "interrupted"), "the process ended during this model call"))
        for id in list(self._open):
            if id in self._started and id not in self._results:
                if self.tools[self._open[id].name].repeatable:
                    self._started.discard(id)
                    self.tool_calls -= 1
                else:
                    said.append(ToolFinished(ToolResult(id, OUTCOME_UNKNOWN, failed=True)))
        for event in said:
            self.apply(event)
        return said


_LIMIT_ANSWER = "I reached the limit of this run before I had an answer."
_END_OF: dict[str, EndReason] = {
    "stop": "stop",
    "tool_calls": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "interrupted": "failed",
}


def _canonical(arguments: str) -> bytes:
    recovered = recover(arguments)
    return arguments.encode() if recovered is None else canonical(recovered.value)


def rebuild(events: list[Event]) -> Run:
    """The run that wrote these events."""
    if not events or type(events[0]) is not RunStarted:
        raise ProtocolError("a journal begins with RunStarted")
    run = Run(events[0])
    for event in events[1:]:
        run.apply(event)
    return run
