"""Anthropic's Messages as its client: turns → request bytes, answer bytes → previews and one finished turn.

Pure: no socket, no clock. `Body` keeps the bytes of a conversation it has already written, so the cost of a round does not
grow with the conversation. Reading is in `answer` and `stream`, single turns in `turns`, all else of a request in `options`.

Roles alternate: what turns of the same side say stands in one message, tool results first since they follow their calls at
once. What the system says at the start, or anywhere if the model has no place for it among the messages, is `system`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from ronda.core.parts import AssistantTurn, SystemTurn, ToolTurn, Turn, UserTurn
from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.anthropic import API, VERSION
from ronda.wire.anthropic.answer import Answer, joined, read_answer, read_plain, under_own_names
from ronda.wire.anthropic.errors import is_about_grammar
from ronda.wire.anthropic.models import facts
from ronda.wire.anthropic.names import NO_NAMES, Ids, Names, names_of
from ronda.wire.anthropic.options import Said, Tail, betas, form_of, write_tail
from ronda.wire.anthropic.stream import Reader
from ronda.wire.anthropic.turns import (
    begins_with_thought,
    is_ours,
    kept,
    system_blocks,
    write_assistant,
    write_beginning,
    write_results,
    write_system,
    write_user,
)
from ronda.wire.json import encode
from ronda.wire.projection import Changes

__all__ = [
    "Answer",
    "Body",
    "Reader",
    "betas",
    "body_of",
    "form_of",
    "is_about_grammar",
    "joined",
    "read_answer",
    "read_plain",
    "under_own_names",
    "write_request",
]

_START = b'{"messages":['


def _says(text: str) -> bytes:
    return encode({"role": "user", "content": [{"type": "text", "text": text}]})


# There must be a message, and where a model cannot go on from an assistant's words the last must be the user's.
_BEGIN = _says("Begin.")
_GO_ON = _says("Continue.")


class Body:
    """The request of the next round is the last one plus the new turns. A cache: dropping it changes nothing.

    Messages come first in the JSON, so that what varies between rounds can be written behind them.
    """

    __slots__ = (
        "_advised",
        "_buffer",
        "_called",
        "_container",
        "_has_results",
        "_ids",
        "_last_at",
        "_last_said",
        "_late",
        "_loop_has_thought",
        "_model",
        "_role",
        "_system",
        "_tail",
        "_tail_of",
        "_tools",
        "_version",
        "_written",
        "changes",
        "grammars",
        "names",
    )

    def __init__(self) -> None:
        self.names: Names = NO_NAMES
        self.changes = Changes()
        self.grammars = True  # ask for decoding under strict schemas, until the API says that they are too much for it
        self._advised = False
        self._model = ""
        self._version = VERSION
        self._tools: tuple[ToolSpec, ...] = ()
        self._tail: Tail
        self._tail_of: tuple[object, ...] = ()
        self._begin()

    def _begin(self) -> None:
        self.changes.forget()
        self._buffer = bytearray(_START)
        self._written: list[Turn] = []
        self._ids = Ids(self.changes)
        self._role = ""  # whose message is open
        self._last_said: AssistantTurn | None = None
        self._last_at = 0  # where its blocks begin
        self._system: list[str | bytes] = []
        self._late: list[str | bytes] = []  # what the system says behind this user message
        self._called: dict[str, None] = {}
        self._has_results = False  # in the last user message
        self._loop_has_thought = True  # the assistant had thought before it made the first call of this loop
        self._container: str | None = None  # where the calls that results go back to were made

    def write(self, model: str, request: ModelRequest, version: str = VERSION, paused: Sequence[Answer] = ()) -> bytes:
        """`paused` are the pieces so far of a turn that is not over: they go back unchanged for the model to go on."""
        self._follow(model, request, version)
        tail = self._write_tail(model, request, version, paused[-1].container if paused else None)
        said = b",".join([blocks for answer in paused if (blocks := bytes(answer.content).strip()[1:-1])])
        size, end = self._end(tail, said)
        for change in tail.changes:
            self.changes.tell(*change)
        self.changes.tell_of_options(request.options, API)
        return b"".join((memoryview(self._buffer)[:size], end, tail.body))  # one copy of the conversation

    def _follow(self, model: str, request: ModelRequest, version: str) -> None:
        """Write the turns that are new; all of them if what was written is not how they begin."""
        names = self.names if request.tools is self._tools else names_of(request.tools)
        advised = (
            self._advised
            if request.tools is self._tools
            else any(b"advisor_" in bytes(t.native) for t in request.tools)
        )
        same = (model, version, advised) == (self._model, self._version, self._advised)
        same = same and names.called == self.names.called
        turns, written = request.turns, self._written
        # Every turn is looked at, not the last alone: a history may be shortened in its middle.
        if not same or len(written) > len(turns) or not all(map(is_, written, turns)):
            self._begin()
            self._tail_of = ()
        self.names, self._tools, self._model, self._version = names, request.tools, model, version
        self._advised = advised
        for turn in turns[len(self._written) :]:
            self.changes.turn = len(self._written)
            self._add(turn)
            self._written.append(turn)

    def _add(self, turn: Turn) -> None:
        match turn:
            case AssistantTurn():
                if said := write_assistant(turn, self.names, self._ids, self._version, self.changes, self._advised):
                    self._open("assistant", turn)
                    self._last_said, self._last_at = turn, len(self._buffer)
                    self._buffer += said
                for call in turn.calls:
                    self._called[self.names.wire(call.name)] = None
                self._container = kept(turn.native).container if is_ours(turn.native) else None
            case ToolTurn():
                if turn.results:
                    self._open("user")
                    self._buffer += write_results(turn, self._ids, self.changes)
                    self._has_results = True
            case UserTurn():
                if said := write_user(turn, self._version, self.changes):
                    self._open("user")
                    self._buffer += said
            case SystemTurn():
                if words := write_system(turn):
                    is_inline = bool(self._role) and facts(self._model).inline_system
                    if self._role and not is_inline:
                        why = "this model takes such words in one place alone"
                        self.changes.tell("role_changed", "the instruction moves to the beginning", why)
                    (self._late if is_inline else self._system).append(words)

    def _open(self, role: str, turn: AssistantTurn | None = None) -> None:
        buffer = self._buffer
        if role == self._role:
            buffer += b","
            return
        if turn is not None and not self._has_results:
            self._loop_has_thought = begins_with_thought(turn)
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

    def _end(self, tail: Tail, paused: bytes) -> tuple[int, bytes]:
        """How much of what is written stands, and what closes it."""
        size = len(self._buffer)
        self.changes.forget(of_request=True)
        if self._role != "assistant":
            if not self._role:
                self.changes.tell("message_added", "the user says 'Begin.'", "there must be a message")
            close = (b"]}" if self._role else _BEGIN) + self._late_message()
            return size, close + (b',{"role":"assistant","content":[%b]}' % paused if paused else b"")
        if paused:
            return size, b",%b]}" % paused
        last = self._last_said
        if tail.prefill and not self._late and last is not None and not is_ours(last.native) and not last.calls:
            # A caller may put words into the model's mouth; what a model said itself is no such beginning.
            return self._last_at, write_beginning(last) + b"]}"
        self.changes.tell("message_added", "the user says 'Continue.'", "this model cannot go on from its own words")
        return size, b"]}," + _GO_ON + self._late_message()

    def _write_tail(self, model: str, request: ModelRequest, version: str, container: str | None) -> Tail:
        in_loop = self._role == "user" and self._has_results
        said = Said(
            tuple(self._system),
            tuple(self._called) if not request.tools else (),
            thoughtless_loop=in_loop and not self._loop_has_thought,
            container=container or (self._container if in_loop else None),
        )
        tail_of = (request.tools, request.choice, request.options, request.stream, self.grammars)
        if self._tail_of and self._tail_of[-1] == said and all(map(is_, tail_of, self._tail_of)):
            return self._tail
        self._tail = write_tail(model, facts(model), request, said, self.names, self.grammars, version)
        self._tail_of = (*tail_of, said)
        return self._tail


def body_of(request: ModelRequest) -> Body:
    """What an earlier round of the same run wrote is not written again."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body()
    return body


def write_request(model: str, request: ModelRequest, version: str = VERSION) -> bytes:
    return body_of(request).write(model, request, version)
