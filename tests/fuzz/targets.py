"""What is fuzzed: the bodies that every door reads, the streams that every client of ours reads, and the messages of WebSockets.

target.try_one(chance) → None, or what went wrong: an answer of 5xx, an exception that is none of ours, no answer at all
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from starlette.types import Message
from tests.fuzz.mutations import mutated_bytes, mutated_json, pieces
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.http.test_every_place import BODIES
from tests.server.refusals import Nodding
from tests.wire.gemini_chunks import call, chunk

from ronda import tool
from ronda.core.events import ModelFinished
from ronda.core.parts import AssistantTurn, ToolCall, Usage, user
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import RondaError
from ronda.journal.memory import MemoryJournal
from ronda.server.app import App, Server, create_app
from ronda.server.features.table import make_config
from ronda.server.http.failure import BROKE_DOWN
from ronda.store.keys import new_key
from ronda.wire.anthropic import client_stream as anthropic
from ronda.wire.anthropic.client_answer import read_plain as read_anthropic
from ronda.wire.gemini import client_answer as gemini
from ronda.wire.mistral import client_answer as mistral
from ronda.wire.openai_chat import client_answer as chat
from ronda.wire.openai_chat.client_plain import read_plain as read_chat
from ronda.wire.openai_responses import client_stream as responses
from ronda.wire.openai_responses.client_answer import read_plain as read_response

HANGS: Final = 20.0  # seconds: no request of these waits for anything
# A server keeps what requests make: after so many it is made anew.
FRESH_AFTER: Final = 500
MODEL_FAILED: Final = 502  # a model's answer that does not fit what was asked for is no fault of the server's

BODIES_TOO: Final[dict[str, tuple[str, str, Any]]] = {
    "text": ("POST", "/completions", {"prompt": ["x"], "n": 2, "stop": ["x"], "logprobs": 1, "stream": True}),
    "embeddings": ("POST", "/embeddings", {"input": ["a", "b"], "encoding_format": "base64", "dimensions": 2}),
    "a model": ("POST", "/models/unload", {"model_id": "default"}),
    "a key": ("POST", "/keys", {"owner": "ann", "scopes": ["operate"], "expires_in": 60}),
    "an address for notices": ("POST", "/notices", {"url": "https://93.184.215.14/x", "events": ["run.failed"]}),
    "a schedule": (
        "POST", "/schedules",
        {"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "name": "x", "missed": "once", "request": {"input": "go"}},
    ),
    # Of a run that waits for a person: words about one that is not there would not be read.
    "steering a run that waits": ("POST", "/runs/{run}/steer", {"text": "x"}),
    "a mark of a run that waits": ("PATCH", "/runs/{run}", {"kept": True}),
    "a decision that is waited for": ("POST", "/agent/approvals/{question}", {"decision": "approve", "message": "x"}),
    "an answer that is waited for": (
        "POST", "/runs/{run}/answer", {"id": "{question}", "decision": "approve", "arguments": {}},
    ),
    "a login": ("POST", "/login", {"key": "rk_x"}),
    "a rendering": ("POST", "/render", {"messages": [{"role": "user", "content": "go"}]}),
}  # fmt: skip
PAY: Final = "Pay, please."
SETTINGS: Final = {"model": "script:test", "notices": True, "schedules": True}


class Paying(Nodding):
    """Calls a tool that a person has to allow first, where it is asked to."""

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        if request.turns[-1] == user(PAY):
            return ModelFinished(AssistantTurn((ToolCall("call_1", "pay", "{}"),), "tool_calls"), Usage(1, 1))
        return await super().call(request, show)


@tool(approval="ask")
def pay() -> str:
    """Pay."""
    return "paid"


class Target(Protocol):
    name: str

    async def try_one(self, chance: random.Random) -> str | None: ...


class ServerUnderTest:
    """One server for all doors, made anew now and then. Its only key may do all that a key may."""

    def __init__(self) -> None:
        self._left = 0
        self._server: Server | None = None
        self._app: App | None = None
        self._things: dict[bytes, bytes] = {}
        self.key = ""

    async def app(self) -> App:
        if self._left <= 0 or self._app is None:
            await self.close()
            self._server = Server(make_config(SETTINGS), MemoryJournal(), provider=Paying(), tools=[pay])
            self.key, row = new_key("ann", 0.0, ("operate", "operate:write"))
            await self._server.catalog.keys.add(row)
            self._app, self._left = create_app(self._server), FRESH_AFTER
            self._things = {}
        self._left -= 1
        return self._app

    async def ask(self, method: str, path: str, parts: Sequence[bytes]) -> tuple[int, bytes]:
        return await ask(await self.app(), self.key, method, path, parts)

    async def things(self) -> dict[bytes, bytes]:
        """What stands for a run that waits, and for its question."""
        if not self._things:
            asked = json.dumps({"messages": [{"role": "user", "content": PAY}]}).encode()
            app = await self.app()  # one and the same for both
            status, _ = await ask(app, self.key, "POST", "/v1/chat/completions", [asked])
            _, listed = await ask(app, self.key, "GET", "/v1/agent/approvals", [])
            assert status == 200
            [waiting] = json.loads(listed)["data"]
            self._things = {b"{run}": waiting["run_id"].encode(), b"{question}": waiting["approval_id"].encode()}
        return self._things

    def forget_things(self) -> None:
        """They were decided about."""
        self._things = {}

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
            self._server = self._app = None


def _scope(kind: str, path: str, key: str, method: str = "POST") -> dict[str, Any]:
    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer " + key.encode()),
    ]
    scope: dict[str, Any] = {"type": kind, "path": path, "query_string": b"", "headers": headers, "scheme": "http"}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "root_path": "", "http_version": "1.1"}
    more: dict[str, Any] = {"method": method} if kind == "http" else {"subprotocols": []}
    return scope | more


async def ask(app: App, key: str, method: str, path: str, parts: Sequence[bytes]) -> tuple[int, bytes]:
    """The status and the body of an answer, without a socket."""
    waiting: list[Message] = [{"type": "http.request", "body": one, "more_body": True} for one in parts]
    waiting.append({"type": "http.request", "body": b"", "more_body": False})
    status, body = 0, []
    stays = asyncio.Event()

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        await stays.wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.append(message.get("body", b""))

    async with asyncio.timeout(HANGS):
        await app(_scope("http", path, key, method), receive, send)
    return status, b"".join(body)


class Body:
    """What a door reads of a request's body."""

    def __init__(self, under_test: ServerUnderTest, name: str, method: str, path: str, body: Any) -> None:
        self.name = f"body of {name}"
        self._under_test = under_test
        self._method, self._path, self._body = method, f"/v1{path}", body
        self._is_of_things = "{" in path
        self._decides = "{question}" in f"{path} {body}"

    async def try_one(self, chance: random.Random) -> str | None:
        data, path = mutated_json(self._body, chance), self._path
        try:
            if self._is_of_things:
                for name, found in (await self._under_test.things()).items():
                    data, path = data.replace(name, found), path.replace(name.decode(), found.decode())
            status, body = await self._under_test.ask(self._method, path, pieces(data, chance))
            if self._decides and status < 300:
                self._under_test.forget_things()
        except Exception as error:
            return f"{type(error).__name__}: {error} at {data[:2000]!r}"
        if status == 0 or (status >= 500 and status != MODEL_FAILED) or BROKE_DOWN.message.encode() in body:
            return f"{status} {body[:300]!r} at {data[:2000]!r}"
        return None


class Stream:
    """What a client of ours reads of a model's answer: whatever it is, a turn or an error of ours comes of it."""

    def __init__(self, name: str, read: Callable[[Sequence[bytes]], object], seed: bytes) -> None:
        self.name = f"stream of {name}"
        self._read = read
        self._seed = seed

    async def try_one(self, chance: random.Random) -> str | None:
        data = mutated_bytes(self._seed, chance)
        try:
            self._read(pieces(data, chance))
        except RondaError:
            return None
        except Exception as error:
            return f"{type(error).__name__}: {error} at {data[:2000]!r}"
        return None


class Socket:
    """What is read of the messages of a WebSocket: texts and bytes, several on one connection."""

    def __init__(self, under_test: ServerUnderTest, path: str, body: Any) -> None:
        self.name = f"WebSocket at {path}"
        self._under_test = under_test
        self._path, self._body = path, body

    async def try_one(self, chance: random.Random) -> str | None:
        sent = [mutated_json(self._body, chance) for _ in range(chance.randint(1, 3))]
        waiting: list[Message] = [{"type": "websocket.connect"}, *[_message(one, chance) for one in sent]]
        heard: list[str] = []
        answered = asyncio.Event()

        async def receive() -> Message:
            if waiting:
                return waiting.pop(0)
            async with asyncio.timeout(HANGS):
                await answered.wait()
            return {"type": "websocket.disconnect", "code": 1000}

        async def send(message: Message) -> None:
            if message["type"] == "websocket.send":
                heard.append(str(message.get("text")))
            if message["type"] in ("websocket.send", "websocket.close", "websocket.http.response.body"):
                answered.set()

        try:
            app = await self._under_test.app()
            async with asyncio.timeout(2 * HANGS):
                await app(_scope("websocket", self._path, self._under_test.key), receive, send)
        except Exception as error:
            return f"{type(error).__name__}: {error} at {sent!r:.2000}"
        broken = [one for one in heard if BROKE_DOWN.message in one]
        return f"{broken[0]} at {sent!r:.2000}" if broken else None


def _message(data: bytes, chance: random.Random) -> Message:
    if chance.random() < 0.2:
        return {"type": "websocket.receive", "bytes": data}
    return {"type": "websocket.receive", "text": data.decode("utf-8", "replace")}


def _fed(make: Callable[[], Any]) -> Callable[[Sequence[bytes]], object]:
    def read(parts: Sequence[bytes]) -> object:
        reader = make()
        for part in parts:
            reader.feed(part)
        return reader.finish()

    return read


def _joined(read: Callable[[bytes], object]) -> Callable[[Sequence[bytes]], object]:
    return lambda parts: read(b"".join(parts))


_CLIENTS: Final[dict[str, tuple[Callable[[], Any], Callable[[bytes], object]]]] = {
    "chat": (chat.Reader, read_chat),
    "responses": (responses.Reader, read_response),
    "messages": (anthropic.Reader, read_anthropic),
    "completions": (mistral.Reader, mistral.read_plain),
}


async def make_targets(under_test: ServerUnderTest) -> list[Target]:
    found: list[Target] = [
        Body(under_test, name, method, path, body) for name, (method, path, body) in (BODIES | BODIES_TOO).items()
    ]
    tool = {"name": "look", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
    for name in NAMES:
        for stream in (False, True):
            body = body_for(
                name, stream, [{"type": "function", "function": tool}] if name == "chat" else (), session_id="s"
            )
            if name == "conversations":
                del body["session_id"]
            found.append(
                Body(under_test, f"{name}, small{', streamed' if stream else ''}", "POST", f"/{PATHS[name]}", body)
            )
    # Our clients read what our server writes: the best seeds there are.
    for name in NAMES:
        if name in _CLIENTS:
            make, read_plain = _CLIENTS[name]
            for stream, read in ((True, _fed(make)), (False, _joined(read_plain))):
                asked = json.dumps(body_for(name, stream=stream)).encode()
                _, seed = await under_test.ask("POST", f"/v1/{PATHS[name]}", [asked])
                found.append(Stream(f"{name}, {'streamed' if stream else 'plain'}", read, seed))
    said = [
        chunk({"text": "Hello."}),
        chunk(call("look", {"q": 1}), finish="STOP", usageMetadata={"promptTokenCount": 3}),
    ]
    gemini_stream = b"".join([b"data: %b\r\n\r\n" % json.dumps(one).encode() for one in said])
    found.append(Stream("gemini, streamed", _fed(gemini.Reader), gemini_stream))
    found.append(Stream("gemini, plain", _joined(gemini.read_plain), json.dumps(said[1]).encode()))
    response = {**BODIES["responses"][2], "type": "response.create"}
    response.pop("session_id", None)
    found.append(Socket(under_test, "/v1/responses", response))
    page = {
        "generatedCodeConfig": "html_css",
        "inputMode": "text",
        "prompt": {"text": "x", "images": []},
        "history": [],
    }
    found.append(Socket(under_test, "/generate-code", page))
    return found
