"""Answers of Chat Completions, whole and in pieces."""

import json
from typing import Any

from tests.wire.exchanges import watched

from ronda.core.events import ModelFinished, Preview
from ronda.wire.openai_chat.client_answer import Reader


def plain(message: Any, finish: str | None = "stop", **members: Any) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], **members}).encode()


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunk(delta: Any = None, finish: str | None = None, **members: Any) -> bytes:
    return frame({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **members})


def frame(data: Any) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def read(*pieces: bytes) -> ModelFinished:
    return watch(*pieces)[1]


def watch(*pieces: bytes) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(), *pieces)


COUNTED = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


HI, END = chunk({"content": "Hi"}), chunk({}, "stop")
