"""Every recorded stream of a message under every way to cut it (`streams`). And a plain answer told as a stream is the same turn
as the plain answer.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.conformance import anthropic_naive as naive
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same
from tests.conformance.streams import Found, Ways, check_ways, count, dice_of, fold_problem, guarded, read

from ronda.wire.anthropic.client_request import Reader, read_plain

LARGEST = 5 * 1024  # of streams up to this size every byte is tried: the work grows with the square of it


def run(data: Path) -> PartResult:
    answers = [exchange for exchange in naive.exchanges(data) if naive.is_answer(exchange)]
    streams = sorted([one for one in answers if one.sse is not None], key=lambda one: -len(one.raw))
    if not answers:
        return absent("a recorded stream of a message")
    tally = Tally()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        count(tally, pool.map(partial(guarded, _check_stream), streams))
    for exchange in answers:
        if exchange.sse is None:
            tally.check("plain, told as a stream", exchange.id, lambda exchange=exchange: _told(exchange))  # type: ignore[misc]
    every = sum(len(stream.raw) <= LARGEST for stream in streams)
    tally.note(f"{len(streams)} streams, {every} of them cut at every byte")
    return tally.result()


def _told(exchange: Exchange) -> None:
    """No recording has both, but each plain answer can be said in events."""
    plain = read_plain(json.dumps(exchange.body, ensure_ascii=False, separators=(",", ":")).encode())
    stream = "".join(f"event: {event['type']}\ndata: {_dump(event)}\n\n" for event in told(exchange.body))
    streamed = read([stream.encode()], Reader())
    same(streamed.error, None, "error")
    same(streamed.finished, [plain], "finished")
    same(fold_problem(streamed), None, "previews")


def told(body: Json) -> list[Json]:
    said: list[Json] = [
        {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}},
        {"type": "ping"},
    ]
    for index, block in enumerate(body["content"]):
        empty, deltas = _taken_apart(block)
        said.append({"type": "content_block_start", "index": index, "content_block": empty})
        said += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        said.append({"type": "content_block_stop", "index": index})
    delta = {name: body.get(name) for name in ("stop_reason", "stop_sequence", "container")}
    return [*said, {"type": "message_delta", "delta": delta, "usage": body["usage"]}, {"type": "message_stop"}]


def _taken_apart(block: Json) -> tuple[Json, list[Json]]:
    match block["type"]:
        case "text":
            cited = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or []]
            empty = {**block, "text": "", **({"citations": []} if cited else {})}
            return empty, [*_pieces("text", block["text"]), *cited]
        case "thinking":
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*_pieces("thinking", block["thinking"]), signature]
        case "tool_use" | "server_tool_use":
            text = _dump(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:7], text[7:])]
            return {**block, "input": {}}, deltas
    return block, []


def _pieces(member: str, text: str) -> list[Json]:
    return [{"type": f"{member}_delta", member: text[at : at + 9]} for at in range(0, len(text), 9)]


def _dump(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_stream(exchange: Exchange) -> Found:
    stream, dice = exchange.raw, dice_of(exchange.id)
    places = range(len(stream))
    thorough = len(stream) <= LARGEST
    ways = Ways(places[1:] if thorough else (), places if thorough else sorted(dice.sample(places, 200)), may_fail=True)
    return check_ways(exchange.id, stream, Reader, ways, dice)
