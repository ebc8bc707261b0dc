"""A run's facts and its model's provider → what was sent in one of its rounds, for people.

It is written by the code that wrote it then: nothing of it is kept. `ronda explain` and `GET /v1/runs/{id}/rounds/{n}/request`
show the same, and so does `POST /v1/render` for a request that has not been sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from ronda.core.actions import CallModel
from ronda.core.asked_round import request_at, requests_of
from ronda.core.events import Event, ModelFinished, ModelStarted, RunStarted
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Provider, capabilities_of
from ronda.errors import NotFound
from ronda.wire.codec.json import encode as write_json
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_request import Body
from ronda.wire.upstream.projection import Projection
from ronda.wire.upstream.sent import write_sent

_NOTHING: Final = b"null"  # of a provider that writes no JSON


def rounds_of(events: list[Event]) -> list[int]:
    """Those in which the model was asked."""
    return sorted({event.round for event in events if type(event) is ModelStarted})


class AskedModel(Struct, frozen=True):
    """A model of a run as it can be opened now. `is_same`: it is the one that was asked; else its address is not known."""

    provider: Provider | None
    is_same: bool = True


def models_of(events: list[Event], number: int) -> list[str]:
    """Those that were asked in a round and in the one before: the run's, unless another one answered in its place."""
    return list({_model_of(events, one): None for one in (number - 1, number)})


def describe_round(
    events: list[Event], number: int, models: Mapping[str, AskedModel], *, placeholders: Sequence[str] = ()
) -> dict[str, Any]:
    """`models`: each of `models_of`. `placeholders`: what stands where words were taken out before the run was kept. Raises
    NotFound."""
    start = events[0]
    assert type(start) is RunStarted
    found = requests_of(events, (number - 1, number))
    if (request := found.get(number)) is None:
        raise NotFound(
            f"the run '{start.run[:100]}' has asked its model in {len(rounds_of(events))} rounds; there is no round {number}",
            param="round",
            code="round_not_found",
        )
    model, before = _model_of(events, number), found.get(number - 1)
    asked = models[model]
    made, is_written = _project(model, asked.provider, request)
    earlier = None
    if before is not None:
        other = _model_of(events, number - 1)
        earlier = _project(other, models[other].provider, before)[0]
    has_address = is_written and asked.is_same
    is_whole = not any(write_json(one)[1:-1] in made.body for one in placeholders)
    finished = _finish_of(events, number)
    return {
        "object": "round.request",
        "run": start.run,
        "round": number,
        "model": model,
        **write_sent(made, earlier, is_exact=has_address and is_whole, has_address=has_address),
        # What the provider said that it had read before; None while the round has not ended.
        "cached_tokens": None if finished is None else finished.usage.cached,
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
    model = start.plan.model
    made, is_written = _project(model, provider, request_at(run, started))
    return {"object": "render", "model": model, **write_sent(made, None, is_exact=is_written, has_address=is_written)}


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


def _model_of(events: list[Event], number: int) -> str:
    start, finished = events[0], _finish_of(events, number)
    assert type(start) is RunStarted
    return start.plan.model if finished is None or not finished.model else finished.model


def _finish_of(events: list[Event], number: int) -> ModelFinished | None:
    current, found = -1, None
    for event in events:
        if type(event) is ModelStarted:
            current = event.round
        elif type(event) is ModelFinished and current == number:
            found = event
    return found
