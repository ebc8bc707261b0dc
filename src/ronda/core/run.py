"""THE LOOP. A run is the fold of its events; what to do next is a function of the run.

    apply(event)   a fact happened: update the state
    todo()         actions, computed from the state alone
    recover()      what a crash left unsaid, as events

Everything that decides how the loop goes on is in this file and the small ones it is made of (`sorting`, `endings`,
`conversation`, `context`), and nothing else is: no await, no clock, no randomness, no network, no vendor's name. Whoever
drives a run does what `todo` says and reports what happened; whoever watches one reads the same events. A run does not know
whether it was restarted, whether anybody listens, or what a model is.

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

Where the plan says so, a model call is preceded by Compact (the conversation outgrew its budget) and Check (a guardrail looks
at what goes in); what the model said, and each call before it is run, are looked at too. What people say meanwhile (Steered)
waits for the next model call, and makes one necessary where the run was about to finish.

A call is open from ModelFinished until it has a result. Results that nobody had to compute (a tool that does not exist, a
turn that was cut) are made here, so that every call always has exactly one.
"""

from __future__ import annotations

from ronda.core.actions import Action, CallModel, CallTool, Check, Finish
from ronda.core.arguments import canonical, recover
from ronda.core.conversation import Conversation
from ronda.core.endings import END_OF, LIMIT_ANSWER, end_at
from ronda.core.events import (
    PREVIEWS,
    Checked,
    Compacted,
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
    Steered,
    ToolFinished,
    ToolStarted,
    Warned,
)
from ronda.core.limits import CUT_IN_A_ROW, REPEATS_BEFORE_TOLD, UNKNOWN_IN_A_ROW, LimitName
from ronda.core.parts import NO_USAGE, AssistantTurn, Text, ToolCall, ToolResult, ToolTurn, Turn, Usage, UserTurn
from ronda.core.plan import Plan, ToolSpec
from ronda.core.sorting import sort_out
from ronda.errors import ProtocolError

OUTCOME_UNKNOWN = (
    "Error: the outcome of this call is unknown: it was running when the process ended. "
    "It may or may not have taken effect; check before calling again."
)
_TOLD = "\n\n[You have made this very call {n} times with the same result. Do something else, or answer with what you have.]"


class Run:
    __slots__ = (
        "_admitted",
        "_allowed",
        "_answer",
        "_asked_again",
        "_breaks",
        "_busy",
        "_checked",
        "_cut",
        "_end",
        "_executed",
        "_fitted",
        "_is_guarded",
        "_last",
        "_limit",
        "_nudge",
        "_obliged",
        "_open",
        "_partial",
        "_repeats",
        "_results",
        "_said_unseen",
        "_started",
        "_steering",
        "_talk",
        "_unknown",
        "denied",
        "ended",
        "failure",
        "id",
        "plan",
        "round",
        "runs_tools",
        "start",
        "steered",
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
        self._talk = Conversation(start.turns)
        self.turns: list[Turn] = self._talk.turns
        self.round = 0  # of the next model call
        self.tool_rounds = 0
        self.tool_calls = 0
        self.usage: Usage = NO_USAGE
        self.ended: RunFinished | None = None
        self.failure: ModelFailed | None = None
        self.denied: Checked | None = None  # the guardrail's no that ends the run
        self.steered = 0  # messages of people that the model has been told
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
        self._steering: list[UserTurn] = []  # said, but not heard yet
        self._is_guarded = bool(start.plan.guards) or start.plan.context_budget is not None
        self._fitted = False  # the conversation was cut to its budget, as it stands now
        self._admitted = False  # the input guardrail has seen the conversation as it stands now
        self._said_unseen = False  # the model said something that the output guardrail has not seen
        self._allowed: dict[str, str | None] = {}  # calls that may run, and the arguments they are to run with

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
    def last_results(self) -> tuple[ToolResult, ...]:
        """What came of the calls of the last round that is complete."""
        return next((turn.results for turn in reversed(self.turns) if type(turn) is ToolTurn), ())

    @property
    def was_interrupted(self) -> bool:
        """The last model call broke off, and there has been no other since."""
        return self._partial is not None

    @property
    def shown(self) -> list[Turn]:
        """The conversation as the model is shown it: all turns, until some are summed up or rewritten."""
        return self._talk.shown

    @property
    def can_be_steered(self) -> bool:
        """Whether the model may still be called: what is said after that is not for this run."""
        return self._end is None and self.failure is None and not (self._last and self._answer is not None)

    @property
    def instructions(self) -> int:
        """How many turns at the beginning are instructions, which are always shown."""
        return self._talk.head

    def dropped(self, upto: int, kept: tuple[int, ...]) -> tuple[Turn, ...]:
        """What a compaction would take from the model's eyes."""
        return self._talk.dropped(upto, kept)

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
                if self._steering:
                    self._take_steering()
            case ToolFinished():
                self._resolve(event.result)
                self.usage = self.usage + event.usage
                self.tool_calls += event.tool_calls
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
            case Checked():
                self._was_checked(event)
                if self._steering:
                    self._take_steering()
            case Steered():
                self._steering.append(event.turn)
                self._take_steering()
            case Compacted():
                if self._busy or self._open or event.upto > len(self.shown):
                    raise ProtocolError("a conversation is compacted between two rounds, and only as far as it goes")
                self._talk.compact(event.upto, event.kept, event.summary)
                self._fitted = True
                self._admitted = False
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
        self._say(turn)
        self._said_unseen = self._is_guarded and "output" in self.plan.guards and (bool(turn.text) or not calls)
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
        self._allowed.clear()
        self._sort_out(turn, calls)
        self._close_turn_when_answered()

    def _say(self, turn: Turn) -> None:
        self._talk.append(turn)
        self._fitted = self._admitted = False

    def _reject(self, nudge: str, message: str) -> None:
        """The answer does not count. Once the model is asked again; then the run fails."""
        self._answer = None
        self._said_unseen = False
        if self._asked_again or not self.plan.asks_again:
            self._end = Finish("failed", message=message)
            return
        self._asked_again = True
        self._checked = self.plan.options.response_format is None
        self._nudge = nudge

    def _callable_names(self) -> str:
        names = self.plan.choice.names or tuple(self.tools)
        return ", ".join(f"'{name}'" for name in names)

    def _sort_out(self, turn: AssistantTurn, calls: tuple[ToolCall, ...]) -> None:
        """Answer at once what will not be run; a model that goes on like that is ended."""
        found = sort_out(turn, calls, self.plan, self.tools, self.usage.total, self.tool_calls)
        self._results = found.results
        self._end = found.end or self._end
        self._limit = found.limit or self._limit
        if found.trouble in ("cut", "unreadable"):
            self._cut += 1
            if self._cut > CUT_IN_A_ROW and found.trouble == "unreadable":
                self._limit = "unreadable_calls"
            elif self._cut > CUT_IN_A_ROW:
                reason: EndReason = "content_filter" if turn.stop == "content_filter" else "length"
                self._end = Finish(reason, message="the model's tool calls were cut off, again and again")
            return
        self._cut = 0
        if found.limit == "max_tokens":
            return
        self._unknown = self._unknown + 1 if found.trouble == "unknown" else 0
        if self._unknown > UNKNOWN_IN_A_ROW:
            self._limit = "unknown_tool"

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
        self._say(ToolTurn(tuple(results)))
        self._open = {}
        self._results = {}
        self.tool_rounds += 1
        if self._limit is None and self.tool_rounds >= self.plan.limits.rounds:
            self._limit = "max_tool_rounds"
        if self._limit is not None and self._end is None:
            self._end = end_at(self._limit, self.plan.limits)
        if self._steering:
            self._take_steering()

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

    def _model_interrupted(self, event: ModelInterrupted) -> None:
        self._busy = False
        self._partial = event.turn
        self._breaks += 1
        if not self.runs_tools or self._breaks > CUT_IN_A_ROW:
            # In the client-side flow the caller owns the loop and decides about asking again.
            self._end = Finish("failed", message=event.reason)
        if self._steering:
            self._take_steering()

    # ---- people and guardrails ---------------------------------------------------------------------------------------

    def _take_steering(self) -> None:
        """Let the model hear what people said, if it may be called again: an answer that would have ended the run does not."""
        if self._busy or self._open or self._end is not None or self.failure is not None:
            return
        if self._answer is not None:
            if self._last or self._check_of_answer() is not None:
                return
            self._answer = None
            self._asked_again = False
            self._checked = self.plan.options.response_format is None
        for turn in self._steering:
            self._say(turn)
        self.steered += len(self._steering)
        self._steering = []

    def _was_checked(self, event: Checked) -> None:
        match event.stage:
            case "format":
                self._checked = True
                if event.problem is not None:
                    self._talk.pop()
                    self._reject(
                        f"Your answer is not what was asked for: {event.problem}. "
                        "Answer again, with nothing but the JSON.",
                        f"the model's answer is not what response_format asks for: {event.problem}",
                    )
            case "input":
                self._admitted = True
                if not event.allowed:
                    self._deny(event, "Input")
                elif isinstance(event.rewrite, tuple):
                    self._talk.rewrite(event.rewrite)
            case "output":
                self._said_unseen = False
                if not event.allowed:
                    self._talk.unsay()
                    self._answer = None
                    self._open = {}
                    self._results = {}
                    self._deny(event, "Output")
                elif isinstance(event.rewrite, str):
                    self._talk.reword(event.rewrite)
                    if self._answer is not None:
                        self._answer = AssistantTurn((Text(event.rewrite),), self._answer.stop)
            case "tool":
                self._call_was_checked(event)

    def _deny(self, event: Checked, what: str) -> None:
        self.denied = event
        reason = f": {event.problem}" if event.problem else ""
        self._end = Finish("failed", message=f"{what} guardrail denied{reason}")

    def _call_was_checked(self, event: Checked) -> None:
        id = event.call_id
        if id is None or id not in self._open or id in self._results or id in self._started:
            raise ProtocolError(f"no call {id!r} that waits to be allowed")
        if event.allowed:
            self._allowed[id] = event.rewrite if isinstance(event.rewrite, str) else None
            return
        reason = f": {event.problem}" if event.problem else ""
        self._results[id] = ToolResult(id, f"Tool denied by guardrail{reason}", failed=True)
        self._close_turn_when_answered()

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
            self._say(ToolTurn(tuple([self._results[id] for id in self._open])))
            self._open = {}
            self._results = {}
        partial, self._partial = self._partial, None
        if partial is not None and partial.parts:
            self._say(partial)
        if event.answer is not None:
            if self.turns and type(self.turns[-1]) is AssistantTurn and not self.turns[-1].parts:
                self._talk.pop()
            self._say(AssistantTurn((Text(event.answer),)))

    # ---- todo --------------------------------------------------------------------------------------------------------

    def todo(self) -> list[Action]:
        if self.ended is not None or self._busy:
            return []
        if self._answer is not None:
            return [self._check_of_answer() or self._finish_with(self._answer)]
        if self._said_unseen:
            return [Check("output")]
        if self._end is not None and not self._running:
            return [self._end]
        if self.failure is not None:
            return [Finish("failed", message=self.failure.reason)]
        if self._open:
            return self._calls_to_start()
        if self._is_guarded and (first := self._before_the_call()) is not None:
            return [first]
        return [CallModel(self.round, last=self._limit is not None, nudge=self._nudge)]

    def _check_of_answer(self) -> Check | None:
        answer = self._answer
        if answer is None:
            return None
        if not self._checked and answer.stop == "stop" and not self._open and not answer.refusal:
            return Check("format", answer.text)
        return Check("output") if self._said_unseen else None

    def _before_the_call(self) -> Action | None:
        """What has to be done before the model may see the conversation as it stands."""
        plan = self.plan
        if plan.context_budget is not None and not self._fitted:
            if (compact := self._talk.cut(plan.context_budget)) is not None:
                return compact
            self._fitted = True  # nothing new would come of looking again
        if "input" in plan.guards and not self._admitted:
            return Check("input")
        return None

    @property
    def _running(self) -> bool:
        return len(self._started) > 0 and any(id in self._open and id not in self._results for id in self._started)

    def _finish_with(self, turn: AssistantTurn) -> Finish:
        if self._open:
            return Finish("tool_calls" if turn.stop in ("tool_calls", "stop") else END_OF[turn.stop])
        answer = None if turn.text or turn.refusal or not self._last else LIMIT_ANSWER
        return Finish(END_OF[turn.stop], self._limit, answer=answer)

    def _calls_to_start(self) -> list[Action]:
        start: list[ToolCall] = []
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
                start.append(call)
            if key is not None:
                taken.add(key)
        if start and self._is_guarded and "tool" in self.plan.guards:
            unseen: list[Action] = [Check("tool", call=call) for call in start if call.id not in self._allowed]
            return unseen or [CallTool(self._as_allowed(call)) for call in start]
        if start or running:
            return [CallTool(call) for call in start]
        return [Finish("tool_calls")]

    def _as_allowed(self, call: ToolCall) -> ToolCall:
        """A guardrail changes what runs, never the turn: a provider's signature would not fit it any more."""
        rewritten = self._allowed[call.id]
        return call if rewritten is None else ToolCall(call.id, call.name, rewritten)

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
