"""Histories as a session may come by them: Hypothesis strategies for turns of every wire, mixed, broken off and badly paired.

What a model said is made of JSON as that model's API answers, read by that wire's own reader, so that what a turn keeps as
native is what it keeps in life.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from ronda.core.parts import (
    AssistantPart,
    AssistantTurn,
    Attachment,
    Audio,
    File,
    Image,
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
)
from ronda.wire.anthropic import API as ANTHROPIC
from ronda.wire.anthropic.client_answer import read_plain as read_anthropic
from ronda.wire.gemini.client_answer import Naming as GeminiNaming
from ronda.wire.gemini.client_answer import read_plain as read_gemini
from ronda.wire.mistral.client_answer import Naming as MistralNaming
from ronda.wire.mistral.client_answer import read_plain as read_mistral
from ronda.wire.openai_chat import API as CHAT
from ronda.wire.openai_chat.client_answer import read_plain as read_chat
from ronda.wire.openai_chat.client_plain import Naming as ChatNaming
from ronda.wire.openai_responses import API as RESPONSES
from ronda.wire.openai_responses.client_answer import read_plain as read_responses
from ronda.wire.upstream.native import made_by, maker

Json = Any
GEMINI, MISTRAL, SERVER = "gemini-3-pro", "magistral-medium-latest", f"{CHAT}:models.example"

NAMES = st.sampled_from(["look", "files.read", "read page", "größe", "x" * 70, "mcp:list/tools", "1st", "look_up"])
WIRE_NAMES = st.sampled_from(["look", "look_up", "read_file"])
IDS = st.sampled_from(
    ["call_1", "a|b", "", "y" * 83, "functions.f:0", "é" * 50, "toolu_01", "null", "abcdefghi", "call_1"]
)
SAID = st.sampled_from(["", " ", "\n", "Hello", "Hello \n", "«ß» \U0001f600", '{"a":1}'])
WORDS = st.sampled_from(["Hello", "See: ", "«ß»", "Hello \n"])
ARGUMENTS = st.sampled_from(["{}", '{"at":"x"}', "", "[1]", '{"at', '{"a":1e400}', '{"a":{"b":[null]}}'])
OBJECTS = st.sampled_from([{}, {"at": "x"}, {"a": {"b": [None]}}])
SEARCHED = {"type": "search", "query": "x"}
OWN_ADDRESSES = {ANTHROPIC: "https://api.anthropic.com", RESPONSES: "https://api.openai.com/v1"}
PNG = "data:image/png;base64,iVBORw0KGgo="

MEDIA: st.SearchStrategy[Attachment] = st.sampled_from(
    [
        Image("https://example.com/cat.png"),
        Image(PNG, "low"),
        Image(PNG, "medium"),
        Image("data:image/tiff;base64,AAAA"),
        Image("nonsense"),
        Audio("AAAA", "wav"),
        Audio("AAAA", "flac"),
        Video("https://example.com/v.mp4"),
        Video("data:video/mp4;base64,AAAA"),
        File("data:application/pdf;base64,AAAA", "a.pdf"),
        File("data:application/pdf;base64,AAAA"),
        File("data:audio/mpeg;base64,AAAA", "song.mp3"),
        File(PNG, "cat.png"),
        File("data:text/plain;base64,SGk="),
        File("data:application/zip;base64,AAAA", "a.zip"),
        File("https://example.com/a.pdf", "a.pdf"),
        File(id="file-1"),
        File(),
    ]
)

system_turns = st.builds(SystemTurn, SAID, st.sampled_from(["system", "developer"]))
user_turns = st.builds(
    UserTurn,
    st.lists(st.builds(Text, SAID) | MEDIA, max_size=3).map(tuple),
    st.sampled_from([None, None, "Ann"]),
)


def makers(api: str) -> st.SearchStrategy[str]:
    """The server that is asked, another one, and an earlier version's journal, which does not say."""
    return st.sampled_from([maker(api, OWN_ADDRESSES[api], None), maker(api, "https://models.example/v1", "key"), api])


# ---- what models say ---------------------------------------------------------------------------------------------------


@st.composite
def plain_turns(draw: st.DrawFn) -> AssistantTurn:
    """A turn from wherever, without anything of its own: any order of words, thoughts and calls."""
    parts: list[AssistantPart] = []
    for kind in draw(st.lists(st.sampled_from([Text, Reasoning, Refusal, ToolCall, ToolCall]), max_size=5)):
        if kind is ToolCall:
            parts.append(ToolCall(draw(IDS), draw(NAMES), draw(ARGUMENTS)))
        else:
            parts.append(kind(draw(SAID)))
    kept, seen = [], set()
    for part in parts:  # the loop gives every call of a turn an id of its own
        if type(part) is ToolCall and part.id in seen:
            continue
        if type(part) is ToolCall:
            seen.add(part.id)
        kept.append(part)
    stop = "tool_calls" if seen else draw(st.sampled_from(["stop", "length", "interrupted"]))
    return AssistantTurn(tuple(kept), stop)  # type: ignore[arg-type]  # a strategy of literals is one of strings


@st.composite
def anthropic_turns(draw: st.DrawFn) -> AssistantTurn:
    thoughts = st.sampled_from(
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "thinking", "thinking": "", "signature": "c2ln"},
            {"type": "thinking", "thinking": "cut off", "signature": ""},
            {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        ]
    )
    content: list[Json] = draw(st.lists(thoughts, max_size=2))
    content += [{"type": "text", "text": text} for text in draw(st.lists(WORDS, max_size=2))]
    calls = draw(st.lists(st.tuples(WIRE_NAMES, OBJECTS), max_size=3))
    number = draw(st.integers(0, 9))
    content += [
        {
            "type": "tool_use",
            "id": f"toolu_{number}{at}",
            "name": name,
            "input": arguments,
            "caller": {"type": "direct"},
        }
        for at, (name, arguments) in enumerate(calls)
    ]
    body = {"type": "message", "content": content, "stop_reason": "tool_use" if calls else "end_turn"}
    return made_by(read_anthropic(json.dumps(body).encode()).turn, draw(makers(ANTHROPIC)))


@st.composite
def gemini_turns(draw: st.DrawFn) -> AssistantTurn:
    parts: list[Json] = [{"text": "hm", "thought": True}] if draw(st.booleans()) else []
    parts += [{"text": text} for text in draw(st.lists(WORDS, max_size=2))]
    calls = draw(st.lists(st.tuples(WIRE_NAMES, OBJECTS, st.booleans()), max_size=3))
    for at, (name, arguments, has_id) in enumerate(calls):
        call: Json = {"name": name, "args": arguments}
        if has_id:
            call["id"] = f"id{at}"
        # Only the first of parallel calls is signed.
        parts.append({"functionCall": call, **({"thoughtSignature": "c2ln"} if not at else {})})
    if not calls and draw(st.booleans()):
        parts.append({"text": "", "thoughtSignature": "c2ln"})
    model = draw(st.sampled_from([GEMINI, GEMINI, "gemini-2.5-flash"]))
    body = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    naming = GeminiNaming(model, run=f"run_{draw(st.integers(0, 99))}", round=1)
    return read_gemini(json.dumps(body).encode(), naming).turn


@st.composite
def mistral_turns(draw: st.DrawFn) -> AssistantTurn:
    content: Json = draw(WORDS | st.just(""))
    if draw(st.booleans()):
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
        content = [thought, *([{"type": "text", "text": content}] if content else [])]
    calls = [
        {
            "id": draw(st.sampled_from([f"abcdefgh{at}", "null"])),
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for at, (name, args) in enumerate(draw(st.lists(st.tuples(WIRE_NAMES, OBJECTS), max_size=3)))
    ]
    message = {"role": "assistant", "content": content, "tool_calls": calls or None}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}
    naming = MistralNaming(MISTRAL, run=f"run_{draw(st.integers(0, 99))}", round=1)
    return read_mistral(json.dumps(body).encode(), naming).turn


@st.composite
def chat_turns(draw: st.DrawFn) -> AssistantTurn:
    """Whatever speakers of the dialect add to a message: thoughts under three names, signatures, ids that hide something.

    It is some server's own word, or a caller's, who may have it from anywhere.
    """
    message: Json = {"role": "assistant", "content": draw(WORDS | st.none())}
    message |= draw(
        st.sampled_from(
            [
                {},
                {"reasoning_content": "hm"},
                {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]},
                {"extra_content": {"google": {"thought_signature": "c2ln"}}, "thought_signature": "c2ln"},
                {"provider_specific_fields": {"x": 1}},
            ]
        )
    )
    calls = []
    for at, (name, arguments) in enumerate(draw(st.lists(st.tuples(WIRE_NAMES, OBJECTS), max_size=3))):
        call_id = draw(st.sampled_from([f"call_{at}", "", f"call_{at}__thought__" + "s" * 60]))
        call: Json = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        if draw(st.booleans()):
            call["extra_content"] = {"google": {"thought_signature": "c2ln"}}
        calls.append(call)
    if calls:
        message["tool_calls"] = calls
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]}
    naming = ChatNaming(draw(st.sampled_from([SERVER, CHAT])), run=f"run_{draw(st.integers(0, 99))}", round=1)
    return read_chat(json.dumps(body).encode(), naming).turn


@st.composite
def responses_turns(draw: st.DrawFn) -> AssistantTurn:
    """Items that came behind a thought bear its number in their ids: see `responses_strict`."""
    number = draw(st.integers(0, 9999))
    output: list[Json] = []
    of = ""
    if draw(st.booleans()):
        thought: Json = {"type": "reasoning", "id": f"rs{number}", "summary": [{"type": "summary_text", "text": "hm"}]}
        if draw(st.booleans()):
            thought["encrypted_content"] = "gAAA"
        output.append(thought)
        of = f"_of_rs{number}"
    if draw(st.booleans()):
        said = [{"type": "output_text", "text": draw(WORDS), "annotations": []}]
        output.append(
            {"type": "message", "id": f"msg{of}", "role": "assistant", "status": "completed", "content": said}
        )
    for at, (name, arguments) in enumerate(draw(st.lists(st.tuples(WIRE_NAMES, OBJECTS), max_size=3))):
        ids = {
            "id": f"fc{at}{of}",
            "call_id": draw(st.sampled_from([f"call_{number}{at}", f"call_{at}", "z" * 69 + str(at)])),
        }
        output.append({"type": "function_call", **ids, "name": name, "arguments": json.dumps(arguments)})
    if draw(st.booleans()) and len(output) > 1:
        output.insert(1, {"type": "web_search_call", "id": f"ws{number}", "status": "completed", "action": SEARCHED})
    body = {"status": "completed", "output": output}
    return made_by(read_responses(json.dumps(body).encode()).turn, draw(makers(RESPONSES)))


SPOKEN: dict[str, Callable[[], st.SearchStrategy[AssistantTurn]]] = {
    "anthropic": anthropic_turns,
    "gemini": gemini_turns,
    "mistral": mistral_turns,
    "openai": responses_turns,
    "openai-chat": chat_turns,
    "elsewhere": plain_turns,
}


# ---- whole histories ---------------------------------------------------------------------------------------------------


@st.composite
def results_of(draw: st.DrawFn, turn: AssistantTurn) -> list[Turn]:
    """All results, some, in any order, one twice, one of a call that was never made; or none at all."""
    results = [
        ToolResult(call.id, draw(SAID), draw(st.booleans()), tuple(draw(st.lists(MEDIA, max_size=2))))
        for call in turn.calls
    ]
    if draw(st.integers(0, 3)) == 0:
        results = draw(st.permutations(results))[: draw(st.integers(0, len(results)))]
        if draw(st.booleans()):
            results.append(ToolResult(draw(IDS), "nobody asked"))
    return [ToolTurn(tuple(results))] if results else []


@st.composite
def histories(draw: st.DrawFn, *who: str) -> tuple[Turn, ...]:
    """A session whose turns are made by `who`, a different one at every turn if there are several."""
    turns: list[Turn] = []
    speakers = [SPOKEN[name]() for name in who]
    for at in range(draw(st.integers(0, 5))):
        kind = draw(st.integers(0, 5))
        if kind == 0:
            turns.append(draw(system_turns))
        elif kind <= 2:
            turns.append(draw(user_turns))
        else:
            turn = draw(speakers[at % len(speakers)])
            turns += [turn, *draw(results_of(turn))]
    if draw(st.booleans()):
        turns.append(draw(user_turns))
    return tuple(turns)
