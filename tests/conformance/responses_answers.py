"""Every recorded answer of the Responses API, plain or streamed, read by us and read the naive way: the same.

And what we would send back of it is what came, item for item.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import responses_recorded as recorded
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.openai_responses.client_answer import read_plain
from ronda.wire.openai_responses.client_stream import Reader
from ronda.wire.openai_responses.items import Items
from ronda.wire.upstream.errors import error_of


def run(data: Path) -> PartResult:
    exchanges = recorded.exchanges(data)
    if not exchanges:
        return absent("a recorded answer of the Responses API")
    tally = Tally()
    answers = tally.select(exchanges, recorded.is_answer)
    for exchange in exchanges:
        kind = "streamed" if exchange.sse is not None else "plain"
        if exchange.status >= 400:
            tally.check("errors", exchange.id, lambda exchange=exchange: _is_error(exchange))  # type: ignore[misc]
        elif exchange not in answers:
            tally.check("unfinished, and not taken for an answer", exchange.id, lambda it=exchange: _is_broken(it))  # type: ignore[misc]
        else:
            tally.check(kind, exchange.id, lambda exchange=exchange: _is_read(exchange))  # type: ignore[misc]
            tally.check(f"{kind}, sent back", exchange.id, lambda exchange=exchange: _goes_back(exchange))  # type: ignore[misc]
    return tally.result()


def read(exchange: Exchange) -> ModelFinished:
    """The answer by our own readers."""
    if exchange.sse is None:
        return read_plain(exchange.raw)
    reader = Reader()
    reader.feed(exchange.raw)
    reader.close()
    return reader.finish()


def sent_back(output: list[Json]) -> list[Json]:
    """Items as they may be sent again: thoughts that nothing follows are refused."""
    items = list(output)
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items


def _is_read(exchange: Exchange) -> None:
    ours, said = read(exchange), recorded.read(exchange)
    turn, usage = ours.turn, ours.usage
    same(turn.text, said.text, "text")
    same(turn.reasoning, said.reasoning, "reasoning")
    same(turn.refusal, said.refusal, "refusal")
    same([[call.id, call.name] for call in turn.calls], [call[:2] for call in said.calls], "calls")
    for call, (_, _, arguments) in zip(turn.calls, said.calls, strict=True):
        ours_of_it = call.arguments if isinstance(arguments, str) else json.loads(call.arguments)
        same(ours_of_it, arguments, f"arguments of {call.name}")
    same(turn.stop, said.stop, "stop")
    same((usage.input, usage.output, usage.cached, usage.reasoning), said.usage, "usage")
    logprobs = [one for item in said.output for part in item.get("content") or [] for one in part.get("logprobs") or []]
    same((json.loads(bytes(ours.logprobs)) or {}).get("content", []), logprobs, "logprobs")


def _goes_back(exchange: Exchange) -> None:
    written = json.loads(b"[" + Items({}).write(read(exchange).turn) + b"]")
    same(written, sent_back(recorded.read(exchange).output), "items")


def _is_broken(exchange: Exchange) -> None:
    try:
        read(exchange)
    except UpstreamBroken:
        return
    raise AssertionError("the recording holds no whole answer, and was read as one")


def _is_error(exchange: Exchange) -> None:
    error: UpstreamError = error_of(exchange.raw, exchange.status)
    said = exchange.body["error"]["message"]
    assert said in str(error), f"the upstream said {said!r}, ours is {str(error)!r}"
    same(error.status, exchange.status, "status")
    same(error.retryable, exchange.status in (408, 409, 425, 429) or exchange.status >= 500, "retryable")
