"""generateContent as its client: turns → request bytes. What is read from it is in `client_answer`.

Pure: no socket, no clock.
"""

from __future__ import annotations

from typing import Any

from ronda.core.request import ModelRequest
from ronda.wire.codec.json import encode
from ronda.wire.gemini import API
from ronda.wire.gemini.contents import BEGIN, Contents, write_system
from ronda.wire.gemini.models import model_of
from ronda.wire.gemini.options import hosted_tools, unsent, write_options
from ronda.wire.gemini.tools import Tools
from ronda.wire.upstream.request_body import RequestBody


class Body(RequestBody[Contents, bytes]):
    __slots__ = ("tools",)

    def __init__(self) -> None:
        super().__init__()
        self.tools = Tools(())

    def write(self, model: str, request: ModelRequest) -> bytes:
        if request.tools is not self.tools.of:
            self.tools = Tools(request.tools)
        tools = self.tools
        form = (model, tools.called)
        contents = self._follow(request.turns, form, lambda: Contents(model, tools, self.changes))
        tail_of = (model, request.tools, request.choice, request.options, len(contents.system))
        tail = self._behind(request.options, API, tail_of, lambda: self._write_tail(model, request, contents.system))
        return b"".join((b'{"contents":[', contents.buffer or BEGIN, tail))

    def _write_tail(self, model: str, request: ModelRequest, system: list[str]) -> bytes:
        rest: dict[str, Any] = {}
        if system:
            rest["systemInstruction"] = write_system(system)
        tool_config: dict[str, Any] = {}
        tools: list[Any] = [*self.tools.write(), *hosted_tools(request.options)]
        if tools:
            rest["tools"] = tools
        if request.tools and (choice := self.tools.write_choice(request.choice)) is not None:
            tool_config["functionCallingConfig"] = choice
        rest |= write_options(request.options, model_of(model), bool(request.tools), tool_config)
        for name in unsent(request.options):
            self.changes.tell("option_unsent", f"'{name}' is not sent", "Gemini has no equivalent")
        return b"]," + encode(rest)[1:] if rest else b"]}"


def body_of(request: ModelRequest) -> Body:
    """What an earlier round of the same run wrote, to write the next one with."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body()
    return body


def write_request(model: str, request: ModelRequest) -> bytes:
    return body_of(request).write(model, request)
