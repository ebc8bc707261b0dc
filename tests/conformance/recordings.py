"""Lines of `traffic/**/*.jsonl` → exchanges. Read with the standard library, so that no code under test is trusted here."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from tests.conformance.report import PartResult, Tally, absent

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
        for line in path.read_text("utf-8").split("\n"):
            with suppress(ValueError, TypeError, AttributeError):  # the part of the recordings themselves says so
                if line.strip():
                    found.append(_exchange(json.loads(line), str(path.relative_to(folder))))
    return found


def run(data: Path) -> PartResult:
    """Every line of every file of traffic is an exchange: this many there are for the other parts."""
    paths = sorted((data / "traffic").glob("**/*.jsonl"))
    if not paths:
        return absent("recorded traffic")
    tally = Tally()
    for path in paths:
        name = str(path.relative_to(data))
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            if line.strip():
                tally.check("exchanges", f"{name}:{number}", partial(_must_be_exchange, line, name))
    return tally.result()


def _must_be_exchange(line: str, file: str) -> None:
    _exchange(json.loads(line), file)


def _exchange(said: Json, file: str) -> Exchange:
    status = said.get("response_status") or 200
    if not isinstance(status, int):
        raise TypeError(f"the status is {status!r}")
    return Exchange(
        id=said.get("id") or "?",
        file=file,
        cassette=said.get("cassette") or said.get("id") or "?",
        index=said.get("index") or 0,
        url=f"{said.get('url') or ''} {said.get('endpoint') or ''}",
        request=said.get("request"),
        status=status,
        headers=said.get("response_headers") or {},
        body=said.get("response_body"),
        sse=said.get("sse_text"),
        text=said.get("response_text"),
    )
