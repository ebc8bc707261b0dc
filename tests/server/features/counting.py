"""A feature that counts what it is asked and told, for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from ronda.core.events import Event, ModelFinished
from ronda.core.request import ModelRequest
from ronda.core.run import Run
from ronda.drive import Capabilities, Provider, Show, capabilities_of
from ronda.host.extension import Tap
from ronda.server.features.contract import Feature, Refused
from ronda.server.http.incoming import Header, Incoming
from ronda.server.http.routing import Route


class Counted(Provider):
    def __init__(self, provider: Provider, count: Counter[str]) -> None:
        self._provider = provider
        self._count = count
        self.capabilities: Capabilities = capabilities_of(provider)

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self._count[request.run] += 1
        return await self._provider.call(request, show)


class Meter:
    """An extension of runs: counts model calls, and keeps the kinds of facts, by run."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.facts: dict[str, list[str]] = {}

    def around(self, run: Run, provider: Provider) -> Provider:
        return Counted(provider, self.calls)

    def tap(self, run: Run) -> Tap | None:
        kinds = self.facts.setdefault(run.id, [])

        def take(batch: Sequence[Event]) -> None:
            kinds.extend([type(event).__name__ for event in batch])

        return take


class Counting(Feature):
    """Each test makes a class of its own: `class Mine(Counting): meter = Meter()`."""

    name = "counting"
    meter: ClassVar[Meter]

    def around(self, run: Run, provider: Provider) -> Provider:
        return self.meter.around(run, provider)

    def tap(self, run: Run) -> Tap | None:
        return self.meter.tap(run)


def counting() -> type[Counting]:
    return type("Mine", (Counting,), {"meter": Meter()})


class Doorkeeper(Feature):
    """Lets in as many as it is told to."""

    name = "doorkeeper"
    places: ClassVar[int] = 1000
    let_in: ClassVar[list[tuple[str, str]]]
    told: ClassVar[list[tuple[str, int]]]

    async def admit(self, request: Incoming, route: Route) -> Sequence[Header]:
        if len(self.let_in) >= self.places:
            raise Refused("too many have asked", code="rate_limit_exceeded", headers=[(b"retry-after", b"7")])
        self.let_in.append((route.path, request.owner))
        return [(b"x-places-left", b"%d" % (self.places - len(self.let_in)))]

    def answer_sent(self, request: Incoming, route: Route, status: int, seconds: float) -> None:
        self.told.append((route.path, status))


def doorkeeper(places: int = 1000) -> type[Doorkeeper]:
    return type("Mine", (Doorkeeper,), {"places": places, "let_in": [], "told": []})
