"""What our wires write is what the vendors' own libraries call a request: their types take it, and nothing of it is lost on them.

Histories are random ones of every origin; each provider's request is given to its vendor's newest SDK.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.wire.any_history import GEMINI, MISTRAL, SPOKEN, histories
from tests.wire.exchanges import request

from ronda.core.parts import AssistantTurn, Turn
from ronda.core.plan import Options, ToolSpec
from ronda.core.transcript import repair
from ronda.providers import Where, open_provider

Json = Any
TOOLS = (
    ToolSpec("look", "Look at it."),
    ToolSpec("files.read", strict=True),
    ToolSpec("look_up"),
    ToolSpec("read_file"),
)
OPTIONS = Options(max_tokens=100, temperature=0.5, top_p=0.9)


def written(spec: str, turns: tuple[Turn, ...], options: Options = OPTIONS) -> Json:
    provider: Any = open_provider(spec, Where())
    return json.loads(provider.capabilities.project(request(*repair(turns), tools=TOOLS, options=options)).body)


anything = histories(*SPOKEN)


@given(anything)
def test_google_reads_our_contents_tools_and_settings(turns: tuple[Turn, ...]) -> None:
    from google.genai import types

    body = written(f"gemini:{GEMINI}", turns)

    for content in body["contents"]:
        assert _dumped(types.Content.model_validate(content)) == content
    for tool in body["tools"]:
        assert _dumped(types.Tool.model_validate(tool)) == tool
    assert _dumped(types.GenerationConfig.model_validate(body["generationConfig"])) == body["generationConfig"]
    if "systemInstruction" in body:
        types.Content.model_validate(body["systemInstruction"])


def _dumped(value: Any) -> Json:
    return value.model_dump(by_alias=True, exclude_none=True, mode="json")


@given(anything)
def test_mistral_reads_our_request(turns: tuple[Turn, ...]) -> None:
    from mistralai.client.models import ChatCompletionRequest

    body = written(f"mistral:{MISTRAL}", turns)

    read = json.loads(ChatCompletionRequest.model_validate(body).model_dump_json(by_alias=True, exclude_unset=True))
    assert [_spoken(one) for one in read["messages"]] == [_spoken(one) for one in body["messages"]]


def _spoken(message: Json) -> Json:
    """The SDK writes out what goes without saying."""
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or []
    ]
    content = message["content"]
    kinds = content if isinstance(content, str) else [chunk["type"] for chunk in content]
    return message["role"], kinds, calls, message.get("tool_call_id"), message.get("prefix", False)


# The types of these two SDKs have iterables in them, which pydantic looks at only when they are gone through: what is
# inside of one is validated by itself.


def unknown(kind: Any, *values: Json) -> list[str]:
    """Members that the SDK's type has no name for. A value that is not of the type at all raises."""
    found: list[str] = []
    for value in values:
        read = _adapter(kind).validate_python(value)
        found += [name for name in value if name not in read]
    return found


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)  # takes a second for some of these types


def inside(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


@given(anything)
def test_openai_s_types_are_those_of_our_messages(turns: tuple[Turn, ...]) -> None:
    from openai.types import chat
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    body = written("openai-chat:gpt-5", turns)

    assert unknown(CompletionCreateParamsNonStreaming, body) == []
    assert unknown(chat.ChatCompletionMessageParam, *body["messages"]) == []
    assert unknown(chat.ChatCompletionToolUnionParam, *body["tools"]) == []
    for message in body["messages"]:
        assert unknown(chat.ChatCompletionContentPartParam, *inside(message["content"])) == []
        assert unknown(chat.ChatCompletionMessageToolCallUnionParam, *message.get("tool_calls", [])) == []


@given(anything)
def test_openai_s_types_are_those_of_our_items(turns: tuple[Turn, ...]) -> None:
    from openai.types import responses
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

    # A refusal without an id is none of the SDK's, though the published schema has it.
    refused = any(type(turn) is AssistantTurn and turn.refusal for turn in turns)
    body = written("openai:gpt-5", () if refused else turns)

    assert unknown(ResponseCreateParamsNonStreaming, body) == []
    assert unknown(responses.ResponseInputItemParam, *body["input"]) == []
    assert unknown(responses.ToolParam, *body["tools"]) == []
    for item in body["input"]:
        if item.get("role") != "assistant":
            assert (
                unknown(responses.ResponseInputContentParam, *inside(item.get("content")), *inside(item.get("output")))
                == []
            )


@given(anything, st.sampled_from(["claude-sonnet-4-5", "claude-opus-5-5"]))
def test_anthropic_s_types_are_those_of_our_blocks(turns: tuple[Turn, ...], model: str) -> None:
    from anthropic.types import ContentBlockParam, MessageParam, ToolUnionParam

    body = written(f"anthropic:{model}", turns, Options(max_tokens=100))

    assert unknown(MessageParam, *body["messages"]) == []
    assert unknown(ToolUnionParam, *body["tools"]) == []
    for message in body["messages"]:
        assert unknown(ContentBlockParam, *message["content"]) == []
        for block in message["content"]:
            assert unknown(ContentBlockParam, *inside(block.get("content"))) == []
