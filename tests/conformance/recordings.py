"""Lines of `traffic/**/*.jsonl` → exchanges. Read with the standard library, so that no code under test is trusted here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

Json: TypeAlias = Any  # what `json.loads` returns

CHAT = ("openai-chat.jsonl", "compatible/*.jsonl", "reconstructed/*.jsonl")


class Exchange(Struct, frozen=True, eq=False):
    """One request and its answer: `body` when it was JSON, `sse` when it was an event stream, `text` otherwise."""

    id: str
    file: str
    cassette: str
    index: int
    url: str
    request: Json
    status: int
    headers: dict[str, str]
    body: Json
    sse: str | None
    text: str | None

    @property
    def raw(self) -> bytes:
        """The bytes of the answer, as near as the recording has them."""
        if self.sse is not None:
            return self.sse.encode()
        if self.body is not None:
            return json.dumps(self.body, ensure_ascii=False).encode()
        return (self.text or "").encode()


@cache
def chat_exchanges(data: Path) -> list[Exchange]:
    """Everything recorded that speaks Chat Completions, known by its address."""
    return [exchange for exchange in read_files(data / "traffic", CHAT) if "chat/completions" in exchange.url]


def read_files(folder: Path, patterns: tuple[str, ...]) -> list[Exchange]:
    found = []
    for path in [path for pattern in patterns for path in sorted(folder.glob(pattern))]:
        with path.open(encoding="utf-8") as lines:
            found += [_exchange(json.loads(line), str(path.relative_to(folder))) for line in lines if line.strip()]
    return found


def _exchange(said: Json, file: str) -> Exchange:
    return Exchange(
        id=said.get("id") or "?",
        file=file,
        cassette=said.get("cassette") or said.get("id") or "?",
        index=said.get("index") or 0,
        url=f"{said.get('url') or ''} {said.get('endpoint') or ''}",
        request=said.get("request"),
        status=said.get("response_status") or 200,
        headers=said.get("response_headers") or {},
        body=said.get("response_body"),
        sse=said.get("sse_text"),
        text=said.get("response_text"),
    )
