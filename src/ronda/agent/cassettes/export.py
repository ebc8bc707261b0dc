"""A run that a journal has → a cassette. What it says of models, tools and people is all that is needed to play it.

What models were sent, no journal keeps: it follows from the rest. So the run is played once, and what it sends is written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import TypeAlias, assert_never, cast

from msgspec.structs import replace

from ronda.agent.cassettes.cassette import BadCassette, Cassette, CassetteWriter, Exchange, Failed
from ronda.agent.cassettes.differences import Difference
from ronda.agent.cassettes.replay import replay
from ronda.core.events import (
    CallDelta,
    Event,
    Fact,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelRetried,
    ModelStarted,
    Preview,
    ReasoningDelta,
    RefusalDelta,
    RunStarted,
    TextDelta,
    Warned,
)
from ronda.core.parts import AssistantTurn, Reasoning, Refusal, Text, ToolCall

_Outcome: TypeAlias = ModelFinished | ModelRetried | ModelFailed | ModelInterrupted


async def export_run(events: Sequence[Event], previews: Mapping[int, Sequence[Preview]]) -> bytes:
    """The cassette of a run, from its events and what is kept of its previews."""
    start = events[0]
    assert type(start) is RunStarted
    facts = cast("list[Fact]", list(events[1:]))  # a journal keeps nothing else
    cassette = Cassette(start, list(_exchanges(events, previews)), facts)
    try:
        await replay(cassette)
    except Difference as error:
        raise BadCassette(f"run '{start.run}' cannot be played from its journal: {error}") from error
    file = BytesIO()
    writer, exchanges = CassetteWriter(file, start), iter(cassette.exchanges)
    for fact in cassette.facts:
        writer.record_facts([fact])
        if isinstance(fact, ModelStarted | ModelRetried) and (exchange := next(exchanges, None)) is not None:
            _write(writer, exchange)
    return file.getvalue()


def _write(writer: CassetteWriter, exchange: Exchange) -> None:
    writer.request(exchange.round, exchange.attempt, exchange.turns or (), exchange.choice)
    for shown in exchange.shown:
        writer.show(shown)
    if exchange.outcome is not None:
        writer.answer(exchange.outcome)


def _exchanges(events: Sequence[Event], previews: Mapping[int, Sequence[Preview]]) -> Iterable[Exchange]:
    current: Exchange | None = None
    for number, event in enumerate(events):
        if isinstance(event, ModelStarted):
            current = Exchange(event.round, 1)
        elif current is not None and isinstance(event, _Outcome):
            current.outcome = _outcome(event, events[number + 1 :])
            if isinstance(event, ModelInterrupted) and event.cause == "upstream" and not current.shown:
                current.shown = [tuple(_pieces(event.turn))]
            yield current
            current = Exchange(current.round, event.attempt) if isinstance(event, ModelRetried) else None
        if current is not None and (shown := previews.get(number)):
            current.shown = [*current.shown, tuple(shown)]
    if current is not None:
        yield current


def _outcome(event: _Outcome, following: Iterable[Event]) -> ModelFinished | Failed | None:
    match event:
        case ModelFinished():
            return replace(event, warnings=_warnings(following), at=0.0, first_at=0.0)
        case ModelRetried(reason=reason, wait=wait):
            return Failed(reason, retryable=True, retry_after=wait)
        case ModelFailed(reason=reason):
            return Failed(reason, event.status, too_long=event.too_long)
        case ModelInterrupted(reason=reason, cause=cause):
            return Failed(reason, retryable=True) if cause == "upstream" else None
        case _:
            assert_never(event)


def _warnings(events: Iterable[Event]) -> tuple[str, ...]:
    """What was warned of right then: by the provider, or of what it said."""
    warnings: list[str] = []
    for event in events:
        if type(event) is not Warned:
            break
        warnings.append(event.message)
    return tuple(warnings)


def _pieces(turn: AssistantTurn) -> Iterable[Preview]:
    """What must have been shown of a turn that broke off."""
    calls = 0
    for part in turn.parts:
        match part:
            case Text(text=text):
                yield TextDelta(text)
            case Reasoning(text=text):
                yield ReasoningDelta(text)
            case Refusal(text=text):
                yield RefusalDelta(text)
            case ToolCall():
                yield CallDelta(calls, part.id, part.name, part.arguments)
                calls += 1
            case _:
                assert_never(part)
