"""What a server wants to know of our model, while a call of it runs → one answer of the run's own model, within its limits.

Only where the operator has switched it on, and in the older protocol: the newer one has given it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import mcp_types as types
from mcp.client.session import ClientRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ronda.core.parts import AssistantTurn, Image, SystemTurn, Text, Turn, UserTurn
from ronda.core.plan import Options
from ronda.errors import ToolFailed
from ronda.tools.mcp.call import NOT_CLEAR, asking_call

if TYPE_CHECKING:
    from ronda.tools.mcp.connection import Link

MAX_MESSAGES: Final = 100
MAX_CHARACTERS: Final = 256 * 1024  # of all of them
MAX_TOKENS: Final = 4096  # of an answer
_STOPS: Final = {"length": "maxTokens", "stop_sequence": "stopSequence"}


async def answer_sampling(
    link: Link, _: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult | types.ErrorData:
    call = asking_call(link)
    if call is None:
        return NOT_CLEAR
    if link.client is None or link.client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _refusal("sampling is for the protocol up to 2025-11-25")
    try:
        turns = _turns(params)
        options = Options(
            max_tokens=max(1, min(params.max_tokens, MAX_TOKENS)),
            temperature=params.temperature,
            stop=tuple(params.stop_sequences or ())[:4],
        )
        finished = await call.ask_model(turns, options)
    except ToolFailed as error:
        return _refusal(str(error))
    text = types.TextContent(type="text", text=finished.turn.text)
    stop = _STOPS.get(finished.turn.stop or "", "endTurn")
    return types.CreateMessageResult(role="assistant", content=text, model="default", stop_reason=stop)


def _turns(params: types.CreateMessageRequestParams) -> list[Turn]:
    """Raises ToolFailed."""
    if not 0 < len(params.messages) <= MAX_MESSAGES:
        raise ToolFailed(f"a request has 1 to {MAX_MESSAGES} messages")
    turns: list[Turn] = [SystemTurn(params.system_prompt)] if params.system_prompt else []
    size = len(params.system_prompt or "")
    for message in params.messages:
        blocks = message.content if isinstance(message.content, list) else [message.content]
        parts: list[Text | Image] = []
        for block in blocks:
            match block:
                case types.TextContent():
                    size += len(block.text)
                    parts.append(Text(block.text))
                case types.ImageContent() if message.role == "user":
                    size += len(block.data) // 100  # a picture is no text
                    parts.append(Image(f"data:{block.mime_type};base64,{block.data}"))
                case _:
                    raise ToolFailed(f"a message holds what cannot be shown to the model: {block.type}")
        if size > MAX_CHARACTERS:
            raise ToolFailed(f"the messages have more than {MAX_CHARACTERS} characters")
        texts = tuple([part for part in parts if isinstance(part, Text)])
        turns.append(UserTurn(tuple(parts)) if message.role == "user" else AssistantTurn(texts))
    return turns


def _refusal(why: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=why)
