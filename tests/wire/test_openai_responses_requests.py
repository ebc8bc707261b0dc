"""The Responses API as its client: requests say what the turns say, and our own items go back as they came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.wire.exchanges import native_of
from tests.wire.exchanges import request as request_of
from tests.wire.responses_items import Json, call, message, outputs, plain, reasoning, said_again, words

from ronda.core.events import ModelFinished
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
from ronda.core.request import ModelRequest
from ronda.errors import BadRequest
from ronda.wire.openai_responses import API
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_request import Body, write_request
from ronda.wire.openai_responses.items import Items

# ---- what goes back ---------------------------------------------------------------------------------------------------


@given(outputs())
def test_our_own_items_go_back_byte_for_byte(output: list[Json]) -> None:
    while output and output[-1]["type"] == "reasoning":
        output.pop()
    raw = json.dumps(output, indent=1).encode()
    turn = AssistantTurn((), native=Native(API, Raw(raw)))
    assert Items({}).write(turn) == raw[1:-1].strip()


def test_thoughts_that_came_to_nothing_are_not_sent_back() -> None:
    cut = read_plain(plain(message("a"), reasoning("hm"), status="incomplete")).turn
    assert said_again(cut) == [message("a")]
    assert said_again(read_plain(plain(reasoning("hm"), status="incomplete")).turn) == []
    assert native_of(ModelFinished(cut)) == [message("a"), reasoning("hm")]  # what is stored is whole


def test_a_stranger_is_projected() -> None:
    turn = AssistantTurn(
        (Reasoning("secret"), Text("I "), Text("look"), ToolCall("toolu_1", "f", "{}"), Text("…"), Refusal("no")),
        native=Native("anthropic", Raw(b'[{"signature":"x"}]')),
    )
    assert said_again(turn, ToolTurn((ToolResult("toolu_1", "ok"),))) == [
        {"type": "message", "role": "assistant", "content": "I look"},
        {"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": "{}"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "…"}, {"type": "refusal", "refusal": "no"}],
        },
        {"type": "function_call_output", "call_id": "toolu_1", "output": "ok"},
    ]


def test_a_turn_that_says_nothing_is_left_out() -> None:
    assert said_again(AssistantTurn((Reasoning("hm"), Text("")))) == []


@pytest.mark.parametrize("id", ["y" * 65, ""])
def test_an_id_that_does_not_fit_is_replaced_in_the_call_and_in_its_result(id: str) -> None:
    turns = (AssistantTurn((ToolCall(id, "f", "{}"),)), ToolTurn((ToolResult(id, "ok"),)))
    asked, answered = said_again(*turns)
    assert asked["call_id"] == answered["call_id"]
    assert 0 < len(asked["call_id"]) <= 64
    assert said_again(*turns) == [asked, answered]


def test_our_own_call_gets_another_id_if_its_own_would_be_refused() -> None:
    item = call(id="z" * 69)  # seen from Codex, which refuses it itself
    asked, answered = said_again(read_plain(plain(item)).turn, ToolTurn((ToolResult("z" * 69, "ok"),)))
    assert asked == {**item, "call_id": answered["call_id"]}
    assert len(asked["call_id"]) <= 64


def test_an_id_used_again_in_a_later_turn_is_replaced_there() -> None:
    one = (AssistantTurn((ToolCall("call_0", "f", "{}"),)), ToolTurn((ToolResult("call_0", "ok"),)))
    items = said_again(*one, *one, *one)
    ids = [item["call_id"] for item in items]
    assert ids[0::2] == ids[1::2]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 3


def test_what_tools_attach_is_in_their_results() -> None:
    result = ToolResult("c", "see", attachments=(Image("https://x/y.png"), Audio("AA", "wav")))
    assert said_again(ToolTurn((result, ToolResult("d", "", attachments=(Image("data:,"),))))) == [
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                {"type": "input_text", "text": "[audio was left out: this model cannot be sent it]"},
            ],
        },
        {
            "type": "function_call_output",
            "call_id": "d",
            "output": [{"type": "input_image", "image_url": "data:,", "detail": "auto"}],
        },
    ]


def test_parts_other_than_text_are_written_as_a_list() -> None:
    parts = (
        Text("look"),
        Image("https://x/y.png", "low"),
        Image("https://x/y.png", "enormous"),
        File("data:application/pdf;base64,AA", "a.pdf"),
        File("data:application/pdf;base64,AA"),
        File("https://x/a.pdf"),
        File("data:image/png;base64,AA"),
        File("data:audio/mpeg;base64,AA", "a.mp3"),
        File(id="file-1"),
        Video("https://x/v.mp4"),
    )
    (item,) = said_again(UserTurn(parts))
    assert item["content"] == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,AA"},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
        {"type": "input_text", "text": "[the audio file a.mp3 was left out: this model cannot be sent it]"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_text", "text": "[a video was left out: this model cannot be sent it]"},
    ]


def test_items_the_core_has_no_words_for_go_out_as_they_are() -> None:
    item = {"type": "mcp_approval_response", "approve": True, "approval_request_id": "mcpr_1"}
    assert said_again(UserTurn((), native=Native(API, Raw(json.dumps([item]).encode())))) == [item]


# ---- requests ---------------------------------------------------------------------------------------------------------


def request(*turns: Turn, **how: Any) -> ModelRequest:
    return request_of(*turns or (user("hi"),), **how)


def written(*turns: Turn, model: str = "gpt-5", **how: Json) -> Json:
    return json.loads(write_request(model, request(*turns, **how)))


def test_a_conversation_is_written_turn_by_turn() -> None:
    turns = (SystemTurn("Be brief."), SystemTurn("Be kind."), SystemTurn("now", "developer"), user("hi"))
    assert written(*turns, SystemTurn("later"), stream=True) == {
        "input": [
            {"type": "message", "role": "developer", "content": "now"},
            {"type": "message", "role": "user", "content": "hi"},
            {"type": "message", "role": "system", "content": "later"},
        ],
        "model": "gpt-5",
        "instructions": "Be brief.\n\nBe kind.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


def test_instructions_alone_are_the_input() -> None:
    for turns in ((SystemTurn("Go."),), (SystemTurn("Go."), AssistantTurn(()))):
        body = written(*turns)
        assert body["input"] == [{"type": "message", "role": "system", "content": "Go."}]
        assert "instructions" not in body


def test_options_are_written_under_their_names_and_unknown_ones_unchanged() -> None:
    options = Options(
        max_tokens=99,
        temperature=0.5,
        top_p=0.9,
        parallel_tool_calls=False,
        reasoning_effort="low",
        response_format=ResponseFormat("json_object"),
        extra={
            "text": Raw(b'{"verbosity":"low","format":{"type":"text"}}'),
            "reasoning": Raw(b'{"summary":"auto"}'),
            "include": Raw(b'["reasoning.encrypted_content","file_search_call.results"]'),
            "tools": Raw(b'[{"type":"web_search"}]'),
            "strange": Raw(b"[1.10]"),
        },
    )
    raw = write_request("gpt-5", request(options=options, tools=(ToolSpec("f"),)))
    assert b'"strange":[1.10]' in raw
    body = json.loads(raw)
    assert body.pop("tools")[1] == {"type": "web_search"}
    assert body | {"input": [], "strange": []} == {
        "input": [],
        "model": "gpt-5",
        "parallel_tool_calls": False,
        "store": False,
        "include": ["reasoning.encrypted_content", "file_search_call.results"],
        "max_output_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.9,
        "text": {"verbosity": "low", "format": {"type": "json_object"}},
        "reasoning": {"summary": "auto", "effort": "low"},
        "strange": [],
    }


def test_what_the_chat_door_calls_by_other_names_is_asked_for_in_this_apis_way() -> None:
    extra = {
        "max_completion_tokens": Raw(b"50"),
        "max_tokens": Raw(b"60"),
        "verbosity": Raw(b'"low"'),
        "logprobs": Raw(b"true"),
        "top_logprobs": Raw(b"2"),
    }
    body = written(options=Options(max_tokens=50, extra=extra))
    assert body["max_output_tokens"] == 50
    assert body["text"] == {"verbosity": "low"}
    assert body["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert body["top_logprobs"] == 2
    assert not body.keys() & {"max_tokens", "max_completion_tokens", "verbosity", "logprobs"}


def test_a_form_of_the_answer_is_written_with_its_schema() -> None:
    schema = Raw(
        b'{"type":"object","properties":{"a":{"type":"string","default":"x","examples":["y"]}},"required":["a"],'
        b'"additionalProperties":false}'
    )
    body = written(options=Options(response_format=ResponseFormat("json_schema", "an answer", schema, True, "why")))
    formed = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "an_answer", "description": "why", "schema": formed, "strict": True}
    }


@pytest.mark.parametrize("options", [Options(stop=("x",)), Options(seed=1)])
def test_what_this_api_has_no_words_for_is_refused_by_name(options: Options) -> None:
    with pytest.raises(BadRequest, match="Responses API") as caught:
        written(options=options)
    assert caught.value.param in ("stop", "seed")


@pytest.mark.parametrize(
    ("model", "asked"),
    [
        ("gpt-5.5", True),
        ("o3-mini", True),
        ("my-deployment", True),
        ("gpt-4o", False),
        ("openai/gpt-4.1-mini", False),
        ("gpt-5-chat-latest", False),
        ("ft:gpt-4o-mini:acme::1", False),
        ("chatgpt-4o-latest", False),
    ],
)
def test_only_models_that_think_are_asked_for_encrypted_thoughts(model: str, asked: bool) -> None:
    assert written(model=model).get("include", []) == (["reasoning.encrypted_content"] if asked else [])


def test_a_caller_can_ask_for_nothing_beside_the_answer() -> None:
    assert "include" not in written(options=Options(extra={"include": Raw(b"[]")}))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (AUTO, None),
        (NONE, "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("required", ("a.b",), named=True), {"type": "function", "name": "a_b"}),
        (
            ToolChoice("auto", ("a.b", "g")),
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "a_b"}, {"type": "function", "name": "g"}],
            },
        ),
    ],
)
def test_every_choice_of_a_tool_has_its_form(choice: ToolChoice, said: Json) -> None:
    tools = (ToolSpec("a.b"), ToolSpec("g"))
    body = written(tools=tools, choice=choice)
    assert body.get("tool_choice") == said
    assert [tool["name"] for tool in body["tools"]] == ["a_b", "g"]


OPEN = Raw(b'{"type":"object","properties":{"a":{"type":"string"}}}')
CLOSED = Raw(b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}')
UNION = Raw(b'{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}]}')


@pytest.mark.parametrize(
    ("tool", "parameters", "strict"),
    [
        (ToolSpec("f", parameters=OPEN), OPEN, False),
        (ToolSpec("f", parameters=OPEN, strict=True), OPEN, False),
        (ToolSpec("f", parameters=CLOSED, strict=True), CLOSED, True),
        (ToolSpec("f", parameters=OPEN, strict=True, kind="caller"), OPEN, True),
        (ToolSpec("f", parameters=OPEN, kind="caller"), OPEN, False),
    ],
)
def test_strictness_is_always_said_because_left_out_it_means_yes(tool: ToolSpec, parameters: Raw, strict: bool) -> None:
    (said,) = written(tools=(tool,))["tools"]
    assert said == {"type": "function", "name": "f", "parameters": json.loads(bytes(parameters)), "strict": strict}


def test_a_schema_that_would_be_refused_is_lowered() -> None:
    (said,) = written(tools=(ToolSpec("f", "does", UNION),))["tools"]
    assert said["description"] == "does"
    assert said["parameters"]["type"] == "object"
    assert "anyOf" not in said["parameters"]


def test_a_callers_own_declaration_is_sent_as_it_is_if_it_is_one_of_this_api() -> None:
    flat = {"type": "function", "name": "f", "parameters": {}, "defer_loading": True}
    nested = {"type": "function", "function": {"name": "f", "parameters": {}}, "cache_control": {}}
    declared = [ToolSpec("f", kind="caller", native=Raw(json.dumps(one).encode())) for one in (flat, nested)]
    assert written(tools=(declared[0],))["tools"] == [flat]
    (said,) = written(tools=(declared[1],))["tools"]
    assert said.keys() == {"type", "name", "parameters", "strict"}


# ---- a growing conversation -------------------------------------------------------------------------------------------


def _turns() -> st.SearchStrategy[Turn]:
    call_ids = st.sampled_from(["call_0", "call_1", "x" * 70])
    own = outputs().map(lambda output: read_plain(plain(*output)).turn)
    return st.one_of(
        st.builds(SystemTurn, words, st.sampled_from(["system", "developer"])),
        words.map(user),
        own,
        st.builds(lambda call_id, text: AssistantTurn((Text(text), ToolCall(call_id, "a.b", "{}"))), call_ids, words),
        st.builds(lambda call_id, text: ToolTurn((ToolResult(call_id, text),)), call_ids, words),
    )


@given(st.lists(_turns(), min_size=1, max_size=8), st.lists(st.integers(1, 8), max_size=5))
def test_writing_a_growing_conversation_equals_writing_it_anew(turns: list[Turn], lengths: list[int]) -> None:
    body = Body()
    for length in [*lengths, len(turns)]:
        some = request(*turns[:length])
        assert body.write("gpt-5", some) == Body().write("gpt-5", some)


@given(st.lists(_turns(), min_size=1, max_size=6), st.data())
def test_a_changed_turn_anywhere_in_the_history_is_written_anew(turns: list[Turn], data: st.DataObject) -> None:
    body = Body()
    body.write("gpt-5", request(*turns))
    changed = list(turns)
    changed[data.draw(st.integers(0, len(turns) - 1))] = data.draw(_turns())
    assert body.write("gpt-5", request(*changed)) == Body().write("gpt-5", request(*changed))


def test_a_new_tool_choice_changes_only_what_stands_behind_the_items() -> None:
    tools = (ToolSpec("f"),)
    body = Body()
    first = body.write("gpt-5", request(user("hi"), tools=tools, choice=ToolChoice("required")))
    second = body.write("gpt-5", request(user("hi"), tools=tools))
    start = b'{"input":[{"type":"message","role":"user","content":"hi"}'
    assert first.startswith(start)
    assert second.startswith(start)
    assert "tool_choice" not in json.loads(second)


def test_other_names_of_tools_are_written_anew() -> None:
    turn = AssistantTurn((ToolCall("c", "a.b", "{}"),))
    body = Body()
    for tools in ((), (ToolSpec("a.b"), ToolSpec("a_b")), (ToolSpec("a.b"),)):
        some = request(user("hi"), turn, tools=tools)
        assert body.write("gpt-5", some) == Body().write("gpt-5", some)


def test_a_body_is_kept_in_the_scratch_of_the_run_and_may_be_dropped() -> None:
    some = request(user("hi"))
    first = write_request("gpt-5", some)
    assert write_request("gpt-5", some) == first
    some.scratch.clear()
    assert write_request("gpt-5", some) == first
    assert "include" not in json.loads(write_request("gpt-5", some, encrypted=False))
