"""generateContent as its client: turns → request bytes. What is read from it is in `answer`.

Pure: no socket, no clock. `Body` keeps the bytes of a conversation it has already written, so the cost of a round does not
grow with the conversation.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ronda.core.parts import Turn
from ronda.core.request import ModelRequest
from ronda.wire.gemini import API
from ronda.wire.gemini.contents import BEGIN, Contents, ToolRole, write_system
from ronda.wire.gemini.models import model_of
from ronda.wire.gemini.options import hosted_tools, unsent, write_options
from ronda.wire.gemini.tools import Tools
from ronda.wire.json import encode
from ronda.wire.projection import Changes

_START = b'{"contents":['


class Body:
    """The request of the next round is the last one plus the new turns. A cache: dropping it changes nothing."""

    __slots__ = ("_contents", "_model", "_openapi", "_tail", "_tail_of", "_tool_role", "_written", "changes", "tools")

    def __init__(self, tool_role: ToolRole = "user", openapi: bool = False) -> None:
        self._tool_role: ToolRole = tool_role
        self._openapi = openapi
        self.tools = Tools((), openapi)
        self.changes = Changes()
        self._model = ""
        self._written: list[Turn] = []
        self._contents = Contents("", self.tools, tool_role, self.changes)
        self._tail = b""
        self._tail_of: tuple[object, ...] = ()

    def write(self, model: str, request: ModelRequest) -> bytes:
        renamed = False
        if request.tools is not self.tools.of:
            before, self.tools = self.tools, Tools(request.tools, self._openapi)
            renamed = before.called != self.tools.called  # an old call may have another name now
        turns = request.turns
        written = self._written
        # Every turn is looked at, not the last alone: a history may be shortened in its middle.
        if renamed or model != self._model or len(written) > len(turns) or not all(map(is_, written, turns)):
            self.changes.forget()
            self._contents = Contents(model, self.tools, self._tool_role, self.changes)
            self._model = model
            written = self._written = []
        contents = self._contents
        for turn in turns[len(written) :]:
            self.changes.turn = len(written)
            contents.add(turn)
            written.append(turn)
        tail_of = (model, self.tools, request.choice, request.options, contents, len(contents.system))
        if not self._tail_of or any(a is not b for a, b in zip(tail_of, self._tail_of, strict=True)):
            self.changes.forget(of_request=True)
            self.changes.tell_of_options(request.options, API)
            self._tail = self._write_tail(model, request)
            self._tail_of = tail_of
        return b"".join((_START, contents.buffer or BEGIN, self._tail))

    def _write_tail(self, model: str, request: ModelRequest) -> bytes:
        rest: dict[str, Any] = {}
        if self._contents.system:
            rest["systemInstruction"] = write_system(self._contents.system)
        tool_config: dict[str, Any] = {}
        tools: list[Any] = [*self.tools.write(), *hosted_tools(request.options)]
        if tools:
            rest["tools"] = tools
        if request.tools and (choice := self.tools.write_choice(request.choice)) is not None:
            tool_config["functionCallingConfig"] = choice
        rest |= write_options(request.options, model_of(model), bool(request.tools), tool_config)
        for name in unsent(request.options):
            self.changes.tell("option_unsent", f"'{name}' is not sent", "Gemini has no word for it")
        return b"]," + encode(rest)[1:] if rest else b"]}"


def body_of(request: ModelRequest, tool_role: ToolRole = "user", openapi: bool = False) -> Body:
    """What an earlier round of the same run wrote, to write the next one with."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body(tool_role, openapi)
    return body


def write_request(model: str, request: ModelRequest) -> bytes:
    return body_of(request).write(model, request)
