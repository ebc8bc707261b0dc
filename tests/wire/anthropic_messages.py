"""Messages as Anthropic says them, and requests as we write them, for the tests of its client."""

import json
from typing import Any

from msgspec import Raw
from tests.wire.exchanges import request, watched

from ronda.core.events import ModelFinished, Preview
from ronda.core.parts import Turn
from ronda.core.plan import ToolSpec
from ronda.wire.anthropic import VERSION
from ronda.wire.anthropic.client_request import Reader, write_request

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}


def message(*content: Any, stop: str = "end_turn", **members: Any) -> dict[str, Any]:
    said = {
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
    }
    return {**said, "usage": USAGE, **members}


def plain(*content: Any, **members: Any) -> bytes:
    return dumps(message(*content, **members))


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def events(*said: Any) -> bytes:
    # Padded with spaces, as the API does.
    return b"".join(b"event: %b\ndata: %b  \n\n" % (one["type"].encode(), dumps(one)) for one in said)


def watch(*pieces: bytes, **how: Any) -> tuple[list[Preview], ModelFinished]:
    return watched(Reader(**how), *pieces)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(id: str = "toolu_1", name: str = "look", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def thinking(said: str, signature: str = "sig") -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def written(*turns: Turn, model: str = "claude-sonnet-4-5", version: str = VERSION, **how: Any) -> dict[str, Any]:
    body = write_request(model, request(*turns, **how), version)
    said: dict[str, Any] = json.loads(body)
    return said


def messages(*turns: Turn, **how: Any) -> list[Any]:
    said: list[Any] = written(*turns, **how)["messages"]
    return said


LOOK = ToolSpec(
    "look", "Look at it.", Raw(b'{"type":"object","properties":{"at":{"type":"string"}},"required":["at"]}')
)
