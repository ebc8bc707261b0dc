"""What went wrong, before any dialect has put it into words: errors and failed runs → status, type, message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

from ronda.core.run import Run
from ronda.errors import BadRequest, RondaError
from ronda.server.exchange import Header, Json
from ronda.wire.endings import TOO_LONG

FailureType: TypeAlias = Literal["invalid_request_error", "rate_limit_error", "server_error"]


class Failure(Struct, frozen=True):
    status: int
    type: FailureType
    message: str
    param: str | None = None
    code: str | None = None


# How a dialect says it.
ErrorWriter: TypeAlias = Callable[[Failure], bytes]

BROKE_DOWN = Failure(500, "server_error", "the server broke down on this request; its log says why")

# The client's library would repeat a request that answered 5xx; we have tried often enough, and tools may have run.
_DO_NOT_RETRY: Header = (b"x-should-retry", b"false")


def failure_of(error: RondaError) -> Failure:
    if isinstance(error, BadRequest):
        return Failure(error.status_hint, "invalid_request_error", str(error), error.param, error.code)
    return Failure(error.status_hint, "server_error", str(error))


def failure_of_run(run: Run) -> Failure | None:
    """Why a run has no answer."""
    end = run.ended
    assert end is not None
    if end.reason == "cancelled":
        return Failure(503, "server_error", "the run was cancelled: the server is stopping", code="cancelled")
    if end.reason != "failed":
        return None
    message = end.message or "the run failed"
    status = run.failure.status if run.failure is not None else None
    if run.failure is not None and run.failure.too_long:  # clients shorten the conversation when they read this code
        return Failure(400, "invalid_request_error", message, code=TOO_LONG)
    if status in (400, 404, 413, 422):  # the upstream's word on what the caller sent
        return Failure(400, "invalid_request_error", message, code="upstream_error")
    if status == 429:
        return Failure(429, "rate_limit_error", message, code="upstream_error")
    return Failure(502, "server_error", message, code="upstream_error")


def said(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    return Json(write(failure), failure.status, headers)


def said_of_run(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    return Json(write(failure), failure.status, (*headers, _DO_NOT_RETRY))
