"""Chat Completions as its client: requests say what the turns say."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.wire.exchanges import request

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
from ronda.wire.openai_chat import API
from ronda.wire.openai_chat.client_request import Body, body_of, write_request, write_turn
from ronda.wire.openai_chat.quirks import OPENAI

LOOK = ToolSpec("look", "Look at something.", Raw(b'{"type":"object","properties":{"at":{"type":"string"}}}'))
ASKED = AssistantTurn((Text("Let me look."), ToolCall("c1", "look", '{"at":"sky"}')), "tool_calls")
FOUND = ToolTurn((ToolResult("c1", "blue"),))
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
TEXTS = st.text(max_size=20)


def written(*turns: Turn, **how: Any) -> Any:
    return json.loads(write_request("m", request(*turns, **how)))


def test_a_conversation_is_written_turn_by_turn() -> None:
    asked = UserTurn((Text("Sky?"),), "ann")

    assert written(SystemTurn("Be brief."), SystemTurn("Now.", "developer"), asked, ASKED, FOUND) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Now."},
            {"role": "user", "content": "Sky?", "name": "ann"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "blue"},
        ],
    }


def test_parts_other_than_text_are_written_as_a_list() -> None:
    parts = (
        Text("See:"),
        Image("https://x/y.png", "low"),
        Audio("AAAA", "wav"),
        Video("https://x/y.mp4"),
        File("data:application/pdf;base64,AA==", "a.pdf"),
        File(id="file-1"),
    )

    assert written(UserTurn(parts))["messages"][0]["content"] == [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]


def test_what_tools_attach_follows_their_results_as_the_users() -> None:
    asked = AssistantTurn((ToolCall("c1", "look", "{}"), ToolCall("c2", "ring", "{}")), "tool_calls")
    found = ToolTurn(
        (ToolResult("c1", "a picture", attachments=(Image("data:image/png;base64,AA=="),)), ToolResult("c2", "ok"))
    )

    messages = written(user("Go"), asked, found)["messages"]

    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "a picture"}
    assert messages[4]["content"][1:] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]


def test_what_a_result_says_in_our_own_json_is_not_attached_again() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    said = {"role": "tool", "tool_call_id": "c1", "content": [picture], "cache_control": {"type": "ephemeral"}}
    result = ToolResult("c1", "", False, (Image("https://x/y.png"),), Native(API, Raw(json.dumps(said).encode())))

    assert json.loads(write_turn(ToolTurn((result,)))) == said


def test_our_own_json_of_a_turn_is_sent_back_untouched_and_a_strangers_is_not() -> None:
    ours = Native(API, Raw(b'{"role":"assistant",  "content":"Hi","signature":"x1"}'))
    theirs = Native("somebody-else", ours.payload)

    assert write_turn(AssistantTurn((Text("Hi"),), native=ours)) == bytes(ours.payload)
    assert json.loads(write_turn(AssistantTurn((Text("Hi"),), native=theirs))) == {"role": "assistant", "content": "Hi"}


def test_reasoning_of_another_wire_is_never_sent() -> None:
    turn = AssistantTurn((Reasoning("Hm"), Text("Hi")), native=Native("somebody-else", Raw(b"{}")))

    assert json.loads(write_turn(turn)) == {"role": "assistant", "content": "Hi"}


def test_a_turn_that_says_nothing_is_left_out() -> None:
    messages = written(AssistantTurn(()), user("Hi"), AssistantTurn((), "interrupted"), user("Hello?"))["messages"]

    assert [message["content"] for message in messages] == ["Hi", "Hello?"]


def test_a_refusal_is_said_again() -> None:
    assert json.loads(write_turn(AssistantTurn((Refusal("No."),)))) == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
    }


def test_options_are_written_under_their_names_and_unknown_ones_unchanged() -> None:
    options = Options(
        max_tokens=9,
        temperature=0.0,
        top_p=0.5,
        stop=("END",),
        seed=0,
        parallel_tool_calls=False,
        reasoning_effort="low",
        response_format=ResponseFormat("json_schema", "sky", Raw(b'{"type":"object"}'), True),
        extra={"logit_bias": Raw(b'{"5":-100}'), "x": Raw(b"1.0")},
    )

    said = written(user("Hi"), tools=(LOOK,), choice=NONE, options=options, stream=True)

    assert said == {
        "messages": [{"role": "user", "content": "Hi"}],
        "model": "m",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Look at something.",
                    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                },
            }
        ],
        "tool_choice": "none",
        "parallel_tool_calls": False,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ["END"],
        "seed": 0,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "sky", "schema": {"type": "object"}, "strict": True},
        },
        "logit_bias": {"5": -100},
        "x": 1.0,
    }


def test_the_newer_name_of_the_token_limit_is_kept_alone() -> None:
    said = written(user("Hi"), options=Options(max_tokens=9, extra={"max_completion_tokens": Raw(b"9")}))

    assert (said.get("max_tokens"), said["max_completion_tokens"]) == (None, 9)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (AUTO, None),
        (NONE, "none"),
        (ToolChoice("required"), "required"),
        (ToolChoice("required", ("look",), named=True), {"type": "function", "function": {"name": "look"}}),
        (
            ToolChoice("auto", ("look",)),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]},
            },
        ),
    ],
)
def test_every_choice_of_a_tool_has_its_form(choice: ToolChoice, said: Any) -> None:
    asked = request(user("Hi"), tools=(LOOK,), choice=choice)

    assert json.loads(body_of(asked, OPENAI).write("m", asked)).get("tool_choice") == said


# ---- the body that remembers ------------------------------------------------------------------------------------------

TURNS = st.one_of(
    TEXTS.map(user),
    TEXTS.map(SystemTurn),
    TEXTS.map(lambda text: AssistantTurn((Text(text),) if text else ())),
    st.just(ASKED),
    TEXTS.map(lambda text: ToolTurn((ToolResult("c1", text),))),
)


@given(st.lists(TURNS, max_size=8), st.lists(st.integers(0, 8), max_size=6))
def test_writing_a_growing_conversation_equals_writing_it_anew(turns: list[Turn], lengths: list[int]) -> None:
    body = Body()

    for length in lengths:  # shrinking too: a turn may be taken back
        asked = request(*turns[:length])
        assert body.write("m", asked) == Body().write("m", asked)


@given(st.lists(TURNS, min_size=1, max_size=6), st.data())
def test_a_changed_turn_anywhere_in_the_history_is_written_anew(turns: list[Turn], data: st.DataObject) -> None:
    body = Body()
    body.write("m", request(*turns))
    changed = list(turns)
    changed[data.draw(st.integers(0, len(turns) - 1))] = user("instead")
    changed += data.draw(st.lists(TURNS, max_size=2))

    assert body.write("m", request(*changed)) == Body().write("m", request(*changed))


def test_a_new_tool_choice_changes_only_what_stands_behind_the_messages() -> None:
    turns = (user("Sky?"), ASKED, FOUND)
    body = Body()
    first = body.write("m", request(*turns, tools=(LOOK,)))

    last = body.write("m", request(*turns, tools=(LOOK,), choice=NONE))
    again = body.write("m", request(*turns, tools=(LOOK,)))

    head = first[: first.index(b'],"model"')]
    assert last.startswith(head)
    assert json.loads(last) == {**json.loads(first), "tool_choice": "none"}
    assert again == first


def test_a_new_model_or_option_is_not_taken_from_what_was_written_before() -> None:
    body = Body()
    body.write("m", request(user("Hi")))

    assert json.loads(body.write("n", request(user("Hi"))))["model"] == "n"
    assert json.loads(body.write("n", request(user("Hi"), options=Options(seed=3))))["seed"] == 3


def test_a_body_is_kept_in_the_scratch_of_the_run_and_may_be_dropped() -> None:
    asked = request(user("Hi"))
    first = write_request("m", asked)
    asked.turns = (*asked.turns, AssistantTurn((Text("Hello"),)), user("Bye"))
    second = write_request("m", asked)

    asked.scratch.clear()

    assert second == write_request("m", asked)
    assert second.startswith(first[: first.index(b'],"model"')])
