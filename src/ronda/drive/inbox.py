"""What people send to a run while somebody drives it: answers to its questions, and what the model is to hear.

An answer is looked at when it is sent: one that cannot be taken is refused there, by name, and its question stays open. The
driver looks in here only when there is a message, or when it has nothing else to do.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TypeAlias

import msgspec

from ronda.core.events import Answered, Asked, Steered
from ronda.core.parts import NULL
from ronda.core.run import Run
from ronda.errors import AlreadyAnswered, BadRequest, NotFound, quote_names
from ronda.schema.validate import validator_for

Message: TypeAlias = Answered | Steered


class Inbox:
    """`seconds`: for how long somebody is waited for in this process; a question may stay open for longer."""

    __slots__ = ("_arrival", "_expected", "_messages", "_run", "seconds")

    def __init__(self, run: Run, seconds: float = inf) -> None:
        self.seconds = seconds
        self._run = run
        self._messages: list[Message] = []
        self._arrival: asyncio.Future[None] | None = None
        self._expected: dict[str, asyncio.Future[Answered]] = {}  # by tools that are running

    def __bool__(self) -> bool:
        return bool(self._messages)

    def send(self, message: Message) -> None:
        """From the loop that drives the run. Raises why a message cannot be taken."""
        if type(message) is Answered:
            if message.id in [one.id for one in self._messages if type(one) is Answered]:
                raise AlreadyAnswered(f"question '{message.id}' is answered already")
            check_answer(self._run, message)
        elif not self._run.can_be_steered:
            raise BadRequest(f"run '{self._run.id}' is about to end: its model is not called again")
        self._messages.append(message)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def take(self) -> list[Message]:
        taken, self._messages = self._messages, []
        self._arrival = None
        return taken

    def arrival(self) -> asyncio.Future[None]:
        """Done when there is a message. Wait for it with `asyncio.wait`: others wait for the same one."""
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
            if self._messages:
                self._arrival.set_result(None)
        return self._arrival

    def expect(self, question: str) -> asyncio.Future[Answered]:
        """The answer to this question, once it is recorded: for a tool that waits for it."""
        answered = self._expected[question] = asyncio.get_running_loop().create_future()
        return answered

    def expect_no_more(self, question: str) -> None:
        self._expected.pop(question, None)

    def tell(self, answer: Answered) -> None:
        """An answer was recorded."""
        expected = self._expected.get(answer.id)
        if expected is not None and not expected.done():
            expected.set_result(answer)


def check_answer(run: Run, answer: Answered) -> None:
    """Raises what keeps an answer from being taken: its question stays as it is."""
    question = next((one for one in run.questions if one.id == answer.id), None)
    if question is None:
        if run.was_asked(answer.id):
            raise AlreadyAnswered(f"question '{answer.id}' is closed: it was answered, or nobody answered it in time")
        is_open = quote_names([one.id for one in run.questions]) or "none"
        raise NotFound(f"run '{run.id}' has no question '{answer.id}'; open: {is_open}", param="id")
    if answer.decision == "approve" and (problem := _problem_with(run, question, answer.arguments)) is not None:
        raise BadRequest(f"the arguments do not fit {_what(question)}: {problem}", param="arguments")


def _what(question: Asked) -> str:
    return f"the tool '{question.tool}'" if question.kind == "approval" else "what was asked for"


def _problem_with(run: Run, question: Asked, arguments: str | None) -> str | None:
    if arguments is None:
        return None if question.kind == "approval" else "there are none"
    try:
        values = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"they are not JSON ({error})"
    if not isinstance(values, dict):
        return "they are no JSON object"
    if question.kind == "input":
        return validator_for(bytes(question.schema)).explain(values) if question.schema != NULL else None
    if question.child:  # whose tool it is; its schema came along
        return validator_for(bytes(question.schema)).explain(values)
    spec = run.tools[question.tool]
    bound = [name for name in spec.bound if name in values]
    if bound:
        return f"'{bound[0]}' is filled in from the inputs"
    return validator_for(bytes(spec.parameters)).explain(values)
