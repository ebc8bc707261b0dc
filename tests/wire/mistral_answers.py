"""Answers of Mistral's, whole and in pieces."""

import json
from typing import Any

from ronda.core.events import ModelFinished
from ronda.wire.mistral.client_answer import Naming, read_plain

MODEL = "magistral-medium-latest"


NAMING = Naming(MODEL, run="run", round=2)


def plain(message: Any, finish: str = "stop", **members: Any) -> ModelFinished:
    return read_plain(
        json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **members}).encode(), NAMING
    )


def call(id: str | None, name: str, arguments: Any, **members: Any) -> dict[str, Any]:
    said = {"function": {"name": name, "arguments": arguments}, **members}
    return said if id is None else {"id": id, **said}


def thinking(*texts: str, **members: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], **members}
