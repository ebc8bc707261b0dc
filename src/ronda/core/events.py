"""What happened in a run: facts in the past tense, and previews.

A durable event changes the run's state and is journaled. A preview shows something early (a delta); dropping all of them
changes nothing: not the result, not the durable events, not the transcript.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ronda.core.limits import LimitName
from ronda.core.parts import NO_USAGE, NULL, AssistantTurn, File, ToolResult, Turn, Usage, UserTurn
from ronda.core.plan import Plan, ToolSpec

# ---- previews ---------------------------------------------------------------------------------------------------------


class Shown(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True, kw_only=True, eq=False):
    """What all previews have: when it was shown. The driver says so of the first preview of a model call and, after that, every
    twentieth of a second. Two previews are equal if they show the same, whenever that was."""

    at: float = 0.0

    def _content(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__struct_fields__ if name != "at"])

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Shown) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())


class TextDelta(Shown, frozen=True, gc=False, tag="text_delta"):
    text: str


class ReasoningDelta(Shown, frozen=True, gc=False, tag="reasoning_delta"):
    text: str


class RefusalDelta(Shown, frozen=True, gc=False, tag="refusal_delta"):
    text: str


class CallDelta(Shown, frozen=True, gc=False, tag="call_delta"):
    """A tool call grows. `index` counts the calls of this turn; `id` and `name` are what is known of them so far."""

    index: int
    id: str
    name: str
    arguments: str


class LogprobsDelta(Shown, frozen=True, gc=False, tag="logprobs_delta"):
    """Token probabilities of the text just shown, in the provider's JSON."""

    logprobs: Raw


class NativeDelta(Shown, frozen=True, gc=False, tag="native_delta"):
    """Something of the turn that has no word here, in the provider's JSON: for a door that speaks the same dialect."""

    api: str
    payload: Raw


class ToolProgressed(Shown, frozen=True, gc=False, tag="tool_progressed"):
    """A tool that is running shows what it has so far. What the model reads is its result."""

    call_id: str
    text: str
    stream: str = ""  # of a program: "stdout" or "stderr"
    part: int = 0  # which of its commands it is of, where a call has several


# ---- facts ------------------------------------------------------------------------------------------------------------


class AgentFile(Struct, frozen=True, gc=False, omit_defaults=True):
    """A prompt file, and all that it brings in, as they were: their texts by their paths. A journal keeps those once, by their
    hash. `links` says where a path led that was no plain one."""

    path: str
    hash: str
    files: dict[str, str] = {}
    links: dict[str, str] = {}


FORMAT: Final = 1  # of the facts of a run, as this Ronda writes and reads them


class RunStarted(Struct, frozen=True, gc=False, tag="run_started", omit_defaults=True):
    """The input is the first event. `parent` is the run, and the number of its event, that this one goes on from."""

    run: str
    plan: Plan
    turns: tuple[Turn, ...]
    at: float = 0.0
    parent: tuple[str, int] | None = None
    session: str = ""
    owner: str = ""  # whose key started it: no other owner may see it
    sibling: int = 0  # which of several choices this is
    about: dict[str, Raw] = {}  # what a door wants to know again when it writes the answer anew
    agent: str = ""  # the name of the agent that runs; none for a model by itself
    inputs: Mapping[str, Raw] = {}  # what the agent was asked with
    outlives: bool = False  # it goes on when its client, or the process that drives it, is gone
    file: AgentFile | None = None  # what the agent was read from: to open the run again, wherever that is
    version: int = 0  # of the agent, where it has several
    call: str = ""  # the call of its parent that this run answers: the parent's driver drives it
    # What it inherits besides those of its turns: what the run, or session, before it had read.
    marks: tuple[str, ...] = ()
    key: str = ""  # the id of the API key that started it, where there are keys
    least_format: int = FORMAT  # a Ronda that knows only older formats may read the run, and not drive it


class ModelStarted(Struct, frozen=True, gc=False, tag="model_started", omit_defaults=True):
    round: int
    last: bool = False  # the last one: a limit was reached, tools are off
    nudge: str | None = None  # said to the model because its answer before was not what was asked for
    at: float = 0.0
    owes: bool = False  # a call is required of this answer


class ModelRetried(Struct, frozen=True, gc=False, tag="model_retried", omit_defaults=True):
    """A try failed before anything was shown; the next one comes after `wait` seconds."""

    attempt: int
    tries: int
    reason: str
    wait: float = 0.0
    at: float = 0.0


class Held(Struct, frozen=True, gc=False):
    """State that is the provider's: a stored response, a conversation, a cache. A run that has it cannot move elsewhere."""

    provider: str
    kind: str
    id: str


class Budget(Struct, frozen=True, gc=False):
    """How far the tightest of the budgets is used that a run spends from, after a call: what was spent, and what is reserved for
    calls under way."""

    scope: str  # run, session, key or owner
    per: str  # day, week, month or total
    unit: str  # usd, tokens, rounds, tool_calls or seconds
    limit: float
    spent: float
    reserved: float
    remaining: float
    currency: str | None = None  # "USD", where the unit is money


class ModelFinished(Struct, frozen=True, gc=False, tag="model_finished", omit_defaults=True):
    turn: AssistantTurn
    usage: Usage = NO_USAGE
    logprobs: Raw = NULL
    at: float = 0.0
    warnings: tuple[str, ...] = ()  # from a provider to the driver, which records each of them once as Warned
    held: tuple[Held, ...] = ()  # what the provider keeps, and the next call will need from it
    budget: Budget | None = None  # where there are some
    first_at: float = 0.0  # when the first of it was shown; 0: nothing was shown before all of it was there
    model: str = ""  # the model that answered in place of the plan's, as PROVIDER:NAME


class ModelInterrupted(Struct, frozen=True, gc=False, tag="model_interrupted", omit_defaults=True):
    """The answer broke off. What was shown of it is in `turn`; a next attempt is a new item, never a silent repeat.

    Where the upstream broke off, something was shown, and the plan says whether the model is asked again. Where our process
    ended, no client is left that was shown anything, and it is. (Journals of old do not say, and went on in both cases.)
    """

    turn: AssistantTurn
    reason: str
    at: float = 0.0
    cause: Literal["upstream", "process"] = "process"
    announced: bool = False  # a call of the caller's was among what was shown: no second attempt could take it back


class ModelFailed(Struct, frozen=True, gc=False, tag="model_failed", omit_defaults=True):
    """All tries are used up, or trying again would not help."""

    reason: str
    status: int | None = None
    tries: int = 1
    at: float = 0.0
    too_long: bool = False  # the conversation is more than the model can take
    code: str = ""  # the upstream's own word for it, if it has one


class ToolStarted(Struct, frozen=True, gc=False, tag="tool_started", omit_defaults=True):
    """Journaled before the tool starts, so that a crash never leaves a call that may have run unrecorded."""

    call_id: str
    at: float = 0.0
    name: str = ""  # of the tool
    child: str = ""  # the run that the call is, where its tool is an agent: it is resumed with its parent


class ToolFinished(Struct, frozen=True, gc=False, tag="tool_finished", omit_defaults=True):
    """A tool answered, or failed trying. The model reads `result` either way.

    A tool that is an agent used tokens, and called tools of its own: they count as this run's.
    """

    result: ToolResult
    at: float = 0.0
    usage: Usage = NO_USAGE
    tool_calls: int = 0
    name: str = ""  # of the tool, as in ToolStarted
    details: Raw = NULL  # what people are shown of it besides the model's text, as its kind of tool has it: JSON
    files: tuple[File, ...] = ()  # that it made
    offers: tuple[ToolSpec, ...] = ()  # tools that the run has from now on: what reads on where the result was too long


class Asked(Struct, frozen=True, gc=False, tag="asked", omit_defaults=True):
    """A person has to decide. Of `kind` "approval": whether a call may run, with the `arguments` (JSON text) that it would run
    with. Of `kind` "input": a tool that is running wants to know something; `schema` says what the answer must look like.

    The answer may come late: a run that has nothing else to do waits, and needs no process for that. What the run of an agent
    that is a tool waits for, its parent asks, under the same `id`, and waits for, too: `child` is that run.
    """

    id: str
    call_id: str
    kind: Literal["approval", "input"] = "approval"
    tool: str = ""
    arguments: str = "{}"
    schema: Raw = NULL
    message: str = ""  # what a tool wants to know, in words
    expires_at: float = 0.0  # 0: never
    at: float = 0.0
    child: str = ""
    # Of an approval: it is asked for, or data could leave (`core.taint`).
    cause: Literal["permission", "taint"] = "permission"

    @property
    def values(self) -> dict[str, Any]:
        """The arguments, read."""
        return msgspec.json.decode(self.arguments, type=dict[str, Any])

    def approve(self, arguments: Mapping[str, Any] | None = None, *, remember: bool = False) -> Answered:
        """Let the call run: with other `arguments`, if some are given. `remember`: every call of this tool in this run.

        To a question of kind "input", `arguments` are the answer.
        """
        text = None if arguments is None else msgspec.json.encode(arguments).decode()
        return Answered(self.id, "approve", text, remember=remember)

    def deny(self, message: str | None = None, *, remember: bool = False) -> Answered:
        """Do not let the call run. The model reads `message`."""
        return Answered(self.id, "deny", message=message, remember=remember)


class Answered(Struct, frozen=True, gc=False, tag="answered", omit_defaults=True):
    """A person or a rule decided, or the time for it ran out. `arguments` (JSON text) go in the place of those that the call was
    asked with: they change what runs, never the model's turn. With `remember` it holds for every call of this tool in this run:
    those to come, and those in question now."""

    id: str
    decision: Literal["approve", "deny", "expired"]
    arguments: str | None = None
    message: str | None = None
    remember: bool = False
    by: str = ""  # who
    at: float = 0.0


CheckStage: TypeAlias = Literal["format", "input", "output", "tool"]


class Checked(Struct, frozen=True, gc=False, tag="checked", omit_defaults=True):
    """An answer was checked. A `problem` names what is wrong with an answer's form, or why a guardrail said no.

    A guardrail may put something else in the place of what it saw: turns (input), a text (output), JSON arguments (tool).
    """

    problem: str | None = None
    at: float = 0.0
    stage: CheckStage = "format"
    allowed: bool = True
    call_id: str | None = None
    rewrite: tuple[Turn, ...] | str | None = None


class Steered(Struct, frozen=True, gc=False, tag="steered", omit_defaults=True):
    """A person or a program said something while the run was under way. The model hears it with its next call."""

    turn: UserTurn
    at: float = 0.0


class Compacted(Struct, frozen=True, gc=False, tag="compacted", omit_defaults=True):
    """From here on the model is shown `summary` in the place of earlier turns; the run keeps them.

    Gone are the turns before `upto`, but for the instructions and those `kept`. `failure` says why the summary is a plain
    excerpt although a better one was asked for.
    """

    upto: int
    summary: str
    kept: tuple[int, ...] = ()
    failure: str | None = None
    at: float = 0.0


class Warned(Struct, frozen=True, gc=False, tag="warned", omit_defaults=True):
    """Something the caller should hear of that did not stop the run. With the code `unknown_event` it stands for an event of a
    kind that only a newer Ronda knows: such a run can be read, and only the newer Ronda drives it."""

    message: str
    at: float = 0.0
    code: str = ""


class Released(Struct, frozen=True, gc=False, tag="released", omit_defaults=True):
    """The process that drove the run was told to end, and left the run to another: nothing is wrong with either."""

    at: float = 0.0


class Recovered(Struct, frozen=True, gc=False, tag="recovered", omit_defaults=True):
    """Another process continues the run: the one that drove it ended first."""

    at: float = 0.0


# `interrupted`: the process that drove the run ended, and it was not to outlive it.
EndReason: TypeAlias = Literal[
    "stop", "length", "content_filter", "tool_calls", "limit", "failed", "cancelled", "interrupted"
]

# Of these a run has no answer.
WITHOUT_ANSWER: Final[frozenset[EndReason]] = frozenset({"failed", "cancelled", "interrupted"})

# Why a run failed, for programs: `message` says it to people, in words that may change. An end at a limit has its `limit`.
EndCode: TypeAlias = Literal[
    "model_failed",  # no answer to be had
    "model_interrupted",  # an answer broke off after part of it was shown
    "tool_missing",  # a tool was called that has no handler here
    "no_call",  # a call was required, and none was made
    "wrong_format",  # the answer is not the JSON that was asked for
    "guardrail",
    "crash_loop",  # every process that drove it has ended
    "superseded",  # cancelled: another request interrupted it in order to continue its session
]


class RunFinished(Struct, frozen=True, gc=False, tag="run_finished", omit_defaults=True):
    """`tool_calls`: the caller's turn. `limit` names what was reached; `answer` is said where the model said nothing."""

    reason: EndReason
    limit: LimitName | None = None
    message: str | None = None
    answer: str | None = None
    at: float = 0.0
    code: EndCode | None = None  # of a run that failed, or was superseded


Preview: TypeAlias = (
    TextDelta | ReasoningDelta | RefusalDelta | CallDelta | LogprobsDelta | NativeDelta | ToolProgressed
)
Fact: TypeAlias = (
    RunStarted
    | ModelStarted
    | ModelRetried
    | ModelFinished
    | ModelInterrupted
    | ModelFailed
    | ToolStarted
    | ToolFinished
    | Asked
    | Answered
    | Checked
    | Steered
    | Compacted
    | Warned
    | Released
    | Recovered
    | RunFinished
)
Event: TypeAlias = Preview | Fact

PREVIEWS = frozenset({TextDelta, ReasoningDelta, RefusalDelta, CallDelta, LogprobsDelta, NativeDelta, ToolProgressed})
