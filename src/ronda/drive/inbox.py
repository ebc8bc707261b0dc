"""What people send to a run while it is driven: answers to its questions, and what the model is to hear.

An answer is looked at when it is sent: one that cannot be taken is refused there, by name, and its question stays open. The
driver looks in here between two steps, and is called while it waits for a model or for tools: what was sent is recorded at
once, however long these take. A sender that must know that it is uses `submit`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, TypeAlias

import msgspec

from ronda.core.events import Answered, Asked, Steered
from ronda.core.parts import NULL
from ronda.core.run import Run
from ronda.errors import AlreadyAnswered, BadRequest, NotFound, quote_names
from ronda.schema.validate import validator_for

Message: TypeAlias = Answered | Steered
Receipt: TypeAlias = "asyncio.Future[None]"


def acknowledge(receipt: Receipt | None) -> None:
    if receipt is not None and not receipt.done():
        receipt.set_result(None)


def refuse(receipt: Receipt | None, problem: BaseException) -> None:
    if receipt is not None and not receipt.done():
        receipt.set_exception(problem)
        receipt.exception()  # its sender may have left


async def wait_for_first(futures: Collection[asyncio.Future[Any]], seconds: float | None = None) -> None:
    """Return when one of them is done, or after so many seconds. None of them is cancelled with the task that waits."""
    try:
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError as error:
        # Since Python 3.14 a frame of `asyncio.wait` refers to the task that waits, and this task keeps the error: a cycle.
        raise error.with_traceback(None) from None


class Inbox:
    """`seconds`: for how long an answer is waited for in this process; a question may stay open for longer."""

    __slots__ = ("_arrival", "_expected", "_run", "messages", "on_arrival", "seconds")

    def __init__(self, run: Run, seconds: float = inf) -> None:
        self.seconds = seconds
        self.on_arrival: Callable[[], None] | None = None  # the driver's, while it drives
        self._run = run
        self.messages: list[tuple[Message, Receipt | None]] = []  # that the driver has not taken yet
        self._arrival: asyncio.Future[None] | None = None
        self._expected: dict[str, asyncio.Future[Answered]] = {}  # by tools that are running

    def __bool__(self) -> bool:
        return bool(self.messages)

    def check(self, message: Message) -> None:
        """Raises why a message cannot be taken."""
        if type(message) is Answered:
            if message.id in [one.id for one, _ in self.messages if type(one) is Answered]:
                raise AlreadyAnswered(f"question '{message.id}' is answered already")
            check_answer(self._run, message)
        elif self._run.ended is not None or not self._run.can_be_steered:
            raise BadRequest(f"run '{self._run.id}' is about to end: its model is not called again")

    def send(self, message: Message, receipt: Receipt | None = None) -> None:
        """From the loop that drives the run. Raises why a message cannot be taken."""
        self.check(message)
        self.messages.append((message, receipt))
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        if self.on_arrival is not None:
            asyncio.get_running_loop().call_soon(self._call_driver)

    def submit(self, message: Message) -> Receipt:
        """The same. The receipt is done once the message is recorded, though not yet kept, and raises why it never will be."""
        receipt: Receipt = asyncio.get_running_loop().create_future()
        self.send(message, receipt)
        return receipt

    def _call_driver(self) -> None:
        if self.messages and self.on_arrival is not None:
            self.on_arrival()

    def take(self) -> list[tuple[Message, Receipt | None]]:
        taken, self.messages = self.messages, []
        self._arrival = None
        return taken

    def close(self, problem: BaseException | None = None) -> None:
        """The run is not driven any more: what it has not taken is dropped."""
        for message, receipt in self.take():
            what = f"question '{message.id}'" if type(message) is Answered else "this"
            over = AlreadyAnswered(f"run '{self._run.id}' was over before {what} reached it")
            refuse(receipt, over if problem is None else problem)

    def arrival(self) -> asyncio.Future[None]:
        """Done when there is a message. Wait for it with `wait_for_first`: others wait for the same one."""
        if self._arrival is None:
            self._arrival = asyncio.get_running_loop().create_future()
            if self.messages:
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
            raise AlreadyAnswered(f"question '{answer.id}' is closed: it was answered, or no answer came in time")
        is_open = quote_names([one.id for one in run.questions]) or "none"
        raise NotFound(f"run '{run.id}' has no question '{answer.id}'; open: {is_open}", param="id")
    if answer.decision == "approve" and (problem := _problem_with(run, question, answer.arguments)) is not None:
        raise BadRequest(f"the arguments do not fit {_what(question)}: {problem}", param="arguments")


def with_defaults(schema: Mapping[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """An answer with what its question says of members that it leaves out."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return values
    defaults = {
        name: member["default"]
        for name, member in properties.items()
        if name not in values and isinstance(member, Mapping) and "default" in member
    }
    return {**values, **defaults}


def _what(question: Asked) -> str:
    return f"the tool '{question.tool}'" if question.kind == "approval" else "what was asked for"


def _problem_with(run: Run, question: Asked, arguments: str | None) -> str | None:
    if arguments is None and (question.kind == "approval" or question.schema == NULL):
        return None if question.kind == "approval" else "there are none"
    try:
        values = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return f"they are not JSON ({error})"
    if not isinstance(values, dict):
        return "they are no JSON object"
    if question.kind == "input":
        if question.schema == NULL:
            return None
        values = with_defaults(msgspec.json.decode(question.schema), values)
        return validator_for(bytes(question.schema)).explain(values)
    if question.child:  # whose tool it is; its schema came along
        return validator_for(bytes(question.schema)).explain(values)
    spec = run.tools[question.tool]
    bound = [name for name in spec.bound if name in values]
    if bound:
        return f"'{bound[0]}' is filled in from the inputs"
    return validator_for(bytes(spec.parameters)).explain(values)
