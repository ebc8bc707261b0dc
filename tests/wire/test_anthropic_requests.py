"""Anthropic's Messages as its client: requests say what the API accepts."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.anthropic_streams import told
from tests.conformance.anthropic_strict import refusals
from tests.wire.anthropic_messages import LOOK, dumps, events, messages, plain, text, thinking, use, watch, written
from tests.wire.exchanges import request

from ronda.core.events import CallDelta
from ronda.core.parts import (
    AssistantTurn,
    Audio,
    File,
    Image,
    Native,
    Reasoning,
    Refusal,
    SystemTurn,
    Text,
    ToolCall,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    Video,
    user,
)
from ronda.core.plan import AUTO, NONE, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.transcript import repair
from ronda.wire.anthropic import API, OLD_VERSION
from ronda.wire.anthropic.client_request import Body, betas, read_plain, write_request
from ronda.wire.anthropic.models import facts
from ronda.wire.anthropic.names import names_of


def test_a_request_says_what_the_turns_say() -> None:
    image = Image("data:image/png;base64,AAAA")
    turns = (
        SystemTurn("Be brief."),
        UserTurn((Text("Look"), image)),
        AssistantTurn(
            (Text("So:"), ToolCall("call_1", "look", '{"at":"x"}'), ToolCall("call_2", "look", "")), "tool_calls"
        ),
        ToolTurn((ToolResult("call_1", "seen", attachments=(image,)), ToolResult("call_2", "gone", failed=True))),
        user("And?"),
    )
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}

    assert written(*turns, tools=(LOOK,)) == {
        "messages": [
            {"role": "user", "content": [text("Look"), picture]},
            {"role": "assistant", "content": [text("So:"), use("call_1", at="x"), use("call_2")]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [text("seen"), picture]},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "gone", "is_error": True},
                    text("And?"),
                ],
            },
        ],
        "model": "claude-sonnet-4-5",
        "max_tokens": 32000,
        "system": "Be brief.",
        "tools": [{"name": "look", "description": "Look at it.", "input_schema": json.loads(bytes(LOOK.parameters))}],
    }


def test_ids_and_names_from_elsewhere_are_made_to_fit_and_found_again() -> None:
    tool = ToolSpec("files.read")
    turn = AssistantTurn(
        (ToolCall("call|fc:1", "files.read", "{}"), ToolCall("call|fc:1", "gone!", "[1]")), "tool_calls"
    )
    said = messages(turn, ToolTurn((ToolResult("call|fc:1", "a"), ToolResult("call|fc:1", "b"))), tools=(tool,))
    calls, results = said[0]["content"], said[1]["content"]

    assert [call["name"] for call in calls] == ["files_read", "gone_"]
    assert calls[1]["input"] == {"INVALID_JSON": "[1]"}
    assert [result["tool_use_id"] for result in results] == [call["id"] for call in calls]
    assert len({call["id"] for call in calls}) == 2

    names = names_of((tool,))
    body = plain(use("toolu_1", "files_read"), stop="tool_use")
    assert read_plain(body, names).turn.calls[0].name == "files.read"
    assert watch(events(*told(json.loads(body))), names=names)[1] == read_plain(body, names)


def test_properties_called_otherwise_come_back_under_their_own_names() -> None:
    tool = ToolSpec(
        "go", parameters=Raw(b'{"type":"object","properties":{"where to":{"type":"string"}},"required":["where to"]}')
    )
    declared = written(user("x"), tools=(tool,))["tools"][0]["input_schema"]
    renamed = declared["required"][0]
    assert renamed != "where to"

    body = plain(use("toolu_1", "go", **{renamed: "Rome"}), stop="tool_use")
    turn = read_plain(body, names_of((tool,))).turn
    previews, finished = watch(events(*told(json.loads(body))), names=names_of((tool,)))

    assert turn.calls[0].arguments == '{"where to":"Rome"}'
    assert finished.turn == turn
    assert previews == [CallDelta(0, "toolu_1", "go", ""), CallDelta(0, "toolu_1", "go", '{"where to":"Rome"}')]
    assert messages(turn, ToolTurn((ToolResult("toolu_1", "ok"),)), tools=(tool,))[0]["content"][0]["input"] == {
        renamed: "Rome"
    }


@pytest.mark.parametrize(
    ("choice", "parallel", "said"),
    [
        (AUTO, None, None),
        (AUTO, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (NONE, False, {"type": "none"}),
        (ToolChoice("required"), None, {"type": "any"}),
        (
            ToolChoice("required", ("look",), named=True),
            False,
            {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        ),
        (ToolChoice("required", ("look", "other")), None, {"type": "any"}),
        (ToolChoice("auto", ("look",)), None, None),
    ],
)
def test_tool_choice_in_the_words_of_the_api(choice: ToolChoice, parallel: bool | None, said: Any) -> None:
    options = Options(parallel_tool_calls=parallel)

    assert written(user("x"), tools=(LOOK,), choice=choice, options=options).get("tool_choice") == said


def test_a_strict_tool_is_strict_where_it_qualifies_and_the_model_can() -> None:
    closed = Raw(
        b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}'
    )
    tools = (
        ToolSpec("a", parameters=closed, strict=True),
        ToolSpec("b", strict=True),
        ToolSpec("c", parameters=closed),
    )

    assert [tool.get("strict") for tool in written(user("x"), tools=tools)["tools"]] == [True, None, None]
    old = written(user("x"), tools=tools, model="claude-3-5-haiku-latest")["tools"]
    assert [tool.get("strict") for tool in old] == [None, None, None]


def test_a_declaration_in_the_api_s_own_words_goes_out_as_it_is() -> None:
    search = Raw(b'{"type":"web_search_20250305","name":"web_search","max_uses":3}')
    chat = Raw(b'{"type":"function","function":{"name":"look"},"x":1}')
    tools = (ToolSpec("web_search", kind="caller", native=search), ToolSpec("look", kind="caller", native=chat))

    assert written(user("x"), tools=tools)["tools"] == [
        json.loads(bytes(search)),
        {"name": "look", "input_schema": {"type": "object"}},
    ]


def test_arguments_are_asked_for_as_they_are_written_when_somebody_watches() -> None:
    assert written(user("x"), tools=(LOOK,), stream=True)["tools"][0]["eager_input_streaming"] is True


@pytest.mark.parametrize(
    ("model", "effort", "thinking", "config"),
    [
        ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 2048}, None),
        ("claude-3-7-sonnet-latest", "high", {"type": "enabled", "budget_tokens": 16384}, None),
        ("claude-opus-4-6", "minimal", {"type": "adaptive"}, {"effort": "low"}),
        ("claude-opus-4-6", "xhigh", {"type": "adaptive"}, {"effort": "max"}),
        ("claude-opus-4-8", "xhigh", {"type": "adaptive", "display": "summarized"}, {"effort": "xhigh"}),
        ("claude-next", "high", {"type": "adaptive", "display": "summarized"}, {"effort": "high"}),
        ("claude-opus-4-8", "none", None, None),
        ("claude-sonnet-5", "none", {"type": "disabled"}, None),
        ("claude-fable-5", "none", None, {"effort": "low"}),
        ("some-other-model", "low", {"type": "enabled", "budget_tokens": 2048}, None),
    ],
)
def test_reasoning_effort_in_the_words_of_each_model(model: str, effort: str, thinking: Any, config: Any) -> None:
    said = written(user("x"), model=model, options=Options(reasoning_effort=effort))

    assert (said.get("thinking"), said.get("output_config")) == (thinking, config)
    assert said["max_tokens"] >= (thinking or {}).get("budget_tokens", 0) + 4096


def test_a_budget_to_think_fits_into_the_tokens_there_are() -> None:
    def budget(max_tokens: int) -> Any:
        options = Options(max_tokens=max_tokens, reasoning_effort="high")
        return (written(user("x"), options=options).get("thinking") or {}).get("budget_tokens")

    assert [budget(n) for n in (1000, 1024, 1025, 4000, 64000)] == [None, None, 1024, 2000, 16384]


def test_the_caller_s_own_thinking_and_output_config_win() -> None:
    extra = {"thinking": Raw(b'{"type":"enabled","budget_tokens":5000}'), "output_config": Raw(b'{"effort":"max"}')}
    said = written(user("x"), model="claude-opus-4-6", options=Options(reasoning_effort="low", extra=extra))

    assert said["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert said["output_config"] == {"effort": "max"}


def test_a_schema_binds_the_answer_where_the_api_takes_it_and_is_said_where_not() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    answer_format = ResponseFormat("json_schema", schema=Raw(dumps(schema)))
    said = written(user("x"), options=Options(response_format=answer_format))
    assert said["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert "system" not in said

    old = written(
        SystemTurn("Be brief."), user("x"), model="claude-3-opus-latest", options=Options(response_format=answer_format)
    )
    assert "output_config" not in old
    assert old["system"].startswith("Be brief.\n\nAnswer with JSON that satisfies")
    assert dumps(schema).decode() in old["system"]

    loose = written(
        user("x"), options=Options(response_format=ResponseFormat("json_schema", schema=Raw(b'{"type":"object"}')))
    )
    assert '{"type":"object"}' in loose["system"]
    assert "JSON object" in written(user("x"), options=Options(response_format=ResponseFormat("json_object")))["system"]


def test_a_list_binds_the_answer_as_an_object_does() -> None:
    item = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    listed = {"type": "array", "items": {"$ref": "#/$defs/item"}, "$defs": {"item": item}}
    for schema in ({"type": "array", "items": item}, listed):
        answer_format = ResponseFormat("json_schema", schema=Raw(dumps(schema)))
        said = written(user("x"), options=Options(response_format=answer_format))

        assert said["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
        assert "system" not in said


def test_sampling_is_left_out_for_the_new_api_and_sent_to_the_old() -> None:
    options = Options(temperature=0.5, top_p=0.9, stop=("END",), max_tokens=7, seed=1, extra={"top_k": Raw(b"40")})
    said = written(user("x"), options=options, version=OLD_VERSION)

    unsampled = written(user("x"), options=options)
    assert {name: unsampled[name] for name in unsampled.keys() - {"messages", "model"}} == {
        "max_tokens": 7,
        "stop_sequences": ["END"],
    }
    assert {name: said[name] for name in said.keys() - {"messages", "model"}} == {
        "max_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_sequences": ["END"],
        "top_k": 40,
    }


def test_fields_of_other_dialects_are_translated_or_mean_nothing_and_any_other_goes_out() -> None:
    extra = {
        "max_completion_tokens": Raw(b"99"),
        "user": Raw(b'"u1"'),
        "metadata": Raw(b'{"note":"x"}'),
        "store": Raw(b"true"),
        "frequency_penalty": Raw(b"0"),
        "presence_penalty": Raw(b"1"),
        "betas": Raw(b'["a-1","b-2"]'),
        "cache_control": Raw(b'{"type":"ephemeral"}'),
        "service_tier": Raw(b"null"),
    }
    said = written(user("x"), options=Options(extra=extra))

    assert {name: said[name] for name in said.keys() - {"messages", "model"}} == {
        "max_tokens": 99,
        "metadata": {"user_id": "u1"},
        "presence_penalty": 1,
        "cache_control": {"type": "ephemeral"},
    }
    assert betas(Options(extra=extra)) == "a-1,b-2"


def test_probabilities_which_the_api_does_not_give_are_not_asked_for() -> None:
    body = Body()
    extra = {"logprobs": Raw(b"true"), "top_logprobs": Raw(b"5")}
    said = json.loads(body.write("claude-sonnet-4-5", request(user("x"), options=Options(extra=extra))))

    assert not said.keys() & extra.keys()
    assert sorted(warning.partition(" ")[0] for warning in body.changes.warnings) == ["'logprobs'", "'top_logprobs'"]
    quiet = Body()
    quiet.write("claude-sonnet-4-5", request(user("x"), options=Options(extra={"logprobs": Raw(b"false")})))
    assert not quiet.changes.warnings


def test_what_the_model_cannot_be_shown_is_said_to_it() -> None:
    parts = (
        Image("data:image/svg+xml;base64,AAAA"),
        Audio("AAAA", "wav"),
        Video("https://x/y.mp4"),
        File("data:application/zip;base64,AAAA", "a.zip"),
        File(),
    )

    assert [block["type"] for block in messages(UserTurn(parts))[0]["content"]] == ["text"] * len(parts)


def test_files_are_documents() -> None:
    parts = (
        File("data:application/pdf;base64,AAAA", "a.pdf"),
        File("data:text/plain;base64,aGk=", "a.txt"),
        File("data:text/csv,a%2Cb"),
        File(id="file_1"),
        File("https://x/y.pdf"),
    )
    sources = [block["source"] for block in messages(UserTurn(parts))[0]["content"]]

    assert sources == [
        {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
        {"type": "text", "media_type": "text/plain", "data": "hi"},
        {"type": "text", "media_type": "text/plain", "data": "a,b"},
        {"type": "file", "file_id": "file_1"},
        {"type": "url", "url": "https://x/y.pdf"},
    ]


def test_what_a_failed_tool_had_to_show_stands_behind_the_results() -> None:
    result = ToolResult("call_1", "", failed=True, attachments=(Image("https://x/y.png"),))
    turn = AssistantTurn((ToolCall("call_1", "look", "{}"),), "tool_calls")
    content = messages(turn, ToolTurn((result,)))[1]["content"]

    assert content[0] == {"type": "tool_result", "tool_use_id": "call_1", "content": "Error", "is_error": True}
    assert [block["type"] for block in content[1:]] == ["text", "image"]


def test_a_system_turn_in_the_middle_stands_where_the_model_has_a_place_for_it() -> None:
    turns = (SystemTurn("A"), user("x"), AssistantTurn((Text("y"),)), SystemTurn("B"), user("z"))
    new = written(*turns, model="claude-opus-4-8")

    for name in ("claude-sonnet-4-5", "kimi-k2"):  # of another vendor's model no more is known than of the first ones
        old = written(*turns, model=name)
        assert (old["system"], len(old["messages"])) == ("A\n\nB", 3), name
    assert new["system"] == "A"
    assert [said["role"] for said in new["messages"]] == ["user", "assistant", "user", "system"]
    ends = messages(*turns[:-1], model="claude-opus-4-8")
    assert [said["role"] for said in ends] == ["user", "assistant", "user", "system"]


def test_a_conversation_that_ends_with_the_assistant_is_gone_on_with() -> None:
    turns = (user("x"), AssistantTurn((Text("It is "),)))

    assert messages(*turns)[-1] == {"role": "assistant", "content": [text("It is")]}
    assert messages(*turns, model="claude-opus-4-8")[-1] == {"role": "user", "content": [text("Continue.")]}
    thinks = messages(*turns, options=Options(reasoning_effort="low"))
    assert thinks[-1]["role"] == "user"


def test_a_tool_loop_that_began_without_a_thought_goes_on_without() -> None:
    call = AssistantTurn((ToolCall("call_1", "look", "{}"),), "tool_calls")
    thought = read_plain(plain(thinking("a"), use("call_1"), stop="tool_use")).turn
    results = ToolTurn((ToolResult("call_1", "ok"),))
    options = Options(reasoning_effort="low")

    assert "thinking" not in written(user("x"), call, results, options=options, tools=(LOOK,))
    assert "thinking" not in written(user("x"), call, results, call, results, options=options, tools=(LOOK,))
    assert "thinking" in written(user("x"), thought, results, call, results, options=options, tools=(LOOK,))
    assert "thinking" in written(user("x"), call, results, AssistantTurn((Text("y"),)), user("z"), options=options)
    forced = written(user("x"), options=options, tools=(LOOK,), choice=ToolChoice("required"))
    assert forced["tool_choice"] == {"type": "any"}
    assert "thinking" not in forced


def test_calls_of_tools_that_are_gone_still_have_a_declaration() -> None:
    call = AssistantTurn((ToolCall("call_1", "look", "{}"),), "tool_calls")
    said = written(call, ToolTurn((ToolResult("call_1", "ok"),)))

    assert [tool["name"] for tool in said["tools"]] == ["look"]
    assert said["tool_choice"] == {"type": "none"}


def test_what_the_user_said_in_the_api_s_words_goes_back_without_what_the_new_api_refuses() -> None:
    cited = {**text("x"), "citations": [{"a": 1}], "cache_control": {"type": "ephemeral"}}
    turn = UserTurn((Text("x"),), native=Native(API, Raw(dumps([cited]))))

    assert messages(turn)[0]["content"] == [{**text("x"), "cache_control": {"type": "ephemeral"}}]
    assert messages(turn, version=OLD_VERSION)[0]["content"] == [cited]


@pytest.mark.parametrize(
    ("name", "adaptive", "prefill"),
    [
        ("claude-3-5-sonnet-20240620", False, True),
        ("claude-2.1", False, True),
        ("claude-sonnet-4-20250514", False, True),
        ("claude-opus-4@20250514", False, True),
        ("claude-opus-4-1-20250805", False, True),
        ("anthropic/claude-sonnet-4.6", True, False),
        ("us.anthropic.claude-opus-4-6-v1:0", True, False),
        ("claude-haiku-5-5", True, False),
        ("claude-opus", True, False),
        ("glm-5", False, True),
    ],
)
def test_a_model_is_known_by_its_name(name: str, adaptive: bool, prefill: bool) -> None:
    assert (facts(name).adaptive, facts(name).prefill) == (adaptive, prefill)


IDS = st.sampled_from(["call_1", "a|b", "", "x" * 80, "null", "toolu_1", "é", "call_2"])
NAMES = st.sampled_from(["look", "files.read", "gone tool", "x" * 70])
ARGUMENTS = st.sampled_from(["{}", '{"at":"x"}', "", "[1]", '{"at', '{"a":1e400}'])
SAID = st.sampled_from(["", " ", "\n", "Hello", "Hello \n", "é"])
ATTACHED = st.sampled_from(
    [
        Image("data:image/png;base64,AAAA"),
        Image("https://x/y.png"),
        Image("nonsense"),
        Image("data:image/tiff;base64,AAAA"),
        Audio("AAAA", "mp3"),
        Video("https://x/y"),
        File("data:application/pdf;base64,AAAA", " "),
        File("data:text/plain;base64,//8=", "x"),
        File(id="file_1"),
    ]
)
FOREIGN = Native("openai-chat", Raw(b'{"role":"assistant","content":"x"}'))


def calls_with_their_own_ids(parts: list[Any]) -> bool:
    ids = [part.id for part in parts if type(part) is ToolCall]
    return len(set(ids)) == len(ids)


PARTS = st.one_of(SAID.map(Text), SAID.map(Reasoning), SAID.map(Refusal), st.builds(ToolCall, IDS, NAMES, ARGUMENTS))
RESULTS = st.builds(ToolResult, IDS, SAID, st.booleans(), st.lists(ATTACHED, max_size=2).map(tuple))


@st.composite
def own_turns(draw: st.DrawFn) -> AssistantTurn:
    words = draw(st.lists(st.sampled_from([thinking("a"), thinking("", "s"), text("b"), text("c ")]), max_size=3))
    calls = [use(f"toolu_own_{n}") for n in range(draw(st.integers(0, 2)))]
    return read_plain(plain(*words, *calls, stop="tool_use" if calls else "end_turn")).turn


TURNS = st.one_of(
    st.builds(SystemTurn, SAID),
    st.builds(UserTurn, st.lists(st.one_of(SAID.map(Text), ATTACHED), max_size=3).map(tuple)),
    st.builds(
        AssistantTurn,
        st.lists(PARTS, max_size=4).filter(calls_with_their_own_ids).map(tuple),
        st.sampled_from(["stop", "tool_calls", "interrupted", "length"]),
        st.sampled_from([None, FOREIGN]),
    ),
    st.builds(ToolTurn, st.lists(RESULTS, max_size=3).map(tuple)),
    own_turns(),
)
MODELS = st.sampled_from(
    [
        "claude-3-5-haiku-latest",
        "claude-sonnet-4-5",
        "claude-opus-4-6",
        "claude-opus-4-8",
        "claude-fable-5",
        "claude-opus-5-5",
    ]
)
TOOLS = st.sampled_from(
    [(), (LOOK,), (LOOK, ToolSpec("files.read"), ToolSpec("x" * 70, parameters=Raw(b'{"anyOf":[]}')))]
)
EFFORTS = st.sampled_from([None, None, "none", "low", "high", "max"])


@settings(max_examples=200)
@given(
    st.lists(TURNS, max_size=8),
    MODELS,
    TOOLS,
    EFFORTS,
    st.sampled_from([None, 500, 2000]),
    st.sampled_from([AUTO, NONE, ToolChoice("required")]),
    st.sampled_from([None, ResponseFormat("json_object")]),
)
def test_the_api_accepts_every_history(
    turns: list[Turn],
    model: str,
    tools: tuple[ToolSpec, ...],
    effort: str | None,
    max_tokens: int | None,
    choice: ToolChoice,
    format: ResponseFormat | None,
) -> None:
    options = Options(
        max_tokens=max_tokens, reasoning_effort=effort, response_format=format, extra={"user": Raw(b'"u"')}
    )
    chosen = choice if tools else AUTO
    body = write_request(model, request(*repair(turns), tools=tools, choice=chosen, options=options))

    assert refusals(body) == []


@given(st.lists(TURNS, max_size=8), MODELS, TOOLS, st.data())
def test_writing_what_is_new_is_writing_all_of_it(
    turns: list[Turn], model: str, tools: tuple[ToolSpec, ...], data: st.DataObject
) -> None:
    history = list(repair(turns))
    body = Body()
    for _ in range(4):
        if data.draw(st.booleans()):
            model = data.draw(MODELS)
        if data.draw(st.booleans()):
            tools = data.draw(TOOLS)
        size = data.draw(st.integers(0, len(history)))
        asked = request(*history[:size], tools=tools, options=Options(reasoning_effort=data.draw(EFFORTS)))
        assert body.write(model, asked) == Body().write(model, asked)
