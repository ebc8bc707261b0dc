"""Anthropic's Messages as its client: turns → request bytes, answer bytes → previews and one finished turn.

Pure: no socket, no clock. Turns are written in `conversation`, all else of a request in `options`; reading is in
`client_answer` and `client_stream`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ronda.core.plan import ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.anthropic import API, VERSION
from ronda.wire.anthropic.client_answer import Answer, join_answers, read_answer, read_plain, under_own_names
from ronda.wire.anthropic.client_stream import Reader
from ronda.wire.anthropic.conversation import Conversation
from ronda.wire.anthropic.errors import is_about_grammar, is_about_seal
from ronda.wire.anthropic.models import facts
from ronda.wire.anthropic.names import NO_NAMES, Names, names_of
from ronda.wire.anthropic.options import Tail, betas, form_of, write_tail
from ronda.wire.anthropic.tools import is_declared
from ronda.wire.anthropic.turns import Home
from ronda.wire.upstream.request_body import RequestBody

__all__ = [
    "Answer",
    "Body",
    "Reader",
    "betas",
    "body_of",
    "form_of",
    "is_about_grammar",
    "is_about_seal",
    "join_answers",
    "read_answer",
    "read_plain",
    "under_own_names",
    "write_request",
]


class Body(RequestBody[Conversation, Tail]):
    __slots__ = ("_advised", "_declares", "_home", "_tools", "grammars", "names")

    def __init__(self, home: str = API) -> None:
        super().__init__()
        self._home = Home(home)
        self.names: Names = NO_NAMES
        self.grammars = True  # ask for decoding under strict schemas, until the API says that they are too much for it
        self._advised = False
        self._declares = False  # some tool
        self._tools: tuple[ToolSpec, ...] = ()

    def write(self, model: str, request: ModelRequest, version: str = VERSION, paused: Sequence[Answer] = ()) -> bytes:
        """`paused` are the pieces so far of a turn that is not over: they go back unchanged for the model to go on."""
        options = request.options
        if request.tools is not self._tools:
            self._tools = request.tools
            self.names = names_of(request.tools)
            self._advised = any(b"advisor_" in bytes(tool.native) for tool in request.tools)
            self._declares = any(is_declared(tool) for tool in request.tools)
        form = (model, version, self._advised, self.names.called, self._home.unsealed)
        conversation = self._follow(
            request.turns,
            form,
            lambda: Conversation(model, version, self.names, self._advised, self.changes, self._home),
        )
        message_facts = conversation.facts(self._declares, paused[-1].container if paused else None)
        tail_of = (model, request.tools, request.choice, options, request.stream, self.grammars, version, message_facts)
        tail = self._behind(
            options,
            API,
            tail_of,
            lambda: write_tail(model, facts(model), request, message_facts, self.names, self.grammars, version),
        )
        blocks = b",".join([blocks for answer in paused if (blocks := bytes(answer.content).strip()[1:-1])])
        self.changes.forget(of_request=True)
        size, end = conversation.end(tail.prefill, blocks)
        for change in tail.changes:
            self.changes.tell(*change)
        self.changes.tell_of_options(options, API)
        return b"".join((b'{"messages":[', memoryview(conversation.buffer)[:size], end, tail.body))

    def leave_seals_out(self, request: ModelRequest) -> bool:
        """The server does not know a signature in these turns: they go without. False where they did already."""
        if self._home.unsealed >= len(request.turns):
            return False
        self._home = replace(self._home, unsealed=len(request.turns))
        return True


def body_of(request: ModelRequest, home: str = API) -> Body:
    """What an earlier round of the same run wrote is not written again."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body(home)
    return body


def write_request(model: str, request: ModelRequest, version: str = VERSION) -> bytes:
    return body_of(request).write(model, request, version)
