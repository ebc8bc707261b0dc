"""Python and a shell, as a feature: `code_tools` has them, and the folders that sessions work in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ronda.drive import Tool
from ronda.server.features.code.code_tools import TIDY_SECONDS, CodeTools
from ronda.server.features.contract import Ask, Brought, Chore, Feature, Services
from ronda.server.services.session_folders import SessionFolders
from ronda.wire.capabilities import Capability

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


_OFFERED: Final[dict[str, Capability]] = {"code": "python", "shell": "shell"}  # what --offer names


class Code(Feature):
    """Made where somebody has opened the sandbox before: that takes a while, and fails on a machine that cannot isolate code."""

    name = "code"

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._code: CodeTools = services.given["open_code"](services.files)
        offered = [self._code.capabilities[_OFFERED[name]] for name in dict.fromkeys(settings.offer)]
        self._offered = Brought(tuple([tool for tools in offered for tool in tools]), is_own=True) if offered else None
        self.is_steady = self._offered is None  # each run's tools know what its own request gave them

    def capabilities(self) -> Mapping[Capability, Sequence[Tool]]:
        return self._code.capabilities

    async def tools(self, ask: Ask) -> Brought | None:
        """What the operator offers to requests that do not ask. An agent that has all its tools itself gets no others."""
        return None if ask.exclusive or ask.choice.mode == "none" else self._offered

    def provides(self) -> Mapping[type, object]:
        return {SessionFolders: self._code}

    def chores(self) -> Sequence[Chore]:
        return [Chore("the tidying of code sessions", TIDY_SECONDS, self._code.tidy)]

    async def stop(self) -> None:
        await self._code.close()
