"""A run's facts and its model's provider → what was sent in one of its rounds, for people.

It is written by the code that wrote it then: nothing of it is kept. `ronda explain` and `GET /v1/runs/{id}/rounds/{n}/request`
show the same, and so does `POST /v1/render` for a request that has not been sent.
"""

from __future__ import annotations

from typing import Any, Final

from ronda.core.actions import CallModel
from ronda.core.asked_round import request_at, requests_of
from ronda.core.events import Event, ModelFinished, ModelStarted, RunStarted
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Provider, capabilities_of
from ronda.errors import NotFound
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_request import Body
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.sent import write_sent

_NOTHING: Final = b"null"  # of a provider that writes no JSON


def rounds_of(events: list[Event]) -> list[int]:
    """Those in which the model was asked."""
    return sorted({event.round for event in events if type(event) is ModelStarted})


def describe_round(
    events: list[Event], number: int, provider: Provider | None, *, is_same: bool = True
) -> dict[str, Any]:
    """`is_same`: the provider is the one that the run had; else its address is not known. Raises NotFound."""
    start = events[0]
    assert type(start) is RunStarted
    found = requests_of(events, (number - 1, number))
    if (request := found.get(number)) is None:
        raise NotFound(
            f"the run '{start.run[:100]}' has asked its model in {len(rounds_of(events))} rounds; there is no round {number}",
            param="round",
            code="round_not_found",
        )
    before = found.get(number - 1)
    described = _describe(start.plan.model, provider, request, before, is_same=is_same)
    return {
        "object": "round.request",
        "run": start.run,
        "round": number,
        **described,
        "cached_tokens": _cached_tokens(events, number),
    }


def describe_first(start: RunStarted, provider: Provider) -> dict[str, Any]:
    """What would be sent first in a run that begins so."""
    run = Run(start)
    started = ModelStarted(
        0
    )  # where a guardrail looks first, or the conversation is too long: as if they changed nothing
    for action in run.todo():
        if type(action) is CallModel:
            started = ModelStarted(action.round, action.last, action.nudge, owes=action.owes)
    return {"object": "render", **_describe(start.plan.model, provider, request_at(run, started), None, is_same=True)}


def _describe(
    model: str, provider: Provider | None, request: ModelRequest, before: ModelRequest | None, *, is_same: bool
) -> dict[str, Any]:
    made, is_written = _project(model, provider, request)
    earlier = None if before is None else _project(model, provider, before)[0]
    return {"model": model, **write_sent(made, earlier, is_exact=is_written and is_same)}


def _project(model: str, provider: Provider | None, request: ModelRequest) -> tuple[Projection, bool]:
    """What the provider writes; of one that writes nothing (an engine in this process, or one that
    cannot be opened here), the same as Chat Completions has it."""
    if provider is not None and (project := capabilities_of(provider).project) is not None:
        made = project(request)
        if made.body != _NOTHING:
            return made, True
    body = Body()
    data = body.write(model.partition(":")[2] or model, request)
    return Projection(data, tuple(body.changes.found), CHAT), False


def _cached_tokens(events: list[Event], number: int) -> int | None:
    """What the provider said that it had read before; None while the round has not ended."""
    current, found = -1, None
    for event in events:
        if type(event) is ModelStarted:
            current = event.round
        elif type(event) is ModelFinished and current == number:
            found = event.usage.cached
    return found
