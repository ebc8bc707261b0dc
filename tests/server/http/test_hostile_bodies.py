"""A body of many small things, or of one huge one, keeps no other client waiting: nothing holds the event loop.

What is measured is the processor's time, not the clock's, so that a busy machine does not matter:

- of the loop's thread, between two beats of a heart that beats every millisecond: what callbacks have used meanwhile;
- of each call into C that the thread beside it makes: nothing else runs until that is over. Calls that let go of the
  interpreter's lock (SQLite's) do not count.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import mmap
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from tests.interaction.doors import TIMEOUT, Door, Json, Served
from tests.interaction.upstreams import Upstream, answers

from ronda import Agent, run_agent_async
from ronda.drive.offload import thread
from ronda.errors import ExecuteError
from ronda.journal.sqlite import SqliteJournal
from ronda.providers import Where, open_provider
from ronda.providers.script import ScriptedModel, says
from ronda.server.http.bodies import MAX_VALUES

MOST = 0.050  # seconds, on an idle machine
# Beside other programs, which share the processor's caches and its memory, the same work takes up to three times as long. So
# what is done is measured beside pieces of the same work, at the same time: a slow moment makes both longer.
WRITING = 0.012  # seconds to write and read TEXT, on an idle machine
FRESH_MEMORY = 0.008  # seconds to fill BLOCK for the first time, there
TEXT = "é☃x" * 1_000_000
BLOCK = b"x" * 20_000_000
TRIES = 8  # a neighbour may hold one of them up; what always takes too long never passes


def _slowness() -> float:
    """How many times as long as on an idle machine the same work takes now, at the least 1."""
    began = time.thread_time()
    msgspec.json.decode(msgspec.json.encode(TEXT))
    written = time.thread_time()
    with mmap.mmap(-1, len(BLOCK)) as memory:
        memory.write(BLOCK)
    filled = time.thread_time()
    return max(1.0, (written - began) / WRITING, (filled - written) / FRESH_MEMORY)


class HeldUp(AssertionError):
    """The loop was."""


def at_its_best(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The test passes if it does once. Each try has a folder of its own."""

    @functools.wraps(test)
    async def try_often(**given: Any) -> None:
        folder: Path | None = given.pop("tmp_path", None)
        for attempt in range(1, TRIES + 1):
            own: dict[str, Path] = {}
            if folder is not None:
                own["tmp_path"] = folder / str(attempt)
                own["tmp_path"].mkdir()
            try:
                await test(**given, **own)
                return
            except HeldUp:
                if attempt == TRIES:
                    raise

    return try_often


DOORS = [
    "/chat/completions",
    "/responses",
    "/responses/input_tokens",
    "/responses/compact",
    "/messages",
    "/messages/count_tokens",
    "/agents/completions",
    "/conversations",
    "/agents",
    "/transcripts/check",
]


class Heart:
    """The longest that the loop was held up, in seconds of the processor, and by what in the other thread."""

    def __init__(self) -> None:
        self.in_loop = 0.0
        self.in_thread = 0.0
        self.culprit = ""
        self._calls: list[float] = []

    async def beat(self) -> None:
        while True:
            before = time.thread_time()
            try:
                await asyncio.sleep(0.001)
            finally:  # the last beat is cut short, and counts
                self.in_loop = max(self.in_loop, time.thread_time() - before)

    def watch_calls(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            self._calls = [float("inf")] * len(self._calls)  # what calls Python again lets others run
        elif event == "c_call":
            self._calls.append(time.thread_time())
        elif event in ("c_return", "c_exception") and self._calls:
            took = time.thread_time() - self._calls.pop()
            if took > self.in_thread and "sqlite3" not in repr(called):
                self.in_thread, self.culprit = took, f"{called!r} in {frame.f_code.co_qualname}"


@asynccontextmanager
async def heart(*, watches_calls: bool = False) -> AsyncIterator[Heart]:
    """Watching every call makes the thread's work ten times as long, so it is not done everywhere."""
    beating = Heart()
    slowness = _slowness()
    gc.collect()
    gc.freeze()  # as the server does: what was made before is not looked through meanwhile
    if watches_calls:
        await asyncio.wrap_future(thread().submit(sys.setprofile, beating.watch_calls))
    task = asyncio.create_task(beating.beat())
    try:
        yield beating
    finally:
        task.cancel()
        await asyncio.wait([task])
        await asyncio.wrap_future(thread().submit(sys.setprofile, None))
    slowness = max(slowness, _slowness())
    if max(beating.in_loop, beating.in_thread) >= MOST * slowness:
        raise HeldUp(
            f"{beating.in_loop:.3f} s in the loop, {beating.in_thread:.3f} s in {beating.culprit or 'the thread'}"
        )


async def post(served: Served, path: str, body: bytes) -> tuple[int, bytes]:
    """From a thread of its own, so that sending is no work of the loop."""
    return await asyncio.to_thread(_ask, served.url, "POST", path, body)


async def get(served: Served, path: str) -> tuple[int, bytes]:
    return await asyncio.to_thread(_ask, served.url, "GET", path, b"")


def _ask(url: str, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    import http.client

    host = url.removeprefix("http://").removesuffix("/v1")
    connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
    try:
        connection.request(method, f"/v1{path}", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except ConnectionError:  # refused before all of it was sent
        return 0, b""
    finally:
        connection.close()


def request(path: str, messages: Any, **more: Any) -> Json:
    """A request of this door's with these messages."""
    match path.split("/")[1]:
        case "responses":
            return {"model": "default", "input": messages, **more}
        case "messages":
            return {"model": "default", "max_tokens": 5, "messages": messages, **more}
        case "conversations":
            return {"model": "default", "inputs": messages, **more}
        case "agents" if path == "/agents":
            return {
                "model": "default",
                "name": "a",
                "instructions": messages if isinstance(messages, str) else "x",
                **more,
            }
        case "agents":
            return {"agent_id": "default", "messages": messages, **more}
    return {"model": "default", "messages": messages, **more}


def tool(path: str, name: str, schema: Json) -> Json:
    function = {"name": name, "parameters": schema}
    if path.startswith("/responses"):
        return {"type": "function", **function}
    if path.startswith("/messages"):
        return {"name": name, "input_schema": schema}
    return {"type": "function", "function": function}


def dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def many_messages(path: str) -> bytes:
    return dump(request(path, [{"role": "user", "content": ""}] * 300_000, handoffs=["x"] * 300_000))


def many_keys(path: str) -> bytes:
    return (
        dump(request(path, "x"))[:-1] + b',"metadata":{' + b",".join([b'"k%d":1' % n for n in range(150_000)]) + b"}}"
    )


def many_fields(path: str) -> bytes:
    return dump(request(path, "x"))[:-1] + b"," + b",".join([b'"k%d":1' % n for n in range(MAX_VALUES - 10)]) + b"}"


def many_parts(path: str) -> bytes:
    part = {"type": "input_text" if path.startswith("/responses") else "text", "text": ""}
    return dump(request(path, [{"role": "user", "content": [part] * (MAX_VALUES // 3 - 10)}]))


def many_tools(path: str) -> bytes:
    return dump(request(path, "x", tools=[tool(path, f"t{n}", {"type": "object"}) for n in range(10_000)]))


def tools_enough(path: str) -> bytes:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "enum": ["a", "b"]} for n in range(10)}}
    return dump(request(path, "x", tools=[tool(path, f"t{n}", schema) for n in range(300)]))


def huge_schema(path: str) -> bytes:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(12_000)}}
    return dump(request(path, "x", tools=[tool(path, "t", schema)]))


def schema_within_a_small_body(path: str) -> bytes:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(7_000)}}
    return dump(request(path, "x", tools=[tool(path, "t", schema)]))


def deep(path: str) -> bytes:
    return dump(request(path, "x"))[:-1] + b',"metadata":' + b'{"a":[' * 3_000_000


def long_number(path: str) -> bytes:
    return dump(request(path, "x"))[:-1] + b',"temperature":' + b"1" * 40_000_000 + b"}"


def white_space(path: str) -> bytes:
    return dump(request(path, "x"))[:-1] + b" " * 45_000_000 + b"}"


def escapes(path: str) -> bytes:
    return dump(request(path, "x" + "\n" * 20_000_000))


def beyond_ascii(path: str) -> bytes:
    return dump(request(path, "x" * 30_000_000 + "\N{PERSON WITH FOLDED HANDS}" * 4_000_000))


def quotes(path: str) -> bytes:
    return dump(request(path, "x"))[:-1] + b',"k":' + b'"' * 40_000_000


def text_within_bounds(path: str) -> bytes:
    return dump(request(path, "\N{PERSON WITH FOLDED HANDS}" + "x" * 15_000_000))


def calls_without_results(path: str) -> bytes:
    if path.startswith("/messages"):
        use = {"type": "tool_use", "name": "f", "input": {}}
        said: list[Json] = [{"role": "user", "content": "go"}]
        said += [{"role": "assistant", "content": [{**use, "id": f"c{n}"}]} for n in range(5_000)]
    elif path.startswith("/responses"):
        said = [{"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(5_000)]
    elif path == "/conversations":
        said = [
            {"type": "function.call", "tool_call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(5_000)
        ]
    else:
        call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
        said = [
            {"role": "assistant", "content": "", "tool_calls": [{**call, "id": f"call{n:05}"}]} for n in range(5_000)
        ]
    return dump(request(path, [*said, {"role": "user", "content": "go"}]))


def long_conversation(path: str) -> bytes:
    """5,000 messages, 8 MB: nothing to refuse."""
    said = [{"role": ("user", "assistant")[n % 2], "content": f"{n} " + "word " * 320} for n in range(5_001)]
    return dump(request(path, said))


# What is refused before any door looks at it, and what each door reads in its own way.
REFUSED: list[Callable[[str], bytes]] = [
    many_messages,
    many_keys,
    deep,
    long_number,
    white_space,
    escapes,
    beyond_ascii,
    quotes,
]
READ: list[Callable[[str], bytes]] = [
    many_fields,
    many_parts,
    many_tools,
    tools_enough,
    huge_schema,
    schema_within_a_small_body,
    calls_without_results,
    long_conversation,
]


async def post_each(
    door: Door, tmp_path: Path, bodies: list[tuple[str, bytes]], *, watches_calls: bool = False
) -> list[tuple[str, int, bytes]]:
    """What the doors answer while nothing holds the loop up."""
    model = ScriptedModel(*[says("ok") for _ in bodies], says("ok"))
    async with door.serving(model, journal=SqliteJournal(tmp_path / "journal.db")) as served:
        await post(served, "/conversations", dump(request("/conversations", "x")))  # the tables are made
        async with heart(watches_calls=watches_calls):
            return [(path, *await post(served, path, body)) for path, body in bodies]


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
@at_its_best
async def test_a_body_that_is_refused_holds_nothing_up(
    door: Door, tmp_path: Path, kind: Callable[[str], bytes]
) -> None:
    bodies = [("/chat/completions", kind("/chat/completions"))]
    for path, status, answer in await post_each(door, tmp_path, bodies, watches_calls=True):
        assert 400 <= status < 500 or status == 0, (path, answer)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
@at_its_best
async def test_a_body_that_is_read_holds_nothing_up_on_any_door(
    door: Door, tmp_path: Path, kind: Callable[[str], bytes]
) -> None:
    for path, status, answer in await post_each(door, tmp_path, [(path, kind(path)) for path in DOORS]):
        assert status < 500, (path, answer)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.__name__)
@at_its_best
async def test_nothing_that_is_read_takes_long_in_one_piece(
    door: Door, tmp_path: Path, kind: Callable[[str], bytes]
) -> None:
    bodies = [(path, kind(path)) for path in ("/chat/completions", "/conversations")]
    assert len(await post_each(door, tmp_path, bodies, watches_calls=True)) == len(bodies)


@at_its_best
async def test_as_much_text_as_is_taken_holds_nothing_up(door: Door, tmp_path: Path) -> None:
    bodies = [(path, text_within_bounds(path)) for path in ("/chat/completions", "/responses", "/conversations")]
    for path, status, answer in await post_each(door, tmp_path, bodies, watches_calls=True):
        assert status == 200, (path, answer)


@at_its_best
async def test_no_door_reads_what_no_door_takes(door: Door, tmp_path: Path) -> None:
    found = await post_each(door, tmp_path, [(path, many_keys(path)) for path in DOORS])
    assert [status for _, status, _ in found] == [413] * len(DOORS)


@at_its_best
async def test_a_body_over_a_socket_holds_nothing_up_either(door: Door, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    bodies = [b'{"type":"response.create",' + kind("/responses")[1:] for kind in [*READ, many_keys]]
    lines = [says("ok") for _ in bodies]
    async with door.serving(ScriptedModel(*lines), journal=journal) as served:
        url = served.url.replace("http", "ws") + "/responses"
        async with heart():
            for body in bodies:
                async with served.http.ws_connect(url, max_msg_size=0) as socket:
                    await socket.send_bytes(body)
                    while (event := await socket.receive_json())["type"] not in ("error", "response.completed"):
                        pass
                    assert event.get("status", 0) < 500


LARGE_UPSTREAMS = ["openai-chat:m", "openai:m", "anthropic:m", "gemini:m", "mistral:m"]


@pytest.mark.parametrize("spec", LARGE_UPSTREAMS)
@at_its_best
async def test_a_long_conversation_is_written_for_its_upstream_beside_the_loop(
    door: Door, tmp_path: Path, spec: str
) -> None:
    bodies = [kind("/chat/completions") for kind in (long_conversation, tools_enough, calls_without_results)]
    async with Upstream(*[answers(b"{}", 400) for _ in bodies]) as upstream:
        provider = open_provider(spec, Where(upstream.url))
        async with door.serving(provider, journal=SqliteJournal(tmp_path / "journal.db")) as served, heart():
            statuses = [(await post(served, "/chat/completions", body))[0] for body in bodies]
    assert statuses == [400, 400, 400]
    assert len(upstream.bodies) == len(bodies)
    assert len(upstream.bodies[0]) > 8_000_000


@pytest.mark.parametrize("spec", LARGE_UPSTREAMS)
@at_its_best
async def test_a_text_of_escapes_alone_is_written_for_its_upstream_piece_by_piece(spec: str) -> None:
    text = "x" + "\n" * 10_000_000 + "x"
    async with Upstream(answers(b"{}", 400)) as upstream:
        provider = open_provider(spec, Where(upstream.url))
        async with heart(watches_calls=True):
            with pytest.raises(ExecuteError):
                await run_agent_async(Agent(provider), text)
    assert len(upstream.bodies[0]) > 20_000_000


@at_its_best
async def test_an_image_of_20_mb_comes_through(door: Door, tmp_path: Path) -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo+/AAA" * 1_250_000
    said = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]}]
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "A cat."}, "finish_reason": "stop"}]}
    asked, journal = dump(request("/chat/completions", said)), SqliteJournal(tmp_path / "journal.db")
    async with (
        Upstream(answers(dump(answer))) as upstream,
        door.serving(upstream.url, journal=journal) as served,
        heart(watches_calls=True),
    ):
        status, body = await post(served, "/chat/completions", asked)
    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "A cat.")
    assert upstream.requests[0]["messages"] == said


# ---- what lies on the disk -----------------------------------------------------------------------------------------------


@at_its_best
async def test_a_folder_of_many_agents_is_listed_beside_the_loop(door: Door, tmp_path: Path) -> None:
    for number in range(2_000):
        (tmp_path / f"a{number}.prompty").write_text(f"---\nname: a{number}\n---\nuser:\nHi {{{{who}}}}")
    async with door.serving(ScriptedModel(), agents=str(tmp_path)) as served, heart():
        status, answer = await get(served, "/models")
    assert status == 200
    assert len(json.loads(answer)["data"]) >= 2_000


@at_its_best
async def test_a_long_conversation_is_read_back_beside_the_loop(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "journal.db"
    async with door.serving(ScriptedModel("ok"), journal=SqliteJournal(file)) as served:
        _, answer = await post(served, "/responses", long_conversation("/responses"))
    conversation_id = json.loads(answer)["id"]
    async with door.serving(ScriptedModel("ok"), journal=SqliteJournal(file)) as served, heart():
        found = [(await get(served, f"/responses/{conversation_id}{rest}"))[0] for rest in ("", "/input_items")]
        status, _ = await post(served, "/responses", dump({"input": "go on", "previous_response_id": conversation_id}))
    assert [*found, status] == [200, 200, 200]


# ---- what is refused, and how --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (many_messages, "'messages' has more than 100000 keys and list elements"),
        (many_keys, "the body has more than 100000 keys and list elements"),
        (many_tools, "'tools' has 10000 entries; this server takes 1000"),
        (white_space, "the body has more than 8388608 bytes of white space and numbers"),
        (escapes, "the body has more than 16777216 bytes of text"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_a_refusal_names_what_is_too_much(door: Door, kind: Callable[[str], bytes], words: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, answer = await post(served, "/chat/completions", kind("/chat/completions"))
    assert status in (400, 413)
    assert words in json.loads(answer)["error"]["message"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/chat/completions", "messages"),
        ("/responses", "input"),
        ("/messages", "messages"),
        ("/agents/completions", "messages"),
        ("/conversations", "inputs"),
    ],
)
async def test_every_door_counts_its_messages(door: Door, path: str, name: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        status, answer = await post(served, path, dump(request(path, [{"role": "user", "content": "x"}] * 10_001)))
    said = answer.decode()
    assert status in (400, 422)
    assert "10001" in said
    assert "10000" in said
    assert name in said


async def test_what_is_packed_does_not_burst(door: Door) -> None:
    """A summary that a client brings back is packed: a few bytes can be very many."""
    from ronda.wire.openai_responses.encrypted_content import wrap_summary

    item = {"type": "compaction", "encrypted_content": wrap_summary("x" * 1_000_000)}
    async with door.serving(ScriptedModel()) as served:
        status, answer = await post(served, "/responses", dump({"input": [item] * 1_000}))
    assert status == 413
    assert "'encrypted_content' is more than 16777216 bytes" in json.loads(answer)["error"]["message"]
