"""Mistral's completions as their client: answers come to one turn, and no request has in it what Mistral refuses."""

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.mistral_strict import refusals
from tests.wire.exchanges import native_of, request, watched

from ronda.core.events import CallDelta, ModelFinished, Preview, ReasoningDelta, RunStarted, TextDelta
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
    Usage,
    UserTurn,
    Video,
    user,
)
from ronda.core.plan import AUTO, Options, Plan, ResponseFormat, ToolChoice, ToolSpec
from ronda.core.run import Run
from ronda.core.transcript import repair, settle
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.mistral import native_api
from ronda.wire.mistral.call_ids import nine, wire_ids
from ronda.wire.mistral.client_answer import Naming, Reader, read_plain
from ronda.wire.mistral.client_request import Body, unsent, write_request

MODEL = "magistral-medium-latest"
NAMING = Naming(MODEL, run="run", round=2)

# ---- helpers ----------------------------------------------------------------------------------------------------------


def plain(message: Any, finish: str = "stop", **members: Any) -> ModelFinished:
    return read_plain(
        json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **members}).encode(), NAMING
    )


def chunk(delta: Any = None, finish: str | None = None, **members: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **members}, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def watch(*pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(NAMING), *pieces)


def call(id: str | None, name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    said = {"function": {"name": name, "arguments": arguments}, **members}
    return said if id is None else {"id": id, **said}


def thinking(*texts: str, **members: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], **members}


# ---- answers ----------------------------------------------------------------------------------------------------------


def test_a_plain_answer() -> None:
    calls = [call("D681PevKs", "look", '{"at":"sky"}', index=0), call("9tQ8vbbbb", "ring", {"n": 1}, index=1)]
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "num_cached_tokens": 4}
    finished = plain({"role": "assistant", "content": "", "tool_calls": calls}, "tool_calls", usage=usage)

    parts = (ToolCall("D681PevKs", "look", '{"at":"sky"}'), ToolCall("9tQ8vbbbb", "ring", '{"n":1}'))
    assert finished == ModelFinished(AssistantTurn(parts, "tool_calls"), Usage(9, 3, 4))


def test_thoughts_are_kept_as_chunks_whole_and_streamed() -> None:
    whole = plain({"content": [thinking("Hm, well.", closed=True), {"type": "text", "text": "Four."}]})
    pieces = [
        {"role": "assistant", "content": ""},
        {"content": [thinking("Hm,")]},
        {"content": [thinking(" well.")]},
        {"content": [thinking(closed=True)]},
        {"content": "Fo"},
        {"content": [{"type": "text", "text": "ur."}]},
    ]
    previews, streamed = watch(*[chunk(piece) for piece in pieces], chunk({"content": ""}, "stop"), DONE)

    assert whole.turn.parts == (Reasoning("Hm, well."), Text("Four."))
    assert native_of(whole) == [thinking("Hm, well.", closed=True), {"type": "text", "text": "Four."}]
    assert streamed == whole
    assert previews == [ReasoningDelta("Hm,"), ReasoningDelta(" well."), TextDelta("Fo"), TextDelta("ur.")]


def test_chunks_of_one_message_are_not_joined_and_unknown_ones_are_kept() -> None:
    content = [
        thinking("One.", "Two."),
        thinking("Three."),
        {"type": "text", "text": "See"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": " there."},
    ]

    finished = plain({"content": content})

    assert native_of(finished) == content
    assert finished.turn.parts == (Reasoning("One.Two.Three."), Text("See there."))


def test_a_list_of_texts_needs_no_keeping() -> None:
    assert plain({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}).turn == AssistantTurn(
        (Text("ab"),)
    )


def test_streamed_calls_may_come_whole_or_in_pieces_with_or_without_an_index() -> None:
    whole = [call("D681PevKs", "look", "{}"), call("9tQ8vbbbb", "look", '{"a":1}')]
    pieces = [
        call("D681PevKs", "look", "{}", index=0),
        call("9tQ8vbbbb", "look", '{"a"', index=1),
        call(None, "", ":1}", index=1),
    ]
    expected = (ToolCall("D681PevKs", "look", "{}"), ToolCall("9tQ8vbbbb", "look", '{"a":1}'))

    for deltas in ([{"tool_calls": whole}], [{"tool_calls": [piece]} for piece in pieces]):
        turn = watch(*[chunk(delta) for delta in deltas], chunk(finish="tool_calls"), DONE)[1].turn
        assert turn == AssistantTurn(expected, "tool_calls")


def test_calls_without_ids_get_nine_characters_of_their_own_and_keep_what_is_kept() -> None:
    content = [thinking("Hm.")]
    calls = [call("null", "look", "{}", index=0), call("null", "look", '{"a":1}', index=1)]
    whole = plain({"content": content, "tool_calls": calls}, "tool_calls")
    previews, streamed = watch(chunk({"content": content, "tool_calls": calls}), chunk(finish="tool_calls"))
    run = Run(RunStarted("run", Plan("m", (ToolSpec("look"),)), ()))
    run.round = 3

    assert streamed == whole
    assert [p.id for p in previews if type(p) is CallDelta] == [call.id for call in whole.turn.calls]
    assert len({call.id for call in whole.turn.calls}) == 2
    assert all(re.fullmatch("[A-Za-z0-9]{9}", call.id) for call in whole.turn.calls)
    assert settle(whole, run) == (whole, [])


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "stop"), ("length", "length"), ("model_length", "length"), ("tool_calls", "stop"), ("x", "stop")],
)
def test_finish_reasons(finish: str, stop: str) -> None:
    assert plain({"content": "Hi"}, finish).turn.stop == stop
    cut = plain({"content": "", "tool_calls": [call("D681PevKs", "look", '{"a')]}, finish).turn
    assert cut.stop == ("length" if stop == "length" else "tool_calls")


def test_an_error_for_a_finish_may_be_tried_again() -> None:
    with pytest.raises(UpstreamBroken):
        plain({"content": "Hi"}, "error")
    with pytest.raises(UpstreamBroken):
        watch(chunk({"content": "Hi"}), chunk(finish="error"), DONE)


MANY = [
    {"role": "assistant", "content": "I search.", "tool_calls": [call("srv000001", "web_search", "{}")]},
    {"role": "tool", "tool_call_id": "srv000001", "content": "found it"},
    {"role": "assistant", "content": " Here.", "tool_calls": [call("mine00001", "look", "{}")]},
]


def test_what_mistrals_own_tools_did_is_nobodys_to_run() -> None:
    whole = {"choices": [{"index": 0, "messages": MANY, "finish_reason": "tool_calls"}]}
    finished = read_plain(json.dumps(whole).encode(), NAMING)
    streamed = watch(*[chunk(delta) for delta in MANY], chunk(finish="tool_calls"), DONE)[1]

    assert finished.turn == AssistantTurn((Text("I search. Here."), ToolCall("mine00001", "look", "{}")), "tool_calls")
    assert streamed == finished


@given(st.data())
def test_a_stream_cut_anywhere_is_the_same_and_cut_short_never_half(data: st.DataObject) -> None:
    stream = b"".join(
        [
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": [thinking("Höm")]}),
            chunk({"content": "Well"}),
            chunk({"tool_calls": [call("D681PevKs", "look", '{"a":')]}),
            chunk({"tool_calls": [call("D681PevKs", "", '"é"}')]}, "tool_calls", usage={"prompt_tokens": 3}),
            DONE,
        ]
    )
    whole = watch(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    assert watch(*pieces) == whole
    with contextlib.suppress(UpstreamBroken):
        assert watch(stream[: data.draw(st.integers(0, len(stream)))])[1].turn == whole[1].turn


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices":[]}', b"[]", b"\xff", b'{"choices":[{"message":3}]}'])
def test_an_answer_that_is_no_answer_is_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_plain(body)
    with pytest.raises(UpstreamBroken):
        watch(b"data: " + body + b"\n\n")


def test_a_chunk_of_text_without_text_says_nothing() -> None:
    content = [{"type": "text"}, {"type": "text", "text": None}, {"type": "text", "text": "Hi"}]
    body = {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}

    assert read_plain(json.dumps(body).encode()).turn.text == "Hi"
    streamed = b"".join([chunk({"role": "assistant", "content": content}), chunk({}, "stop"), DONE])
    assert watch(streamed)[1].turn.text == "Hi"


def test_an_error_inside_an_answer_is_raised() -> None:
    error = {"object": "error", "message": "Service unavailable", "type": "x", "code": 3505}

    with pytest.raises(UpstreamError, match="Service unavailable"):
        read_plain(json.dumps(error).encode())
    with pytest.raises(UpstreamError, match="Service unavailable"):
        watch(b"data: " + json.dumps(error).encode() + b"\n\n")


# ---- requests ---------------------------------------------------------------------------------------------------------

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
    id = nine("call_1|fc_2")

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
                    {"id": id, "type": "function", "function": {"name": "look", "arguments": '{"at":"sky"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": id, "name": "look", "content": "blue"},
            {"role": "assistant", "content": "OK"},
            {"role": "user", "content": "So?"},
        ],
    }


@given(st.lists(st.text(max_size=12), max_size=6))
def test_ids_fit_agree_and_are_distinct(ids: list[str]) -> None:
    found = wire_ids(ids)

    assert found == wire_ids(ids)
    assert len(set(found)) == len(ids)
    assert all(re.fullmatch("[A-Za-z0-9]{9}", id) for id in found)
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

    assert [one["role"] for one in said] == ["system", "user", "assistant", "tool", "assistant", "user", "user"]
    assert said[5]["content"] == "In French."


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
        "assistant",
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


# ---- random histories ---------------------------------------------------------------------------------------------------

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
            results = [ToolResult(id, draw(TEXTS), draw(st.booleans()), tuple(draw(ATTACHED))) for id in ids]
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
