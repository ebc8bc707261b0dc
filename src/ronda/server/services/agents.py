"""What answers for an agent that a client made; and what the rest of a server asks of the folder of agents' files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ronda.server.services.models import Target
from ronda.wire.mistral.agents import AgentBody

if TYPE_CHECKING:
    from ronda.prompty.model import Prompty


class ServedAgent(Target, frozen=True, kw_only=True):
    """A model, with what its owner has written down for it."""

    id: str
    version: int
    agent: AgentBody


class AgentFolder(Protocol):
    def names(self) -> Iterable[str]: ...

    def prompty(self, name: str) -> Prompty | None:
        """The file as it is on disk now, if it can be used."""

    def has(self, name: str) -> bool: ...

    def environment(self, path: Path) -> dict[str, str] | None:
        """The variables that a file sees; None: those of the process."""
