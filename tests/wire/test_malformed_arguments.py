"""Arguments that a model wrote may be no JSON. They go back to every server as an object; what is stored stays as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from ronda.core.parts import AssistantTurn, Native, ToolCall, ToolResult, ToolTurn, Turn, user
from ronda.core.plan import AUTO, NO_OPTIONS, ToolSpec
from ronda.core.request import ModelRequest
from ronda.wire.anthropic import client_request as anthropic
from ronda.wire.gemini import client_request as gemini
from ronda.wire.mistral import client_request as mistral
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_request import write_request as write_chat
from ronda.wire.openai_responses import API as RESPONSES
from ronda.wire.openai_responses.client_request import write_request as write_responses

WRITTEN = [
    ('{"q": "a"}', {"q": "a"}),
    ('```json\n{"q": "a",}\n```', {"q": "a"}),
    ('{"q": "wh', {"unreadable": '{"q": "wh'}),
    ("nonsense", {"unreadable": "nonsense"}),
    ("[1]", {"unreadable": "[1]"}),
    ("", {}),
]
TOOLS = (ToolSpec("ask"),)


def conversation(arguments: str, native: Native | None = None) -> tuple[Turn, ...]:
    turn = AssistantTurn((ToolCall("call_1", "ask", arguments),), "tool_calls", native)
    return user("go"), turn, ToolTurn((ToolResult("call_1", "because"),))


def request(turns: tuple[Turn, ...]) -> ModelRequest:
    return ModelRequest(turns, TOOLS, AUTO, NO_OPTIONS, False, "r", 1, 1, {})


def chat_message(arguments: str) -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": "ask", "arguments": arguments}}
    return json.dumps({"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"}).encode()


def sent_by_chat(arguments: str, own: bool) -> str:
    native = Native(CHAT, Raw(chat_message(arguments))) if own else None
    body = json.loads(write_chat("m", request(conversation(arguments, native))))
    message = body["messages"][1]
    assert message.get("reasoning_content") == ("hm" if own else None)
    return str(message["tool_calls"][0]["function"]["arguments"])


def sent_by_responses(arguments: str, own: bool) -> str:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ask", "arguments": arguments}
    native = Native(RESPONSES, Raw(json.dumps([item]).encode())) if own else None
    body = json.loads(write_responses("m", request(conversation(arguments, native))))
    [call] = [one for one in body["input"] if one.get("type") == "function_call"]
    assert call.get("id") == ("fc_1" if own else None)
    return str(call["arguments"])


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("sent", [sent_by_chat, sent_by_responses])
@pytest.mark.parametrize(("arguments", "meant"), WRITTEN)
def test_openai_s_dialects_send_an_object(sent: Any, own: bool, arguments: str, meant: dict[str, Any]) -> None:
    assert json.loads(sent(arguments, own)) == meant


@pytest.mark.parametrize("sent", [sent_by_chat, sent_by_responses])
def test_what_is_an_object_goes_back_as_it_came(sent: Any) -> None:
    assert sent('{ "q" :"a"}', True) == '{ "q" :"a"}'


@pytest.mark.parametrize(("arguments", "meant"), WRITTEN)
def test_mistral_is_sent_an_object(arguments: str, meant: dict[str, Any]) -> None:
    body = json.loads(mistral.write_request("m", request(conversation(arguments))))
    assert json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"]) == meant


@pytest.mark.parametrize(("arguments", "meant"), WRITTEN)
def test_the_others_have_objects_anyway(arguments: str, meant: dict[str, Any]) -> None:
    to_gemini = json.loads(gemini.write_request("gemini-2.5-pro", request(conversation(arguments))))
    parts = [part for content in to_gemini["contents"] for part in content["parts"] if "functionCall" in part]
    assert parts[0]["functionCall"]["args"] == meant
    to_anthropic = json.loads(anthropic.write_request("claude", request(conversation(arguments))))
    blocks = [block for message in to_anthropic["messages"] for block in message["content"] if "input" in block]
    assert isinstance(blocks[0]["input"], dict)


def test_what_is_stored_stays_as_it_was() -> None:
    turns = conversation("nonsense", Native(CHAT, Raw(chat_message("nonsense"))))
    before = msgspec.json.encode(turns)
    write_chat("m", request(turns))
    assert msgspec.json.encode(turns) == before
