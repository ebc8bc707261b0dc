"""A run of the server that waits for people. What they decide comes with other requests: POST /v1/runs/{id}/answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ronda.core.events import Answered, Asked
from ronda.core.run import Run
from ronda.drive import Inbox
from ronda.host.run import drive_on


class RemoteApprover:
    """Drives a run on when somebody has answered, or a question's time is up. Whoever follows the run waits meanwhile."""

    def __init__(self, run: Run, inbox: Inbox) -> None:
        self.approve: Callable[[Asked], Answered] = _deny_child
        self._run = run
        self._inbox = inbox

    async def drive(self, driving: Callable[..., Awaitable[None]]) -> None:
        await drive_on(self._run, driving, self._answer)

    async def _answer(self) -> None:
        ends = [question.expires_at for question in self._run.questions if question.expires_at]
        seconds = max(0.0, min(ends) - time.time()) if ends else None
        await asyncio.wait([self._inbox.arrival()], timeout=seconds)


def _deny_child(question: Asked) -> Answered:
    """Of an agent that runs as a tool of another: nobody could find its question."""
    return question.deny("an agent that runs as a tool of another cannot ask for approvals on this server")
