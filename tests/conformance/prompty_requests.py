"""Messages → the body of a request, as the wires write it from the turns, tools and options that a run of the file would have."""

from __future__ import annotations

from collections.abc import Sequence

from ronda.core.plan import AUTO, ToolSpec
from ronda.core.request import ModelRequest
from ronda.prompty.errors import BadPrompty
from ronda.prompty.message_parts import Message
from ronda.prompty.model import FunctionTool, Prompty
from ronda.prompty.requests import write_embedding, write_image
from ronda.prompty.tool_specs import spec_of
from ronda.prompty.turns import turns_of
from ronda.prompty.upstream import Upstream, options_of, upstream_of


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
            from ronda.wire.openai_responses.client_request import write_request as write_response

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
