"""Answers as Gemini says them, and requests as we write them, for the tests of its client."""

import json
from typing import Any

from tests.wire.exchanges import request

from ronda.core.events import ModelFinished
from ronda.core.parts import Turn
from ronda.wire.gemini.client_answer import Naming, read_plain
from ronda.wire.gemini.client_request import write_request

MODEL = "gemini-3-flash-preview"


def chunk(*parts: Any, finish: str | int | None = None, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **members}


def plain(
    *parts: Any, finish: str | int | None = "STOP", naming: Naming | None = None, **members: Any
) -> ModelFinished:
    said = json.dumps(chunk(*parts, finish=finish, **members), indent=2, ensure_ascii=False).encode()
    return read_plain(said, naming or Naming(MODEL, run="run", round=2))


def call(name: str, args: Any = None, id: str | None = None) -> dict[str, Any]:
    said = {"name": name, "args": args or {}}
    return {"functionCall": {**said, "id": id} if id else said}


def signed(part: dict[str, Any], signature: str = "U0lHTg==") -> dict[str, Any]:
    return {**part, "thoughtSignature": signature}


def written(*turns: Turn, model: str = MODEL, **how: Any) -> Any:
    return json.loads(write_request(model, request(*turns, **how)))


def contents(*turns: Turn, model: str = MODEL) -> Any:
    return written(*turns, model=model)["contents"]
