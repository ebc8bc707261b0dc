"""The harness itself: an odd recording costs one check of a part, never the part; a part that a pack lacks is skipped, and
one that has data and checked nothing fails."""

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


TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
LOOKS = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
CACHED = {"type": "ephemeral"}
CALLED = {**MESSAGE, "content": [LOOKS], "stop_reason": "tool_use"}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a door", "cache_control": CACHED}
SUMMED_UP = {"type": "compaction", "content": "They said hello.", "encrypted_content": "c2VhbA=="}
CUT_SHORT = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
AZURE = "https://one.openai.azure.com/openai/deployments/gpt-x/chat/completions?api-version=2024-10-21"
MADE_CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
AS_JSON = {
    "type": "json_schema",
    "json_schema": {"name": "door", "schema": {"type": "object", "properties": {}}, "strict": True},
}


def asked(file: str, request: Json, answer: Json | None = None, stream: str | None = None, url: str = "") -> list[Json]:
    address, _, usual, *_ = GOOD[file]
    if stream is not None:
        return [exchange(0, url or address, request, response_status=200, sse_text=stream)]
    return [exchange(0, url or address, request, response_status=200, response_body=answer or usual)]


# What real clients send, and servers answer, beside the usual.
REAL: dict[str, tuple[str, list[Json]]] = {
    "top_p at Anthropic": (
        "anthropic.jsonl",
        asked("anthropic.jsonl", {**CLAUDE, "top_p": 0.9, "messages": [QUESTION]}),
    ),
    "a string as a result beside cache_control": (
        "anthropic.jsonl",
        [
            *asked("anthropic.jsonl", {**CLAUDE, "tools": [TOOL], "messages": [QUESTION]}, CALLED),
            *[
                {**one, "id": "x1", "index": 1}
                for one in asked(
                    "anthropic.jsonl",
                    {
                        **CLAUDE,
                        "tools": [TOOL],
                        "messages": [
                            QUESTION,
                            {"role": "assistant", "content": [LOOKS]},
                            {"role": "user", "content": [RESULT]},
                        ],
                    },
                )
            ],
        ],
    ),
    "compaction_delta": (
        "anthropic.jsonl",
        asked(
            "anthropic.jsonl",
            {**CLAUDE, "messages": [QUESTION], "stream": True},
            stream=events(
                {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {**SUMMED_UP, "type": "compaction_delta"},
                },
                {"type": "content_block_stop", "index": 0},
                {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello"}},
                {"type": "content_block_stop", "index": 1},
                {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
                {"type": "message_stop"},
            ),
        ),
    ),
    "parts as an object": (
        "gemini.jsonl",
        asked("gemini.jsonl", {"contents": [{"role": "user", "parts": {"text": "Hi"}}]}),
    ),
    "contents as one object": (
        "gemini.jsonl",
        asked("gemini.jsonl", {"contents": {"role": "user", "parts": {"text": "Hi"}}}),
    ),
    "a tool_choice that names a tool at Mistral": (
        "mistral.jsonl",
        asked(
            "mistral.jsonl",
            {
                **MODEL,
                "messages": [QUESTION],
                "tools": [FUNCTION],
                "tool_choice": {"type": "function", "function": {"name": "look"}},
            },
            {"choices": [{"index": 0, "message": MADE_CALL, "finish_reason": "tool_calls"}]},
        ),
    ),
    "a response_format at Mistral": (
        "mistral.jsonl",
        asked(
            "mistral.jsonl",
            {**MODEL, "messages": [QUESTION], "response_format": AS_JSON},
            {"choices": [{"index": 0, "message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}]},
        ),
    ),
    "response.incomplete": (
        "openai-responses.jsonl",
        asked(
            "openai-responses.jsonl",
            {**MODEL, "input": "Hi", "max_output_tokens": 16, "stream": True},
            stream=events(
                {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
                {"type": "response.output_item.added", "output_index": 0, "item": {**SPOKEN, "content": []}},
                {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hello"},
                {"type": "response.output_item.done", "output_index": 0, "item": {**SPOKEN, "status": "incomplete"}},
                {
                    "type": "response.incomplete",
                    "response": {**CUT_SHORT, "output": [{**SPOKEN, "status": "incomplete"}]},
                },
            ),
        ),
    ),
    "an answer that is incomplete": (
        "openai-responses.jsonl",
        asked(
            "openai-responses.jsonl",
            {**MODEL, "input": "Hi", "max_output_tokens": 16},
            {**CUT_SHORT, "output": [{**SPOKEN, "status": "incomplete"}]},
        ),
    ),
    "a stored prompt without input": (
        "openai-responses.jsonl",
        asked("openai-responses.jsonl", {"prompt": {"id": "pmpt_1", "version": "2", "variables": {"city": "Rome"}}}),
    ),
    "Azure without a model": (
        "openai-chat.jsonl",
        asked("openai-chat.jsonl", {"messages": [QUESTION]}, url=AZURE),
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_what_real_clients_send_is_read(name: str, tmp_path: Path) -> None:
    file, said = REAL[name]
    data = data_with(tmp_path, file, said)

    results = {part: run(data) for part, (its_file, run) in PARTS.items() if its_file == file}

    assert {part: result.notes for part, result in results.items() if result.failed} == {}
    assert sum(result.passed for result in results.values()) > 0, results


def test_a_line_that_is_no_recording_is_one_failed_check(tmp_path: Path) -> None:
    data = data_with(tmp_path, "openai-chat.jsonl", good("openai-chat.jsonl"))
    with (data / "traffic" / "openai-chat.jsonl").open("a", encoding="utf-8") as file:
        file.write('\nnot JSON\n[]\n{"response_status":"many"}\n')

    assert (recordings.run(data).passed, recordings.run(data).failed) == (4, 3)
    assert openai_chat_answers.run(data).failed == 0


def test_a_pack_that_lacks_a_part_is_told_so_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = data_with(tmp_path, "mistral.jsonl", good("mistral.jsonl"))

    assert harness.main([str(data)], []) == 0
    said = capsys.readouterr().out
    assert "mistral exchanges: 19 passed, 0 failed, 0 skipped" in said
    assert "gemini answers: 0 passed, 0 failed, 1 skipped" in said
    assert "skipped: a recorded answer of generateContent is not there" in said


def test_a_part_that_has_data_and_checked_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = data_with(tmp_path, "mistral.jsonl", good("mistral.jsonl"))

    assert harness.main([str(data)], [("idle", lambda _: PartResult(skipped=3))]) == 1
    assert "FAILED: nothing was checked" in capsys.readouterr().out


def test_a_folder_without_any_data_fails_and_one_that_is_not_there_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness.main([str(tmp_path)], []) == 1
    assert "has the data of no part" in capsys.readouterr().out
    assert harness.main([str(tmp_path / "nowhere")], []) == 0
