"""The load: many connections that ask one question again and again, and read every answer to its last word.

An asyncio protocol on uvloop with a parser in C, because it shares a core with the fake model and must not be what all
wait for. An incomplete answer counts as bad, and one bad answer spoils the measurement: a broken server is a fast one.
"""

import asyncio
import time
from typing import Self, cast
from urllib.parse import urlsplit

import httptools
import msgspec
from bench.processes import BenchError, Child

FIRST_WORD = b'"tok'  # how the first piece of the fake model's text begins
QUESTION = "What is the weather in Paris?"
TIMEOUT = 20.0


class Expect(msgspec.Struct, frozen=True):
    """What makes an answer complete."""

    text: str
    streamed: bool = False
    pieces: int = 0  # at least so many events with text: a server that waits and sends them together has not streamed
    records: int = 0  # so many tool calls in `agentic_tool_calls`
    end: bytes = b""  # of a dialect other than Chat's: what its answers are known to be complete by


class Answer(msgspec.Struct):
    """A response, with the seconds until its first word of text."""

    status: int
    body: bytes
    first: float | None


class Load(msgspec.Struct):
    """What a load cost the server, and how long the first words took."""

    requests: int
    cpu: float
    wall: float
    first: list[float]

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu / self.requests

    @property
    def first_ms(self) -> float:
        """Of the faster waits: this is wall time, and the median of a shared machine tells who else was on the core."""
        return 1000 * sorted(self.first)[len(self.first) // 10]

    @property
    def busy(self) -> float:
        return self.cpu / self.wall


class Target(msgspec.Struct, frozen=True):
    """Where to ask, and for which model."""

    url: str
    model: str
    stream: bool = False

    def request(self) -> bytes:
        parts = urlsplit(self.url)
        body = msgspec.json.encode(question(parts.path, self.model) | ({"stream": True} if self.stream else {}))
        head = (
            f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\nauthorization: Bearer bench\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def question(path: str, model: str) -> dict[str, object]:
    """The same question in the dialect of a path."""
    messages = [{"role": "user", "content": QUESTION}]
    match path:
        case "/v1/responses":
            return {"model": model, "input": QUESTION, "store": True}
        case "/v1/messages":
            return {"model": model, "messages": messages, "max_tokens": 1000}
        case "/v1/agents/completions":
            return {"agent_id": model, "messages": messages}
        case _:
            return {"model": model, "messages": messages}


class Connection(asyncio.Protocol):
    """One kept-alive connection with at most one question in flight."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._answer: asyncio.Future[Answer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._asked = 0.0
        self._first: float | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        _, connection = await asyncio.get_running_loop().create_connection(cls, parts.hostname, parts.port)
        return connection

    @property
    def first(self) -> float | None:
        """Seconds until the first word of text of the answer under way."""
        return self._first

    async def ask(self, request: bytes) -> Answer:
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._parts = []
        self._first = None
        self._asked = time.perf_counter()
        self.transport.write(request)
        return await self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its bases

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer was complete"))

    def data_received(self, data: bytes) -> None:
        if self._first is None and FIRST_WORD in data:
            self._first = time.perf_counter() - self._asked
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(self._parser.get_status_code(), b"".join(self._parts), self._first))


async def ask_once(target: Target) -> Answer:
    connection = await Connection.open(target.url)
    try:
        async with asyncio.timeout(TIMEOUT):
            return await connection.ask(target.request())
    finally:
        connection.transport.close()


class Crowd:
    """Some connections to one server, kept open between loads so that opening them is not measured.

    `child` is the process whose CPU time counts.
    """

    def __init__(self, target: Target, expect: Expect, child: Child | None = None) -> None:
        self._target = target
        self._expect = expect
        self._child = child
        self._connections: list[Connection] = []

    def _cpu(self) -> float:
        return self._child.cpu_seconds() if self._child else 0.0

    def _spoiled(self, why: str) -> BenchError:
        said = f"\n{self._child.name} said: {self._child.last_words()}" if self._child else ""
        return BenchError(f"{self._target.url}: {why}{said}")

    async def open(self, size: int) -> None:
        self._connections = [await Connection.open(self._target.url) for _ in range(size)]

    def close(self) -> None:
        for connection in self._connections:
            connection.transport.close()

    async def load(self, seconds: float) -> Load:
        """Ask for some seconds, each at least once, and wait for the last answers: CPU time is of whole requests."""
        request = self._target.request()
        done = 0
        bad: list[str] = []
        first: list[float] = []
        cpu, start = self._cpu(), time.perf_counter()

        async def ask(connection: Connection) -> None:
            nonlocal done
            while True:
                answer = await connection.ask(request)
                done += 1
                if wrong := fault(answer, self._expect):
                    bad.append(wrong)
                elif answer.first is not None:
                    first.append(answer.first)
                if time.perf_counter() > start + seconds:
                    return

        try:
            async with asyncio.timeout(seconds + TIMEOUT):
                await asyncio.gather(*map(ask, self._connections))
        except (OSError, TimeoutError, httptools.HttpParserError) as error:
            raise self._spoiled(f"{error!r} after {done} answers") from error
        if bad:
            raise self._spoiled(f"{len(bad)} of {done} answers were bad; the first: {bad[0]}")
        return Load(done, self._cpu() - cpu, time.perf_counter() - start, first)


class _Content(msgspec.Struct, frozen=True):
    content: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Content = _Content()
    delta: _Content = _Content()


class _Answer(msgspec.Struct, frozen=True):
    choices: list[_Choice]
    agentic_tool_calls: list[msgspec.Raw] = []


_decode = msgspec.json.Decoder(_Answer).decode


def fault(answer: Answer, expect: Expect) -> str:
    """Why an answer is not the whole answer; empty when it is."""
    try:
        look = _other_fault if expect.end else _stream_fault if expect.streamed else _plain_fault
        wrong = look(answer.body, expect)
    except msgspec.MsgspecError as error:
        wrong = str(error)
    if answer.status != 200:
        wrong = f"status {answer.status}"
    return f"{wrong}: {answer.body[:600].decode(errors='replace')}" if wrong else ""


def _other_fault(body: bytes, expect: Expect) -> str:
    """Every word of the answer is there, and so is the end. Not read any further: parsing is not what is measured."""
    missing = [word for word in expect.text.split() if body.count(b"%b " % word.encode()) < 1]
    if missing:
        return f"without {missing[0]!r}"
    return "" if expect.end in body else f"no {expect.end!r} at the end"


def _plain_fault(body: bytes, expect: Expect) -> str:
    answer = _decode(body)
    if answer.choices[0].message.content != expect.text:
        return "another text"
    if len(answer.agentic_tool_calls) != expect.records:
        return f"{len(answer.agentic_tool_calls)} tool calls recorded, expected {expect.records}"
    return ""


def _stream_fault(body: bytes, expect: Expect) -> str:
    text = stream_text(body)
    if "".join(text) != expect.text:
        return "another text"
    if not body.endswith(b"data: [DONE]\n\n"):
        return "no [DONE] at the end"
    if len(text) < expect.pieces:
        return f"{len(text)} events with text, expected {expect.pieces}"
    return ""


def stream_text(body: bytes) -> list[str]:
    """The text of each event that has any."""
    text = []
    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            text += [choice.delta.content for choice in _decode(line[6:]).choices if choice.delta.content]
    return text


def plain_text(body: bytes) -> str:
    return _decode(body).choices[0].message.content or ""
