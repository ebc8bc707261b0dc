"""A program: a fresh server, asked once at each of its addresses, and which imports its event loop had to wait for.

python -m tests.server.import_walk     → [[the modules that one import statement brought, where it stands, what was asked], …]
"""

from __future__ import annotations

import asyncio
import base64
import builtins
import json
import re
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ronda.journal.memory import MemoryJournal
from ronda.server.app import App, Server
from ronda.server.features.table import make_config
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, calls, says

USER = {"role": "user", "content": "hi"}
STRICT = {
    "name": "a",
    "strict": True,
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
}
URL = "http://127.0.0.1:9"  # where no server answers


def file(name: str, kind: str) -> dict[str, Any]:
    data = base64.b64encode(b"hello").decode()
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{kind};base64,{data}"}}


CHAT: Sequence[dict[str, Any]] = (
    {"messages": [USER]},
    {"messages": [USER], "stream": True},
    {"messages": [USER], "session_id": "s"},
    {"messages": [USER], "tools": [{"type": "function", "function": STRICT}]},
    {"messages": [USER], "response_format": {"type": "json_object"}},
    {"messages": [{"role": "user", "content": [file("a.txt", "text/plain")]}]},
    {"messages": [{"role": "user", "content": [file("a.html", "text/html")]}]},
    {"messages": [USER], "model": "helper"},
)
RESPONSES: Sequence[dict[str, Any]] = (
    {"input": "hi"},
    {"input": "hi", "stream": True},
    {"input": "hi", "background": True},
    {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": f"{URL}/a.txt"}]}]},
    {"input": "hi", "tools": [{"type": "mcp", "server_label": "x", "server_url": f"{URL}/mcp"}]},
    {"input": "hi", "tools": [{"type": "web_search"}]},
)
REQUESTS: Mapping[str, Sequence[Any]] = {
    "POST /v1/chat/completions": CHAT,
    "POST /v1/responses": RESPONSES,
    "POST /v1/responses/compact": [{"input": "hi"}],
    "POST /v1/messages": [{"max_tokens": 9, "messages": [USER]}, {"max_tokens": 9, "messages": [USER], "stream": True}],
    "POST /v1/messages/count_tokens": [{"messages": [USER]}],
    "POST /v1/agents/completions": [{"agent_id": "default", "messages": [USER]}],
    "POST /v1/agents": [{"name": "x", "model": "default"}],
    "POST /v1/conversations": [
        {"model": "default", "inputs": "hi"},
        {"model": "default", "inputs": "hi", "stream": True},
    ],
    "POST /v1/runs": [{"input": "hi"}, {"input": "hi", "files": {"index.html": "x"}}],
    "POST /v1/transcripts/check": [{"messages": [USER]}],
    "POST /v1/containers": [{"name": "x"}],
    "POST /mcp": [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        }
    ],
}


class Watch:
    """Import statements that the thread of the event loop has run, and that brought something new."""

    def __init__(self) -> None:
        self.found: list[tuple[list[str], str, str]] = []
        self.asked = ""
        self._is_inside = False
        self._loop = threading.get_ident()
        self._import = builtins.__import__
        builtins.__import__ = self

    def __call__(self, name: str, *more: Any, **named: Any) -> ModuleType:
        if self._is_inside or threading.get_ident() != self._loop:
            return self._import(name, *more, **named)
        before = len(sys.modules)
        self._is_inside = True
        try:
            return self._import(name, *more, **named)
        finally:
            self._is_inside = False
            if len(sys.modules) > before:
                caller = sys._getframe(1)
                place = f"{caller.f_globals.get('__name__')}:{caller.f_lineno}"
                self.found.append((list(sys.modules)[before:], place, self.asked))


async def ask(app: App, method: str, path: str, body: Any) -> None:
    data = b"" if body is None else json.dumps(body).encode()
    messages: list[Any] = [{"type": "http.request", "body": data, "more_body": False}]
    if path == "/v1/events":  # which has no end: the client leaves
        messages.insert(0, {"type": "http.disconnect"})

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Any) -> None:
        return

    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "content-length": str(len(data)),
        "accept": "application/json, text/event-stream",
        "anthropic-version": "2023-06-01",
    }
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "http_version": "1.1",
    }
    try:
        async with asyncio.timeout(60):
            await app(scope, receive, send)
    except TimeoutError:
        raise TimeoutError(f"{method} {path} is not answered") from None


async def walk() -> list[tuple[list[str], str, str]]:
    folder = Path(tempfile.mkdtemp())
    (folder / "helper.json").write_text(json.dumps([{"calls": [{"name": "other", "arguments": {"input": "?"}}]}, "x"]))
    (folder / "other.json").write_text(json.dumps(["x"]))
    for name, agents in (("helper", "\nmetadata: {ronda: {agents: [other]}}"), ("other", "")):
        (folder / f"{name}.prompty").write_text(
            f"---\nname: {name}\nmodel: {{id: 'script:{folder / name}.json'}}{agents}\n---\nuser:\nhi\n"
        )
    config = make_config(
        {
            "model": "script:test",
            "agents": str(folder),
            "mcp_allow_url": [f"{URL}/*"],
            "fetch_allow": ["127.0.0.1"],
        }
    )
    server = Server(
        config,
        MemoryJournal(),
        catalog=MemoryCatalog(),
        provider=ScriptedModel(calls("nothing"), *[says("{}") for _ in range(500)]),
    )
    app = App(server)
    watch = Watch()
    for row in app.routes.rows:
        if row.method == "WEBSOCKET":
            continue
        path = re.sub(r"\{[^}]*\}", "x", row.path)
        for body in REQUESTS.get(f"{row.method} {path}", [None if row.method in ("GET", "DELETE") else {}]):
            watch.asked = f"{row.method} {path} {json.dumps(body)[:200]}"
            await ask(app, row.method, path, body)
    watch.asked = "the end"
    await server.close()
    return watch.found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(walk())))
