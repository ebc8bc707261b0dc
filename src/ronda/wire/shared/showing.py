"""A run's events → what one who watches is shown of them. The rules that all dialects share are here, and only here:

    text is held back while something may still refuse it: an answer that must be JSON, or pass a guardrail
    a caller's calls go out as they arrive while nothing can take them back (`core.live`), else at the end
    what no preview has shown of a turn goes out when the turn is whole: an upstream may answer without any
    what the loop itself says, and an answer that was held, go out at the end
    a call that people are asked about is announced when they are asked, and ends where they say no

A dialect is then a `match` over `Update` (`updates`). Pieces of text are the previews themselves, so a writer looks at a
`TextDelta` itself (`holds_text`, and counts it in `text`), and asks here for everything else.

The run is read when it has ended, and at no other moment: a log written again is the same for every reader, at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, assert_never

from msgspec import Raw, Struct

from ronda.core.calls import HANDED_OVER, denial
from ronda.core.events import (
    PREVIEWS,
    WITHOUT_ANSWER,
    Answered,
    Asked,
    CallDelta,
    Checked,
    Compacted,
    Event,
    LogprobsDelta,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    NativeDelta,
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
from ronda.core.live_calls import LiveCalls
from ronda.core.parts import NO_USAGE, NULL, AssistantTurn, Reasoning, Refusal, Text, ToolCall, ToolResult, Usage
from ronda.core.permissions import approval_of as permission
from ronda.core.permissions import may_deny, permitted_tools
from ronda.core.run import Run
from ronda.core.triage import NOT_PERMITTED
from ronda.wire.shared.approvals import Approval, approval_of
from ronda.wire.shared.call_ids import are_ours, own_id
from ronda.wire.shared.failures import RUN_IS_WAITING, Failure, failure_at
from ronda.wire.shared.preview import ArgumentPatches, Previews
from ronda.wire.shared.questions import Questions
from ronda.wire.shared.tool_records import ToolRecords
from ronda.wire.shared.updates import (
    CallsGrew,
    Delta,
    Ended,
    Paused,
    QuestionAsked,
    QuestionClosed,
    ToolBegan,
    ToolEnded,
    TurnBegan,
    TurnBroke,
    TurnClosed,
    Update,
    Withdrawn,
    ended_by,
)
from ronda.wire.web.citations import Source

_ANSWERED: Final = frozenset({"stop", "length", "content_filter", "limit"})  # what the model said last is the answer
_UNSEEN: Final = PREVIEWS | {ToolStarted}  # in an answer in one piece
_NO_PIECES: Final = CallsGrew()
_WITHDRAWN: Final = Withdrawn()


class Showing:
    """One choice of an answer: a run, and those it hands over to (`follow`).

    `without`: names of tools whose calls are not the caller's after all. `whole_calls`: each call goes out in one piece.
    `refusal_is_text`: the dialect has no other word for it. `id_prefix`: what it puts before ids of ours; None where calls go out
    under the model's.
    """

    # Where every turn begins, and of most nothing else is said.
    text = _reasoning = _refusal = 0  # characters of this turn that were shown
    _start: ModelStarted | None = None
    _calls: LiveCalls | None = None  # most turns make none
    _has_logprobs = False
    _broken: ModelInterrupted | None = None
    _questions: Questions | None = None  # few turns ask any
    _is_resumed = False  # the turn under way belongs to another answer
    is_continued = False  # there is such an answer

    def __init__(
        self,
        run: Run,
        *,
        choice: int = 0,
        without: Collection[str] = (),
        whole_calls: bool = False,
        refusal_is_text: bool = False,
        id_prefix: str | None = None,
    ) -> None:
        self.tools = ToolRecords(choice)
        self.warnings: Sequence[str] = ()
        self.used_before: Usage = NO_USAGE  # by what was told in another answer
        self._previews: Previews | None = None  # few tools have any
        self._whole_calls = whole_calls
        self._refusal_is_text = refusal_is_text
        self._id_prefix = id_prefix
        self._show(run, without)

    def follow(self, run: Run, without: Collection[str] = ()) -> None:
        """The run handed over, and this one goes on."""
        self.tools.go_on()
        self._broken = self._previews = None
        self._show(run, without)
        self._clear(None)

    def _show(self, run: Run, without: Collection[str]) -> None:
        plan = run.plan
        self.run = run
        self.holds_text = plan.holds_text
        self._without = without
        self._ids: dict[str, str] = {}  # of this turn's calls: the model's → ours
        self.tools.begin_run(run.tools, run.start)
        has_tools = bool(plan.tools)
        self._gives_ids = has_tools and self._id_prefix is not None and plan.has_callers and are_ours(run.start)
        self._may_deny = has_tools and plan.limits.tokens is None and may_deny(plan)
        self._permitted = permitted_tools(plan) if self._may_deny else {}
        if has_tools and any(tool.preview for tool in plan.tools) and "output" not in plan.guards:
            self._previews = Previews(run.tools)  # where no guardrail may still refuse what the model says

    def approvals(self) -> Mapping[str, Approval]:
        """Those that are not decided yet, by their ids."""
        return {} if self._questions is None else self._questions.open

    @property
    def approval_ids(self) -> Mapping[str, str]:
        """Of this turn's calls that people were asked about, by the ids of the calls."""
        return {} if self._questions is None else self._questions.ids

    @property
    def sources(self) -> Sequence[Source]:
        """What the text may cite. In an answer that is JSON, brackets mean something else."""
        return () if self.run.plan.options.response_format is not None else self.tools.sources

    def _begin(self, start: ModelStarted) -> TurnBegan:
        broken, self._broken = self._broken, None
        self.tools.begin_round(start.round)
        self._clear(start)
        return TurnBegan(start, broken)

    def _clear(self, start: ModelStarted | None) -> None:
        self._start = start
        self._is_resumed = False
        self._calls = None
        self.text = self._reasoning = self._refusal = 0
        self._has_logprobs = False
        if self._ids:
            self._ids = {}
        if self._previews is not None:
            self._previews.begin_turn()
        self._questions = None

    def _close(self, event: ModelFinished) -> TurnClosed:
        turn = event.turn
        calls = turn.calls
        self.tools.begin_calls(calls)
        if not calls:
            return TurnClosed(turn, event.at, self._unseen(turn, event.logprobs), ())
        if self._gives_ids:
            self._give_ids(calls)
        pieces = self._live_calls().rest(turn) if self.run.plan.announces_calls else ()
        previews = self._previews.close_turn(calls) if self._previews is not None else ()
        denied = self._deny_by_policy(turn, event.at) if self._may_deny else ()
        is_bare = len(calls) == len(turn.parts) and event.logprobs == NULL  # nothing but calls, as most that make some
        unseen = () if is_bare else self._unseen(turn, event.logprobs)
        return TurnClosed(turn, event.at, unseen, pieces, previews, denied)

    def _deny_by_policy(self, turn: AssistantTurn, at: float) -> list[ToolEnded]:
        """Calls that are answered at once, since they are not permitted. Of a turn that runs nothing at all, none."""
        if turn.stop != "tool_calls" or any(call.problem for call in turn.calls):
            return []
        plan, tools = self.run.plan, self._permitted
        known = [call for call in turn.calls if call.name in tools and plan.choice.allows(call.name)]
        return [
            self._refuse(
                call.id, NOT_PERMITTED.format(call.name), f"{self.tools.label(call)} was denied by policy.", at
            )
            for call in known
            if tools[call.name].kind != "caller" and permission(plan, tools[call.name], call.arguments) == "deny"
        ]

    def _preview(self, delta: CallDelta) -> Sequence[ArgumentPatches]:
        if self._previews is None or (self._start is not None and self._start.last):  # calls of a last turn are dropped
            return ()
        patches = self._previews.add(delta.index, delta.id, delta.name, delta.arguments)
        return () if patches is None else (patches,)

    def _rewritten(self, call_id: str | None, arguments: str | None) -> CallsGrew | None:
        """A person replaced the model's arguments: the followers see what runs."""
        if self._previews is None or call_id is None or arguments is None:
            return None
        place, call = self._previews.place_of(call_id), self.tools.calls.get(call_id)
        if place is None or call is None:
            return None
        patches = self._previews.replace(place, call_id, call.name, arguments)
        return None if patches is None else CallsGrew((), (patches,))

    def shown_id(self, call_id: str) -> str:
        """The id under which a call of this turn goes out."""
        return self._ids.get(call_id, call_id)

    def _is_hosted(self, name: str) -> bool:
        """A question of the upstream's own service: it goes by the service's id."""
        spec = self.run.tools.get(name)
        return spec is not None and spec.is_hosted

    def _give_id(self, call_id: str, place: int) -> None:
        if self._gives_ids and self._id_prefix is not None:
            round_index = 0 if self._start is None else self._start.round
            self._ids[call_id] = self._id_prefix + own_id(self.run.id, round_index, place)

    def _give_ids(self, calls: Sequence[ToolCall]) -> None:
        """To the calls of a whole turn that are the caller's."""
        self._ids, tools = {}, self.run.tools
        for place, call in enumerate(calls):
            if call.name in tools and tools[call.name].kind == "caller" and not tools[call.name].is_hosted:
                self._give_id(call.id, place)

    @property
    def places(self) -> dict[str, int]:
        """Of the turn's calls that went out, by their ids."""
        return self._calls.places if self._calls is not None else {}

    def _live_calls(self) -> LiveCalls:
        calls = self._calls
        if calls is None:
            calls = self._calls = LiveCalls(self.run.plan, self._start, self._without)
        return calls

    def fold(self, batch: Sequence[Event]) -> list[Update]:
        """For an answer in one piece, which has no use for previews, and shows of tools their records only."""
        folded: list[Update] = []
        for event in batch:
            if type(event) is ModelFinished:
                folded.append(self._close(event))
            elif type(event) is ToolFinished:
                self._end_tool(event)
            elif type(event) is ModelStarted:
                folded.append(self._begin(event))
            elif type(event) is RunFinished:
                folded.append(self._ended(event))
            elif type(event) not in _UNSEEN and (shown := self.take(event)) is not None:
                folded.append(shown)
        return folded

    def take(self, event: Event | Failure) -> Update | None:
        """What is to be shown of an event, if anything is. A failure: nothing more is written, although the run has no end."""
        match event:  # in the order of how often they come
            case ReasoningDelta(text=text):
                self._reasoning += len(text)
                return event if text else None
            case CallDelta(id=call_id):
                if call_id and call_id not in self._ids and not self._is_hosted(event.name):
                    self._give_id(call_id, event.index)
                go_out = self.run.plan.announces_calls and not self._whole_calls
                pieces = self._live_calls().add(event) if go_out else ()
                previews = self._preview(event)
                return CallsGrew(pieces, previews) if pieces or previews else _NO_PIECES
            case ModelStarted():
                return self._begin(event)
            case ModelFinished():
                return self._close(event)
            case ToolStarted(call_id=call_id, at=at):
                return self._begin_tool(call_id, at)
            case ToolFinished(result=result, at=at):
                files = self._end_tool(event)
                return ToolEnded(self.tools.calls[result.call_id], result, at, files)
            case RunFinished():
                return self._ended(event)
            case TextDelta(text=text):
                if self.holds_text or not text:
                    return None
                self.text += len(text)
                return event
            case RefusalDelta(text=text):
                self._refusal += len(text)
                if not text or (self._refusal_is_text and self.holds_text):
                    return None
                return TextDelta(text) if self._refusal_is_text else event
            case LogprobsDelta():
                if self.holds_text:
                    return None
                self._has_logprobs = True
                return event
            case NativeDelta() | ToolProgressed():
                return event
            case ModelInterrupted(turn=turn, at=at):
                self._broken = event
                return TurnBroke(turn, at, self._unseen(turn, NULL))
            case ModelRetried():
                self._calls = None  # nothing was announced
                if self._previews is not None:
                    self._previews.begin_turn()
                return _WITHDRAWN
            case Checked(stage="tool", rewrite=rewrite):
                return self._rewritten(event.call_id, rewrite if isinstance(rewrite, str) else None)
            case Checked(problem=problem, stage=stage):
                return _WITHDRAWN if problem is not None and stage in ("format", "output") else None
            case Warned(message=message):
                self.warnings = [*self.warnings, message]
                return None
            case RunStarted() | ModelFailed() | Steered() | Compacted() | Released() | Recovered():
                return None
            case Asked():
                return self._ask(event)
            case Answered():
                return self._decide(event)
            case Failure(code=code):
                if code == RUN_IS_WAITING:
                    return Paused(tuple(self.approvals().values()), event)
                return ended_by(event)
            case _:
                assert_never(event)

    def _begin_tool(self, call_id: str, at: float) -> ToolBegan | None:
        questions = self._questions
        if questions is None:
            return ToolBegan(self.tools.calls[call_id], at)
        return (
            None
            if questions.is_under_way(call_id)
            else ToolBegan(self.tools.calls[call_id], at, call_id in questions.announced)
        )

    def _end_tool(self, event: ToolFinished) -> list[dict[str, Any]]:
        """The files that it made."""
        if self._questions is not None:
            self._questions.end_call(event.result.call_id)
        return self.tools.record(event.result, event.details, event.files, event.at)

    # ---- questions ---------------------------------------------------------------------------------------------------

    def skip(self, facts: Sequence[Event]) -> None:
        """These were told in an answer before this one: what comes now goes on from there."""
        for event in facts:
            self.take(event)
            if type(event) is ModelFinished or type(event) is ToolFinished:
                self.used_before = self.used_before + event.usage
        self.tools.forget()
        self.warnings = ()
        if self._questions is not None:
            self._questions.announced.clear()
        self._is_resumed = self.is_continued = True

    def _ask(self, question: Asked) -> QuestionAsked:
        if self._questions is None:
            self._questions = Questions()
        spec = None if question.child else self.run.tools.get(question.tool)
        approval = approval_of(question, spec, self.run.start.session, self.tools.round)
        is_news = self._questions.ask(approval)
        return QuestionAsked(self.tools.calls[question.call_id], approval, question.at, is_news)

    def _decide(self, answer: Answered) -> QuestionClosed | None:
        closed = self._questions.close(answer) if self._questions is not None else []
        if not closed:
            return None
        question = closed[0].question
        if answer.decision == "approve" or question.kind == "input" or question.child:
            is_own = question.kind == "approval" and not question.child
            rewritten = self._rewritten(question.call_id, answer.arguments) if is_own else None
            return QuestionClosed(closed[0], answer, rewritten=rewritten)
        return QuestionClosed(closed[0], answer, [self._deny(one.question.call_id, answer) for one in closed])

    def _deny(self, call_id: str, answer: Answered) -> ToolEnded:
        late = answer.decision == "expired"
        why = answer.message or ("Approval timed out." if late else "Agent action was denied.")
        return self._refuse(call_id, denial(answer), why, answer.at)

    def _refuse(self, call_id: str, text: str, why: str, at: float) -> ToolEnded:
        """A call that does not run. `text` is what the model reads, `why` what people are told."""
        call = self.tools.calls[call_id]
        result = ToolResult(call_id, text, failed=True)
        self.tools.record(result, self.tools.denial(call, why), (), at)
        return ToolEnded(call, result, at)

    # ---- the end of a turn, and of the run ---------------------------------------------------------------------------

    def _unseen(self, turn: AssistantTurn, logprobs: Raw) -> list[Delta]:
        seen = _ShownLengths(self.text, self._reasoning, self._refusal)
        unseen = _unseen_pieces(turn, seen, holds_text=self.holds_text, refusal_is_text=self._refusal_is_text)
        if logprobs != NULL and not self._has_logprobs:
            unseen.append(LogprobsDelta(logprobs))
        return unseen

    def _ended(self, end: RunFinished) -> Ended:
        run = self.run
        text = end.answer or ""
        if end.answer is None and self.holds_text and end.reason in _ANSWERED:
            answer = next((turn for turn in reversed(run.turns) if type(turn) is AssistantTurn), None)
            if answer is not None:
                text = answer.text or (answer.refusal if self._refusal_is_text else "")
        calls: Sequence[ToolCall] = ()
        if end.reason in HANDED_OVER:
            calls = [call for call in run.open_calls if call.name not in self._without]
        late = () if calls and self.run.plan.announces_calls and not self._is_resumed else calls
        missing = self.tools.miss_files(end.at) if end.reason in _ANSWERED else ()
        if self._questions is not None:
            self._questions.open.clear()
        failure = failure_at(end, run.failure) if end.reason in WITHOUT_ANSWER else None
        return Ended(end, text, calls, late, failure, missing)


# ---- of a whole turn, the pieces that previews have not shown ------------------------------------------------------------


class _ShownLengths(Struct, gc=False):
    """Characters of a turn that were shown."""

    text: int = 0
    reasoning: int = 0
    refusal: int = 0


def _unseen_pieces(turn: AssistantTurn, seen: _ShownLengths, *, holds_text: bool, refusal_is_text: bool) -> list[Delta]:
    """In the order of the turn. Text that is held back is left out."""
    unseen: list[Delta] = []
    for part in turn.parts:
        match part:
            case Text(text=text):
                rest, seen.text = _behind(text, seen.text)
                if not holds_text:
                    _add(unseen, TextDelta, rest)
            case ToolCall():
                pass
            case Reasoning(text=text):
                rest, seen.reasoning = _behind(text, seen.reasoning)
                _add(unseen, ReasoningDelta, rest)
            case Refusal(text=text):
                rest, seen.refusal = _behind(text, seen.refusal)
                if not refusal_is_text:
                    _add(unseen, RefusalDelta, rest)
                elif not holds_text:
                    _add(unseen, TextDelta, rest)
            case _:
                assert_never(part)
    return unseen


def _behind(text: str, seen: int) -> tuple[str, int]:
    """What of a part comes behind what was seen of the turn, and what was seen of the parts behind it."""
    return (text[seen:], max(0, seen - len(text))) if seen else (text, 0)


def _add(unseen: list[Delta], kind: type[TextDelta | ReasoningDelta | RefusalDelta], text: str) -> None:
    """Neighbours of one kind are one piece."""
    if unseen and type(last := unseen[-1]) is kind:
        unseen[-1] = kind(last.text + text)
    elif text:
        unseen.append(kind(text))
