"""What the rest of a server asks of the feature that has runs build pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ronda.core.events import Event
from ronda.server.answering.opening import Job
from ronda.server.http.incoming import Incoming
from ronda.server.services.models import Target
from ronda.wire.shared.door_request import DoorRequest


class PageRuns(Protocol):
    async def files_of(self, events: Sequence[Event]) -> dict[str, str] | None:
        """The files of a run's page, as its finished calls have left them; None for a run that builds none."""

    async def jobs(
        self,
        incoming: Incoming,
        request: DoorRequest,
        files: dict[str, str],
        names: Sequence[str],
        targets: Sequence[Target],
    ) -> list[Job]:
        """One for each name, which go on from these files; `targets` take turns. Without any, the feature chooses."""
