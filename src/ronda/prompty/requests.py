"""Messages → the body of a request, as it goes out: `write_request(prompty, messages)`.

The Prompty profile of our wires, and nothing but: chat, responses and messages are written by the wires themselves, from the
turns, tools and options that a run of the file would have. Embeddings and images are no conversations and are written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ronda.core.plan import AUTO, ToolSpec
from ronda.core.request import ModelRequest
from ronda.prompty.errors import BadPrompty
from ronda.prompty.message_parts import Message
from ronda.prompty.model import FunctionTool, Prompty
from ronda.prompty.options import additional, options_of
from ronda.prompty.tool_specs import spec_of
from ronda.prompty.turns import turns_of
from ronda.prompty.upstream import Upstream, upstream_of

_encode = msgspec.json.Encoder().encode


def write_request(
    prompty: Prompty, messages: Sequence[Message], tools: Sequence[ToolSpec] | None = None, *, stream: bool = False
) -> bytes:
    """`tools` are those that a run resolved; without them, the functions that the file declares."""
    upstream = upstream_of(prompty)
    match upstream.api:
        case "embedding":
            return write_embedding(prompty, upstream.model, messages)
        case "image":
            return write_image(prompty, upstream.model, messages)
        case _:
            declared = [spec_of(tool) for tool in prompty.tools if isinstance(tool, FunctionTool)]
            specs = tuple(declared if tools is None else tools)
            return _write_turns(upstream, request_of(prompty, upstream, messages, specs, stream))


def request_of(
    prompty: Prompty, upstream: Upstream, messages: Sequence[Message], tools: tuple[ToolSpec, ...], stream: bool
) -> ModelRequest:
    return ModelRequest(
        turns_of(messages), tools, AUTO, options_of(prompty, upstream.kind), stream, "", round=0, attempt=1, scratch={}
    )


def _write_turns(upstream: Upstream, request: ModelRequest) -> bytes:
    match upstream.kind:
        case "openai":
            from ronda.wire.openai_responses.client import write_request as write_response

            return write_response(upstream.model, request)
        case "anthropic":
            from ronda.wire.anthropic import OLD_VERSION, VERSION
            from ronda.wire.anthropic.client_request import write_request as write_messages

            # A file that samples asks for the older interface: the newest takes no sampling.
            is_old = upstream.base_url is not None and OLD_VERSION in upstream.base_url
            return write_messages(upstream.model, request, OLD_VERSION if is_old else VERSION)
        case "openai-chat":
            from ronda.wire.openai_chat.client_request import write_request as write_chat

            return write_chat(upstream.model, request)
        case kind:
            raise BadPrompty(f"requests to '{kind}' are not written beforehand: they depend on the run")


def write_embedding(prompty: Prompty, model: str, messages: Sequence[Message]) -> bytes:
    """All texts there are; one of them is itself, not a list."""
    texts = [part.value for message in messages for part in message.content if part.kind == "text"]
    fields: dict[str, Any] = {"model": model, "input": texts[0] if len(texts) == 1 else texts}
    return _encode({**additional(prompty), **fields})


def write_image(prompty: Prompty, model: str, messages: Sequence[Message]) -> bytes:
    """The first text of what the user said last."""
    prompt = ""
    for message in messages:
        if message.role == "user":
            prompt = next((part.value for part in message.content if part.kind == "text"), "")
    return _encode({**additional(prompty), "model": model, "prompt": prompt})
