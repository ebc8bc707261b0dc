"""What is added to runs from outside: something around each model call, and taps that get facts once they are journaled.

An extension hangs on the host of a server's runs, or is given to a run of the library. The children of a run have its
extensions, and so has a run that is opened again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from ronda.core.events import Event

if TYPE_CHECKING:
    from ronda.core.run import Run
    from ronda.drive import Provider, Tool

Tap: TypeAlias = Callable[[Sequence[Event]], object]

log = logging.getLogger("ronda.run")


class Extension(Protocol):
    """Asked once for each time that a run is driven: when it begins, and when it is taken up again."""

    def around(self, run: Run, provider: Provider) -> Provider:
        """What the run's model calls go through: `provider` itself, or something that calls it."""

    def tap(self, run: Run) -> Tap | None:
        """Who is told about the run's facts, batch by batch, in the task that drives it; None: nothing is."""


@runtime_checkable
class ToolExtension(Protocol):
    """An extension that is around the run's tool calls, too."""

    def around_tool(self, run: Run, tool: Tool) -> Tool:
        """What runs the calls of a tool: `tool` itself, or something that calls it and has its spec."""


class FactTaps:
    """The taps of one run. One that fails is logged, and told no more: the run does not depend on it."""

    __slots__ = ("_run", "_taps")

    def __init__(self, run: Run, extensions: Sequence[Extension]) -> None:
        self._run = run.id
        self._taps = [tap for extension in extensions if (tap := _tap_of(extension, run)) is not None]

    def __bool__(self) -> bool:
        return bool(self._taps)

    def tell(self, facts: Sequence[Event]) -> None:
        for tap in tuple(self._taps):
            try:
                tap(facts)
            except Exception as error:
                self._taps.remove(tap)
                log.error("what follows run %s failed, and is told no more of it", self._run, exc_info=error)


def _tap_of(extension: Extension, run: Run) -> Tap | None:
    try:
        return extension.tap(run)
    except Exception as error:
        log.error("run %s is not followed", run.id, exc_info=error)
        return None


def tell_facts(extensions: Sequence[Extension], run: Run, facts: Sequence[Event]) -> None:
    """Of a run that no task drives: facts that were journaled anyway, such as its end."""
    if extensions and facts:
        FactTaps(run, extensions).tell(facts)
