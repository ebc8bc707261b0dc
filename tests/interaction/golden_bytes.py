"""A few runs, asked for at every door, and the bytes that each door answers with: what `golden/` holds, and how it is made.

    python -m tests.interaction.golden_bytes        write the files anew, after a change that was meant

Ids and times are replaced by words, since they are new each time; everything else is there as it was sent.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace
from starlette.types import Message, Scope
from tests.interaction.every_door import NAMES, PATHS, body_for, tool_of

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.limits import Retry
from ronda.core.parts import Usage
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.journal.memory import MemoryJournal
from ronda.providers.script import Call, Line, ScriptedModel
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig

FOLDER: Final = Path(__file__).parent / "golden"
ASK: Final = tool_of("ask", question="string")
JSON: Final = {
    "type": "object",
    "properties": {"n": {"type": "number"}},
    "required": ["n"],
    "additionalProperties": False,
}


@tool
async def lookup(q: str) -> str:
    """Look something up."""
    return f"found {q}"


BUG: Final = "here is a bug"


class WarningModel(ScriptedModel):
    """Has something to say about its second answer that is not part of it, and breaks down where that says so."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        finished = await super().call(request, show)
        if finished.turn.text == BUG:
            raise RuntimeError(BUG)
        return replace(finished, warnings=("the seed was ignored",)) if len(self.heard) == 2 else finished


LOOK: Final = Line(
    "Looking it up.", "Where is it?", (Call("lookup", {"q": "Lisbon"}),), usage=Usage(20, 9, 4, 3), chunks=()
)
RUNS: Final[dict[str, tuple[Sequence[Line], dict[str, Any]]]] = {
    "an answer": ((LOOK, Line("It is warm.", "Warm.", usage=Usage(30, 5))), {}),
    "calls of both": ((LOOK, Line("", "", (Call("lookup", {"q": "Oslo"}), Call("ask", {"question": "When?"})))), {}),
    "a limit": ((LOOK, Line("", "", (Call("lookup", {"q": "Rome"}),))), {"max_tool_rounds": 1}),
    "cut by length": ((LOOK, Line("It is", stop="length")), {}),
    "broken off": ((LOOK, Line("It is ", cut=True)), {}),
    "a bug of ours": ((LOOK, Line(BUG)), {}),
    "a failure": ((Line(error="no such deployment", status=404),), {}),
    "held until it is whole": ((LOOK, Line('{"n": 1}')), {"format": JSON}),
}


def requested(door: str, stream: bool, wishes: dict[str, Any]) -> dict[str, Any]:
    body = body_for(door, stream, [ASK], **{name: value for name, value in wishes.items() if name != "format"})
    if "format" in wishes:
        schema = {"name": "answer", "schema": wishes["format"], "strict": True}
        match door:
            case "responses":
                body["text"] = {"format": {"type": "json_schema", **schema}}
            case "messages":
                body["output_config"] = {"format": {"type": "json_schema", "schema": wishes["format"]}}
            case "conversations":
                body["completion_args"] = {"response_format": {"type": "json_schema", "json_schema": schema}}
            case _:
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


async def exchange(app: Any, path: str, body: dict[str, Any] | None, method: str = "POST", key: str = "") -> bytes:
    """One request, without a socket: the status, and behind it the body."""
    sent: list[bytes] = []
    data = b"" if body is None else json.dumps(body).encode()
    asked = [{"type": "http.request", "body": data, "more_body": False}]

    async def receive() -> Message:
        if asked:
            return asked.pop()
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            sent.append(b"%d\n" % message["status"])
        else:
            sent.append(message.get("body", b""))

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"anthropic-version", b"2023-06-01")]
    headers += [(b"authorization", f"Bearer {key}".encode())] if key else []
    scope: Scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("localhost", 80), "root_path": "",
    }  # fmt: skip
    await app(scope, receive, send)
    return b"".join(sent)


_TIMES: Final = re.compile(rb'"(created|created_at|completed_at)":(\d+|"[^"]+")')
_IDS: Final = re.compile(rb"[0-9a-f]{24}")
_CALL_IDS: Final = re.compile(rb'("(?:id|call_id|tool_call_id)":")(call_|toolu_|)([A-Za-z0-9]{9})(?=")')  # of ours


def without_chance(data: bytes) -> bytes:
    """The n-th new id, in the order in which they were said, is always the same; it is never the same time."""
    words: dict[bytes, bytes] = {}
    data = _IDS.sub(lambda found: words.setdefault(found[0], b"ID%d" % len(words)), data)
    calls: dict[bytes, bytes] = {}
    data = _CALL_IDS.sub(lambda found: found[1] + found[2] + calls.setdefault(found[3], b"OURS%d" % len(calls)), data)
    return _TIMES.sub(rb'"\1":"TIME"', data)


async def answered(door: str, name: str, stream: bool) -> bytes:
    lines, wishes = RUNS[name]
    config = ServerConfig(model="script:test", retry=Retry(tries=1, initial_interval=0.0, max_interval=0.0))
    server = Server(config, MemoryJournal(), provider=WarningModel(*lines), tools=[lookup])
    try:
        return without_chance(await exchange(create_app(server), f"/v1/{PATHS[door]}", requested(door, stream, wishes)))
    finally:
        await server.runs.close()
        await server.catalog.close()


async def page(door: str) -> bytes:
    """All of one door's answers."""
    parts: list[bytes] = []
    for name in RUNS:
        for stream in (True, False):
            head = f"==== {name}, {'streamed' if stream else 'plain'}: ".encode()
            parts.append(head + (await answered(door, name, stream)).rstrip(b"\n") + b"\n")
    return b"\n".join(parts)


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / f"{each}.txt").write_bytes(asyncio.run(page(each)))
