"""Every recorded answer of generateContent, plain and streamed, against a naive reading; and sent back part by part."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance import gemini_recorded as recorded
from tests.conformance.gemini_recorded import Said, exchanges, meaning, model_in
from tests.conformance.recordings import Exchange
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished
from ronda.core.parts import user
from ronda.wire.gemini.client_answer import Naming, Reader, read_plain
from ronda.wire.gemini.contents import Contents
from ronda.wire.gemini.tools import Tools

_FILTERED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"}


def run(data: Path) -> PartResult:
    found = [exchange for exchange in exchanges(data) if exchange.status < 400]
    if not found:
        return absent("a recorded answer of generateContent")
    tally = Tally()
    for exchange in found:
        kind = "streamed" if recorded.is_stream(exchange) else "plain"
        tally.check(kind, exchange.id, lambda exchange=exchange: _compare(exchange))  # type: ignore[misc]
        tally.check(f"{kind}, sent back", exchange.id, lambda exchange=exchange: _compare_echo(exchange))  # type: ignore[misc]
    return tally.result()


def read(exchange: Exchange) -> ModelFinished:
    """By our own readers; a JSON array both ways."""
    naming = Naming(model_in(exchange), Tools(()), "run", exchange.index)
    if not recorded.is_stream(exchange):
        return read_plain(exchange.raw, naming)
    reader = Reader(naming)
    reader.feed(exchange.raw)
    reader.close()
    finished = reader.finish()
    if exchange.sse is None:
        same(read_plain(exchange.raw, naming), finished, "an array read at once")
    return finished


def _compare(exchange: Exchange) -> None:
    ours, said = read(exchange), recorded.read(exchange)
    turn, usage = ours.turn, ours.usage
    same(turn.text, said.text, "text")
    same(turn.reasoning, said.reasoning, "reasoning")
    same([(call.name, json.loads(call.arguments)) for call in turn.calls], [call[1:] for call in said.calls], "calls")
    same([call.id for call, theirs in zip(turn.calls, said.calls, strict=True) if theirs[0]], _ids(said), "ids")
    assert all(call.id for call in turn.calls), "a call has no id"
    same(len({call.id for call in turn.calls}), len(turn.calls), "ids of their own")
    same(turn.stop, _stop(said), "stop")
    same(usage.total, said.usage["totalTokenCount"], "all tokens")
    same(usage.cached, said.usage.get("cachedContentTokenCount", 0), "cached tokens")
    same(usage.reasoning, said.usage.get("thoughtsTokenCount", 0), "reasoning tokens")
    same(usage.output, usage.reasoning + said.usage.get("candidatesTokenCount", 0), "output tokens")
    tokens = (json.loads(bytes(ours.logprobs)) or {}).get("content", [])
    same([(token["token"], token["logprob"]) for token in tokens], said.logprobs, "logprobs")


def _ids(said: Said) -> list[str]:
    return [call[0] for call in said.calls if call[0]]


def _stop(said: Said) -> str:
    if said.finish in _FILTERED:
        return "content_filter"
    return "length" if said.finish == "MAX_TOKENS" else "tool_calls" if said.calls else "stop"


def _compare_echo(exchange: Exchange) -> None:
    ours, said = read(exchange), recorded.read(exchange)
    contents = Contents(model_in(exchange), Tools(()))
    contents.add(user("?"))
    contents.add(ours.turn)
    written = json.loads(b"[" + contents.buffer + b"]")[1:]
    # All of it, thoughts too, and what we have no equivalent of; but a text alone may be in other pieces, and an empty one gone.
    same(_whole(written), _whole([{"role": "model", "parts": said.parts}]), "parts")
    same(
        meaning(written, set(_ids(said))), meaning([{"role": "model", "parts": said.parts}], set(_ids(said))), "meaning"
    )


def _whole(contents: list[dict[str, object]]) -> list[object]:
    return [part for part in recorded.parts_of(contents) if part.keys() != {"text"}]
