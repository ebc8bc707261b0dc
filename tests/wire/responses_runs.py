"""Runs, and how Responses tells of them: as a stream and as a body."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ronda import tool
from ronda.core.events import (
    PREVIEWS,
    Event,
    RunStarted,
)
from ronda.core.parts import user
from ronda.core.plan import Plan, ToolSpec
from ronda.core.run import Run, rebuild
from ronda.wire.openai_responses.encrypted_content import Sealer
from ronda.wire.openai_responses.resource import StoredOptions
from ronda.wire.openai_responses.server_answer import ResponseAnswer

Json = dict[str, Any]


@tool
async def echo(text: str = "") -> str:
    """Say it again."""
    return f"echo {text}"


ASK = ToolSpec("ask", kind="caller")


KEPT = StoredOptions(model="test")


def started(plan: Plan, kept: StoredOptions = KEPT) -> RunStarted:
    return RunStarted("run_00aa", plan, (user("go"),), 1.0, session="s", about=kept.about)


def run_of(batches: list[list[Event]], kept: StoredOptions) -> Run:
    [[start], *rest] = batches
    assert isinstance(start, RunStarted)
    return rebuild([msgspec.structs.replace(start, about=kept.about), *[event for batch in rest for event in batch]])


def streamed(
    batches: list[list[Event]],
    after: int | None = None,
    kept: StoredOptions = KEPT,
    sealer: Sealer | None = None,
    is_whole: bool = True,
) -> bytes:
    writer = ResponseAnswer([run_of(batches, kept)], after=after, sealer=sealer, is_whole=is_whole)
    return b"".join([writer.feed(0, batch) for batch in batches[1:]])


def plainly(batches: list[list[Event]], kept: StoredOptions = KEPT) -> Json:
    events = [event for batch in batches for event in batch]
    writer = ResponseAnswer([run_of(batches, kept)])
    writer.fold(0, [event for event in events[1:] if type(event) not in PREVIEWS])
    body: Json = json.loads(writer.body())
    return body


def frames(stream: bytes) -> list[bytes]:
    return stream.split(b"\n\n")
