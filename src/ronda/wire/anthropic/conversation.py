"""Turns → messages. Roles alternate: what turns of the same side say stands in one message, tool results first since they
follow their calls at once. What the system says at the start, or anywhere if the model has no place for it among the
messages, is `system`.
"""

from __future__ import annotations

from typing import Final

from ronda.core.parts import AssistantTurn, SystemTurn, ToolTurn, Turn, UserTurn
from ronda.wire.anthropic.models import facts
from ronda.wire.anthropic.names import Ids, Names
from ronda.wire.anthropic.options import MessageFacts
from ronda.wire.anthropic.turns import (
    CALLERS,
    Home,
    as_beginning,
    begins_with_thought,
    is_ours,
    own_message,
    system_blocks,
    write_assistant,
    write_results,
    write_system,
    write_user,
)
from ronda.wire.codec.json import encode
from ronda.wire.upstream.projection import Changes


def _says(text: str) -> bytes:
    return encode({"role": "user", "content": [{"type": "text", "text": text}]})


# There must be a message, and where a model cannot go on from an assistant's words the last must be the user's.
_BEGIN: Final = _says("Begin.")
_GO_ON: Final = _says("Continue.")
NO_HOME: Final = Home()
SEAL_REFUSED: Final = (
    "the server that was asked does not know its signature; another one, or another account's key, had made it"
)


class Conversation:
    """Bytes that only grow: the last message stays open. `advised`: a tool of the request is an advisor."""

    def __init__(
        self, model: str, version: str, names: Names, advised: bool, changes: Changes, home: Home = NO_HOME
    ) -> None:
        self._home = home
        self._index = 0  # of the turn that is being written
        self._inline_system = facts(model).inline_system
        self._version = version
        self._names = names
        self._advised = advised
        self._changes = changes
        self._ids = Ids(changes)
        self._role = ""  # whose message is open
        self._last_assistant: AssistantTurn | None = None
        self._last_at = 0  # where its blocks begin
        self._system: list[str | bytes] = []
        self._late: list[str | bytes] = []  # what the system says behind this user message
        self._called: dict[str, None] = {}
        self._has_results = False  # in the last user message
        self._loop_has_thought = True  # the assistant had thought before it made the first call of this loop
        self._container: str | None = None  # where the calls that results go back to were made
        self.buffer = bytearray()

    def facts(self, has_tools: bool, container: str | None) -> MessageFacts:
        """What the messages mean for the rest of the request; `container` is where a turn that paused went on."""
        in_loop = self._role == "user" and self._has_results
        return MessageFacts(
            tuple(self._system),
            tuple(self._called) if not has_tools else (),
            thoughtless_loop=in_loop and not self._loop_has_thought,
            container=container or (self._container if in_loop else None),
        )

    def add(self, turn: Turn) -> None:
        match turn:
            case AssistantTurn():
                self._add_assistant(turn)
            case ToolTurn():
                if turn.results:
                    self._open("user")
                    self.buffer += write_results(turn, self._ids, self._changes)
                    self._has_results = True
            case UserTurn():
                if content := write_user(turn, self._version, self._changes):
                    self._open("user")
                    self.buffer += content
            case SystemTurn():
                if words := write_system(turn):
                    is_inline = bool(self._role) and self._inline_system
                    if self._role and not is_inline:
                        why = "this model takes such words in one place only"
                        self._changes.tell("role_changed", "the instruction moves to the beginning", why)
                    (self._late if is_inline else self._system).append(words)
        self._index += 1

    def _add_assistant(self, turn: AssistantTurn) -> None:
        native = self._home.own(turn, self._index)
        if self._home.refuses(turn, self._index):
            self._changes.tell("seal_refused", "what the model had signed is left out", SEAL_REFUSED)
        if content := write_assistant(
            turn, native, self._names, self._ids, self._version, self._changes, self._advised
        ):
            self._open("assistant", begins_with_thought(native))
            self._last_assistant, self._last_at = turn, len(self.buffer)
            self.buffer += content
        for call in turn.calls:
            self._called[self._names.wire(call.name)] = None
        self._container = own_message(native).container if native is not None else None

    def _open(self, role: str, has_thought: bool = False) -> None:
        buffer = self.buffer
        if role == self._role:
            buffer += b","
            return
        if role == "assistant" and not self._has_results:
            self._loop_has_thought = has_thought
        if role == "user":
            self._has_results = False
        if self._role:
            buffer += b"]}"
            if self._role == "user":
                buffer += self._late_message()
                self._late = []
            buffer += b","
        buffer += b'{"role":"%b","content":[' % role.encode()
        self._role = role

    def _late_message(self) -> bytes:
        return b',{"role":"system","content":%b}' % bytes(system_blocks(self._late)) if self._late else b""

    def end(self, prefill: bool, paused: bytes) -> tuple[int, bytes]:
        """How much of what is written stands, and what closes it. `prefill`: the model goes on from an assistant's words."""
        size = len(self.buffer)
        if self._role != "assistant":
            if not self._role:
                self._changes.tell("message_added", "the user says 'Begin.'", "there must be a message")
            close = (b"]}" if self._role else _BEGIN) + self._late_message()
            return size, close + (b',{"role":"assistant","content":[%b]}' % paused if paused else b"")
        if paused:
            return size, b",%b]}" % paused
        last = self._last_assistant
        if prefill and not self._late and last is not None and not last.calls:
            # A caller may put words into the model's mouth; what a model said itself is no such beginning.
            is_callers = last.native is None or not is_ours(last.native) or last.native.api == CALLERS
            if is_callers and (beginning := as_beginning(bytes(self.buffer[self._last_at :]))) is not None:
                return self._last_at, beginning + b"]}"
        self._changes.tell("message_added", "the user says 'Continue.'", "this model cannot go on from its own words")
        return size, b"]}," + _GO_ON + self._late_message()
