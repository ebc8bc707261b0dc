"""What a run asks people, and what they answer: recorded, as everything else is.

Nobody waits here. A question is put, and the run goes on with what is left to do; an answer is taken when it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from ronda.core.events import Answered, Asked, Steered
from ronda.core.parts import ToolCall

if TYPE_CHECKING:
    from ronda.drive.driver import Driver


def ask(driver: Driver, call: ToolCall) -> None:
    """May this call run?"""
    run, now = driver.run, driver.now()
    asked = Asked(run.next_question, call.id, "approval", call.name, call.arguments, at=now)
    driver.record(replace(asked, expires_at=_expiry(driver, now)))


def _expiry(driver: Driver, now: float) -> float:
    seconds = driver.run.plan.limits.approval_seconds
    return 0.0 if seconds is None else now + seconds


def receive(driver: Driver) -> None:
    """Take what people sent."""
    assert driver.inbox is not None
    for message in driver.inbox.take():
        match message:
            case Steered():
                driver.record(replace(message, at=driver.now()))
            case Answered():
                _answer(driver, message)
            case _:
                assert_never(message)


def _answer(driver: Driver, answer: Answered) -> None:
    """An answer whose question was closed after it had been sent comes to nothing. One that is to be remembered answers the
    open questions about the same tool too."""
    expire(driver)
    questions = {question.id: question for question in driver.run.questions}
    asked = questions.pop(answer.id, None)
    if asked is None:
        return
    driver.record(replace(answer, at=driver.now()))
    if answer.remember and asked.kind == "approval":
        for question in questions.values():
            if question.tool == asked.tool and question.kind == "approval":
                also = Answered(question.id, answer.decision, message=answer.message, by=answer.by, at=driver.now())
                driver.record(also)


def expire(driver: Driver) -> bool:
    """Close the questions whose time is up; False if there are none."""
    now = driver.now()
    late = [question.id for question in driver.run.questions if 0 < question.expires_at <= now]
    for id in late:
        driver.record(Answered(id, "expired", at=now))
    return bool(late)
