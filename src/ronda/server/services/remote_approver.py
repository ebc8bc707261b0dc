"""A run of the server that waits for people. What they decide comes with other requests (`doors/own/approvals`,
`answering/continuation`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ronda.core.run import Run
from ronda.drive import Inbox
from ronda.drive.inbox import wait_for_first
from ronda.host.recovery import seconds_left
from ronda.host.run import drive_on


class RemoteApprover:
    """Drives a run on when a person has answered, or a question's time is up. Followers of the run wait meanwhile, but not
    for longer than `seconds`: then the run stays as it is, and needs no process until it is answered. `left` is told."""

    def __init__(self, run: Run, inbox: Inbox, seconds: float, left: Callable[[Run], None]) -> None:
        self.approve = None  # children wait, and this run with them
        self._run = run
        self._inbox = inbox
        self._seconds = seconds
        self._left = left

    async def drive(self, driving: Callable[..., Awaitable[None]]) -> None:
        await drive_on(self._run, driving, self._answer)
        if self._run.is_waiting:
            self._left(self._run)

    async def _answer(self) -> bool:
        limit, until_expiry = self._seconds, seconds_left(self._run)
        await wait_for_first([self._inbox.arrival()], min(limit, until_expiry))
        return bool(self._inbox) or until_expiry <= limit
