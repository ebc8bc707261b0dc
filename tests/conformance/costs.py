"""Every recorded usage, told in a plain answer and in a stream: the same tokens and the same cost, by our readers and the table.

A recording is plain or a stream. Here its usage is written down in both forms, with one word as the answer, and read by the
reader of each; and the recording itself is read, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.conformance import (
    anthropic_answers,
    anthropic_naive,
    gemini_answers,
    gemini_recorded,
    mistral_exchanges,
    mistral_recorded,
    naive,
    openai_chat_answers,
    responses_answers,
    responses_recorded,
)
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.parts import Usage
from ronda.drive import capabilities_of
from ronda.providers.prices import priced
from ronda.providers.script import ScriptedModel


class Dialect(Struct, frozen=True):
    """`usage_of` is the recorded usage, as JSON; `read` is how our readers read an exchange."""

    name: str  # of the provider whose prices hold
    exchanges: Callable[[Path], list[Exchange]]
    is_answer: Callable[[Exchange], bool]
    usage_of: Callable[[list[Json]], Json]
    plain: Callable[[Json], Json]
    stream: Callable[[Json], list[Json]]
    read: Callable[[Exchange], Usage]


def run(data: Path) -> PartResult:
    tally = Tally()
    count = 0
    for dialect in DIALECTS:
        for exchange in dialect.exchanges(data):
            if not dialect.is_answer(exchange) or not (usage := dialect.usage_of(frames(exchange))):
                continue
            count += 1
            kind = f"{dialect.name}, recorded {'as a stream' if exchange.sse is not None else 'plain'}"
            tally.check(kind, exchange.id, partial(_compare, dialect, exchange, usage))
    return tally.result() if count else absent("a recorded usage")


def _compare(dialect: Dialect, exchange: Exchange, usage: Json) -> None:
    plain = dialect.read(_made(exchange, body=dialect.plain(usage)))
    events = [f"event: {one.get('type', 'message')}\ndata: {json.dumps(one)}\n\n" for one in dialect.stream(usage)]
    ending = "" if dialect.name in ("anthropic", "gemini") else "data: [DONE]\n\n"
    streamed = dialect.read(_made(exchange, sse="".join(events) + ending))
    same(streamed, plain, "the usage of a stream and of a plain answer")
    same(dialect.read(exchange), plain, "the usage as it was recorded")
    model = _model(exchange)
    cost = capabilities_of(priced(ScriptedModel(), dialect.name, model, None)).cost
    assert cost is not None
    same(cost(streamed), cost(plain), f"the cost of {model}")


def frames(exchange: Exchange) -> list[Json]:
    """The JSON of an answer: one, or one for each event of a stream."""
    if exchange.sse is None:
        return exchange.body if isinstance(exchange.body, list) else [exchange.body]
    lines = [line[5:].strip() for line in exchange.sse.splitlines() if line.startswith("data:")]
    return [json.loads(said) for said in lines if said.startswith("{")]


def _made(exchange: Exchange, body: Json = None, sse: str | None = None) -> Exchange:
    return Exchange(
        exchange.id, exchange.file, exchange.cassette, exchange.index, exchange.url, _one_choice(exchange.request), 200,
        {}, body, sse, None,
    )  # fmt: skip


def _one_choice(request: Json) -> Json:
    return {key: value for key, value in request.items() if key != "n"} if isinstance(request, dict) else request


def _model(exchange: Exchange) -> str:
    if "/models/" in exchange.url:
        return gemini_recorded.model_in(exchange)
    return str((exchange.request or {}).get("model", ""))


def _last(found: Iterable[Json]) -> Json:
    return next((one for one in reversed(list(found)) if one), None)


# ---- the dialects ----------------------------------------------------------------------------------------------------


def _chat_usage(events: list[Json]) -> Json:
    return _last([one.get("usage") or (one.get("x_groq") or {}).get("usage") for one in events])


def _chat_plain(usage: Json) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}


def _chat_stream(usage: Json) -> list[Json]:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    chunk = {"id": "x", "object": "chat.completion.chunk"}
    return [{**chunk, "choices": [choice]}, {**chunk, "choices": [], "usage": usage}]


def _mistral_stream(usage: Json) -> list[Json]:
    [first, _] = _chat_stream(usage)
    return [{**first, "usage": usage}]


def _responses_usage(events: list[Json]) -> Json:
    return _last([(one.get("response") or one).get("usage") for one in events])


def _response(usage: Json) -> Json:
    content = [{"type": "output_text", "text": "ok", "annotations": []}]
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": content}
    return {"id": "resp_1", "object": "response", "status": "completed", "output": [item], "usage": usage}


def _response_stream(usage: Json) -> list[Json]:
    whole = _response(usage)
    return [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
        {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]},
        {"type": "response.completed", "response": whole},
    ]


def _anthropic_usage(events: list[Json]) -> Json:
    merged: dict[str, Any] = {}
    for one in events:
        merged |= (one.get("message") or one).get("usage") or {}
    return merged


def _message(usage: Json) -> Json:
    content = [{"type": "text", "text": "ok"}]
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn", "usage": usage,
    }  # fmt: skip


def _message_stream(usage: Json) -> list[Json]:
    """Before the answer, what went in; behind it, all: as Anthropic counts."""
    begun = {**_message({**usage, "output_tokens": 1}), "content": [], "stop_reason": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def _gemini_usage(events: list[Json]) -> Json:
    found = [one.get("usageMetadata") for one in events]
    return _last([one for one in found if one and one.get("promptTokenCount") is not None])


def _generated(usage: Json) -> Json:
    candidate = {"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": usage}


DIALECTS = (
    Dialect(
        "openai-chat", chat_exchanges, naive.is_answer, _chat_usage, _chat_plain, _chat_stream,
        lambda exchange: openai_chat_answers.read(exchange)[0].usage,
    ),
    Dialect(
        "openai", responses_recorded.exchanges, responses_recorded.is_answer, _responses_usage, _response, _response_stream,
        lambda exchange: responses_answers.read(exchange).usage,
    ),
    Dialect(
        "anthropic", anthropic_naive.exchanges, anthropic_naive.is_answer, _anthropic_usage, _message, _message_stream,
        lambda exchange: anthropic_answers.read(exchange).usage,
    ),
    Dialect(
        "gemini", gemini_recorded.exchanges, lambda exchange: exchange.status < 400, _gemini_usage, _generated,
        lambda usage: [_generated(usage)], lambda exchange: gemini_answers.read(exchange).usage,
    ),
    Dialect(
        "mistral", mistral_recorded.exchanges, lambda exchange: exchange.status < 400, _chat_usage, _chat_plain,
        _mistral_stream, lambda exchange: mistral_exchanges.read(exchange).usage,
    ),
)  # fmt: skip
