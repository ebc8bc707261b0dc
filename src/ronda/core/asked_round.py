"""Facts of a run → the model call of one of its rounds, as the driver worded it then.

The driver's own call is made of the run as it stood at `ModelStarted`; so the same facts, applied up to there, give the same
call. Nothing is kept for that besides the journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.events import Event, ModelStarted
from ronda.core.parts import Turn, user
from ronda.core.plan import NONE
from ronda.core.request import ModelRequest
from ronda.core.run import Run, rebuild
from ronda.core.transcript import repair


def request_at(run: Run, started: ModelStarted) -> ModelRequest:
    """The call that a run asks for which has just applied `started`."""
    plan = run.plan
    turns: list[Turn] = [*repair(run.shown)]  # a copy: the run goes on
    if run.shown is run.turns:
        turns = [*repair(run.start.turns), *run.generated]  # what came after the input is ours, and needs no repair
    if started.nudge is not None:
        turns = [*turns, user(started.nudge)]
    choice = NONE if started.last else plan.choice if started.owes else plan.choice.when_met
    if run.left_out:
        choice = choice.without(run.left_out)
    stream = plan.stream and "output" not in plan.guards
    request = ModelRequest(
        turns, run.shown_tools, choice, plan.options, stream, run.id, started.round, 1, {}, plan.limits.answer_bytes
    )
    request.left_out = run.left_out
    return request


def requests_of(facts: list[Event], rounds: Sequence[int]) -> dict[int, ModelRequest]:
    """The calls of these rounds, as far as they were made; of a round that was asked again the last."""
    found: dict[int, ModelRequest] = {}
    run = rebuild(facts[:1])
    for fact in facts[1:]:
        run.apply(fact)
        if type(fact) is ModelStarted and fact.round in rounds:
            found[fact.round] = request_at(run, fact)
    return found
