"""Python and a shell, as a feature: `code_tools` has them, and the folders that sessions work in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ronda.drive import Tool
from ronda.server.features.code.code_tools import TIDY_SECONDS, OpenCode, code_opener
from ronda.server.features.code.settings import CodeSettings
from ronda.server.features.contract import Ask, Brought, Chore, Feature, Figure, Finding, Folders, Services
from ronda.server.services.session_folders import SessionFolders
from ronda.wire.shared.capabilities import Capability

if TYPE_CHECKING:
    from ronda.server.config import ServerConfig


_OFFERED: Final[dict[str, Capability]] = {"code": "python", "shell": "shell"}  # what --offer names


class Code(Feature):
    name = "code"

    @classmethod
    def check(cls, settings: ServerConfig) -> Iterable[Finding]:
        own = settings.part(CodeSettings)
        switches = {
            "code": ("--enable-code-execution", own.enable_code_execution),
            "shell": ("--enable-shell", own.enable_shell),
        }
        for name in own.offer:
            flag, is_on = switches[name]
            if not is_on:
                yield Finding(f"--offer {name} is of no use without {flag} (or --agent)")

    @classmethod
    def prepare(cls, settings: ServerConfig, folders: Folders) -> OpenCode:
        """Starts a process, and fails on a machine that cannot isolate code."""
        return code_opener(settings, folders.data)

    def __init__(self, settings: ServerConfig, services: Services) -> None:
        self._settings, self._sandbox = settings.part(CodeSettings), settings.sandbox
        open_code: OpenCode = services.given[self.name]
        self._code = open_code(services.files)
        offered = [self._code.capabilities[_OFFERED[name]] for name in dict.fromkeys(self._settings.offer)]
        self._offered = Brought(tuple([tool for tools in offered for tool in tools]), is_own=True) if offered else None
        self.is_steady = self._offered is None  # each run's tools know what its own request gave them

    def capabilities(self) -> Mapping[Capability, Sequence[Tool]]:
        return self._code.capabilities

    async def tools(self, ask: Ask) -> Brought | None:
        """What the operator offers to requests that do not ask. An agent that has all its tools itself gets no others."""
        return None if ask.exclusive or ask.choice.mode == "none" else self._offered

    def startup_lines(self) -> Sequence[str]:
        own = self._settings
        kinds = {"code": ("Python", own.enable_code_execution), "shell": ("a shell", own.enable_shell)}
        offered = " and ".join([name for key, (name, is_on) in kinds.items() if is_on and key in own.offer])
        asked = " and ".join([name for key, (name, is_on) in kinds.items() if is_on and key not in own.offer])
        always = f"every request is offered {offered}" if offered else ""
        code = ", and ".join(filter(None, (always, f"requests may ask for {asked}" if asked else "")))
        if self._sandbox.mode != "off":
            return [f"{code}; code runs in a sandbox ('ronda doctor' says how code is isolated here)"]
        return [
            code,
            "WARNING: CODE IS NOT ISOLATED (--sandbox off). What a model writes can read, change, delete and send all that this "
            "user can.",
        ]

    def provides(self) -> Mapping[type, object]:
        return {SessionFolders: self._code}

    def chores(self) -> Sequence[Chore]:
        return [Chore("the tidying of code sessions", TIDY_SECONDS, self._code.tidy)]

    def figures(self) -> Iterable[Figure]:
        counts = self._code.count_sandboxes()
        for state in ("busy", "idle", "spare"):
            words = "Sandboxes: at work, of sessions that are not, and those that wait for a session."
            yield Figure("ronda_sandboxes", counts[state], {"state": state}, help=words)

    async def stop(self) -> None:
        await self._code.close()
