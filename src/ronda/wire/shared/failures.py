"""What went wrong, before any dialect has put it into words: how a run ended → status, type, message, code.

A plain answer is that status; inside a stream, whose head says 200 already, the same type and code are all there is.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ronda.core.events import WITHOUT_ANSWER, ModelFailed, RunFinished
from ronda.core.run import Run
from ronda.errors import quote_names

# OpenAI's code, which clients wait for to shorten a conversation.
TOO_LONG: Final = "context_length_exceeded"
BUDGET: Final = "budget_exceeded"  # of a run that has nothing left to spend
UPSTREAM: Final = "upstream_error"  # the code of what has no better one

FailureType: TypeAlias = Literal["invalid_request_error", "rate_limit_error", "server_error"]


class Failure(Struct, frozen=True):
    status: int
    type: FailureType
    message: str
    param: str | None = None
    code: str | None = None
    details: object = None  # JSON of a dialect that says more of what is wrong than a message
    retry_after: int | None = None  # seconds


INTERRUPTED: Final = "interrupted"  # the code of what the server's own end has ended
RUN_IS_WAITING: Final = "run_is_waiting"
FELL_BEHIND: Final = "fell_behind"
RUN_GOES_ON: Final = frozenset({RUN_IS_WAITING, FELL_BEHIND})  # codes of what ends an answer, and not its run

# Something of ours broke before the run could end.
BROKE_DOWN: Final = Failure(500, "server_error", "the run broke down; the server's log says why")


def failure_of_run(run: Run) -> Failure | None:
    """Why a run has no answer; None if it has one."""
    if run.ended is not None:
        return failure_at(run.ended, run.failure)
    if run.is_waiting:
        tools = quote_names([question.tool for question in run.questions])
        message = (
            f"run '{run.id}' waits for a person to decide about {tools}: POST /v1/runs/{run.id}/answer continues it, "
            f"and GET /v1/runs/{run.id} shows its questions and, later, its result"
        )
        return Failure(504, "server_error", message, code=RUN_IS_WAITING)
    if run.outlives:
        message = "the server is stopping; the run goes on when it starts again"
        return Failure(503, "server_error", message, code=INTERRUPTED)
    # Cancelled before it was driven at all: then it has no end.
    return Failure(503, "server_error", "the run was cancelled: the server is stopping", code="cancelled")


def is_superseded(run: Run) -> bool:
    return run.ended is not None and run.ended.code == "superseded"


def why_unended(run: Run, error: BaseException | None) -> Failure | None:
    """What is told to the followers of a run that comes to a stop without an end."""
    if error is not None:
        return BROKE_DOWN
    return failure_of_run(run) if run.is_waiting else None


def failure_at(end: RunFinished, failure: ModelFailed | None) -> Failure | None:
    if end.reason not in WITHOUT_ANSWER:
        return None
    if end.reason == "cancelled":  # no failure of the server's, and nothing that a client's library should repeat
        message = end.message or "the run was cancelled"
        return Failure(409, "invalid_request_error", message, code=end.code or "cancelled")
    if end.reason == "interrupted":
        return Failure(503, "server_error", end.message or "the run was interrupted", code=INTERRUPTED)
    message = end.message or "the run failed"
    if end.code == "guardrail":
        return Failure(400, "invalid_request_error", message, code=end.code)
    status = failure.status if failure is not None else None
    code = (failure.code if failure is not None else "") or UPSTREAM  # which programs compare, as `content_filter`
    if status == 402 and code == BUDGET:  # ours; an upstream that wants to be paid is the operator's business
        return Failure(402, "invalid_request_error", message, code=code)
    if failure is not None and failure.too_long:
        return Failure(400, "invalid_request_error", message, code=TOO_LONG)
    if status in (400, 404, 413, 422):  # the upstream's word on what the caller sent
        return Failure(400, "invalid_request_error", message, code=code)
    if status == 429:
        return Failure(429, "rate_limit_error", message, code=code)
    return Failure(502, "server_error", message, code=UPSTREAM)


def error_in_stream(failure: Failure) -> dict[str, str | None]:
    """In the words of Chat Completions, which Mistral's completions have too."""
    return {"message": failure.message, "type": failure.type, "param": failure.param, "code": failure.code}
