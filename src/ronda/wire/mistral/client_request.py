"""Mistral's completions as their client: turns → request bytes. What is read from them is in `client_answer`.

Pure: no socket, no clock. With `agent` the request is for /agents/completions, where the model and how it samples belong to
the agent.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ronda.core.parts import NULL, AssistantTurn
from ronda.core.plan import Options, ResponseFormat
from ronda.core.request import ModelRequest
from ronda.errors import UpstreamError
from ronda.wire.codec.json import encode, present
from ronda.wire.mistral import API
from ronda.wire.mistral.messages import BEGIN, Messages
from ronda.wire.mistral.tools import Tools
from ronda.wire.upstream.request_body import RequestBody

# Fields of both requests that we have no word of our own for. Any other would be a 422.
PASSED: Final = frozenset(
    {"metadata", "presence_penalty", "frequency_penalty", "prediction", "prompt_mode", "guardrails"}
)
PASSED_ON: Final = PASSED | {"prompt_cache_key", "random_seed", "n"}
# The agent has them; /agents/completions refuses them.
OF_THE_MODEL: Final = frozenset({"safe_prompt"})
RENAMED: Final = {"max_completion_tokens": "max_tokens"}


def unsent(options: Options, agent: bool = False) -> tuple[str, ...]:
    """The fields of a request that Mistral has no equivalent of."""
    known = PASSED_ON | RENAMED.keys() | (frozenset() if agent else OF_THE_MODEL)
    names = [name for name, value in options.extra.items() if name not in known and value != NULL]
    if agent:
        names += [name for name in ("temperature", "top_p") if getattr(options, name) is not None]
    return tuple(names)


class Body(RequestBody[Messages, bytes]):
    __slots__ = ("_agent", "tools")

    def __init__(self, agent: bool = False) -> None:
        super().__init__()
        self._agent = agent
        self.tools = Tools(())

    def write(self, model: str, request: ModelRequest, bridges: bool = False) -> bytes:
        """`bridges`: the server refuses a user's message behind a result."""
        if request.tools is not self.tools.of:
            self.tools = Tools(request.tools)
        tools, turns = self.tools, request.turns
        last = turns[-1] if turns and type(turns[-1]) is AssistantTurn else None
        lasting = turns if last is None else turns[:-1]
        form = (model, tools.called, bridges)
        messages = self._follow(lasting, form, lambda: Messages(model, tools, self.changes, bridges))
        tail_of = (model, request.tools, request.choice, request.options, request.stream)
        tail = self._behind(request.options, API, tail_of, lambda: self._write_tail(model, request))
        self.changes.turn = len(lasting)
        return b"".join((b'{"messages":[', messages.buffer, self._end(messages, last), tail))

    def _end(self, messages: Messages, last: AssistantTurn | None) -> bytes:
        """What stands at the end of this request and of no other."""
        end = messages.as_prefix(last) if last is not None else b""
        if end and not messages.buffer:
            return BEGIN + b"," + end
        if not end and messages.role in ("", "system"):
            end = BEGIN
        elif not end and messages.role == "assistant":
            self.changes.tell("message_added", "the user says 'Go on.'", "the assistant's message must not be the last")
            end = b'{"role":"user","content":"Go on."}'  # an assistant's message that was followed by nothing said
        return b"," + end if end and messages.buffer else end

    def _write_tail(self, model: str, request: ModelRequest) -> bytes:
        options = request.options
        rest: dict[str, Any] = {"agent_id" if self._agent else "model": model}
        rest |= self.tools.write(request.choice)
        rest |= present(
            parallel_tool_calls=options.parallel_tool_calls if "tools" in rest else None,
            stream=request.stream or None,
            max_tokens=options.max_tokens,
            temperature=None if self._agent else options.temperature,
            top_p=None if self._agent else options.top_p,
            stop=options.stop or None,
            random_seed=options.seed,
            reasoning_effort=options.reasoning_effort,
        )
        if options.response_format is not None:
            rest["response_format"] = _write_format(options.response_format)
        dropped = unsent(options, self._agent)
        for name in dropped:
            why = "the agent has its own" if name in ("temperature", "top_p") else "Mistral has no equivalent"
            self.changes.tell("option_unsent", f"'{name}' is not sent", why)
        extra = {name: value for name, value in options.extra.items() if name not in dropped and value != NULL}
        rest |= {RENAMED.get(name, name): value for name, value in extra.items()}
        return b"]," + encode(rest)[1:]


def _write_format(answer_format: ResponseFormat) -> dict[str, Any]:
    if answer_format.type == "json_object" or answer_format.schema == NULL:  # a schema must be there
        return {"type": "json_object"}
    schema = present(
        name=answer_format.name,
        schema=answer_format.schema,
        description=answer_format.description,
        strict=answer_format.strict,
    )
    return {"type": "json_schema", "json_schema": schema}


def body_of(request: ModelRequest, agent: bool = False) -> Body:
    """What an earlier round of the same run wrote, to write the next one with."""
    body = request.scratch.get(API)
    if not isinstance(body, Body):
        body = request.scratch[API] = Body(agent)
    return body


def write_request(model: str, request: ModelRequest) -> bytes:
    return body_of(request).write(model, request)


def is_about_order(error: UpstreamError) -> bool:
    """ "Unexpected role 'user' after role 'tool'" (3230)."""
    return error.status in (400, 422) and _ORDER.search(str(error)) is not None


_ORDER: Final = re.compile(r"unexpected role \W*user\W* after role \W*tool\b", re.IGNORECASE)
