"""What is to be said of a run that was not driven for a while: it was cut off, or the time of its questions ran out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import inf

from ronda.core.events import Answered, Event, Fact, ModelStarted, Preview, Recovered
from ronda.core.run import Run


def previews_of_round(events: Sequence[Event], previews: Mapping[int, Sequence[Preview]]) -> list[Preview]:
    """What was shown since the last model call began. Facts may have come in between: what people said meanwhile."""
    begun = next((index for index in range(len(events) - 1, 0, -1) if type(events[index]) is ModelStarted), 0)
    return [preview for index in range(begun, len(events)) for preview in previews.get(index, ())]


def recovery_facts(run: Run, shown: Sequence[Preview] = ()) -> list[Fact]:
    """What is to be said of a run that was cut off; of one that waits, nothing."""
    if run.is_waiting:
        return []
    facts: list[Fact] = [*run.recover(shown), Recovered(time.time())]
    run.apply(facts[-1])
    return facts


def expiry_facts(run: Run) -> list[Fact]:
    """Questions whose time ran out while the run was not driven: an answer comes too late for them."""
    now = time.time()
    late: list[Fact] = [Answered(one.id, "expired", at=now) for one in run.questions if 0 < one.expires_at <= now]
    for event in late:
        run.apply(event)
    return late


def seconds_left(run: Run) -> float:
    """Until the first of a run's questions closes by itself."""
    ends = [question.expires_at for question in run.questions if question.expires_at]
    return max(0.0, min(ends) - time.time()) if ends else inf
