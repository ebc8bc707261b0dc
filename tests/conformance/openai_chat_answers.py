"""Every recorded Chat Completions answer, plain or streamed, read by us and read the naive way: the same words, calls, counts.

And what we keep of it goes back whole: an upstream's own members of a message (signatures, reasoning under its own name)
are in what we would send it next.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from tests.conformance import naive
from tests.conformance.naive import Said
from tests.conformance.recordings import Exchange, Json, chat_exchanges
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished
from ronda.errors import UpstreamBroken
from ronda.wire.openai_chat.client_answer import Reader, read_choices
from ronda.wire.openai_chat.client_request import write_turn

# Said again in our own words, or never sent back: not an upstream's own.
ORDINARY = {"role", "content", "tool_calls", "function_call", "refusal", "annotations", "audio"}
CALL = {"id", "type", "function", "index"}


def run(data: Path) -> PartResult:
    tally = Tally()
    exchanges = [exchange for exchange in chat_exchanges(data) if exchange.status < 400]
    if not exchanges:
        return absent("a recorded chat completion")
    exchanges = tally.select(exchanges, lambda exchange: naive.error_in(exchange) is None)  # else the errors part's
    answers = tally.select(exchanges, naive.is_answer)
    for exchange in exchanges:
        kind = "streamed" if exchange.sse is not None else "plain"
        if exchange not in answers:
            tally.check("no answer, and not taken for one", exchange.id, lambda exchange=exchange: _is_broken(exchange))  # type: ignore[misc]
            continue

        def is_read(exchange: Exchange = exchange) -> None:
            for ours, said in zip(read(exchange), naive.read(exchange), strict=True):
                _compare(ours, said)

        def goes_back(exchange: Exchange = exchange) -> None:
            for ours, said in zip(read(exchange), naive.read(exchange), strict=True):
                _compare_echo(ours, said)

        tally.check(kind, exchange.id, is_read)
        tally.check(f"{kind}, sent back", exchange.id, goes_back)
    return tally.result()


def read(exchange: Exchange) -> list[ModelFinished]:
    """The answer by our own readers, all choices."""
    if exchange.sse is None:
        return read_choices(exchange.raw)
    reader = Reader(choices=naive.choices(exchange))
    reader.feed(exchange.raw)
    reader.close()
    return reader.finish_all()


def _is_broken(exchange: Exchange) -> None:
    try:
        read(exchange)
    except UpstreamBroken:
        return
    raise AssertionError("the recording holds no whole answer, and was read as one")


def _compare(ours: ModelFinished, said: Said) -> None:
    turn, usage = ours.turn, ours.usage
    same(turn.text, said.text, "text")
    same(turn.reasoning, said.reasoning, "reasoning")
    same(turn.refusal, said.refusal, "refusal")
    same([[call.id, call.name] for call in turn.calls], [call[:2] for call in said.calls], "calls")
    for call, recorded in zip(turn.calls, said.calls, strict=True):
        # As text, unless the server sent the object itself.
        if call.arguments != recorded[2]:
            same(json.loads(call.arguments), json.loads(recorded[2]), "arguments")
    same(turn.stop, said.stop, "stop")
    same((usage.input, usage.output, usage.cached, usage.reasoning), said.usage, "usage")
    same(_without_null(json.loads(bytes(ours.logprobs))), _without_null(said.logprobs), "logprobs")


def _without_null(value: Json) -> Json:
    return {name: item for name, item in value.items() if item} if isinstance(value, dict) else value


def _compare_echo(ours: ModelFinished, said: Said) -> None:
    written = write_turn(ours.turn)
    if not said.text and not said.calls and not said.refusal and not said.members.keys() - ORDINARY:
        same(written, b"", "an answer that says nothing is not sent")
        return
    message = msgspec.json.decode(written)
    same(message["role"], "assistant", "role")
    kept = {name: message.get(name) for name in said.members.keys() - ORDINARY}
    same(kept, {name: said.members[name] for name in kept}, "members of the upstream's own")
    calls = message.get("tool_calls") or []
    same([[call["id"], call["function"]["name"]] for call in calls], [call[:2] for call in said.calls], "calls")
    for call, recorded in zip(calls, said.members.get("tool_calls") or [], strict=False):
        extra = {name: value for name, value in recorded.items() if name not in CALL and value is not None}
        same({name: call.get(name) for name in extra}, extra, "members of a call of the upstream's own")
