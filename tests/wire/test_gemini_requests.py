"""generateContent as its client: requests say what the turns say, whichever API said it first."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.conformance.gemini_strict import refusals
from tests.wire.exchanges import request
from tests.wire.gemini_chunks import MODEL, call, contents, plain, signed, written

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
from ronda.wire.gemini import native_api
from ronda.wire.gemini.client_answer import Naming
from ronda.wire.gemini.client_request import Body
from ronda.wire.gemini.contents import NO_SIGNATURE
from ronda.wire.gemini.options import unsent
from ronda.wire.gemini.tools import Tools

OLD = "gemini-2.5-flash"

LOOK = ToolSpec("look", "Look at something.", Raw(b'{"type":"object","properties":{"at":{"type":"string"}}}'))
RING = ToolSpec("ring")
ASKED = AssistantTurn((Text("Let me look."), ToolCall("c1", "look", '{"at":"sky"}')), "tool_calls")
FOUND = ToolTurn((ToolResult("c1", "blue"),))


def test_a_foreign_conversation_is_told_in_geminis_words() -> None:
    assert written(SystemTurn("Be brief."), SystemTurn("Now.", "developer"), user("Sky?"), ASKED, FOUND) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "Now."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Sky?"}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Let me look."},
                    {
                        "functionCall": {"id": "c1", "name": "look", "args": {"at": "sky"}},
                        "thoughtSignature": NO_SIGNATURE,
                    },
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": "blue"}}}],
            },
        ],
    }
    assert base64.b64decode(NO_SIGNATURE) == b"skip_thought_signature_validator"


def test_only_the_first_of_parallel_foreign_calls_is_marked_and_none_for_an_older_model() -> None:
    turn = AssistantTurn((ToolCall("a", "look", "{}"), ToolCall("b", "ring", "{}")), "tool_calls")
    said = (user("?"), turn, ToolTurn((ToolResult("a", "1"), ToolResult("b", "2"))))

    assert [part.get("thoughtSignature") for part in contents(*said)[1]["parts"]] == [NO_SIGNATURE, None]
    assert [part.get("thoughtSignature") for part in contents(*said, model=OLD)[1]["parts"]] == [None, None]
    assert contents(*said, model="gemini-flash-latest") == contents(*said)


def test_the_models_own_parts_go_back_as_they_came_and_results_bear_the_ids_it_gave() -> None:
    parts = [{"text": "Hm", "thought": True}, signed(call("look", {"at": "sky"})), call("look"), call("ring", id="r1")]
    turn = plain(*parts).turn
    results = ToolTurn(tuple([ToolResult(call.id, f"{n}") for n, call in enumerate(turn.calls)]))

    assert contents(user("?"), turn, results)[1:] == [
        {"role": "model", "parts": parts},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "0"}}},
                {"functionResponse": {"name": "look", "response": {"output": "1"}}},
                {"functionResponse": {"id": "r1", "name": "ring", "response": {"output": "2"}}},
            ],
        },
    ]


def test_signatures_of_another_model_are_not_sent() -> None:
    turn = plain({"text": "Hm", "thought": True}, signed(call("look")), {"text": "So."}).turn
    results = ToolTurn((ToolResult(turn.calls[0].id, "x"),))

    assert contents(user("?"), turn, results, model="gemini-3-pro-preview")[1]["parts"] == [
        {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": NO_SIGNATURE},
        {"text": "So."},
    ]
    assert contents(user("?"), turn, results, model="gemini-3-pro-preview")[2]["parts"] == [
        {"functionResponse": {"name": "look", "response": {"output": "x"}}}
    ]


@pytest.mark.parametrize(
    ("result", "response"),
    [
        (ToolResult("c1", "blue"), {"output": "blue"}),
        (ToolResult("c1", '{"sky": "blue"}'), {"sky": "blue"}),
        (ToolResult("c1", '{"error": null}'), {"output": {"error": None}}),
        (ToolResult("c1", "[1]"), {"output": [1]}),
        (ToolResult("c1", "{not json"), {"output": "{not json"}),
        (ToolResult("c1", '{"a":"\\ud800"}'), {"output": '{"a":"\\ud800"}'}),
        (ToolResult("c1", ""), {"output": ""}),
        (ToolResult("c1", '{"sky": "blue"}', failed=True), {"error": '{"sky": "blue"}'}),
    ],
)
def test_a_result_is_an_object_that_says_if_it_failed(result: ToolResult, response: Any) -> None:
    said = contents(user("?"), ASKED, ToolTurn((result,)))[2]["parts"]

    assert said == [{"functionResponse": {"id": "c1", "name": "look", "response": response}}]


PNG = "data:image/png;base64,iVBORw0K"


def test_what_tools_attach_is_in_the_result_or_follows_it_in_a_content_of_its_own() -> None:
    result = ToolTurn((ToolResult("c1", "see", attachments=(Image(PNG), Audio("UklG", "wav"))),))
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}}
    audio = {"inlineData": {"mimeType": "audio/wav", "data": "UklG"}}
    says = {"text": "Attached by the tools above:"}

    new, old = contents(user("?"), ASKED, result), contents(user("?"), ASKED, result, model=OLD)

    assert new[2]["parts"][0]["functionResponse"]["parts"] == [image]
    assert new[3] == {"role": "user", "parts": [says, audio]}
    assert "parts" not in old[2]["parts"][0]["functionResponse"]
    assert old[3] == {"role": "user", "parts": [says, image, audio]}


def test_parts_other_than_text() -> None:
    turn = UserTurn(
        (
            Text("See"),
            Image("https://example.com/a.webp?x=1"),
            Image("https://example.com/a"),
            Video("https://youtu.be/x"),
            Audio("UklG", "mp3"),
            File(data="data:application/pdf;base64,JVBE", name="a.pdf"),
            File(id="https://generativelanguage.googleapis.com/v1beta/files/x", name="x.txt"),
            File(data="data:,a%20b"),
        )
    )

    assert contents(turn)[0]["parts"] == [
        {"text": "See"},
        {"fileData": {"fileUri": "https://example.com/a.webp?x=1", "mimeType": "image/webp"}},
        {"fileData": {"fileUri": "https://example.com/a", "mimeType": "image/jpeg"}},
        {"fileData": {"fileUri": "https://youtu.be/x", "mimeType": "video/mp4"}},
        {"inlineData": {"mimeType": "audio/mpeg", "data": "UklG"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
        {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/x", "mimeType": "text/plain"}},
        {"inlineData": {"mimeType": "text/plain", "data": "YSBi"}},
    ]


def test_two_turns_of_the_model_are_one_content_and_the_user_begins() -> None:
    said = contents(AssistantTurn((Text("Hello."),)), AssistantTurn((Reasoning("Hm"),)), ASKED, FOUND)

    assert [content["role"] for content in said] == ["user", "model", "user"]
    assert [part.get("text") for part in said[1]["parts"]] == ["Hello.", "Let me look.", None]


def test_a_system_turn_in_the_middle_stays_there() -> None:
    said = written(SystemTurn("First."), user("Hi"), SystemTurn("From now on: French."), user("Well?"))

    assert said["systemInstruction"] == {"parts": [{"text": "First."}]}
    assert [part["text"] for content in said["contents"] for part in content["parts"]] == [
        "Hi",
        "From now on: French.",
        "Well?",
    ]


def test_tools_are_declared_under_names_gemini_takes_and_calls_come_back_under_their_own() -> None:
    odd = ToolSpec(
        "9 lives!", "Odd.", Raw(b'{"type":"object","properties":{"x":{"$ref":"#/$defs/X"}},"$defs":{"X":{}}}')
    )
    asked = request(user("?"), tools=(LOOK, odd))
    body = Body()
    declared = json.loads(body.write(MODEL, asked))["tools"][0]["functionDeclarations"]
    called = declared[1]["name"]
    naming = Naming(MODEL, body.tools, "run", 0)
    turn = plain(signed(call(called, {"x": 1})), naming=naming).turn

    assert declared[0] == {
        "name": "look",
        "description": "Look at something.",
        "parametersJsonSchema": {"type": "object", "properties": {"at": {"type": "string"}}},
    }
    assert turn.calls == (ToolCall("gemini_run_0_0", "9 lives!", '{"x":1}'),)
    asked.turns = (*asked.turns, turn, ToolTurn((ToolResult(turn.calls[0].id, "y"),)))
    result = json.loads(body.write(MODEL, asked))["contents"][2]["parts"][0]["functionResponse"]
    assert result["name"] == called
    assert refusals(MODEL, json.loads(body.write(MODEL, asked))) == []


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (AUTO, None),
        (ToolChoice("none"), {"mode": "NONE"}),
        (ToolChoice("required"), {"mode": "ANY"}),
        (ToolChoice("required", ("look",), named=True), {"mode": "ANY", "allowedFunctionNames": ["look"]}),
        (ToolChoice("required", ("look", "ring")), {"mode": "ANY", "allowedFunctionNames": ["look", "ring"]}),
        (ToolChoice("auto", ("look",)), {"mode": "VALIDATED", "allowedFunctionNames": ["look"]}),
    ],
)
def test_every_choice_of_a_tool_has_its_form(choice: ToolChoice, said: Any) -> None:
    sent = written(user("?"), tools=(LOOK, RING), choice=choice)

    assert sent.get("toolConfig") == (None if said is None else {"functionCallingConfig": said})
    assert "toolConfig" not in written(user("?"), choice=choice)


def test_strict_tools_are_validated_when_all_of_them_are() -> None:
    strict = ToolSpec("look", strict=True)

    assert written(user("?"), tools=(strict,))["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    assert "toolConfig" not in written(user("?"), tools=(strict, RING))


SCHEMA = Raw(b'{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')


def test_options_are_written_under_geminis_names() -> None:
    options = Options(
        max_tokens=9,
        temperature=0.5,
        top_p=0.9,
        stop=("x",),
        seed=3,
        reasoning_effort="low",
        response_format=ResponseFormat("json_schema", schema=SCHEMA),
        parallel_tool_calls=False,
        extra={
            "top_k": Raw(b"4"),
            "presence_penalty": Raw(b"1"),
            "user": Raw(b'"ann"'),
            "safetySettings": Raw(b"[]"),
            "generationConfig": Raw(b'{"mediaResolution":"LOW","topK":5}'),
            "toolConfig": Raw(b'{"includeServerSideToolInvocations":true}'),
            "tools": Raw(b'[{"googleSearch":{}}]'),
        },
    )

    assert written(user("?"), options=options) == {
        "contents": [{"role": "user", "parts": [{"text": "?"}]}],
        "tools": [{"googleSearch": {}}],
        "safetySettings": [],
        "toolConfig": {"includeServerSideToolInvocations": True},
        "generationConfig": {
            "maxOutputTokens": 9,
            "temperature": 0.5,
            "topP": 0.9,
            "stopSequences": ["x"],
            "seed": 3,
            "responseMimeType": "application/json",
            "responseJsonSchema": json.loads(bytes(SCHEMA)),
            "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True},
            "topK": 5,
            "presencePenalty": 1,
            "mediaResolution": "LOW",
        },
    }
    assert unsent(options) == ("user", "parallel_tool_calls")


@pytest.mark.parametrize(
    ("model", "effort", "said"),
    [
        (MODEL, "none", {"thinkingLevel": "minimal", "includeThoughts": False}),
        (MODEL, "xhigh", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3-pro-preview", "none", {"thinkingLevel": "low", "includeThoughts": False}),
        ("gemini-3-pro-preview", "medium", {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "medium", "includeThoughts": True}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        (OLD, "none", {"thinkingBudget": 0}),
        (OLD, "medium", {"thinkingBudget": 8192, "includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_each_kind_of_model_is_told_how_hard_to_think_in_its_own_way(model: str, effort: str, said: Any) -> None:
    config = written(user("?"), model=model, options=Options(reasoning_effort=effort)).get("generationConfig", {})

    assert config.get("thinkingConfig") == said


def test_the_form_of_an_answer_is_left_to_the_loop_where_gemini_cannot_have_it_beside_tools() -> None:
    options = Options(response_format=ResponseFormat("json_object"))

    assert written(user("?"), model=OLD, options=options)["generationConfig"] == {
        "responseMimeType": "application/json"
    }
    assert "generationConfig" not in written(user("?"), model=OLD, options=options, tools=(LOOK,))
    assert "generationConfig" in written(user("?"), options=options, tools=(LOOK,))


def test_an_answer_need_not_be_an_object() -> None:
    schema = Raw(b'{"type":"array","items":{"$ref":"#/$defs/A"},"$defs":{"A":{"type":"string"}}}')
    said = written(user("?"), options=Options(response_format=ResponseFormat("json_schema", schema=schema)))

    assert said["generationConfig"]["responseJsonSchema"] == {"type": "array", "items": {"type": "string"}}


# ---- random histories ---------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8)
IDS = st.sampled_from(["call_1", "toolu_01A", "abcdefghi", "call_x|fc_y", "", "null", "gemini_r_0_0", "call_1"])
NAMES = st.sampled_from(["look", "ring", "mcp.server/look!", "9", "x" * 80, "日本", ""])
ARGUMENTS = st.sampled_from(["{}", '{"a":1}', "", "[1]", '{"a":', "null", '"{}"'])
ITEMS: list[Attachment] = [Image(PNG), Image("https://a/b.gif"), Audio("UklG", "wav"), File(id="f1")]
ATTACHED = st.lists(st.sampled_from(ITEMS), max_size=2)
NATIVES = st.sampled_from(
    [
        None,
        Native("openai_chat", Raw(b'{"role":"assistant"}')),
        Native("anthropic", Raw(b"[]")),
        Native(native_api("gemini-1.0-other"), Raw(b'[{"text":"x","thoughtSignature":"AA=="}]')),
    ]
)
CALLS = st.builds(ToolCall, IDS, NAMES, ARGUMENTS)
FOREIGN = st.builds(
    lambda parts, native: AssistantTurn(tuple(parts), "stop", native),
    st.lists(st.one_of(TEXTS.map(Text), TEXTS.map(Reasoning), TEXTS.map(Refusal), CALLS), max_size=4),
    NATIVES,
)
OWN_PARTS = st.lists(
    st.sampled_from(
        [{"text": "a"}, {"text": "t", "thought": True}, signed({"text": ""}), signed(call("look", id="g1"))]
    ),
    max_size=3,
)


def own(parts: list[Any], calls: int) -> AssistantTurn:
    """As this very model would have said it: the first call is signed."""
    asked = [call("ring") if n else signed(call("look")) for n in range(calls)]
    return plain(*[part for part in parts if "functionCall" not in part], *asked).turn


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
                st.builds(own, OWN_PARTS, st.integers(0, 2)),
            )
        )
        turns.append(turn)
        if type(turn) is AssistantTurn and turn.calls:
            ids = [one.id for one in turn.calls] + draw(st.lists(IDS, max_size=1))
            ids = draw(st.permutations(ids))[: draw(st.integers(0, len(ids)))]
            turns.append(
                ToolTurn(
                    tuple(
                        [
                            ToolResult(call_id, draw(TEXTS), draw(st.booleans()), tuple(draw(ATTACHED)))
                            for call_id in ids
                        ]
                    )
                )
            )
    return turns[: draw(st.integers(0, len(turns)))]


@settings(max_examples=150)
@given(histories(), st.sampled_from([MODEL, OLD, "gemini-2.0-flash"]))
def test_any_history_is_taken_by_a_strict_server_and_stays_as_it_was(turns: list[Turn], model: str) -> None:
    before = repr(turns)
    fitting = list(repair(turns))

    said = json.loads(Body().write(model, request(*fitting, tools=(LOOK, RING))))

    assert refusals(model, said) == []
    assert repr(turns) == before


@given(histories(), st.lists(st.integers(0, 20), max_size=5))
def test_writing_a_growing_conversation_equals_writing_it_anew(turns: list[Turn], lengths: list[int]) -> None:
    body = Body()

    for length in lengths:  # shrinking too: a turn may be taken back
        asked = request(*turns[:length], tools=(LOOK,))
        assert body.write(MODEL, asked) == Body().write(MODEL, asked)


def test_another_model_or_other_tools_are_not_taken_from_what_was_written_before() -> None:
    turn = plain(signed(call("look"))).turn
    turns = (user("?"), turn, ToolTurn((ToolResult(turn.calls[0].id, "x"),)))
    body = Body()
    body.write(MODEL, request(*turns, tools=(LOOK,)))

    for model, tools in (("gemini-3-pro", (LOOK,)), (OLD, (RING,)), (MODEL, ())):
        asked = request(*turns, tools=tools, options=Options(seed=3))
        assert body.write(model, asked) == Body().write(model, asked)


def test_a_history_that_is_only_a_system_turn_is_begun_for_it() -> None:
    assert refusals(MODEL, written(SystemTurn("Greet."))) == []
    assert refusals(MODEL, written()) == []
    assert Tools(()).call_it("a b") == "a_b"
