"""The harness itself: an odd recording costs one check of a part, never the part; a part that checked nothing fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conformance import (
    __main__ as harness,
)
from tests.conformance import (
    anthropic_answers,
    anthropic_followups,
    anthropic_requests,
    anthropic_streams,
    gemini_answers,
    gemini_errors,
    gemini_followups,
    gemini_requests,
    gemini_streams,
    mistral_exchanges,
    openai_chat_answers,
    openai_chat_errors,
    openai_chat_followups,
    openai_chat_requests,
    openai_chat_streams,
    recordings,
    responses_answers,
    responses_followups,
    responses_requests,
    responses_streams,
)
from tests.conformance.report import PartResult

Json = Any

CHAT = "https://api.openai.com/v1/chat/completions"
MISTRAL = "https://api.mistral.ai/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
MESSAGES = "https://api.anthropic.com/v1/messages"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"

QUESTION = {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Hello"}
COMPLETION = {"choices": [{"index": 0, "message": ANSWER, "finish_reason": "stop"}]}
CHUNK = {"choices": [{"index": 0, "delta": ANSWER, "finish_reason": "stop"}]}
SPOKEN = {
    "type": "message",
    "id": "m",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
RESPONSE = {
    "id": "r",
    "status": "completed",
    "output": [SPOKEN],
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "error": None,
}
MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]
CANDIDATES = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP", "index": 0}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}


def events(*said: Json) -> str:
    return "".join(f"event: {one.get('type', 'x')}\ndata: {json.dumps(one)}\n\n" for one in said)


MESSAGE_EVENTS = events(
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)
MODEL = {"model": "gpt-x"}
CLAUDE = {"model": "claude-sonnet-4-5", "max_tokens": 9}

# For each file: the address, a question, its answer whole and streamed, the next question, and an answer that is an error.
GOOD: dict[str, tuple[str, Json, Json, str, Json, Json]] = {
    "openai-chat.jsonl": (
        CHAT,
        {**MODEL, "messages": [QUESTION]},
        COMPLETION,
        f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n",
        {**MODEL, "messages": [QUESTION, ANSWER, QUESTION]},
        {"error": {"message": "no"}},
    ),
    "mistral.jsonl": (
        MISTRAL,
        {**MODEL, "messages": [QUESTION]},
        COMPLETION,
        f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n",
        {**MODEL, "messages": [QUESTION, ANSWER, QUESTION]},
        None,
    ),
    "openai-responses.jsonl": (
        RESPONSES,
        {**MODEL, "input": [{"type": "message", **QUESTION}]},
        RESPONSE,
        events(
            {"type": "response.output_item.added", "output_index": 0, "item": {**SPOKEN, "content": []}},
            {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hello"},
            {"type": "response.output_item.done", "output_index": 0, "item": SPOKEN},
            {"type": "response.completed", "response": RESPONSE},
        ),
        {**MODEL, "input": [{"type": "message", **QUESTION}, SPOKEN, {"type": "message", **QUESTION}]},
        {"error": {"message": "no"}},
    ),
    "anthropic.jsonl": (
        MESSAGES,
        {**CLAUDE, "messages": [QUESTION]},
        MESSAGE,
        MESSAGE_EVENTS,
        {**CLAUDE, "messages": [QUESTION, ANSWER, QUESTION]},
        {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}},
    ),
    "gemini.jsonl": (
        GEMINI,
        {"contents": CONTENTS},
        CANDIDATES,
        f"data: {json.dumps(CANDIDATES)}\r\n\r\n",
        {"contents": [*CONTENTS, {"role": "model", "parts": [{"text": "Hello"}]}, *CONTENTS]},
        {"error": {"code": 400, "message": "no"}},
    ),
}

NO_REQUESTS: list[Json] = [
    None,
    "hello",
    [1],
    {},
    {"messages": None, "contents": None, "input": None},
    {"messages": [], "contents": [], "input": []},
    {"model": "m", "messages": [{}], "contents": [{}], "input": [{}]},
    {"model": "m", "messages": [1], "contents": [1], "input": [1]},
    {"model": 1, "messages": [{"role": "assistant"}], "contents": [{"role": "model"}], "input": 7},
    {"model": "m", "messages": [QUESTION], "contents": CONTENTS, "input": "x", "tools": [1]},
]
NO_BODIES: list[Json] = [
    None,
    [],
    "oops",
    3,
    {},
    {"choices": None, "content": None, "candidates": None, "output": None, "status": "completed"},
    {"choices": [1], "content": [1], "candidates": [1], "output": [1], "status": "completed"},
    {"choices": [{}], "content": [{}], "candidates": [{}], "output": [{}], "status": "completed"},
    {"error": "no"},
]
LONG = ":" + " " * 2000 + "\n\n"  # so that these are not among the smallest, which are cut at every byte
NO_STREAMS = ["", "garbage", "data: nope\n\n", "data: null\n\n", "data: [1]\n\n", 'data: {"choices":[1]}\n\n']


def exchange(number: int, url: str, request: Json, **answer: Json) -> Json:
    return {"id": f"x{number}", "cassette": "one", "index": number, "url": url, "request": request, **answer}


def good(file: str) -> list[Json]:
    url, question, answer, stream, then, error = GOOD[file]
    found = [
        exchange(0, url, question, response_status=200, response_body=answer),
        exchange(1, url, then, response_status=200, response_body=answer),
        exchange(2, url, question, response_status=200, sse_text=stream),
    ]
    if error is not None:
        found.append(exchange(3, url, question, response_status=400, response_body=error))
    return found


def odd(file: str) -> list[Json]:
    url, question, answer, *_ = GOOD[file]
    said = [exchange(0, url, request, response_status=200, response_body=answer) for request in NO_REQUESTS]
    said += [exchange(0, url, question, response_status=200, response_body=body) for body in NO_BODIES]
    said += [exchange(0, url, question, response_status=400, response_body=body) for body in NO_BODIES]
    said += [exchange(0, url, question, response_status=200, sse_text=text + LONG) for text in NO_STREAMS]
    return [{**one, "id": f"odd{n}", "cassette": "one" if n % 2 else f"odd{n}"} for n, one in enumerate(said)]


def data_with(folder: Path, file: str, said: list[Json]) -> Path:
    (folder / "traffic").mkdir(parents=True)
    (folder / "traffic" / file).write_text("\n".join(json.dumps(one) for one in said), "utf-8")
    return folder


PARTS: dict[str, tuple[str, Callable[[Path], PartResult]]] = {
    "openai-chat answers": ("openai-chat.jsonl", openai_chat_answers.run),
    "openai-chat streams": ("openai-chat.jsonl", openai_chat_streams.run),
    "openai-chat requests": ("openai-chat.jsonl", openai_chat_requests.run),
    "openai-chat follow-ups": ("openai-chat.jsonl", openai_chat_followups.run),
    "openai-chat errors": ("openai-chat.jsonl", openai_chat_errors.run),
    "responses answers": ("openai-responses.jsonl", responses_answers.run),
    "responses streams": ("openai-responses.jsonl", responses_streams.run),
    "responses requests": ("openai-responses.jsonl", responses_requests.run),
    "responses follow-ups": ("openai-responses.jsonl", responses_followups.run),
    "gemini answers": ("gemini.jsonl", gemini_answers.run),
    "gemini streams": ("gemini.jsonl", gemini_streams.run),
    "gemini requests": ("gemini.jsonl", gemini_requests.run),
    "gemini follow-ups": ("gemini.jsonl", gemini_followups.run),
    "gemini errors": ("gemini.jsonl", gemini_errors.run),
    "mistral exchanges": ("mistral.jsonl", mistral_exchanges.run),
    "anthropic answers": ("anthropic.jsonl", anthropic_answers.run),
    "anthropic streams": ("anthropic.jsonl", anthropic_streams.run),
    "anthropic requests": ("anthropic.jsonl", anthropic_requests.run),
    "anthropic follow-ups": ("anthropic.jsonl", anthropic_followups.run),
}


@pytest.mark.parametrize("name", PARTS)
def test_odd_recordings_cost_their_own_checks_and_no_others(name: str, tmp_path: Path) -> None:
    file, run = PARTS[name]
    before = run(data_with(tmp_path / "good", file, good(file)))
    after = run(data_with(tmp_path / "odd", file, [*odd(file), *good(file)]))

    assert before.failed == 0, before.notes
    assert before.passed > 0
    assert after.passed >= before.passed, after.notes


def test_a_line_that_is_no_recording_is_one_failed_check(tmp_path: Path) -> None:
    data = data_with(tmp_path, "openai-chat.jsonl", good("openai-chat.jsonl"))
    with (data / "traffic" / "openai-chat.jsonl").open("a", encoding="utf-8") as file:
        file.write('\nnot JSON\n[]\n{"response_status":"many"}\n')

    assert (recordings.run(data).passed, recordings.run(data).failed) == (4, 3)
    assert openai_chat_answers.run(data).failed == 0


def test_a_part_that_checked_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness.main([str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED: nothing was checked") == len(harness.PARTS)
    assert harness.main([str(tmp_path / "nowhere")]) == 0
