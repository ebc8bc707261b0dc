"""Turns, tools and options → the request that Mistral takes."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.mistral_strict import refusals
from tests.wire.exchanges import request
from tests.wire.mistral_answers import MODEL, call, plain, thinking

from ronda.core.parts import (
    AssistantTurn,
    Attachment,
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
from ronda.core.plan import AUTO, Options, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.transcript import repair
from ronda.wire.mistral import native_api
from ronda.wire.mistral.call_ids import nine, wire_ids
from ronda.wire.mistral.client_answer import Naming, read_plain
from ronda.wire.mistral.client_request import Body, unsent, write_request

# ---- requests ------------------------------------------------------------------------------------------------------


LOOK = ToolSpec("look", "Look at something.", Raw(b'{"type":"object","properties":{"at":{"type":"string"}}}'))


RING = ToolSpec("ring")


ASKED = AssistantTurn(
    (Reasoning("Hm"), Text("Let me look."), ToolCall("call_1|fc_2", "look", '{"at":"sky"}')), "tool_calls"
)


FOUND = ToolTurn((ToolResult("call_1|fc_2", "blue"),))


def written(*turns: Turn, model: str = MODEL, **how: Any) -> Any:
    return json.loads(write_request(model, request(*turns, **how)))


def messages(*turns: Turn, model: str = MODEL) -> Any:
    return written(*turns, model=model)["messages"]


def test_a_foreign_conversation_in_mistrals_words() -> None:
    conversation_id = nine("call_1|fc_2")

    assert written(
        SystemTurn("Be brief.", "developer"), UserTurn((Text("Sky?"),), "ann"), ASKED, FOUND, user("So?")
    ) == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Sky?"},
            {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": conversation_id,
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"at":"sky"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": conversation_id, "name": "look", "content": "blue"},
            {"role": "user", "content": "So?"},
        ],
    }


@given(st.lists(st.text(max_size=12), max_size=6))
def test_ids_fit_agree_and_are_distinct(ids: list[str]) -> None:
    found = wire_ids(ids)

    assert found == wire_ids(ids)
    assert len(set(found)) == len(ids)
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call_id) for call_id in found)
    assert nine("D681PevKs") == "D681PevKs"


def test_thoughts_go_back_to_the_model_that_had_them_and_to_no_other() -> None:
    content = [thinking("Hm.", closed=True), {"type": "text", "text": "Four."}]
    turn = plain({"content": content}).turn

    assert messages(user("2+2?"), turn, user("Sure?"))[1] == {"role": "assistant", "content": content}
    assert messages(user("2+2?"), turn, user("Sure?"), model="mistral-small-latest")[1]["content"] == "Four."


def test_a_turn_that_says_nothing_is_left_out_and_one_at_the_end_is_a_prefix() -> None:
    assert messages(user("Hi"), AssistantTurn((Reasoning("Hm"),)), user("Well?")) == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "Well?"},
    ]
    body = Body()
    first = request(user("Hi"), AssistantTurn((Text("Dear"),)))
    assert json.loads(body.write(MODEL, first))["messages"][1] == {
        "role": "assistant",
        "content": "Dear",
        "prefix": True,
    }
    more = request(*first.turns, user("Well?"))
    assert json.loads(body.write(MODEL, more))["messages"][1] == {"role": "assistant", "content": "Dear"}


def test_a_conversation_that_the_model_begins_or_that_is_not_there_yet_is_begun_for_it() -> None:
    for turns in (
        (),
        (SystemTurn("Greet."),),
        (AssistantTurn((Text("Dear"),)),),
        (ASKED, FOUND),
        (SystemTurn("x"), ASKED, FOUND),
    ):
        assert refusals(written(*turns)) == []


def test_a_system_turn_in_the_middle_is_the_users_and_stays_there() -> None:
    said = messages(SystemTurn("First."), user("Hi"), ASKED, FOUND, SystemTurn("In French."), user("Well?"))

    assert [one["role"] for one in said] == ["system", "user", "assistant", "tool", "user", "user"]
    assert said[4]["content"] == "In French."


def test_arguments_nobody_can_read_are_told_as_an_object() -> None:
    turn = AssistantTurn((ToolCall("abcdefghi", "look", '{"at": "sk'), ToolCall("abcdefghj", "look", "")), "tool_calls")
    said = messages(user("?"), turn, user("!"))[1]["tool_calls"]

    assert [json.loads(one["function"]["arguments"]) for one in said] == [{"unreadable": '{"at": "sk'}, {}]


def test_parts_other_than_text() -> None:
    turn = UserTurn(
        (
            Text("See"),
            Image("https://a/b.png", "high"),
            Image("data:image/png;base64,iVB", "original"),
            Audio("UklG", "wav"),
            Video("https://a/b.mp4"),
            File(data="data:application/pdf;base64,JVBE", name="a.pdf"),
            File(data="data:image/png;base64,iVB"),
            File(id="f1"),
        )
    )

    assert messages(turn)[0]["content"] == [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVB"}},
        {"type": "input_audio", "input_audio": "UklG"},
        {"type": "text", "text": "[There is a video at https://a/b.mp4, which you cannot see.]"},
        {"type": "document_url", "document_url": "data:application/pdf;base64,JVBE", "document_name": "a.pdf"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVB"}},
        {"type": "file", "file_id": "f1"},
    ]


def test_what_tools_attach_follows_as_the_users() -> None:
    result = ToolTurn((ToolResult("call_1|fc_2", "see", attachments=(Image("https://a/b.png"),)),))

    assert [message["role"] for message in messages(user("?"), ASKED, result)] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (AUTO, None),
        (ToolChoice("none"), "none"),
        (ToolChoice("required"), "any"),
        (ToolChoice("required", ("look",), named=True), {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_every_choice_of_a_tool_has_its_form(choice: ToolChoice, said: Any) -> None:
    sent = written(user("?"), tools=(LOOK, RING), choice=choice)

    assert sent.get("tool_choice") == said
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look", "ring"]
    assert "tool_choice" not in written(user("?"), choice=choice)


def test_tools_that_are_not_allowed_are_not_declared() -> None:
    sent = written(user("?"), tools=(LOOK, RING), choice=ToolChoice("required", ("look",)))

    assert [tool["function"]["name"] for tool in sent["tools"]] == ["look"]
    assert sent["tool_choice"] == "any"


def test_names_mistral_refuses_are_changed_on_the_wire_alone() -> None:
    odd = ToolSpec("mcp.look!")
    body = Body()
    called = json.loads(body.write(MODEL, request(user("?"), tools=(odd,))))["tools"][0]["function"]["name"]
    answer = {
        "choices": [{"message": {"tool_calls": [call("D681PevKs", called, "{}")]}, "finish_reason": "tool_calls"}]
    }

    assert called == "mcp_look_"
    assert read_plain(json.dumps(answer).encode(), Naming(MODEL, body.tools)).turn.calls[0].name == "mcp.look!"


SCHEMA = Raw(b'{"type":"object","properties":{},"additionalProperties":false}')


OPTIONS = Options(
    max_tokens=9,
    temperature=0.5,
    top_p=0.9,
    stop=("x",),
    seed=3,
    parallel_tool_calls=False,
    reasoning_effort="high",
    response_format=ResponseFormat("json_schema", "thing", SCHEMA, strict=True),
    extra={
        "prompt_mode": Raw(b'"reasoning"'),
        "safe_prompt": Raw(b"true"),
        "prediction": Raw(b'{"type":"content","content":"x"}'),
        "logprobs": Raw(b"true"),
        "user": Raw(b'"ann"'),
        "prompt_cache_key": Raw(b"null"),
    },
)


def test_options_are_written_under_mistrals_names_and_nothing_else_is() -> None:
    said = written(user("?"), tools=(LOOK,), options=OPTIONS, stream=True)

    assert {name: value for name, value in said.items() if name not in ("messages", "tools")} == {
        "model": MODEL,
        "stream": True,
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["x"],
        "random_seed": 3,
        "parallel_tool_calls": False,
        "reasoning_effort": "high",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "thing", "schema": json.loads(bytes(SCHEMA)), "strict": True},
        },
        "prompt_mode": "reasoning",
        "safe_prompt": True,
        "prediction": {"type": "content", "content": "x"},
    }
    assert unsent(OPTIONS) == ("logprobs", "user")


def test_an_agent_has_its_own_model_and_sampling() -> None:
    said = json.loads(Body(agent=True).write("ag:1", request(user("?"), options=OPTIONS)))

    assert said["agent_id"] == "ag:1"
    assert not said.keys() & {"model", "temperature", "top_p", "safe_prompt"}
    assert unsent(OPTIONS, agent=True) == ("safe_prompt", "logprobs", "user", "temperature", "top_p")
    assert refusals(said, agent=True) == []


# ---- random histories ----------------------------------------------------------------------------------------------


TEXTS = st.text(max_size=8)


IDS = st.sampled_from(["call_1", "toolu_01A", "abcdefghi", "call_x|fc_y", "", "null", "gemini_r_0_0", "abcdefghi"])


NAMES = st.sampled_from(["look", "ring", "mcp.server/look!", "9", "x" * 80, "日本", ""])


ARGUMENTS = st.sampled_from(["{}", '{"a":1}', "", "[1]", '{"a":', "null"])


ITEMS: list[Attachment] = [Image("https://a/b.gif"), Audio("UklG", "wav"), File(id="f1"), Video("https://a/b")]


ATTACHED = st.lists(st.sampled_from(ITEMS), max_size=2)


NATIVES = st.sampled_from(
    [
        None,
        Native("openai_chat", Raw(b'{"role":"assistant","reasoning_content":"x"}')),
        Native("gemini:g", Raw(b"[]")),
        Native(native_api(MODEL), Raw(b'[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]')),
    ]
)


FOREIGN = st.builds(
    lambda parts, native: AssistantTurn(tuple(parts), "stop", native),
    st.lists(
        st.one_of(
            TEXTS.map(Text), TEXTS.map(Reasoning), TEXTS.map(Refusal), st.builds(ToolCall, IDS, NAMES, ARGUMENTS)
        ),
        max_size=4,
    ),
    NATIVES,
)


@st.composite
def histories(draw: st.DrawFn) -> list[Turn]:
    """Turns as any wire may have left them, with results that fit, do not fit, or were never recorded."""
    turns: list[Turn] = []
    for _ in range(draw(st.integers(0, 7))):
        turn: Turn = draw(
            st.one_of(
                TEXTS.map(user),
                TEXTS.map(SystemTurn),
                ATTACHED.map(lambda items: UserTurn((Text("see"), *items))),
                FOREIGN,
            )
        )
        turns.append(turn)
        if type(turn) is AssistantTurn and turn.calls:
            ids = [one.id for one in turn.calls] + draw(st.lists(IDS, max_size=1))
            ids = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
            results = [ToolResult(call_id, draw(TEXTS), draw(st.booleans()), tuple(draw(ATTACHED))) for call_id in ids]
            turns.append(ToolTurn(tuple(results)))
    return turns[: draw(st.integers(0, len(turns)))]


@settings(max_examples=150)
@given(histories(), st.sampled_from([MODEL, "mistral-small-latest"]))
def test_any_history_is_taken_by_a_strict_server_and_stays_as_it_was(turns: list[Turn], model: str) -> None:
    before = repr(turns)

    said = json.loads(Body().write(model, request(*repair(turns), tools=(LOOK, RING))))

    assert refusals(said, reasons=model == MODEL) == []
    assert repr(turns) == before


@given(histories(), st.lists(st.integers(0, 20), max_size=5))
def test_writing_a_growing_conversation_equals_writing_it_anew(turns: list[Turn], lengths: list[int]) -> None:
    body = Body()

    for length in lengths:  # shrinking too: a turn may be taken back
        asked = request(*turns[:length], tools=(LOOK,))
        assert body.write(MODEL, asked) == Body().write(MODEL, asked)
