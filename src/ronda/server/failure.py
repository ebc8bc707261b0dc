"""What went wrong, before any dialect has put it into words: errors → status, type, message; and how a door answers with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ronda.errors import BadRequest, RondaError
from ronda.server.exchange import Header, Json
from ronda.wire.failures import Failure

# How a dialect says it.
ErrorWriter: TypeAlias = Callable[[Failure], bytes]

BROKE_DOWN = Failure(500, "server_error", "the server broke down on this request; its log says why")

# The client's library would repeat a request that answered 5xx; we have tried often enough, and tools may have run.
_DO_NOT_RETRY: Header = (b"x-should-retry", b"false")


def failure_of(error: RondaError) -> Failure:
    if isinstance(error, BadRequest):
        return Failure(error.status_hint, "invalid_request_error", str(error), error.param, error.code)
    return Failure(error.status_hint, "server_error", str(error))


def said(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    return Json(write(failure), failure.status, headers)


def said_of_run(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    return Json(write(failure), failure.status, (*headers, _DO_NOT_RETRY))
