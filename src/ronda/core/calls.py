"""The calls of one turn, and what has become of each.

A call is open from ModelFinished until it has a result. Between the two it may have to wait for its turn, to be allowed by a
guardrail and then by a person; it is started, and it ends: with what the tool said, with what was said instead of running it,
or with the run. Which calls are answered at once is sorted out elsewhere (`triage`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ronda.core.actions import Action, Ask, CallTool, Check, Finish
from ronda.core.events import Answered, Asked, Checked, EndReason
from ronda.core.parts import ToolCall, ToolResult
from ronda.core.permissions import approval_of
from ronda.core.plan import Plan, ToolSpec
from ronda.core.taint import CLEAN, send_key
from ronda.errors import ProtocolError

OUTCOME_UNKNOWN = (
    "Error: the outcome of this call is unknown: it was running when the process ended. "
    "It may or may not have taken effect; check before calling again."
)


# Ends at which the caller gets the calls of its tools; a turn may be cut in the middle of one.
HANDED_OVER: frozenset[EndReason] = frozenset({"tool_calls", "length", "content_filter"})


class OpenCalls(Struct, gc=False):
    """`asked` is in the model's order. What was answered at once has its result from the beginning, and is never started."""

    asked: dict[str, ToolCall] = {}
    results: dict[str, ToolResult] = {}
    started: set[str] = set()
    allowed: dict[str, str | None] = {}  # by a guardrail: calls that may run, and the arguments they are to run with
    approved: dict[str, str | None] = {}  # by a person: the same
    questions: dict[str, Asked] = {}  # that are open, by their ids
    asleep: frozenset[str] = frozenset()  # calls whose own runs wait for people; each is resumed with the first answer
    # Tools that may send out what must not leave: people are asked, whatever is permitted.
    leaking: frozenset[str] = CLEAN
    answered: tuple[tuple[str, Answered], ...] = ()  # a call whose own run had asked, and what it is to be told

    # ---- what happened to a call -------------------------------------------------------------------------------------

    def start(self, call_id: str, tools: Mapping[str, ToolSpec]) -> bool:
        """False when it was started before: a repeatable one may be, and one whose run goes on."""
        call = self.asked.get(call_id)
        if call is None or call_id in self.results:
            raise ProtocolError(f"no open call {call_id!r} to start")
        if call_id in self.started:
            spec = tools[call.name]
            if not spec.repeatable and not spec.is_agent:
                raise ProtocolError(f"call {call_id!r} was started twice and is not repeatable")
            return False
        self.started.add(call_id)
        return True

    def answer(self, result: ToolResult) -> None:
        call_id = result.call_id
        if call_id not in self.asked:
            raise ProtocolError(f"a result for {call_id!r}, which is not open")
        if call_id in self.results:
            raise ProtocolError(f"a second result for {call_id!r}")
        self.results[call_id] = result
        self.started.add(call_id)  # it has a result of its own, so it was
        if self.questions:  # its tool does not need these answers any more
            self.questions = {key: one for key, one in self.questions.items() if one.call_id != call_id}

    def judge(self, verdict: Checked) -> None:
        """A guardrail let a call run, perhaps with other arguments, or did not: then the model is told."""
        call_id = verdict.call_id
        if call_id is None or call_id not in self.asked or call_id in self.results or call_id in self.started:
            raise ProtocolError(f"no call {call_id!r} that waits to be allowed")
        if verdict.allowed:
            self.allowed[call_id] = verdict.rewrite if isinstance(verdict.rewrite, str) else None
        else:
            reason = f": {verdict.problem}" if verdict.problem else ""
            self.results[call_id] = ToolResult(call_id, f"Tool denied by guardrail{reason}", failed=True)

    def sleep(self, question: Asked) -> bool:
        """The run of a call that is running waits. False if that was known: of several questions, this is not the first."""
        call_id = question.call_id
        is_news = call_id in self.started and call_id not in self.results
        if not is_news and call_id not in self.asleep:
            raise ProtocolError(f"no call {call_id!r} that is running, and could wait")
        self.questions[question.id] = question
        self.started.discard(call_id)
        self.asleep |= {call_id}
        return is_news

    def ask(self, question: Asked) -> None:
        """About a call that would run if it were approved; or for one that is running."""
        call_id = question.call_id
        if (
            call_id not in self.asked
            or call_id in self.results
            or (question.kind == "input") != (call_id in self.started)
        ):
            raise ProtocolError(f"no call {call_id!r} to ask a question of kind {question.kind!r} about")
        if question.id in self.questions or (question.kind == "approval" and call_id in self._in_question):
            raise ProtocolError(f"call {call_id!r} is in question already")
        self.questions[question.id] = question

    def decide(self, answer: Answered) -> Asked:
        """Close a question; with an answer that is to be remembered, all those about the same tool."""
        question = self.questions.pop(answer.id, None)
        if question is None:
            raise ProtocolError(f"no open question {answer.id!r} to answer")
        if question.child:
            self.asleep -= {question.call_id}
            self.answered += ((question.call_id, answer),)
        elif question.kind == "approval":
            self._decide(question.call_id, answer, answer.arguments)
            if answer.remember:
                others = self._undecided(question.tool)
                for call_id in others:
                    self._decide(call_id, answer)
                self.questions = {key: one for key, one in self.questions.items() if one.call_id not in others}
        return question

    def _decide(self, call_id: str, answer: Answered, arguments: str | None = None) -> None:
        if answer.decision == "approve":
            self.approved[call_id] = arguments
        else:
            self.results[call_id] = ToolResult(call_id, denial(answer), failed=True)

    def abandon(self, reason: EndReason, tools: Mapping[str, ToolSpec]) -> None:
        """The run ends: what has no result gets one, so that every call has; but for the caller's, if it is handed them."""
        why = "cancelled" if reason == "cancelled" else "ended"
        for call_id, call in self.asked.items():
            if call_id in self.results or (reason in HANDED_OVER and tools[call.name].kind == "caller"):
                continue
            if call_id not in self.started and call_id not in self.asleep:
                text = f"Error: not run: the run was {why} first."
            elif reason == "cancelled":
                text = "Error: cancelled while it was running; it may have taken effect."
            else:
                text = OUTCOME_UNKNOWN
            self.results[call_id] = ToolResult(call_id, text, failed=True)
        self.questions = {}

    # ---- where they stand --------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[ToolCall]:
        return [call for call_id, call in self.asked.items() if call_id in self.started and call_id not in self.results]

    @property
    def answers(self) -> list[ToolResult]:
        """In the order the model asked, whatever order they came in."""
        return [self.results[call_id] for call_id in self.asked if call_id in self.results]

    @property
    def _in_question(self) -> set[str]:
        return {question.call_id for question in self.questions.values()}

    def _undecided(self, tool: str) -> set[str]:
        decided = self.results.keys() | self.started | self.approved.keys()
        return {call_id for call_id, call in self.asked.items() if call.name == tool and call_id not in decided}

    def todo(self, plan: Plan, tools: Mapping[str, ToolSpec]) -> list[Action]:
        """What can be started now, after what has to be asked first. Nothing, while what is running or in question must be
        waited for; when all wait for the caller, the end."""
        start: list[ToolCall] = []
        running = False
        taken: set[str] = set()  # exclusive keys in use, or promised to an earlier call
        for call_id, call in self.asked.items():
            if call_id in self.results:
                continue
            spec = tools[call.name]
            if spec.kind == "caller":
                continue
            key = spec.exclusive
            if call_id in self.started:
                running = True
            elif not plan.parallel and (running or start):
                break
            elif key is None or key not in taken:
                start.append(call)
            if key is not None:
                taken.add(key)
        if start and "tool" in plan.guards:
            unseen: list[Action] = [Check("tool", call=call) for call in start if call.id not in self.allowed]
            if unseen:
                return unseen
        if not start:
            return [] if running else [Finish("tool_calls")]
        if self.allowed or self.approved:
            start = [self._as_allowed(call) for call in start]
        asks: list[Action] = []
        calls: list[Action] = []
        for call in start:
            if call.id in self.asleep:
                continue
            may_send = not self.leaking or not self.is_leaking(call, plan)  # most runs have nothing to hold back
            is_free = may_send and approval_of(plan, tools[call.name], call.arguments) == "auto"
            if is_free or call.id in self.approved:
                calls.append(CallTool(call))
            elif not self.questions or call.id not in self._in_question:
                asks.append(Ask(call))
        return asks + calls if asks else calls

    def is_leaking(self, call: ToolCall, plan: Plan) -> bool:
        """Whether the call could send out what must not leave, and was not approved in this session."""
        if call.name not in self.leaking:
            return False
        return not plan.sendable or send_key(call.name, call.arguments) not in plan.sendable

    def _as_allowed(self, call: ToolCall) -> ToolCall:
        """Guardrails and people change what runs, never the turn: a provider's signature would not fit it any more."""
        rewritten = self.approved.get(call.id) or self.allowed.get(call.id)
        return call if rewritten is None else ToolCall(call.id, call.name, rewritten)


def denial(answer: Answered) -> str:
    """What the model reads of a call that was not approved."""
    text = "no person approved it in time" if answer.decision == "expired" else "it was not approved"
    why = f": {answer.message.removesuffix('.')}" if answer.message else ""
    return f"Error: not run: {text}{why}."


# Between two turns. Nothing can happen to a call that was not asked for, so all runs share it.
NO_CALLS = OpenCalls()
