"""Every recorded stream of a message under every way to cut it: the same previews, the same turn; and cut short, never half
a turn. And a plain answer told as a stream is the same turn as the plain answer.
"""

from __future__ import annotations

import json
import os
import random
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct
from tests.conformance import anthropic_naive as naive
from tests.conformance.cuts import byte_by_byte, cut_at_random, fold, in_two
from tests.conformance.recordings import Exchange, Json
from tests.conformance.report import PartResult, Tally, absent, same
from tests.conformance.streams import count, guarded

from ronda.core.events import ModelFinished, Preview
from ronda.errors import UpstreamBroken, UpstreamError
from ronda.wire.anthropic.client_request import Reader, read_plain

LARGEST = 5 * 1024  # of streams up to this size every byte is tried: the work grows with the square of it
RANDOM_CUTS = 5


class Outcome(Struct):
    previews: list[Preview]
    finished: ModelFinished | None
    error: str | None


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
    streamed = _read([stream.encode()])
    same(streamed.error, None, "error")
    same(streamed.finished, plain, "finished")
    same(_fold_problem(streamed), None, "previews")


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


def _check_stream(exchange: Exchange) -> list[tuple[str, str, str | None]]:
    stream = exchange.raw
    try:
        whole = _read([stream])
    except Exception as error:
        return [("read whole", exchange.id, f"{type(error).__name__}: {error}")]
    dice = random.Random(zlib.crc32(exchange.id.encode()))
    lines = stream.replace(b"\r\n", b"\n")
    ways: list[tuple[str, Iterable[list[bytes]]]] = [
        ("byte by byte", [byte_by_byte(stream)]),
        ("random cuts", [cut_at_random(stream, dice) for _ in range(RANDOM_CUTS)]),
        ("with CRLF", [[crlf := lines.replace(b"\n", b"\r\n")], byte_by_byte(crlf), cut_at_random(crlf, dice)]),
        ("without the last line end", [[bare := stream.rstrip(b"\r\n")], cut_at_random(bare, dice)]),
    ]
    thorough = len(stream) <= LARGEST
    if thorough:
        ways.append(("cut in two at every byte", in_two(stream)))
    found = [(kind, exchange.id, _first_difference(whole, cuts)) for kind, cuts in ways]
    found.append(("previews fold to the turn", exchange.id, _fold_problem(whole)))
    places = range(len(stream)) if thorough else sorted(dice.sample(range(len(stream)), 200))
    kind = "cut short at every byte" if thorough else "cut short at some bytes"
    found.append((kind, exchange.id, _cut_short_problem(stream, whole, places)))
    return found


def _read(pieces: Iterable[bytes]) -> Outcome:
    reader = Reader()
    outcome = Outcome([], None, None)
    for piece in pieces:
        outcome.previews += reader.feed(piece)
    outcome.previews += reader.close()
    try:
        outcome.finished = reader.finish()
    except UpstreamError as error:
        outcome.error = f"{type(error).__name__}: {error}"
    return outcome


def _first_difference(whole: Outcome, ways: Iterable[list[bytes]]) -> str | None:
    for pieces in ways:
        other = _read(pieces)
        if other != whole:
            what = "the finished turn" if other.previews == whole.previews else "the previews"
            return f"{what} differ when read in {len(pieces)} pieces; {other.error or ''}"
    return None


def _fold_problem(outcome: Outcome) -> str | None:
    if outcome.finished is None:
        return None if outcome.error is not None else "neither a turn nor an error"
    folded, turn = fold(outcome.previews), outcome.finished.turn
    said = (turn.text, turn.reasoning, turn.refusal, [(call.id, call.name, call.arguments) for call in turn.calls])
    return None if folded == said else f"folded {folded!r}, finished {said!r}"


def _cut_short_problem(stream: bytes, whole: Outcome, places: Iterable[int]) -> str | None:
    for at in places:
        reader = Reader()
        try:
            reader.feed(stream[:at])
            reader.close()
            got = reader.finish()
        except UpstreamBroken:
            continue
        if got != whole.finished:
            return f"cut after {at} of {len(stream)} bytes the turn passed for complete: {got!r}"
    return None
