"""Who answers a run's questions in the library: a callback of the caller's, asked while everything else goes on.

    approve(question)  → True, False, `question.approve(…)`, `question.deny(…)`, or an awaitable of one of them

A plain function runs in a thread, and is asked one question after the other: it may well read from a terminal. An async one
is asked about all of them at once. What it raises leaves the question open: the run waits, and the caller is told.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from ronda.core.events import Answered, Asked, Event
from ronda.core.run import Run
from ronda.drive import Inbox
from ronda.errors import RunWaiting
from ronda.host.recovery import seconds_left
from ronda.host.run import drive_on, look_at
from ronda.tools.function import in_thread

Decision: TypeAlias = bool | Answered | Mapping[str, Any]
Approve: TypeAlias = Callable[[Asked], Decision | Awaitable[Decision]]

log = logging.getLogger("ronda.approve")


def waiting(run: Run) -> RunWaiting:
    """What there is to say of a run that waits for people."""
    tools = ", ".join([f"'{question.tool}' ({question.id})" for question in run.questions])
    message = (
        f"run '{run.id}' waits for an approval of {tools}; answer with resume_agent, which needs the journal of the run, "
        "or give approve=… to be asked while it runs"
    )
    return RunWaiting(message, run.questions, run.turns, run=run.id)


def answer_to(question: Asked, decision: object) -> Answered:
    """What an approver returned, as the answer to a question. Raises TypeError for what is none."""
    match decision:
        case Answered(id=question.id):
            return decision
        case True if question.kind == "approval":
            return question.approve()
        case False:
            return question.deny()
        case Mapping() if question.kind == "input":
            return question.approve(decision)
        case Answered(id=other):
            raise TypeError(f"the answer to question '{question.id}' is for '{other}'")
        case _:
            approval = question.kind == "approval"
            takes = "True, False or an answer" if approval else "a mapping of what was asked for, or False"
            raise TypeError(f"the answer to question '{question.id}' is {decision!r:.200}; it has to be {takes}")


class Approver:
    """Asks the callback, and sends the run what it says."""

    def __init__(self, approve: Approve, run: Run, inbox: Inbox) -> None:
        self.approve = approve
        self._run = run
        self._inbox = inbox
        self._is_async = inspect.iscoroutinefunction(approve) or inspect.iscoroutinefunction(
            getattr(approve, "__call__", None)  # noqa: B004  # an object whose __call__ is async, not "is it callable"
        )
        self._turn = asyncio.Lock()
        self._asking: dict[str, asyncio.Task[None]] = {}

    def take(self, batch: Sequence[Event]) -> None:
        for event in batch:
            if type(event) is Asked:
                self._ask(event)
            elif type(event) is Answered:
                self._stop_asking()

    def _stop_asking(self) -> None:
        """About what is decided: because the answer was remembered, or the time is up."""
        is_open = {question.id for question in self._run.questions}
        for question_id in [question_id for question_id in self._asking if question_id not in is_open]:
            self._asking.pop(question_id).cancel()

    async def drive(self, driving: Callable[..., Awaitable[None]]) -> None:
        """Drive the run for as long as its questions are answered."""
        for question in self._run.questions:  # of a run that goes on
            self._ask(question)
        try:
            await drive_on(self._run, driving, self._answer)
        finally:
            for task in self._asking.values():
                task.cancel()
            if self._asking:
                await asyncio.wait(self._asking.values())

    async def _answer(self) -> bool:
        """Until there is an answer, or a question's time is up. Raises what the callback raised."""
        asking = self._asking.values()
        waited_for = [self._inbox.arrival(), *asking]
        await asyncio.wait(waited_for, timeout=seconds_left(self._run), return_when=asyncio.FIRST_COMPLETED)
        if not self._inbox:
            for task in asking:
                if task.done():
                    task.result()
        return True

    def _ask(self, question: Asked) -> None:
        if question.id not in self._asking:
            task = self._asking[question.id] = asyncio.create_task(self._ask_callback(question))
            task.add_done_callback(look_at)  # `_answer` raises what went wrong

    async def _ask_callback(self, question: Asked) -> None:
        try:
            if self._is_async:
                await self._send(question, self.approve(question))
            else:
                async with self._turn:
                    await self._send(question, await in_thread(partial(self.approve, question)))
                    # Until `take` ends this task: what is remembered may answer the next question, too.
                    await asyncio.get_running_loop().create_future()
        except Exception as error:
            if question.kind == "approval":
                raise
            log.warning("the question '%s' could not be answered", question.id, exc_info=error)
            self._inbox.send(question.deny(str(error)))  # a tool is waiting for it

    async def _send(self, question: Asked, decision: Decision | Awaitable[Decision]) -> None:
        self._inbox.send(answer_to(question, await decision if isinstance(decision, Awaitable) else decision))
