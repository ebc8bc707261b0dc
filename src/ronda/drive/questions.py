"""What a run asks people, and what they answer: recorded, as everything else is.

Nothing waits here for an approval: the question is asked, and the run does what is left to do. A tool that wants to know
something waits for it, and with the tool its run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ronda.core.events import Answered, Asked, Steered
from ronda.core.parts import NULL, ToolCall
from ronda.drive.contracts import NO_PERSON_TO_ASK, question_id
from ronda.drive.inbox import acknowledge, refuse, wait_for_first, with_defaults
from ronda.drive.tools import as_text, decode_arguments
from ronda.errors import AlreadyAnswered, BadRequest, ToolFailed
from ronda.schema.validate import check_schema

if TYPE_CHECKING:
    from ronda.drive.driver import Driver


def ask(driver: Driver, call: ToolCall) -> None:
    """May this call run?"""
    run, now = driver.run, driver.now()
    asked = Asked(question_id(run.id, run.questions_asked), call.id, "approval", call.name, call.arguments, at=now)
    cause: Literal["permission", "taint"] = "taint" if run.is_leaking(call) else "permission"
    driver.record(replace(asked, expires_at=_expiry(driver, now), cause=cause))


def _expiry(driver: Driver, now: float, limit: float = inf) -> float:
    seconds = driver.run.plan.limits.approval_seconds
    seconds = limit if seconds is None else min(seconds, limit)
    return 0.0 if seconds == inf else now + seconds


async def ask_person(
    driver: Driver, call_id: str, message: str, schema: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """What a person says to a tool that is running; None for a no."""
    inbox, run, now = driver.inbox, driver.run, driver.now()
    if inbox is None:
        raise ToolFailed(NO_PERSON_TO_ASK)
    if schema is not None and (problem := check_schema(dict(schema))) is not None:
        raise ValueError(f"the schema of the question is none: {problem}")
    tool = next(call.name for call in run.open_calls if call.id == call_id)
    wants = NULL if schema is None else Raw(msgspec.json.encode(schema))
    # A tool that is running cannot be left to another process: it waits for as long as this one does.
    asked_id, expires_at = question_id(run.id, run.questions_asked), _expiry(driver, now, inbox.seconds)
    answered = inbox.expect(asked_id)
    try:
        driver.record(
            Asked(
                asked_id, call_id, "input", tool, schema=wants, message=as_text(message), expires_at=expires_at, at=now
            )
        )
        await driver.keep()
        while not answered.done():
            seconds = max(0.0, expires_at - driver.now()) if expires_at else None
            news: list[asyncio.Future[Any]] = [answered, inbox.arrival()]
            await wait_for_first(news, seconds)
            if inbox:
                receive(driver)
            else:
                expire(driver)
    finally:
        inbox.expect_no_more(asked_id)
    driver.flush()
    answer = answered.result()
    if answer.decision != "approve" or (schema is None and not answer.arguments):
        return None
    values = decode_arguments(answer.arguments or "{}")
    return values if schema is None else with_defaults(schema, values)


def receive(driver: Driver) -> None:
    """Take what people sent."""
    assert driver.inbox is not None
    expire(driver)
    run = driver.run
    was_open = [question.id for question in run.questions]
    for message, receipt in driver.inbox.take():
        try:
            match message:
                case Steered():
                    if run.ended is not None:
                        raise AlreadyAnswered(f"run '{run.id}' was over before this reached it")
                    driver.record(replace(message, at=driver.now()))
                case Answered():
                    _answer(driver, message, was_open)
                case _:
                    assert_never(message)
        except BadRequest as error:
            refuse(receipt, error)
        except BaseException as error:
            refuse(receipt, error)
            raise
        acknowledge(receipt)


def _answer(driver: Driver, answer: Answered, was_open: list[str]) -> None:
    """An answer whose question was closed after it had been sent comes to nothing. One that came together with another, which is
    remembered and has decided this question too, is no mistake."""
    if any(question.id == answer.id for question in driver.run.questions):
        # Without lone surrogates, which no journal could write.
        message = None if answer.message is None else as_text(answer.message)
        _record(driver, replace(answer, message=message, at=driver.now()))
    elif answer.id not in was_open:
        raise AlreadyAnswered(f"question '{answer.id}' was closed before the answer reached run '{driver.run.id}'")


def expire(driver: Driver) -> bool:
    """Close the questions whose time is up; False if there are none."""
    now = driver.now()
    late = [question.id for question in driver.run.questions if 0 < question.expires_at <= now]
    for late_id in late:
        _record(driver, Answered(late_id, "expired", at=now))
    return bool(late)


def _record(driver: Driver, answer: Answered) -> None:
    driver.record(answer)
    if driver.inbox is not None:
        driver.inbox.tell(answer)
