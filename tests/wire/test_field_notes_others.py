"""What trips a program that calls Anthropic, Gemini or Mistral, and what holds for all five: each test is one observation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.wire.exchanges import request

from ronda.core.parts import (
    AssistantTurn,
    File,
    Image,
    Native,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    user,
)
from ronda.core.plan import Options, ToolChoice, ToolSpec
from ronda.core.request import ModelRequest
from ronda.core.transcript import repair
from ronda.providers import Where, open_provider
from ronda.wire.anthropic import API as ANTHROPIC
from ronda.wire.gemini.contents import NO_SIGNATURE
from ronda.wire.openai_chat import API as CHAT

LOOK = ToolSpec("look")
ALL = [
    "anthropic:claude-sonnet-4-5",
    "gemini:gemini-3-pro",
    "mistral:mistral-large-latest",
    "openai:gpt-5",
    "openai-chat:gpt-5",
]


def request_of(*turns: Turn, tools: tuple[ToolSpec, ...] = (LOOK,), **more: Any) -> ModelRequest:
    return request(*repair(turns), tools=tools, **more)


def sent(spec: str, *turns: Turn, **more: Any) -> Any:
    provider: Any = open_provider(spec, Where())
    return json.loads(provider.capabilities.project(request_of(*turns, **more)).body)


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def call(*ids: str) -> AssistantTurn:
    return AssistantTurn(tuple([ToolCall(call_id, "look", "{}") for call_id in ids]), "tool_calls")


# ---- Anthropic ----------------------------------------------------------------------------------------------------------

CLAUDE = ALL[0]
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}


def claude(*content: Any) -> AssistantTurn:
    calls = tuple([ToolCall(block["id"], "look", "{}") for block in content if block["type"] == "tool_use"])
    return AssistantTurn(calls, "tool_calls", Native(f"{ANTHROPIC}:api.anthropic.com", raw(list(content))))


def test_a_thought_that_was_never_signed_is_left_out_whoever_brings_it() -> None:
    cut = {"type": "thinking", "thinking": "cut of", "signature": ""}
    redacted = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    body = sent(CLAUDE, user("a"), claude(SIGNED, cut, redacted, USE), ToolTurn((ToolResult("toolu_1", "ok"),)))

    assert body["messages"][1]["content"] == [SIGNED, redacted, USE]


def test_what_the_advisor_said_goes_back_only_while_there_is_an_advisor() -> None:
    asked = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "advisor", "input": {}}
    advice = {"type": "advisor_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "advisor_result"}}
    turns = (user("a"), claude(asked, advice, {"type": "text", "text": "Well."}), user("b"))
    advisor = ToolSpec(
        "advisor",
        kind="caller",
        native=raw({"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}),
        native_api=ANTHROPIC,
    )

    without = sent(CLAUDE, *turns)["messages"][1]["content"]
    with_it = sent(CLAUDE, *turns, tools=(LOOK, advisor))["messages"][1]["content"]

    assert [block["type"] for block in without] == ["text"]
    assert [block["type"] for block in with_it] == ["server_tool_use", "advisor_tool_result", "text"]


def test_all_results_stand_first_in_one_message_and_failed_ones_say_so() -> None:
    results = ToolTurn((ToolResult("2", "boom", failed=True), ToolResult("1", "ok")))
    last = sent(CLAUDE, user("a"), call("1", "2"), results, user("b"))["messages"][-1]["content"]

    assert [block["type"] for block in last] == ["tool_result", "tool_result", "text"]
    assert [(block["tool_use_id"], block.get("is_error")) for block in last[:2]] == [("1", None), ("2", True)]


def test_a_server_s_own_call_is_no_call_of_ours_and_gets_no_result() -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    body = sent(CLAUDE, user("a"), claude(search, USE), ToolTurn((ToolResult("toolu_1", "ok"),)))

    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ["toolu_1"]


def test_one_call_at_a_time_is_said_inside_of_the_choice() -> None:
    assert sent(CLAUDE, user("a"), options=Options(parallel_tool_calls=False))["tool_choice"] == {
        "type": "auto",
        "disable_parallel_tool_use": True,
    }


def test_a_forced_choice_and_a_budget_to_think_do_not_go_together() -> None:
    options = Options(reasoning_effort="high")
    forced = sent(CLAUDE, user("a"), choice=ToolChoice("required"), options=options)
    free = sent(CLAUDE, user("a"), options=options)

    assert ("thinking" in forced, "thinking" in free) == (False, True)


# ---- Gemini -------------------------------------------------------------------------------------------------------------

GEMINI = ALL[1]


def test_a_signature_that_stood_on_the_message_is_the_first_call_s() -> None:
    """Before Gemini 3, Google's compatible endpoint put it there."""
    message = {
        "role": "assistant",
        "extra_content": {"google": {"thought": True, "thought_signature": "c2ln"}},
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
            for call_id in ("1", "2")
        ],
    }
    turn = AssistantTurn(call("1", "2").parts, "tool_calls", Native(CHAT, raw(message)))
    parts = sent(GEMINI, user("a"), turn)["contents"][1]["parts"]

    assert [part.get("thoughtSignature") for part in parts] == ["c2ln", None]


def test_foreign_calls_say_that_there_is_no_signature_to_look_for() -> None:
    turns = (user("a"), call("1"), ToolTurn((ToolResult("1", "ok"),)), call("2", "3"))
    contents = sent(GEMINI, *turns)["contents"]

    signed = [[part.get("thoughtSignature") for part in one["parts"]] for one in contents if one["role"] == "model"]
    assert signed == [[NO_SIGNATURE], [NO_SIGNATURE, None]]


@pytest.mark.parametrize("part", [File(), Image("nonsense")])
def test_what_leads_nowhere_is_mentioned_to_gemini(part: Any) -> None:
    (content,) = sent(GEMINI, UserTurn((part,)))["contents"]

    assert content["parts"][0].keys() == {"text"}


# ---- everybody ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ALL)
def test_the_next_round_says_what_the_last_one_said_and_more_so_that_caches_hold(spec: str) -> None:
    provider: Any = open_provider(spec, Where())
    tools = tuple([ToolSpec(name, f"Does {name}.") for name in ("zeta", "alpha", "files.read", "beta")])
    turns: list[Turn] = [SystemTurn("Be brief."), user("a")]
    asked = request(*turns, tools=tools)
    first: bytes = provider.capabilities.project(asked).body
    asked.turns = [*turns, call("abcdefghi"), ToolTurn((ToolResult("abcdefghi", "ok"),))]
    second: bytes = provider.capabilities.project(asked).body

    said = first[: first.index(b'"a"') + 3]
    assert second.startswith(said)
    declared = json.loads(first)["tools"]
    assert json.loads(second)["tools"] == declared
    names = [name for name in ("zeta", "alpha", "files_read", "beta") if f'"{name}"' in json.dumps(declared)]
    order = [json.dumps(declared).replace("files.read", "files_read").index(f'"{name}"') for name in names]
    assert order == sorted(order)  # as they were declared


@pytest.mark.parametrize("spec", ALL)
def test_tools_in_another_form_are_the_same_bytes_every_time(spec: str) -> None:
    schema = {"type": "object", "properties": {"b": {"$ref": "#/$defs/x"}, "a": {}}, "$defs": {"x": {"type": "string"}}}
    bodies = set()
    for _ in range(3):
        provider: Any = open_provider(spec, Where())
        bodies.add(
            provider.capabilities.project(request_of(user("a"), tools=(ToolSpec("look", parameters=raw(schema)),))).body
        )

    assert len(bodies) == 1


@pytest.mark.parametrize("spec", ALL)
def test_a_session_that_broke_off_between_a_call_and_its_result_is_not_stuck(spec: str) -> None:
    body = sent(spec, user("a"), call("abcdefghi"), user("Still there?"))

    assert "no result" in json.dumps(body)
    assert "may or may not have taken effect" in json.dumps(
        body
    )  # no upstream is told that it failed, or that it did not run


@pytest.mark.parametrize("spec", ALL)
def test_words_before_a_call_stay_before_it(spec: str) -> None:
    turn = AssistantTurn((Text("Let me see."), ToolCall("abcdefghi", "look", "{}")), "tool_calls")
    said = json.dumps(sent(spec, user("a"), turn, ToolTurn((ToolResult("abcdefghi", "ok"),))))

    assert said.index("Let me see.") < said.index("look")
