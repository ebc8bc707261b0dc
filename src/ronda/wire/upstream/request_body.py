"""The body of a model call, written so that the next round only adds to it.

What a round asks is what the last one asked and the new turns. The conversation comes first in the JSON, so that what varies
between rounds (tool_choice) can be written behind it: the tail. A dialect says how its turns and its tail are written; what
of them is written anew is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Generic, Protocol, TypeVar

from ronda.core.parts import Turn
from ronda.core.plan import Options
from ronda.wire.upstream.projection import Changes


class Conversation(Protocol):
    """Turns in a dialect's words."""

    def add(self, turn: Turn) -> None: ...


C = TypeVar("C", bound=Conversation)
T = TypeVar("T")


class RequestBody(Generic[C, T]):
    """What was written for a run so far. A cache: dropping it changes nothing."""

    __slots__ = ("_conversation", "_form", "_tail", "_tail_of", "_written", "changes")

    def __init__(self) -> None:
        self.changes = Changes()
        self._conversation: C
        self._form: object = None
        self._written: list[Turn] = []
        self._tail: T
        self._tail_of: tuple[object, ...] = ()

    def _follow(self, turns: Sequence[Turn], form: object, begin: Callable[[], C]) -> C:
        """The conversation with these turns, begun again where what was written is not how they begin.

        `form` is all else that the words of a turn depend on.
        """
        written, changes = self._written, self.changes
        # Every turn is looked at, not only the last: a history may be shortened in its middle.
        if form != self._form or len(written) > len(turns) or not all(map(is_, written, turns)):
            changes.forget()
            self._conversation = begin()
            self._form, self._tail_of, written = form, (), []
            self._written = written
        conversation = self._conversation
        for turn in turns[len(written) :]:
            changes.turn = len(written)
            conversation.add(turn)
            written.append(turn)
        return conversation

    def _behind(self, options: Options, api: str, tail_of: tuple[object, ...], write: Callable[[], T]) -> T:
        """What stands behind the conversation, written again where something that it depends on is another."""
        if tail_of != self._tail_of:
            self.changes.forget(of_request=True)
            self.changes.tell_of_options(options, api)
            self._tail = write()
            self._tail_of = tail_of
        return self._tail
