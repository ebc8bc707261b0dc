"""What a reader of one request has to open: the files of ours that it goes through, their lines, and the functions entered.

    python -m tests.walks       or `make walks`

Each walk is taken twice in one process, and the second time is counted: what is imported or made once is no part of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import ronda
from ronda import invoke_agent, tool
from ronda.journal.memory import MemoryJournal
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.features.app_stream.settings import AppConfig
from ronda.server.features.table import make_config
from ronda.testing import ScriptedModel, calls, says

SOURCE: Final = str(Path(ronda.__file__).parent)
HI: Final = [{"role": "user", "content": "go"}]
ASK_USER: Final = {
    "type": "function",
    "name": "ask_user",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
}


class Walk(NamedTuple):
    files: int
    lines: int
    functions: int


class Counter:
    """Remembers the code of ours that is entered, in all threads, while it counts."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def __enter__(self) -> Counter:
        threading.setprofile(self._look)
        sys.setprofile(self._look)
        return self

    def __exit__(self, *problem: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self._codes.add(frame.f_code)

    @property
    def walk(self) -> Walk:
        codes = [code for code in self._codes if not code.co_name.startswith("<")]  # a comprehension is no function
        files = {code.co_filename for code in codes}
        lines = sum(len(Path(file).read_text(encoding="utf-8").splitlines()) for file in files)
        return Walk(len(files), lines, len(codes))


@tool
async def one() -> str:
    """One."""
    return "1"


@tool
async def two() -> str:
    """Two."""
    return "2"


async def ask(app: Any, path: str, body: Any) -> Any:
    """One request; what it was answered, as JSON where it is."""
    told = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return told.pop() if told else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    data = b"".join([message.get("body", b"") for message in sent])
    return json.loads(data) if data.startswith(b"{") else data


async def converse(app: Any, path: str, message: Any) -> list[Any]:
    """One message over a WebSocket, and all that comes until it is closed."""
    told = [{"type": "websocket.receive", "text": json.dumps(message)}, {"type": "websocket.connect"}]
    sent: list[Any] = []

    async def receive() -> Any:
        return told.pop() if told else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": [(b"host", b"127.0.0.1")]}
    await app(scope, receive, send)
    return sent


def _app(*lines: Any, tools: Any = ()) -> Any:
    return create_app(
        Server(ServerConfig(model="script:x"), MemoryJournal(), provider=ScriptedModel(*lines), tools=tools)
    )


def _counted(requests: Callable[[Any], Awaitable[Callable[[], Awaitable[Any]]]], app: Any) -> Walk:
    """`requests` does what comes before, twice; what it returns is counted the second time."""

    async def take() -> Walk:
        await (await requests(app))()
        last = await requests(app)
        with Counter() as counter:
            await last()
        return counter.walk

    return asyncio.run(take())


def chat() -> Walk:
    async def before(app: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: ask(app, "/v1/chat/completions", {"model": "default", "messages": HI, "stream": True})

    return _counted(before, _app(*[calls("one", "two"), says("Three.")] * 2, tools=[one, two]))


def mistral_append() -> Walk:
    async def before(app: Any) -> Callable[[], Awaitable[Any]]:
        begun = await ask(app, "/v1/conversations", {"model": "default", "inputs": "go"})
        return lambda: ask(app, f"/v1/conversations/{begun['conversation_id']}", {"inputs": "go on"})

    return _counted(before, _app(*[says("Hello.")] * 4))


def responses_mixed() -> Walk:
    """A turn that asks for a tool of the server and for one of the caller's."""

    async def before(app: Any) -> Callable[[], Awaitable[Any]]:
        body = {"model": "default", "input": "go", "tools": [ASK_USER]}
        return lambda: ask(app, "/v1/responses", body)

    return _counted(before, _app(*[calls("one", "ask_user")] * 2, tools=[one]))


def generate_code() -> Walk:
    """A page that is written as a file, in one of the variants that a page asks for."""
    asked = {
        "generatedCodeConfig": "html_tailwind",
        "inputMode": "text",
        "generationType": "create",
        "prompt": {"text": "A board."},
    }
    page = "<!DOCTYPE html><html><body><h1>Hello</h1></body></html>"

    async def before(app: Any) -> Callable[[], Awaitable[Any]]:
        return lambda: converse(app, "/generate-code", asked)

    turns = [calls("create_file", path="index.html", content=page), says("Done.")]
    config = make_config({"model": "script:x", "app": AppConfig(variants=1)})
    return _counted(before, create_app(Server(config, MemoryJournal(), provider=ScriptedModel(*turns * 2))))


def prompty_file() -> Walk:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "lines.json").write_text(json.dumps([{"text": "Hello."}] * 2))
        file = Path(folder) / "x.prompty"
        file.write_text("---\nname: x\nmodel:\n  id: script:lines.json\n---\nuser:\ngo\n")
        invoke_agent(str(file))
        with Counter() as counter:
            invoke_agent(str(file))
        return counter.walk


WALKS: Final[dict[str, Callable[[], Walk]]] = {
    "a streaming Chat request with two tools": chat,
    'invoke_agent("x.prompty")': prompty_file,
    "append to a Mistral conversation": mistral_append,
    "Responses with a mixed turn": responses_mixed,
    "/generate-code": generate_code,
}


def table() -> str:
    lines = [f"{'walk':<42} {'files':>6} {'lines':>7} {'functions':>10}"]
    for name, take in WALKS.items():
        walk = take()
        lines.append(f"{name:<42} {walk.files:>6} {walk.lines:>7} {walk.functions:>10}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
