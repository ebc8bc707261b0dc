"""Recorded streams of models that call one tool, or two, made to write a page and to change it, through /generate-code.

The frames are the recorded ones, with their order, ids and signatures; only the name of the tool and the text of its arguments
are others, cut where the recording was. The page must see one toolStart, a page that grows where the arguments came in pieces,
and in the end exactly what the model wrote.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.conformance.app_servers import AppServers
from tests.conformance.app_stream import load_player
from tests.conformance.recordings import Exchange, read_files
from tests.conformance.report import PartResult, Tally, absent

Json = Any

PAGE: Final = "<!DOCTYPE html>\n<html><head><title>Grüße</title></head><body>\n" + "".join(
    [f'<p class="x">line {n} "quoted" \\ 😀</p>\n' for n in range(20)]
)
PAGE_END: Final = "</body></html>"
WRITTEN: Final = PAGE + PAGE_END
# What the first call of a turn does, and what the second does, if there is one.
CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("create_file", {"content": WRITTEN, "path": "index.html"}),
    ("edit_file", {"edits": [{"old_text": "Grüße", "new_text": "Guten Tag"}], "path": "index.html"}),
)
TEXTS: Final = [json.dumps(arguments) for _, arguments in CALLS]

# The frames of a stream → in how many pieces the arguments of each call come; nothing where it is of no use here. With `fill`,
# the calls become ours.
Rewrite: TypeAlias = Callable[[list[Any], bool], list[int]]


def run(data: Path) -> PartResult:
    folder = data / "app-stream"
    if not (folder / "drive.py").is_file() or not (data / "traffic").is_dir():
        return absent("app-stream/drive.py, or recorded traffic")
    drive = load_player(folder / "drive.py")
    tally = Tally()
    with _replaying() as replay, AppServers(folder, replay.address, "variants = 1\n") as servers:
        for provider, (files, rewrite, last) in _DIALECTS.items():
            found: dict[str, tuple[str, list[int]]] = {}
            for exchange in read_files(data / "traffic", (files,)):
                if exchange.status == 200 and (made := _as_page(exchange, rewrite)) is not None:
                    found[made[0]] = made
            for number, (stream, pieces) in enumerate(found.values()):
                check = partial(_play, drive, servers.backend(provider), replay, (stream, last), pieces)
                tally.check(f"{provider} streams", f"{files} {number}", check)
    return tally.result()


def _play(drive: Any, backend: str, replay: _Replay, streams: tuple[str, str], pieces: list[int]) -> None:
    replay.streams = streams
    send = {"generatedCodeConfig": "html_css", "inputMode": "text", "prompt": {"text": "A page.", "images": []}}
    tools = [[name, True] for name, _ in CALLS[: len(pieces)]]
    case = {"client": {"send": send}, "expect": {"code": 1000, "ends": {"variantComplete": 1}, "tools": tools}}
    lines = asyncio.run(drive.play(case, backend, None))
    wrong = drive.judge(case, lines)
    assert not wrong, "; ".join(wrong)
    got = [line["msg"] for line in lines if line["dir"] == "<"]
    starts = [message["data"]["name"] for message in got if message["type"] == "toolStart"]
    assert starts == [name for name, _ in tools], starts
    codes = [message["value"] for message in got if message["type"] == "setCode"]
    final = WRITTEN if len(pieces) == 1 else WRITTEN.replace("Grüße", "Guten Tag")
    assert codes[-1] == final, "the page is not what the model wrote"
    growing = [code for code in codes if WRITTEN.startswith(code)]
    assert {*codes} <= {*growing, final}, "a preview that is no beginning of the page"
    assert len(set(growing)) >= min(pieces[0], 5), f"{len(set(growing))} sizes of {pieces[0]} pieces"


# ---- recordings -------------------------------------------------------------------------------------------------------


def _as_page(exchange: Exchange, rewrite: Rewrite) -> tuple[str, list[int]] | None:
    """The stream with the page in it, and in how many pieces it comes; None where it is no stream with one call, or two."""
    if exchange.sse is None:
        return None
    frames: list[tuple[str, Json]] = []
    for block in exchange.sse.replace("\r\n", "\n").split("\n\n"):
        lines = block.split("\n")
        text = "".join([line.removeprefix("data:").strip() for line in lines if line.startswith("data:")])
        try:
            frames.append((next((line for line in lines if line.startswith("event:")), ""), json.loads(text)))
        except ValueError:
            if text:
                frames.append(("", text))
    objects = [frame for _, frame in frames if isinstance(frame, dict)]
    pieces = rewrite(objects, False)
    if not 1 <= len(pieces) <= len(CALLS) or 0 in pieces:
        return None
    rewrite(objects, True)
    written = []
    for event, frame in frames:
        data = frame if isinstance(frame, str) else json.dumps(frame)
        written.append(f"{event}\ndata: {data}\n\n" if event else f"data: {data}\n\n")
    return "".join(written), pieces


def _responses(events: list[Json], fill: bool) -> list[int]:
    deltas = [event for event in events if event.get("type") == "response.function_call_arguments.delta"]
    added = [event for event in events if event.get("type") == "response.output_item.added"]
    calls = [event["output_index"] for event in added if event["item"].get("type") == "function_call"]
    known = ("function_call", "message", "reasoning")
    hosted = [event for event in added if event["item"].get("type") not in known]
    if not calls or len(calls) > len(CALLS) or hosted or events[-1].get("type") != "response.completed":
        return []
    grouped = [[delta for delta in deltas if delta["output_index"] == index] for index in calls]
    if not fill:
        return [len(group) for group in grouped]
    for number, (index, group) in enumerate(zip(calls, grouped, strict=True)):
        _fill(group, "delta", TEXTS[number])
        for event in events:
            items = [event.get("item")] if event.get("output_index") == index else []
            items += [(event.get("response") or {}).get("output", ())[index]] if _is_end(event) else []
            for item in [item for item in items if item]:
                item["name"] = CALLS[number][0]
                item["arguments"] = "" if event["type"] == "response.output_item.added" else TEXTS[number]
            if event.get("type") == "response.function_call_arguments.done" and event["output_index"] == index:
                event["arguments"] = TEXTS[number]
                if "name" in event:
                    event["name"] = CALLS[number][0]
    return []


def _is_end(event: Json) -> bool:
    return bool(event.get("type") == "response.completed")


def _messages(events: list[Json], fill: bool) -> list[int]:
    starts = [event for event in events if event.get("type") == "content_block_start"]
    calls = [event for event in starts if event["content_block"]["type"] == "tool_use"]
    known = ("tool_use", "text", "thinking", "redacted_thinking")
    others = [event for event in starts if event["content_block"]["type"] not in known]
    ends = [event["delta"].get("stop_reason") for event in events if event.get("type") == "message_delta"]
    if len(calls) > len(CALLS) or others or ends != ["tool_use"]:
        return []
    deltas = [event for event in events if event.get("type") == "content_block_delta"]
    grouped = [
        [event["delta"] for event in deltas if event["index"] == call["index"] and event["delta"].get("partial_json")]
        for call in calls
    ]
    if not fill:
        return [len(group) for group in grouped]
    for number, (call, group) in enumerate(zip(calls, grouped, strict=True)):
        call["content_block"]["name"] = CALLS[number][0]
        _fill(group, "partial_json", TEXTS[number])
    return []


def _gemini(events: list[Json], fill: bool) -> list[int]:
    parts = [
        part
        for event in events
        for candidate in event.get("candidates", ())
        for part in candidate.get("content", {}).get("parts", ())
    ]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    odd = [part for part in parts if not {"text", "functionCall"}.intersection(part)]
    if len(calls) > len(CALLS) or odd or any("args" not in call for call in calls):
        return []
    if not fill:
        return [1] * len(calls)
    for number, call in enumerate(calls):
        call["name"], call["args"] = CALLS[number]
    return []


def _chat(events: list[Json], fill: bool) -> list[int]:
    choices = [choice for event in events for choice in event.get("choices") or ()]
    calls = [call for choice in choices for call in (choice.get("delta") or {}).get("tool_calls") or ()]
    indexes = list(dict.fromkeys(call.get("index") for call in calls))
    if (
        not calls
        or indexes != [*range(min(len(indexes), len(CALLS)))]
        or {choice.get("index") for choice in choices} != {0}
    ):
        return []
    if [choice["finish_reason"] for choice in choices if choice.get("finish_reason")] != ["tool_calls"]:
        return []
    grouped = [
        [call["function"] for call in calls if call["index"] == index and call.get("function")] for index in indexes
    ]
    written = [[function for function in group if function.get("arguments")] for group in grouped]
    if not fill:
        return [len(group) for group in written]
    for number, (group, deltas) in enumerate(zip(grouped, written, strict=True)):
        for function in group:
            if function.get("name"):
                function["name"] = CALLS[number][0]
        _fill(deltas, "arguments", TEXTS[number])
    return []


def _fill(deltas: list[Json], name: str, text: str) -> None:
    step = -(-len(text) // len(deltas))
    for at, delta in enumerate(deltas):
        delta[name] = text[at * step : (at + 1) * step]


_DONE: Final = {
    "responses": (
        'data: {"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","output":[]}}\n\n'
        'data: {"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","role":"assistant",'
        '"status":"in_progress","content":[]}}\n\n'
        'data: {"type":"response.output_text.delta","output_index":0,"item_id":"m","content_index":0,"delta":"Done."}\n\n'
        'data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[{"id":"m","type":"message",'
        '"role":"assistant","status":"completed","content":[{"type":"output_text","text":"Done.","annotations":[]}]}]}}\n\n'
    ),
    "messages": (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x",'
        '"content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
        '"text":"Done."}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
    "gemini": (
        'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Done."}]},"finishReason":"STOP","index":0}]}\n\n'
    ),
    "chat": (
        'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"Done."},"finish_reason":null}]}\n\n'
        'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    ),
}

# Which recordings each is asked with, how they are made to write a page, and what the model says in the end.
_DIALECTS: Final[dict[str, tuple[str, Rewrite, str]]] = {
    "openai": ("openai-responses.jsonl", _responses, _DONE["responses"]),
    "openai-chat": ("openai-chat.jsonl", _chat, _DONE["chat"]),
    "anthropic": ("anthropic.jsonl", _messages, _DONE["messages"]),
    "gemini": ("gemini.jsonl", _gemini, _DONE["gemini"]),
}


# ---- a model that says what was recorded --------------------------------------------------------------------------------


class _Replay:
    """A server that answers the first request of a run with one stream, and the second with another."""

    address = ""
    streams = ("", "")

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").lower().split("\r\n")
                length = next((line for line in lines if line.startswith("content-length:")), "content-length: 0")
                body = await reader.readexactly(int(length.partition(":")[2]))
                stream = self.streams[b"Successfully created" in body].encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                for block in stream.split(b"\n\n"):
                    if block:
                        writer.write(b"%x\r\n%b\n\n\r\n" % (len(block) + 2, block))
                        await writer.drain()
                        await asyncio.sleep(0)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextmanager
def _replaying() -> Iterator[_Replay]:
    replay, loop, ready = _Replay(), asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(replay.answer, "127.0.0.1", 0, limit=2**26)
        replay.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()

    def work() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield replay
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
