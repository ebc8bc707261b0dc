"""A tool that is running asks the run's own model something: one call, within what the run has left.

What it used is counted with the tool's result. It changes nothing else of the run, and it is not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ronda.core.events import ModelFinished
from ronda.core.parts import NO_USAGE
from ronda.core.plan import AUTO, Options
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest, ToolFailed, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ronda.core.parts import Turn
    from ronda.drive.driver import Driver

MOST_TIMES: Final = 20  # in one call of a tool


async def ask_model(driver: Driver, call_id: str, turns: Sequence[Turn], options: Options) -> ModelFinished:
    """Raises ToolFailed."""
    times, used = driver.sampled.get(call_id, (0, NO_USAGE))
    if times >= MOST_TIMES:
        raise ToolFailed(f"the model was asked {MOST_TIMES} times during this call, which is the most")
    limit = driver.run.plan.limits.tokens
    if limit is not None:
        under_way = sum([usage.total for _, usage in driver.sampled.values()])
        left = limit - driver.run.usage.total - under_way
        if left <= 0:
            raise ToolFailed("the run has no tokens left")
        options = replace(options, max_tokens=left if options.max_tokens is None else min(left, options.max_tokens))
    driver.sampled[call_id] = (times + 1, used)
    maximum = driver.run.plan.limits.answer_bytes
    request = ModelRequest(turns, (), AUTO, options, False, driver.run.id, driver.run.round, 1, {}, maximum)
    try:
        finished = await driver.provider.call(request, _drop_previews)
    except (UpstreamError, BadRequest) as error:
        raise ToolFailed(f"the model gave no answer: {error}") from error
    times, used = driver.sampled[call_id]
    driver.sampled[call_id] = (times, used + finished.usage)
    return finished


def _drop_previews(previews: object) -> None:
    return
