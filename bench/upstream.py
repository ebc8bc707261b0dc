"""A scripted model: requests in any of the dialects in, answers written beforehand out.

The model's name is the script: `fake-r<R>-n<N>[-g<ms>]` asks for a tool R times, then answers in N pieces, and when it
streams the answer it waits that many milliseconds before each event. How far a run has come is counted in the request:
every result of the benchmark's tool carries the marker `TRES-`. Nothing is kept between requests.

It must be much cheaper than what is measured, so it does not parse JSON: it looks for a few strings, and every answer
is built once and then sent whole. The arguments of each call differ: a run that repeats one call may rightly be ended.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import uvloop
from bench import dialects
from bench.dialects import Said

MARKER = b"TRES-"
NAME = re.compile(rb"fake-r(\d+)-n(\d+)(?:-g(\d+))?")
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)

PLAIN_HEAD = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Script(NamedTuple):
    """What the model's name says."""

    name: str
    rounds: int
    chunks: int
    gap: float


@lru_cache
def read_script(name: bytes) -> Script:
    match = NAME.fullmatch(name)
    assert match is not None
    rounds, chunks, gap = (int(number or 0) for number in match.groups())
    return Script(name.decode(), rounds, chunks, gap / 1000)


def words(script: Script) -> list[str]:
    """The pieces of the answer, all different, so that a lost or doubled one shows."""
    return [f"tok{i} " for i in range(script.chunks)]


def arguments(results: int) -> str:
    return f'{{"q":"paris {results}"}}'


@lru_cache(maxsize=4096)
def plain_answer(script: Script, results: int) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if results < script.rounds:
        function = {"name": "lookup", "arguments": arguments(results)}
        message["tool_calls"] = [{"id": f"call{results:05d}", "type": "function", "function": function}]
    else:
        message["content"] = "".join(words(script))
    reason = "tool_calls" if results < script.rounds else "stop"
    body = {
        "id": f"chatcmpl-{results}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": script.name,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": USAGE,
        "system_fingerprint": "fp_fake",
    }
    return whole(b"200 OK", body)


@lru_cache(maxsize=4096)
def stream_frames(script: Script, results: int, with_usage: bool) -> tuple[bytes, ...]:
    """One HTTP chunk for each event, as real servers send them; the head goes with the first, the end with the last."""
    deltas: list[dict[str, Any]]
    if results < script.rounds:
        function = {"name": "lookup", "arguments": ""}
        opening = {"index": 0, "id": f"call{results:05d}", "type": "function", "function": function}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [opening]}]
        text = arguments(results)
        for piece in (text[:4], text[4:5], text[5:-2], text[-2:]):  # models stream arguments in scraps
            deltas.append({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    else:
        deltas = [{"role": "assistant", "content": ""}, *({"content": word} for word in words(script))]
    head = {
        "id": f"chatcmpl-{results}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": script.name,
        "system_fingerprint": "fp_fake",
    }

    def event(delta: dict[str, Any], reason: str | None) -> bytes:
        return pack(head | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]})

    events = [event(delta, None) for delta in deltas]
    events.append(event({}, "tool_calls" if results < script.rounds else "stop"))
    if with_usage:
        events.append(pack(head | {"choices": [], "usage": USAGE}))
    events.append(b"[DONE]")
    frames = [b"data: " + data + b"\n\n" for data in events]
    frames = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]
    frames[0] = STREAM_HEAD + frames[0]
    frames[-1] += b"0\r\n\r\n"
    return tuple(frames)


@lru_cache(maxsize=4096)
def whole_stream(script: Script, results: int, with_usage: bool) -> bytes:
    return b"".join(stream_frames(script, results, with_usage))


# What a path beside Chat's speaks: the plain body, and the events of a stream.
OTHERS: dict[bytes, tuple[Callable[[Said], object], Callable[[Said], list[bytes]]]] = {
    b"/v1/responses": (dialects.response_body, dialects.response_events),
    b"/v1/messages": (dialects.message_body, dialects.message_events),
    b":generateContent": (dialects.gemini_body, dialects.gemini_events),
    b":streamGenerateContent": (dialects.gemini_body, dialects.gemini_events),
}


@lru_cache(maxsize=4096)
def other_answer(path: bytes, script: Script, results: int, stream: bool) -> bytes:
    """In one piece, also a stream: pacing is measured with Chat alone."""
    asks = results < script.rounds
    said = Said(script.name, results, arguments(results) if asks else "", [] if asks else words(script))
    plain, events = OTHERS[path]
    if not stream:
        return whole(b"200 OK", plain(said))
    frames = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in events(said)]
    return STREAM_HEAD + b"".join(frames) + b"0\r\n\r\n"


def whole(status: bytes, body: object) -> bytes:
    data = pack(body)
    return PLAIN_HEAD % (status, len(data)) + data


def pack(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Connection(asyncio.Protocol):
    """One client. It sends a request, reads the answer, and only then sends the next."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its bases

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.received[:end]
        length = LENGTH.search(head)
        total = end + 4 + (int(length[1]) if length else 0)
        if len(self.received) < total:
            return
        body = self.received[end + 4 : total]
        self.received = self.received[total:]
        self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        if not head.startswith(b"POST "):
            self.transport.write(whole(b"200 OK", {"object": "list", "data": []}))
            return
        path = head[5 : head.find(b" ", 5)]
        name = NAME.search(body) or NAME.search(path)
        if name is None:
            error = {"message": "no model named fake-r<R>-n<N> in the request, or its body was sent in chunks"}
            self.transport.write(whole(b"400 Bad Request", {"error": error}))
            return
        script = read_script(name[0])
        results = min(body.count(MARKER), script.rounds)
        stream = b'"stream":true' in body or b'"stream": true' in body
        for other in OTHERS:
            if other in path:
                stream = stream or b"streamGenerateContent" in path
                self.transport.write(other_answer(other, script, results, stream))
                return
        if not stream:
            self.transport.write(plain_answer(script, results))
            return
        with_usage = b"include_usage" in body
        if script.gap and results == script.rounds:
            self.pace(stream_frames(script, results, with_usage), script.gap)
        else:
            self.transport.write(whole_stream(script, results, with_usage))

    def pace(self, frames: tuple[bytes, ...], gap: float) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()

        def send(n: int) -> None:
            self.transport.write(frames[n])
            if n + 1 < len(frames):
                self.timer = loop.call_at(start + (n + 2) * gap, send, n + 1)

        self.timer = loop.call_at(start + gap, send, 0)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scripted model for benchmarks.")
    parser.add_argument("port", type=int)
    uvloop.run(serve(parser.parse_args().port))
