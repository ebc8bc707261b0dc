"""What went wrong, before any dialect has put it into words: errors → status, type, message; and how a door answers with it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from ronda.errors import BadRequest, RondaError
from ronda.server.http.body_memory import RETRY_SECONDS, NoRoom
from ronda.server.http.incoming import Header, Json
from ronda.store import StoreError
from ronda.store.reach import DatabaseAway
from ronda.wire.shared.failures import Failure, FailureType

log = logging.getLogger("ronda.server")

# How a dialect says it.
ErrorWriter: TypeAlias = Callable[[Failure], bytes]

BROKE_DOWN = Failure(500, "server_error", "the server broke down on this request; its log says why")
STOPPING = Failure(503, "server_error", "the server is stopping, and had no time left for this request")

DATABASE_AWAY: Final = "database_away"  # the code of what cannot be begun until the database is back

# The client's library would repeat a request that answered 5xx; we have tried often enough, and tools may have run.
_DO_NOT_RETRY: Header = (b"x-should-retry", b"false")


class Refused(BadRequest):
    """The caller is not let in now: said in its dialect, before anything was started."""

    def __init__(
        self, message: str, status: int = 429, *, code: str | None = None, headers: Sequence[Header] = ()
    ) -> None:
        super().__init__(message, code=code)
        self.status_hint = status
        self.headers = tuple(headers)


def failure_of(error: RondaError) -> Failure:
    if isinstance(error, BadRequest):
        kind: FailureType = "rate_limit_error" if error.status_hint == 429 else "invalid_request_error"
        return Failure(error.status_hint, kind, str(error), error.param, error.code, error.details)
    if isinstance(error, StoreError):
        if not error.is_logged:
            log.error("%s", error)
        code, seconds = (DATABASE_AWAY, error.retry_after) if isinstance(error, DatabaseAway) else (None, None)
        return Failure(error.status_hint, "server_error", error.public, code=code, retry_after=seconds)
    if isinstance(error, NoRoom):
        return Failure(error.status_hint, "server_error", str(error), retry_after=RETRY_SECONDS)
    return Failure(error.status_hint, "server_error", without_paths(error.public))


_PATH: Final = re.compile(r"(?<![\w:/.])/([^\s/'\",:;()]+)((?:/[^\s/'\",:;()]+)+)")


def without_paths(text: str) -> str:
    """Where the operator keeps things is not for clients to know: of a path on this machine its last name is left."""
    return _PATH.sub(lambda found: found[2].rpartition("/")[2] if Path(f"/{found[1]}").exists() else found[0], text)


def error_answer(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    if failure.retry_after is not None:
        headers = (*headers, (b"retry-after", b"%d" % failure.retry_after))
    return Json(write(failure), failure.status, headers)


def run_error_answer(failure: Failure, write: ErrorWriter, headers: tuple[Header, ...] = ()) -> Json:
    return Json(write(failure), failure.status, (*headers, _DO_NOT_RETRY))
