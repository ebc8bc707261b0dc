"""Runs of the library in which a scripted model calls tools of a page."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from tests.timeouts import TIMEOUT

from ronda import Agent, run_agent_async
from ronda.core.events import Event, ToolFinished
from ronda.core.parts import Attachment, ToolResult
from ronda.drive import Tool
from ronda.providers.script import Call, ScriptedModel, calls, says


class Played(Struct, frozen=True):
    """The result of one call: what the model read and saw, and what is told beside it."""

    result: dict[str, Any]
    failed: bool
    attachments: tuple[Attachment, ...]
    details: dict[str, Any]

    @property
    def output(self) -> dict[str, Any]:
        output: dict[str, Any] = self.details["output"]
        return output


async def play(tools: Sequence[Tool], *turns: Sequence[tuple[str, dict[str, Any]]]) -> list[Played]:
    """Each turn of the model makes these calls; the result of each, in the model's order."""
    events: list[Event] = []
    script = [
        calls(*[Call(name, arguments, f"c{at}-{n}") for n, (name, arguments) in enumerate(turn)])
        for at, turn in enumerate(turns)
    ]
    model = ScriptedModel(*script, says("done"))
    async with asyncio.timeout(TIMEOUT):
        agent = Agent(model=model, tools=list(tools))
        await run_agent_async(
            agent, "go", on_event=events.append, max_result_chars=None
        )  # results are read as JSON here
    finished = [event for event in events if isinstance(event, ToolFinished)]
    return [_played(event.result, event.details) for event in finished]


def _played(result: ToolResult, details: msgspec.Raw) -> Played:
    return Played(json.loads(result.content), result.failed, result.attachments, json.loads(bytes(details)))


async def call(tools: Sequence[Tool], name: str, **arguments: Any) -> Played:
    [played] = await play(tools, [(name, arguments)])
    return played


def png(width: int = 1, height: int = 1, rgb: bytes = b"\xff\x00\x00") -> bytes:
    """A picture of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + rgb * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def data_url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
