"""Every recorded message, plain or streamed, read by us and read the naive way: the same words, thoughts, calls, counts.

And what we keep of it goes back whole: every block in its place, thinking byte for byte. Errors are read as errors.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import anthropic_naive as naive
from tests.conformance.anthropic_naive import Said
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished
from ronda.core.parts import user
from ronda.core.plan import AUTO, NO_OPTIONS
from ronda.core.request import ModelRequest
from ronda.wire.anthropic.client_request import Reader, read_plain, write_request
from ronda.wire.upstream.errors import error_of


def run(data: Path) -> PartResult:
    exchanges = naive.exchanges(data)
    if not exchanges:
        return absent("a recorded message")
    tally = Tally()
    for exchange in exchanges:
        if not naive.is_answer(exchange):
            tally.check("errors", exchange.id, lambda exchange=exchange: _is_said(exchange))  # type: ignore[misc]
            continue
        kind = "streamed" if exchange.sse is not None else "plain"

        def is_read(exchange: Exchange = exchange) -> None:
            _compare(read(exchange), naive.read(exchange))

        def goes_back(exchange: Exchange = exchange) -> None:
            _compare_echo(read(exchange), naive.read(exchange), exchange)

        tally.check(kind, exchange.id, is_read)
        tally.check(f"{kind}, sent back", exchange.id, goes_back)
    return tally.result()


def read(exchange: Exchange) -> ModelFinished:
    """The answer by our own readers."""
    if exchange.sse is None:
        return read_plain(exchange.raw)
    reader = Reader()
    reader.feed(exchange.raw)
    reader.close()
    return reader.finish()


def _is_said(exchange: Exchange) -> None:
    error = error_of(exchange.raw, exchange.status)
    assert exchange.body["error"]["message"] in str(error), str(error)
    same((error.status, error.retryable), (exchange.status, False), "status")


def _compare(ours: ModelFinished, said: Said) -> None:
    turn, usage = ours.turn, ours.usage
    same(turn.text, said.all("text", "text"), "text")
    same(turn.reasoning, said.all("thinking", "thinking"), "reasoning")
    same([[call.id, call.name] for call in turn.calls], [[call["id"], call["name"]] for call in said.calls], "calls")
    same([json.loads(call.arguments) for call in turn.calls], [call["input"] for call in said.calls], "arguments")
    same(turn.stop, said.stop, "stop")
    same((usage.input, usage.output, usage.cached, usage.reasoning), said.counts, "usage")


def _compare_echo(ours: ModelFinished, said: Said, exchange: Exchange) -> None:
    request = ModelRequest([ours.turn, user("Go on.")], (), AUTO, NO_OPTIONS, False, "run", 0, 1, scratch={})
    body = write_request("claude-sonnet-4-5", request)
    messages = json.loads(body)["messages"]
    expected = [block for block in said.content if block != {"type": "text", "text": ""}]
    same(messages[:-1], [{"role": "assistant", "content": expected}] if expected else [], "content")
    if ours.turn.native is not None and exchange.sse is None and len(expected) == len(said.content):
        content = json.dumps(exchange.body["content"], ensure_ascii=False).encode()[1:-1]
        assert content in body, "the content is not byte for byte"
