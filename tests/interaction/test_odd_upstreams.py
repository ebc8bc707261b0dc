"""Servers that speak a vendor's API in a way of their own: the loop over each of them ends as it does over any other.

Each case is an answer with one call, written as some server writes it; what follows it is an ordinary answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.interaction.doors import Door, Json
from tests.interaction.every_door import ask
from tests.interaction.upstreams import Act, Upstream, answers, completes, streams

from ronda import tool

ARGUMENTS = '{"city": "Lisbon"}'
CALL: Json = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": ARGUMENTS},
}


def chunk(finish: Any = None, **delta: Any) -> Json:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def message(finish: Any = "tool_calls", **members: Any) -> Json:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **members}, "finish_reason": finish}]}


def plain(answer: Json) -> Act:
    return answers(json.dumps(answer).encode())


END = chunk("tool_calls")
STREAM = b"data: " + json.dumps(chunk(tool_calls=[CALL])).encode() + b"\n\ndata: " + json.dumps(END).encode() + b"\n\n"
PIECE: Json = {"index": 0, "id": "", "type": "function"}

STREAMED: dict[str, Act] = {
    "one call, no list (TGI)": streams(
        chunk(tool_calls={**PIECE, "function": {"name": "get_weather", "arguments": ""}}),
        chunk(tool_calls={**PIECE, "function": {"name": None, "arguments": ARGUMENTS}}),
        chunk("eos_token", content=""),
        "[DONE]",
    ),
    "an index and an id of another type": streams(chunk(tool_calls=[{**CALL, "index": "0", "id": 17}]), END, "[DONE]"),
    "a name with a mark of the model's behind it (Ollama, vLLM)": streams(
        chunk(tool_calls=[{**CALL, "function": {"name": "get_weather<|channel|>analysis", "arguments": ""}}]),
        chunk(tool_calls=[{"index": 0, "function": {"arguments": ARGUMENTS}}]),
        END,
        "[DONE]",
    ),
    "a call that is null": streams(chunk(tool_calls=[None]), chunk(tool_calls=[CALL]), END, "[DONE]"),
    "a choice that is null": streams({"choices": [None]}, chunk(tool_calls=[CALL]), END, "[DONE]"),
    "choices that are one": streams({"choices": chunk("tool_calls", tool_calls=[CALL])["choices"][0]}, "[DONE]"),
    "an end that is an object": streams(chunk(tool_calls=[CALL]), chunk({"type": "stop"}), "[DONE]"),
    "no refusal, said so": streams(chunk(refusal=False), chunk(tool_calls=[CALL]), END, "[DONE]"),
    "reasoning of another form": streams(chunk(reasoning={"a": 1}), chunk(tool_calls=[CALL]), END, "[DONE]"),
    "usage that is a text": streams(chunk(tool_calls=[CALL]), {**END, "usage": ""}, "[DONE]"),
    "details of usage that are a list": streams(
        chunk(tool_calls=[CALL]), {**END, "usage": {"prompt_tokens": 1, "prompt_tokens_details": []}}, "[DONE]"
    ),
    "a number that is none": streams(
        chunk(tool_calls=[CALL]), '{"choices": [], "usage": {"prompt_tokens": NaN}}', END, "[DONE]"
    ),
    "an error that is blank": streams({**chunk(tool_calls=[CALL]), "error": ""}, {**END, "error": {}}, "[DONE]"),
    "blanks around the end mark": streams(chunk(tool_calls=[CALL]), chunk(), " [DONE] "),
    "a whole message in a frame": streams(message(content=None, tool_calls=[CALL]), "[DONE]"),
    "all of it again at the end (MiniMax)": streams(
        chunk(tool_calls=[CALL]), END, message(content="", tool_calls=[CALL]), "[DONE]"
    ),
    "a stream by the name of text": answers(STREAM, kind="text/plain; charset=utf-8"),
    "a stream by the name of JSON": answers(STREAM, kind="application/json"),
    "JSON by the name of a stream": answers(
        json.dumps(message(content=None, tool_calls=[CALL]), indent=2).encode(), kind="text/event-stream"
    ),
}

PLAIN: dict[str, Act] = {
    "arguments and an id of another type (TGI)": plain(
        message("stop", tool_calls=[{"id": 0, "function": {"name": "get_weather", "arguments": {"city": "Lisbon"}}}])
    ),
    "one call, no list": plain(message(content=None, tool_calls=CALL)),
    "a name with a mark of the model's behind it (Ollama, vLLM)": plain(
        message(tool_calls=[{**CALL, "function": {**CALL["function"], "name": "get_weather<|channel|>commentary"}}])
    ),
    "usage that is a text": plain({**message(content=None, tool_calls=[CALL]), "usage": "none"}),
    "an error that is blank": plain({**message(content=None, tool_calls=[CALL]), "error": ""}),
    "a mark of the byte order": answers(b"\xef\xbb\xbf" + json.dumps(message(tool_calls=[CALL])).encode()),
    "a message in two choices (Copilot)": plain(
        {"choices": message(content="I look.")["choices"] + message(tool_calls=[CALL])["choices"]}
    ),
    "a stream that was not asked for": answers(b": hello\n\n" + STREAM, kind="text/event-stream"),
    "texts for pieces of content": plain(message(content=["I ", "look."], tool_calls=[CALL])),
}


@pytest.mark.parametrize(
    ("stream", "first"),
    [(True, act) for act in STREAMED.values()] + [(False, act) for act in PLAIN.values()],
    ids=[*STREAMED, *[f"plain: {name}" for name in PLAIN]],
)
async def test_the_loop_goes_on_over_what_a_server_plainly_means(door: Door, stream: bool, first: Act) -> None:
    cities = []

    @tool
    def get_weather(city: str) -> str:
        """The weather."""
        cities.append(city)
        return "sunny"

    async with (
        Upstream(first, completes("It is sunny.")) as upstream,
        door.serving(upstream.url, get_weather) as served,
    ):
        heard = await ask(served, "chat", stream)

    assert (cities, heard.end, heard.text.removeprefix("I look.\n\n")) == (["Lisbon"], "stop", "It is sunny.")
    result = upstream.requests[1]["messages"][-1]
    call = upstream.requests[1]["messages"][-2]["tool_calls"][0]
    assert (result["tool_call_id"], result["content"]) == (call["id"], "sunny")
    assert call["function"] == CALL["function"] | {"arguments": call["function"]["arguments"]}


ITEM: Json = {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": ARGUMENTS}
USE: Json = {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Lisbon"}}


def response(*output: Any, **members: Any) -> Json:
    return {"id": "r", "status": "completed", "output": list(output), **members}


def use(**members: Any) -> Json:
    return {"type": "message", "role": "assistant", "content": [USE], "stop_reason": "tool_use", **members}


def completed(*output: Any, **members: Any) -> Json:
    return {"type": "response.completed", "response": response(*output, **members)}


def block(kind: str, **members: Any) -> Json:
    return {"type": f"content_block_{kind}", **members}


BEGUN: Json = {"type": "response.output_item.added", "item": {**ITEM, "arguments": ""}}
GROWN: Json = {"type": "response.function_call_arguments.delta", "delta": ARGUMENTS}
SAID = {
    "openai": response(
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]}
    ),
    "anthropic": use(content=[{"type": "text", "text": "Sunny."}], stop_reason="end_turn"),
}
OTHERS: dict[str, tuple[str, bool, Act]] = {
    "responses: nothing but deltas": ("openai", True, streams(BEGUN, GROWN, completed())),
    "responses: a text for content": (
        "openai",
        True,
        streams(completed({"type": "message", "content": "I look."}, ITEM)),
    ),
    "responses: an index that is a text": (
        "openai",
        True,
        streams({**BEGUN, "output_index": "0"}, {**GROWN, "output_index": "0"}, completed(ITEM)),
    ),
    "responses: usage of another form": ("openai", False, plain(response(ITEM, usage={"input_tokens": "many"}))),
    "responses: an error that is blank": ("openai", False, plain(response(ITEM, error={}))),
    "responses: a stream that was not asked for": ("openai", False, streams(completed(ITEM))),
    "messages: an index that is null": (
        "anthropic",
        True,
        streams(block("start", index=None, content_block=USE), block("stop", index=None), {"type": "message_stop"}),
    ),
    "messages: usage of another form": (
        "anthropic",
        False,
        plain(use(usage={"input_tokens": "1", "output_tokens": ""})),
    ),
    "messages: an error that is blank": ("anthropic", False, plain(use(error={}))),
    "messages: a stream that was not asked for": (
        "anthropic",
        False,
        streams(block("start", index=0, content_block=USE), block("stop", index=0), {"type": "message_stop"}),
    ),
}


@pytest.mark.parametrize(("dialect", "stream", "first"), OTHERS.values(), ids=OTHERS.keys())
async def test_so_it_does_in_other_dialects(door: Door, dialect: str, stream: bool, first: Act) -> None:
    cities = []

    @tool
    def get_weather(city: str) -> str:
        """The weather."""
        cities.append(city)
        return "sunny"

    async with (
        Upstream(first, plain(SAID[dialect])) as upstream,
        door.serving(upstream.url, get_weather, model=f"{dialect}:odd") as served,
    ):
        heard = await ask(served, "chat", stream)

    assert (cities, heard.end, heard.text.removeprefix("I look.\n\n")) == (["Lisbon"], "stop", "Sunny.")


@pytest.mark.parametrize(
    "odd",
    [chunk(content={"a": 1}), chunk(tool_calls=[{**CALL, "function": {"name": "get_weather", "arguments": [1]}}])],
    ids=["what was said", "what is called"],
)
async def test_what_was_said_and_what_is_called_are_not_guessed(door: Door, odd: Json) -> None:
    async with Upstream(*[streams(odd, END, "[DONE]")] * 3) as upstream, door.serving(upstream.url) as served:
        heard = await ask(served, "chat", True)

    assert (heard.status, heard.end, len(upstream.bodies)) == (502, "error", 3)
    assert "the model's stream cannot be read" in heard.error


ERRORS: dict[str, tuple[Json, str]] = {
    "no envelope": (
        {"object": "error", "message": "Too busy.", "code": 503},
        "the model's server answered 503: Too busy.",
    ),
    "MiniMax's": (
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        "the model's server reported: insufficient balance",
    ),
}


@pytest.mark.parametrize(("error", "words"), ERRORS.values(), ids=ERRORS.keys())
async def test_an_error_without_an_envelope_is_one_in_an_answer_and_in_a_stream(
    door: Door, error: Json, words: str
) -> None:
    broken = streams(chunk(content="A half"), error, "[DONE]")
    async with Upstream(broken, *[plain(error)] * 3) as upstream, door.serving(upstream.url) as served:
        streamed = await ask(served, "chat", True)
        whole = await ask(served, "chat", False)

    assert (streamed.text, streamed.end, streamed.error) == ("A half", "error", words)
    assert (whole.status, json.loads(whole.error)["error"]["message"]) == (502, words)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai", "anthropic"])
async def test_an_error_by_the_name_of_a_stream_is_told_in_its_own_words(door: Door, dialect: str) -> None:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no such model"}}
    if dialect == "openai":
        del error["type"]
    body = json.dumps(error, indent=2).encode()
    async with (
        Upstream(*[answers(body, kind="text/event-stream")] * 3) as upstream,
        door.serving(upstream.url, model=f"{dialect}:odd") as served,
    ):
        heard = await ask(served, "chat", True)

    assert (heard.status, len(upstream.bodies)) == (400, 1)
    assert json.loads(heard.error)["error"]["message"] == "the model's server answered 400: no such model"
