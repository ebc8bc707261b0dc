"""What trips a program that calls OpenAI and services that speak like it: each test is one observation from the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.wire.exchanges import request

from ronda.core.events import CallDelta, ModelFinished, Preview
from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Native,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
    Video,
    user,
)
from ronda.core.plan import Options, ToolChoice, ToolSpec
from ronda.providers import Where, open_provider
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_answer import Reader, read_plain
from ronda.wire.openai_chat.client_plain import Naming
from ronda.wire.openai_responses import API as RESPONSES

OPENAI, ELSEWHERE = Where(), Where("https://models.example/v1")


def sent(spec: str, *turns: Turn, where: Where = OPENAI, **more: Any) -> Any:
    provider: Any = open_provider(spec, where)
    return json.loads(provider.capabilities.project(request(*turns, **more)).body)


def chat(*turns: Turn, **more: Any) -> Any:
    return sent("openai-chat:gpt-5", *turns, **more)


def items(*turns: Turn, model: str = "gpt-5", **more: Any) -> Any:
    return sent(f"openai:{model}", *turns, **more)["input"]


def call(id: str, name: str = "look") -> AssistantTurn:
    return AssistantTurn((ToolCall(id, name, "{}"),), "tool_calls")


def result(id: str) -> ToolTurn:
    return ToolTurn((ToolResult(id, "ok"),))


# ---- Chat Completions: ids and names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["x" * 41, "call_1|fc_1" + "x" * 60, ""])
def test_an_id_openai_refuses_is_another_one_in_the_call_and_in_its_result(id: str) -> None:
    asked, answered = chat(call(id), result(id))["messages"]

    made = asked["tool_calls"][0]["id"]
    assert made == answered["tool_call_id"] != id
    assert 0 < len(made) <= 40


def test_ids_in_which_a_proxy_hid_something_go_back_to_it_as_they_are() -> None:
    call_id = "call_1__thought__" + "s" * 100
    message = {"tool_calls": [{"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    turn = read_plain(body, Naming(f"{CHAT}:models.example")).turn

    asked, answered = chat(turn, result(call_id), where=ELSEWHERE)["messages"]

    assert (asked["tool_calls"][0]["id"], answered["tool_call_id"]) == (call_id, call_id)


def test_names_openai_refuses_are_others_there_and_their_own_at_home() -> None:
    tools = (ToolSpec("files.read"), ToolSpec("x" * 70))
    body = chat(call("1", "files.read"), result("1"), tools=tools, choice=ToolChoice("required", ("files.read",), True))

    name = body["tools"][0]["function"]["name"]
    assert name == body["messages"][0]["tool_calls"][0]["function"]["name"] == "files_read"
    assert body["tool_choice"]["function"]["name"] == name
    assert len(body["tools"][1]["function"]["name"]) <= 64
    naming = Naming(names={"files_read": "files.read"})
    said = {"tool_calls": [{"id": "1", "index": 0, "function": {"name": "files_read", "arguments": "{}"}}]}
    plain = {"choices": [{"message": said, "finish_reason": "tool_calls"}]}
    assert [one.name for one in read_plain(json.dumps(plain).encode(), naming).turn.calls] == ["files.read"]
    finished, shown = streamed({"choices": [{"delta": said, "finish_reason": "tool_calls"}]}, naming=naming)
    assert [one.name for one in finished.turn.calls] == ["files.read"]
    assert shown == [CallDelta(0, "1", "files.read", "{}")]


def test_a_caller_s_own_names_are_for_its_own_server_to_judge() -> None:
    tools = (ToolSpec("files.read", kind="caller"), ToolSpec("mcp.list", kind="mcp"))

    declared = chat(user("a"), tools=tools, where=ELSEWHERE)["tools"]

    assert [tool["function"]["name"] for tool in declared] == ["files.read", "mcp_list"]


def streamed(*chunks: Any, naming: Naming | None = None) -> tuple[ModelFinished, list[Preview]]:
    reader = Reader() if naming is None else Reader(1, naming)
    shown: list[Preview] = []
    for chunk in chunks:
        shown += reader.feed(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    shown += reader.feed(b"data: [DONE]\n\n")
    return reader.finish(), shown


# ---- Chat Completions: what others say ------------------------------------------------------------------------------------

NOTES: list[tuple[str, Any]] = [
    ("reasoning_content", "hm"),
    ("reasoning_details", [{"type": "reasoning.text"}]),
    ("extra_content", {"google": {"thought_signature": "c2ln"}}),
]


@pytest.mark.parametrize(("name", "value"), NOTES)
def test_what_another_server_added_to_a_message_stays_with_it(name: str, value: Any) -> None:
    said = {"role": "assistant", "content": "Hi.", name: value}
    turn = AssistantTurn((Reasoning("hm"), Text("Hi.")), native=Native(f"{CHAT}:models.example", raw(said)))
    caller = AssistantTurn(turn.parts, native=Native(CHAT, raw(said)))
    plain = {"role": "assistant", "content": "Hi."}

    assert chat(turn, where=ELSEWHERE)["messages"] == [said]
    assert chat(turn, where=Where("https://other.example/v1"))["messages"] == [plain]
    assert chat(caller, where=Where("https://openrouter.ai/api/v1"))["messages"] == [said]
    assert chat(caller)["messages"] == [plain]  # OpenAI answers 400: "Unknown parameter" …
    assert chat(caller, where=ELSEWHERE)["messages"] == [plain]  # … and may stand behind any address


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


@pytest.mark.parametrize(
    "part",
    [Video("https://x/v.mp4"), Image("data:image/tiff;base64,AA"), File(), File("data:audio/mpeg;base64,AA", "a.mp3")],
)
def test_what_openai_cannot_be_sent_is_mentioned_to_the_model(part: Any) -> None:
    (message,) = chat(UserTurn((Text("See:"), part)))["messages"]

    assert [one["type"] for one in message["content"]] == ["text", "text"]
    assert "which you cannot be shown" in message["content"][1]["text"]


def test_a_file_has_a_name() -> None:
    (message,) = chat(UserTurn((File("data:application/pdf;base64,AA"),)))["messages"]

    assert message["content"] == [
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "file"}}
    ]


# ---- Chat Completions: streams ----------------------------------------------------------------------------------------------


def test_two_calls_under_one_index_in_one_chunk_are_two() -> None:
    pieces = [
        {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"at":1}'}},
        {"index": 0, "id": "b", "function": {"name": "look", "arguments": '{"at":2}'}},
    ]
    finished, _ = streamed({"choices": [{"delta": {"tool_calls": pieces}, "finish_reason": "tool_calls"}]})

    assert [(one.id, one.arguments) for one in finished.turn.calls] == [("a", '{"at":1}'), ("b", '{"at":2}')]


def test_usage_may_ride_on_a_chunk_that_says_something_and_counts_may_have_a_point() -> None:
    last = {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3.0}}
    finished, _ = streamed(last, {"choices": [], "usage": None})

    assert (finished.turn.text, finished.usage) == ("Hi.", Usage(3, 0))


@pytest.mark.parametrize("index", [None, 0])
def test_a_choice_without_a_number_is_the_first_and_one_nobody_asked_for_is_passed_over(index: int | None) -> None:
    strangers = [{"index": at, "delta": {"content": "?"}} for at in (-1, 7)]
    choices = [{"index": index, "delta": {"content": "Hi."}, "finish_reason": "stop"}, *strangers]

    assert streamed({"choices": choices})[0].turn.text == "Hi."


def test_a_signature_on_the_message_of_a_stream_goes_back_with_it() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    finished, _ = streamed(
        {"choices": [{"delta": {"content": "Hi.", "extra_content": extra}, "finish_reason": "stop"}]}
    )

    assert finished.turn.native is not None
    assert json.loads(bytes(finished.turn.native.payload)) == {
        "role": "assistant",
        "content": "Hi.",
        "extra_content": extra,
    }


def test_a_schema_that_does_not_qualify_is_not_called_strict() -> None:
    loose = ToolSpec("look", parameters=raw({"type": "object", "properties": {"a": True}}), strict=True)
    fits = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    declared = chat(user("a"), tools=(loose, ToolSpec("ring", parameters=raw(fits), strict=True)))["tools"]

    assert [tool["function"].get("strict") for tool in declared] == [None, True]


def test_allowed_tools_are_nested_on_chat_and_flat_on_responses() -> None:
    choice, tools = ToolChoice("required", ("look", "ring")), (ToolSpec("look"), ToolSpec("ring"))

    nested = chat(user("a"), tools=tools, choice=choice)["tool_choice"]
    flat = sent("openai:gpt-5", user("a"), tools=tools, choice=choice)["tool_choice"]

    assert (nested["type"], nested["allowed_tools"]["mode"], len(nested["allowed_tools"]["tools"])) == (
        "allowed_tools",
        "required",
        2,
    )
    assert (flat["type"], flat["mode"], flat["tools"][0]) == (
        "allowed_tools",
        "required",
        {"type": "function", "name": "look"},
    )


# ---- Responses ----------------------------------------------------------------------------------------------------------

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def own(*said: Any, host: str = "api.openai.com") -> AssistantTurn:
    calls = tuple([ToolCall("call_1", "look", "{}") for item in said if item["type"] == "function_call"])
    return AssistantTurn(calls, "tool_calls", Native(f"{RESPONSES}:{host}", raw(list(said))))


def test_a_result_names_the_call_and_never_the_item() -> None:
    said = items(own(THOUGHT, CALL), result("call_1"))

    assert said[:2] == [THOUGHT, CALL]
    assert said[2] == {"type": "function_call_output", "call_id": "call_1", "output": "ok"}


def test_thoughts_that_would_have_to_be_looked_up_are_left_out_and_their_followers_go_without_ids() -> None:
    kept_there = {name: value for name, value in THOUGHT.items() if name != "encrypted_content"}
    anonymous = {name: value for name, value in CALL.items() if name != "id"}

    assert items(own(kept_there, SEARCH, CALL), result("call_1"))[:2] == [SEARCH, anonymous]
    elsewhere = own(kept_there, CALL, host="models.example")
    assert items(elsewhere, result("call_1"), where=ELSEWHERE)[:2] == [kept_there, CALL]


def test_a_model_that_does_not_think_is_not_sent_thoughts() -> None:
    anonymous = {name: value for name, value in CALL.items() if name != "id"}

    assert items(own(THOUGHT, CALL), result("call_1"), model="gpt-4.1")[0] == anonymous


def test_nothing_is_kept_upstream_and_thoughts_are_asked_for_in_a_form_that_can_be_sent_back() -> None:
    body = sent("openai:gpt-5", user("a"))

    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])


def test_defaults_of_chat_completions_are_not_said_to_an_api_that_has_no_word_for_them() -> None:
    extra = {
        "frequency_penalty": Raw(b"0"),
        "presence_penalty": Raw(b"0.0"),
        "logit_bias": Raw(b"{}"),
        "modalities": Raw(b'["text"]'),
        "n": Raw(b"1"),
        "prediction": Raw(b'{"type":"content"}'),
    }
    body = sent("openai:gpt-5", user("a"), options=Options(extra=extra))
    odd = sent("openai:gpt-5", user("a"), options=Options(extra={"frequency_penalty": Raw(b"1")}))

    assert not body.keys() & extra.keys()
    assert odd["frequency_penalty"] == 1  # refused there, by name
