"""Every exception Ronda raises on purpose, in one tree that says whose fault it is.

    RondaError                  status_hint: the HTTP status a server would answer with
    ├── BadRequest              the caller's: raised before a run starts (also a ValueError)
    │   ├── NotFound
    │   ├── TooLarge
    │   ├── NotProduced             a file that a run was to make, and did not
    │   └── AlreadyAnswered         a question of a run that is closed
    ├── BadConfig               the operator's or the programmer's: an agent, a tool file, a setting
    ├── UpstreamError           the model provider's; `retryable` says if trying again may help
    │   ├── UpstreamUnreachable     no connection, or it timed out before an answer began
    │   └── UpstreamBroken          an answer began and did not end, or made no sense
    ├── RunEnded                a run that ended without an answer; `messages` is the conversation so far
    │   ├── ExecuteError            the model could not be called, after all tries
    │   ├── LimitExceeded           a limit was reached and the caller asked for an error (also a RuntimeError)
    │   ├── ToolMissing             the model asked for a tool that cannot be run here (also a ValueError)
    │   ├── GuardrailError          a guardrail said no to what went in or came out; `reason` is its word
    │   └── RunCancelled            it was cancelled (also a concurrent.futures.CancelledError)
    ├── RunWaiting              a run that continues when its `questions` are answered; `run` is its id
    ├── ToolFailed              a tool says why it cannot do its work; the model reads it, and the run goes on
    └── ProtocolError           ours: events that cannot follow each other. Never caught in the loop

Messages name the thing and the way out. Code that raises one of these does not log it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from typing import Any


class RondaError(Exception):
    status_hint = 500

    @property
    def public(self) -> str:
        """Its text for clients and models: without what is the operator's business only, such as addresses of stores."""
        return str(self)


class BadRequest(RondaError, ValueError):
    """The request cannot be carried out as it stands. `param` names the field; `details` is for dialects that say more."""

    status_hint = 400
    details: object = None

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class NotFound(BadRequest):
    status_hint = 404


class TooLarge(BadRequest):
    status_hint = 413


class NotProduced(BadRequest):
    """A file that an answer lists as one that its run was to make, and did not: there is nothing in it."""

    status_hint = 422


class AlreadyAnswered(BadRequest):
    """A question that was answered, or whose time ran out: it takes no second answer."""

    status_hint = 409


class BadConfig(RondaError):
    """A setting, an agent or a tool that cannot work; found before anything runs."""


class UpstreamError(RondaError):
    """The provider refused, failed or was not there."""

    status_hint = 502

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        connection: bool = False,
        too_long: bool = False,
        code: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code  # the upstream's own word for it, if it has one
        self.retryable = retryable
        self.retry_after = retry_after
        self.too_long = too_long  # what was sent is more than the model can take
        self.connection = connection  # no HTTP answer at all: a policy may treat these apart


class UpstreamUnreachable(UpstreamError):
    status_hint = 502


class UpstreamBroken(UpstreamError):
    status_hint = 502


class RunEnded(RondaError):
    """The run is over and there is no answer. `messages` can be given to a new run to go on from there."""

    status_hint = 502

    def __init__(self, message: str, messages: Sequence[Any] = (), *, run: str = "") -> None:
        super().__init__(message)
        self.messages = list(messages)  # turns; what a turn is, is known further up
        self.run = run


class ExecuteError(RunEnded):
    """The model could not be called."""


class LimitExceeded(RunEnded, RuntimeError):
    """The run reached a limit and was told to fail there."""


class ToolMissing(RunEnded, ValueError):
    """The model asked for a tool that has no handler."""


class GuardrailError(RunEnded):
    """A guardrail said no: to what the model was about to be shown, or to what it said."""

    status_hint = 403

    def __init__(
        self, message: str, messages: Sequence[Any] = (), *, run: str = "", stage: str = "", reason: str | None = None
    ) -> None:
        super().__init__(message, messages, run=run)
        self.stage = stage
        self.reason = reason


class RunCancelled(RunEnded, CancelledError):
    """The run was cancelled; what it had is in `messages`."""


class RunWaiting(RondaError):
    """The run is not over: it waits for answers to its `questions`. `resume_agent` continues it."""

    status_hint = 409

    def __init__(self, message: str, questions: Sequence[Any], messages: Sequence[Any] = (), *, run: str = "") -> None:
        super().__init__(message)
        self.questions = list(questions)
        self.messages = list(messages)
        self.run = run


class ToolFailed(RondaError):
    """Raised by a tool that knows what to tell the model: its text stands in the failed result of the call."""


class ProtocolError(RondaError):
    """Two events that cannot follow each other: a bug in Ronda, or a journal that was tampered with."""


def quote_names(names: Iterable[str]) -> str:
    """Names as a message lists them."""
    return ", ".join([f"'{name}'" for name in names])
