"""A run as a response: its members that stay the same while it is under way, and those that change with its end.

What the caller said and the loop has no equivalent of is kept with the run (`StoredOptions`), so that a response written again
tomorrow is the same. The rest is in the plan already, and is read from there.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

import msgspec

from ronda.core.events import RunFinished
from ronda.core.parts import NULL, AssistantTurn, SystemTurn, Turn, Usage
from ronda.core.plan import Options, ResponseFormat
from ronda.core.run import Run
from ronda.wire.codec.json import encode, in_one_line
from ronda.wire.openai_responses.tools import echo_choice, echo_tools
from ronda.wire.own.background import Status, status_of
from ronda.wire.shared.door_request import AnswerOptions
from ronda.wire.shared.failures import INTERRUPTED, UPSTREAM, Failure, failure_at

# Its status, why it is not complete, what went wrong.
Outcome: TypeAlias = tuple[Status, dict[str, str] | None, dict[str, str | None] | None]


class StoredOptions(AnswerOptions, frozen=True, omit_defaults=True, kw_only=True):
    """What is remembered of a request besides the run's plan."""

    key: ClassVar[str] = "response"

    previous: str | None = None
    lead: int = 0  # turns before the conversation: what an agent says first, and the instructions
    tail: int = 0  # turns behind it
    instructed: bool = False  # the last of the lead are the request's instructions
    truncation: str = "disabled"
    summary: str | None = None  # of the model's thoughts: how much of one was asked for
    verbosity: str | None = None
    top_logprobs: int = 0
    service_tier: str = "default"
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None
    store: bool = True
    background: bool = False
    namespaces: tuple[str, ...] = ()
    customs: tuple[str, ...] = ()  # tools whose calls are text
    waiting: tuple[str, ...] = ()  # tools whose calls are items of their own
    servers: tuple[msgspec.Raw, ...] = ()  # MCP servers that the request names, as the answer repeats them
    sealed: bool = False  # the model's own JSON of a turn goes out with it
    obfuscated: bool = False
    shows_sources: bool = False  # a search tells where it looked
    code_outputs: bool = False  # what code printed and drew is in its item
    hosted: tuple[msgspec.Raw, ...] = ()  # tools of the service's own, as they were declared
    forced: str = ""  # the type of the one that was chosen


def fields_with(run: Run) -> StoredOptions | None:
    """None for a run that did not come in by this API."""
    return StoredOptions.of(run.start) if StoredOptions.key in run.start.about else None


def response_id(run: str, since: int = 0) -> str:
    """`since`: of a response that goes on from one that waited for people, so many facts of their run are that one's."""
    return "resp_" + run.removeprefix("run_") + (f"-{since}" if since else "")


def run_id(response: str) -> str:
    """The run behind a response; one that cannot be, for an id that is not ours."""
    return "run_" + response.removeprefix("resp_").partition("-")[0] if response.startswith("resp_") else ""


def since_of(response: str) -> int:
    """How many facts of the run are told in the response before."""
    digits = response.partition("-")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 10 else 0


def conversation(run: Run, answer_options: StoredOptions) -> list[Turn]:
    """What was said, without what stands around it: that belongs to one response, and is not carried over to the next."""
    turns = run.start.turns
    # A turn without parts says nothing: the model's own, or that of a response that was only prepared.
    generated = [turn for turn in run.generated if not isinstance(turn, AssistantTurn) or turn.parts]
    return [*turns[answer_options.lead : len(turns) - answer_options.tail], *generated]


class Resource:
    """Writes the response as JSON, at any time of its life."""

    __slots__ = ("_fixed", "_head", "answer_options", "run")

    def __init__(self, run: Run, answer_options: StoredOptions, since: int = 0) -> None:
        self.run = run
        self.answer_options = (
            answer_options if not since else msgspec.structs.replace(answer_options, previous=response_id(run.id))
        )
        self._head = b'{"id":%b,"object":"response","created_at":%d' % (
            encode(response_id(run.id, since)),
            int(run.start.at),
        )
        self._fixed = in_one_line(encode(self._echo())[1:])

    def under_way(self, status: bytes = b"in_progress") -> bytes:
        return (
            b'%b,"completed_at":null,"status":"%b","incomplete_details":null,"error":null,"output":[],"usage":null,%b'
            % (self._head, status, self._fixed)
        )

    def at_the_end(self, end: RunFinished | None, output: bytes, usage: Usage, more: dict[str, Any]) -> bytes:
        """`output`: the items, joined by commas. `more`: what a loop adds to the dialect."""
        outcome = _outcome(self.run, end)
        at = int(end.at) if end is not None and outcome[0] == "completed" else None
        return self._written(outcome, at, output, None if end is None else usage, more)

    def paused(self, output: bytes, usage: Usage, more: dict[str, Any]) -> bytes:
        """Some of the items wait for a person. The response is complete: the next one goes on."""
        at = max([question.at for question in self.run.questions], default=self.run.start.at)
        return self._written(("completed", None, None), int(at), output, usage, more)

    def _written(
        self, outcome: Outcome, at: int | None, output: bytes, usage: Usage | None, more: dict[str, Any]
    ) -> bytes:
        status, incomplete, error = outcome
        return (
            b'%b,"completed_at":%b,"status":"%b","incomplete_details":%b,"error":%b,"output":[%b],"usage":%b%b,%b'
            % (
                self._head,
                b"null" if at is None else b"%d" % at,
                status.encode(),
                encode(incomplete),
                encode(error),
                output,
                b"null" if usage is None else encode(usage_fields(usage)),
                b"," + encode(more)[1:-1] if more else b"",
                self._fixed,
            )
        )

    def _echo(self) -> dict[str, Any]:
        """Every parameter of the request, by its value or by what holds where nothing was said."""
        request, plan = self.answer_options, self.run.plan
        options = plan.options
        instructions = self.run.start.turns[request.lead - 1] if request.instructed else None
        fields: dict[str, Any] = {
            "model": request.model,
            "previous_response_id": request.previous,
            "instructions": instructions.text if isinstance(instructions, SystemTurn) else None,
            "tools": [
                *request.hosted,
                *echo_tools(plan.tools, request.namespaces, request.customs, request.servers),
            ],
            "tool_choice": {"type": request.forced}
            if request.forced
            else echo_choice(plan.choice, request.customs, request.waiting),
            "truncation": request.truncation,
            "parallel_tool_calls": plan.parallel,
            "text": _text(options.response_format, request.verbosity),
            "top_p": _or(options.top_p, 1.0),
            "presence_penalty": _number(options, "presence_penalty"),
            "frequency_penalty": _number(options, "frequency_penalty"),
            "top_logprobs": request.top_logprobs,
            "temperature": _or(options.temperature, 1.0),
            "reasoning": {"effort": options.reasoning_effort, "summary": request.summary},
            "max_output_tokens": options.max_tokens,
            "max_tool_calls": plan.limits.tool_calls,
            "store": request.store,
            "background": request.background,
            "service_tier": request.service_tier,
            "metadata": request.metadata,
            "safety_identifier": request.safety_identifier,
            "prompt_cache_key": request.prompt_cache_key,
        }
        if request.user is not None:
            fields["user"] = request.user
        return fields


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _number(options: Options, name: str) -> float:
    raw = options.extra.get(name, NULL)
    return 0.0 if raw == NULL else float(msgspec.json.decode(raw))


def _text(answer_format: ResponseFormat | None, verbosity: str | None) -> dict[str, Any]:
    fields: dict[str, Any]
    if answer_format is None:
        fields = {"format": {"type": "text"}}
    elif answer_format.type == "json_object":
        fields = {"format": {"type": "json_object"}}
    else:
        # The schema itself is not said again: Open Responses has null in its place.
        fields = {
            "format": {
                "type": "json_schema",
                "name": answer_format.name,
                "description": answer_format.description,
                "schema": None,
                "strict": bool(answer_format.strict),
            }
        }
    return fields if verbosity is None else {**fields, "verbosity": verbosity}


def _outcome(run: Run, end: RunFinished | None) -> Outcome:
    """What became of it: its status, why it is not complete, what went wrong."""
    if end is None:
        is_queued = StoredOptions.of(run.start).background and status_of(run) == "queued"
        return "queued" if is_queued else "in_progress", None, None
    match end.reason:
        case "length":
            return "incomplete", {"reason": "max_output_tokens"}, None
        case "content_filter":
            return "incomplete", {"reason": "content_filter"}, None
        case "limit" if end.limit == "max_seconds":
            return "incomplete", {"reason": "max_seconds"}, None
        case "cancelled" if end.code is None:
            return "cancelled", None, None
        case "failed" | "interrupted" | "cancelled":
            failure = failure_at(end, run.failure)
            assert failure is not None
            error = {"type": failure.type, "code": code_of(failure), "message": failure.message}
            return "cancelled" if end.reason == "cancelled" else "failed", None, error
        case "stop" | "tool_calls" | "limit":
            return "completed", None, None


def code_of(failure: Failure) -> str | None:
    """The API has codes of its own for what a model's server says, in a plain error as in a response that failed."""
    # https://developers.openai.com/api/docs/api-reference/responses/object (error.code)
    if failure.code == INTERRUPTED:
        return "server_error"
    if failure.code != UPSTREAM:
        return failure.code or ("server_error" if failure.type == "server_error" else None)
    match failure.status:
        case 429:
            return "rate_limit_exceeded"
        case 400:
            return "invalid_prompt"
        case _:
            return "server_error"


def event_of_end(end: RunFinished) -> bytes:
    """The last event of a stream; the API has none of its own for a response that was cancelled."""
    match end.reason:
        case "failed" | "interrupted":
            return b"response.failed"
        case "length" | "content_filter" | "cancelled":
            return b"response.incomplete"
        case "limit" if end.limit == "max_seconds":
            return b"response.incomplete"
    return b"response.completed"


def usage_fields(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }
    return fields if usage.cost is None else fields | {"cost": usage.cost}
