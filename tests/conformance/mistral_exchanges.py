"""Every recorded exchange with Mistral: its answer read against a naive reading, sent back, and cut; its request written again;
and every follow-up made by us out of the request before it and its answer."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import product
from pathlib import Path

from tests.conformance import loop, naive
from tests.conformance import mistral_recorded as meaning
from tests.conformance.followups import settled
from tests.conformance.gemini_streams import check
from tests.conformance.mistral_recorded import exchanges, is_bridge, read_messages, read_request
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same

from ronda.core.events import ModelFinished
from ronda.core.parts import ToolTurn, user
from ronda.wire.mistral.client_answer import Naming, Reader, read_plain
from ronda.wire.mistral.client_request import Body
from ronda.wire.mistral.messages import Messages
from ronda.wire.mistral.tools import Tools


def run(data: Path) -> PartResult:
    found = exchanges(data)
    if not found:
        return absent("a recorded exchange with Mistral")
    tally = Tally()
    for exchange in found:
        kind = "streamed" if exchange.sse is not None else "plain"
        tally.check(f"{kind} answers", exchange.id, lambda exchange=exchange: _compare(exchange))  # type: ignore[misc]
        tally.check(f"{kind} answers sent back", exchange.id, lambda exchange=exchange: _compare_echo(exchange))  # type: ignore[misc]
        tally.check("requests written again", exchange.id, lambda exchange=exchange: _compare_request(exchange))  # type: ignore[misc]
        if exchange.sse is not None:
            with tally.guard(exchange.id):
                naming = Naming(exchange.request["model"])
                check(tally, "streams", exchange.id, exchange.raw, lambda naming=naming: Reader(naming))  # type: ignore[misc]
    followups = _find(found, tally)
    for before, after in followups:
        is_tool_round = "tool_calls" in meaning.message(after.request["messages"][len(before.request["messages"])])
        kind = "tool rounds" if is_tool_round else "further questions"
        tally.check(kind, after.id, lambda before=before, after=after: _compare_followup(before, after))  # type: ignore[misc]
        tally.check("driven", after.id, lambda before=before, after=after: _compare_followup(before, after, True))  # type: ignore[misc]
    return tally.result()


def read(exchange: Exchange) -> ModelFinished:
    naming = Naming(exchange.request["model"], Tools(()), "run", exchange.index)
    if exchange.sse is None:
        return read_plain(exchange.raw, naming)
    reader = Reader(naming)
    reader.feed(exchange.raw)
    reader.close()
    return reader.finish()


def _compare(exchange: Exchange) -> None:
    ours, said = read(exchange), naive.read(exchange)[0]
    turn, usage = ours.turn, ours.usage
    same(turn.text, said.text, "text")
    same(turn.reasoning, said.reasoning, "reasoning")
    same([[call.id, call.name, call.arguments] for call in turn.calls], said.calls, "calls")
    same(turn.stop, said.stop, "stop")
    same((usage.input, usage.output), said.usage[:2], "usage")
    same(usage.cached, _cached(exchange), "cached tokens")


def _cached(exchange: Exchange) -> int:
    bodies = naive.chunks(exchange.sse) if exchange.sse is not None else [exchange.body]
    said: Json = next((body["usage"] for body in reversed(bodies) if body.get("usage")), {})
    return int((said.get("prompt_tokens_details") or {}).get("cached_tokens") or said.get("num_cached_tokens") or 0)


def _compare_echo(exchange: Exchange) -> None:
    ours, said = read(exchange), naive.read(exchange)[0]
    messages = Messages(exchange.request["model"], Tools(()))
    messages.add(user("?"))
    messages.add(ours.turn)
    written = json.loads(b"[" + messages.buffer + b"]")[1]
    if exchange.sse is None:
        same(meaning.message(written), meaning.message(exchange.body["choices"][0]["message"]), "message")
    else:
        same(written["content"], said.text, "content")


def _compare_request(exchange: Exchange) -> None:
    recorded = exchange.request
    written = json.loads(Body().write(recorded["model"], read_request(recorded)))
    same(_messages(written), _messages(recorded), "messages")
    same(meaning.request(written), meaning.request(recorded), "request")


def _find(found: list[Exchange], tally: Tally) -> list[tuple[Exchange, Exchange]]:
    """Pairs: the later one's messages are the earlier one's, what it was answered, and more."""
    cassettes = defaultdict(list)
    for exchange in found:
        cassettes[exchange.cassette].append(exchange)
    pairs = []
    for cassette in cassettes.values():
        whole = tally.select(cassette, lambda one: one.request["messages"] and naive.read(one))
        for after, before in product(whole, whole):
            with tally.guard(after.id):
                at = len(before.request["messages"])
                said = after.request["messages"]
                if len(said) > at and said[at]["role"] == "assistant" and said[:at] == before.request["messages"]:
                    answer, recorded = naive.read(before)[0], meaning.message(said[at])
                    calls = [[call_id, name, json.loads(arguments)] for call_id, name, arguments in answer.calls]
                    if recorded.get("tool_calls", []) == calls and _text(recorded) == answer.text:
                        pairs.append((before, after))
    return pairs


def _text(message: Json) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(chunk["text"] for chunk in content if chunk["type"] == "text")


def _messages(request: Json) -> list[Json]:
    """An "OK" between a result and what the user says is some client's way to an order that older servers wanted."""
    said = request["messages"]
    return meaning.messages([message for at, message in enumerate(said) if not is_bridge(said, at)])


def _compare_followup(before: Exchange, after: Exchange, driven: bool = False) -> None:
    """`driven`: the second request is the loop's own."""
    model = before.request["model"]
    request = read_request(before.request)
    turn = settled(read(before), before.request["model"])
    at = len(before.request["messages"])
    rest = read_messages(after.request["messages"][at:], model)[1:]
    assert all(type(one) is not ToolTurn or one.results for one in rest)
    body = Body()
    body.write(model, request)
    request.turns = [*request.turns, turn, *rest]
    written = body.write(model, request)
    same(written, Body().write(model, request), "written with what was written before")
    sent = json.loads(written)
    if driven:
        sent = loop.next_request(f"mistral:{model}", before, read_request(before.request).turns, turn, rest)
    same(_messages(sent), _messages(after.request), "messages")
