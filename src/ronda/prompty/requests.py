"""Messages → the body of a request for embeddings or images: those are no conversations, so no run writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ronda.prompty.message_parts import Message
from ronda.prompty.model import Prompty
from ronda.prompty.upstream import additional

_encode = msgspec.json.Encoder().encode


def write_embedding(prompty: Prompty, model: str, messages: Sequence[Message]) -> bytes:
    """All texts there are; one of them is itself, not a list."""
    texts = [part.value for message in messages for part in message.content if part.kind == "text"]
    fields: dict[str, Any] = {"model": model, "input": texts[0] if len(texts) == 1 else texts}
    return _encode({**additional(prompty), **fields})


def write_image(prompty: Prompty, model: str, messages: Sequence[Message]) -> bytes:
    """The first text of what the user said last."""
    prompt = ""
    for message in messages:
        if message.role == "user":
            prompt = next((part.value for part in message.content if part.kind == "text"), "")
    return _encode({**additional(prompty), "model": model, "prompt": prompt})
