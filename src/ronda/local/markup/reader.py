"""What a model writes → previews while it is written, and one turn at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ronda.core.events import Preview
from ronda.core.parts import AssistantTurn, Stop
from ronda.core.plan import ToolSpec
from ronda.local.markup.channels import ATEM_DIALECT, HARMONY_DIALECT, Channels
from ronda.local.markup.family import Family
from ronda.local.markup.output import Out
from ronda.local.markup.plain import Plain


class _Machine(Protocol):
    def feed(self, text: str, out: Out) -> None: ...

    def end(self, out: Out) -> None: ...


class MarkupReader:
    """Reads one answer, in one piece or in many: the turn is the same, and it is the fold of the previews.

    `tool_names` are the tools the model was told about. Calls between markers are calls whatever they name, so that the loop
    can say there is no such tool; an object without a marker is only taken for one if there are tools at all. `tools`
    lets a family without quotes (Qwen3-Coder) tell texts from numbers. `thinking_open`: the prompt began a thought.

    Call ids are blank: these models have none.
    """

    def __init__(
        self,
        family: Family,
        tool_names: frozenset[str] = frozenset(),
        *,
        tools: Sequence[ToolSpec] = (),
        thinking_open: bool = False,
    ) -> None:
        self._out = Out()
        names = tool_names | {tool.name for tool in tools}
        self._machine: _Machine
        if family.name == "harmony":
            self._machine = Channels(HARMONY_DIALECT, thinking_open=thinking_open)
        elif family.name == "atem":
            inner = partial(Plain, family, names, tools, thinking_open=False)
            self._machine = Channels(ATEM_DIALECT, thinking_open=thinking_open, inner=inner)
        else:
            self._machine = Plain(family, names, tools, thinking_open=thinking_open)
        self._ended = False

    def feed(self, text: str) -> list[Preview]:
        self._machine.feed(text, self._out)
        return self._out.take()

    def end(self) -> list[Preview]:
        """There is no more text. Shows what was held back because it might have become a marker."""
        if not self._ended:
            self._ended = True
            self._machine.end(self._out)
        return self._out.take()

    def finish(self, stop: Stop) -> AssistantTurn:
        """The whole turn. Half a call makes it one that was cut by length, whatever the engine says."""
        self.end()
        return self._out.turn(stop)
