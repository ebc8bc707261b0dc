"""What a plan asks for besides models and tools: guardrails are asked, conversations summed up.

What they say becomes events. A guardrail that is not there, fails, or says something unreadable has said no; a summary
that fails is replaced by an excerpt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ronda.core.actions import Action, Check, Compact
from ronda.core.events import Checked, CheckStage, Compacted, TextDelta, Warned
from ronda.core.guardrails import GuardrailResult, refusal, verdict
from ronda.core.parts import AssistantTurn
from ronda.drive.tools import as_text, decode_arguments, error_text, is_being_cancelled
from ronda.wire.shared.conversation import read_turns

SUMMED_UP: Final = "is longer than context_budget"

if TYPE_CHECKING:
    from ronda.drive.driver import Driver


async def check(driver: Driver, actions: list[Action]) -> None:
    """Let a guardrail look. The calls of one turn are looked at side by side, if they are to run so."""
    run = driver.run
    checks = [action for action in actions if type(action) is Check]
    match checks[0]:
        case Check(stage="tool"):
            seen = [(check.call, decode_arguments(check.call.arguments)) for check in checks if check.call]
            asked = [_ask(driver, "tool", call.name, arguments, call_id=call.id) for call, arguments in seen]
            for checked in [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked):
                driver.record(checked)
        case Check(stage="input"):
            checked = await _ask(driver, "input", tuple(driver.turns_shown()))
            driver.record(checked)
            if checked.rewrite is not None:
                driver.scratch.clear()
        case _:
            answer = next(turn for turn in reversed(run.turns) if type(turn) is AssistantTurn)
            checked = await _ask(driver, "output", answer)
            driver.record(checked)
            text = checked.rewrite if isinstance(checked.rewrite, str) else answer.text
            if checked.allowed and text and run.plan.stream:
                driver.flush()
                driver.emit([TextDelta(text)])


async def _ask(driver: Driver, stage: CheckStage, *seen: Any, call_id: str | None = None) -> Checked:
    guard = getattr(driver.guardrails, stage, None)
    if guard is None:
        return refusal(f"the {stage} guardrail this run began with is not here", stage, call_id, driver.now())
    try:
        answer = guard(*seen)
        if isinstance(answer, Awaitable):
            answer = await answer
        if stage == "input":
            answer = _with_turns(answer)
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        return refusal("the guardrail was cancelled", stage, call_id, driver.now())
    except Exception as error:  # fails closed: a guardrail that cannot judge has not allowed anything
        return refusal(f"the guardrail failed: {error_text(error)}", stage, call_id, driver.now())
    return verdict(answer, stage, call_id, driver.now())


def _with_turns(answer: object) -> object:
    """An input guardrail may write the turns to show as messages, as every caller who gives turns may."""
    if isinstance(answer, GuardrailResult) and isinstance(answer.rewrite, list | tuple) and answer.rewrite:
        return replace(answer, rewrite=read_turns(answer.rewrite, "rewrite"))
    return answer


async def compact(driver: Driver, action: Compact) -> None:
    from ronda.core.summary import excerpt, room_for  # few conversations get too long

    run = driver.run
    gone = run.dropped(action.upto, action.kept)
    room = room_for(run.plan.context_budget or 0)
    summary = ""
    failure: str | None = None
    if driver.summarize is not None:
        try:
            answer = driver.summarize(gone)
            if isinstance(answer, Awaitable):
                answer = await answer
            if not isinstance(answer, str) or not answer.strip():
                raise ValueError("the summary has no text")
            summary = as_text(answer).strip()[:room]
        except Exception as error:  # the run continues with less than it could have had
            failure = error_text(error)
    # Without a budget it was the model that found it too long, and an excerpt would only take room again.
    is_too_long = run.plan.context_budget is None
    if not summary and not is_too_long:
        summary = excerpt(gone, room)
    driver.record(Compacted(action.upto, summary, action.kept, failure, driver.now()))
    what = "1 turn was" if len(gone) == 1 else f"{len(gone)} turns were"
    if is_too_long:
        driver.record(Warned(f"the conversation is too long for the model: {what} left out", driver.now()))
    elif SUMMED_UP not in driver.warned:
        driver.warned.add(SUMMED_UP)  # once for a run: a long one is cut again and again
        driver.record(Warned(f"the conversation {SUMMED_UP}: {what} summed up for the model", driver.now()))
    if failure is not None:
        driver.record(Warned(f"the conversation could not be summed up ({failure}); an excerpt was made", driver.now()))
    driver.scratch.clear()
