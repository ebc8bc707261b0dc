"""Large bodies share a bound: beyond it a request is told to come again, and small ones do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon, user

from ronda.core.events import ModelFinished
from ronda.core.request import ModelRequest
from ronda.drive import Show
from ronda.errors import BadConfig
from ronda.server.check_config import check_config
from ronda.server.config import ServerConfig
from ronda.server.http.body_memory import KEPT_COPIES, BodyMemory, NoRoom
from ronda.testing import ScriptedModel, says

MEMORY = 1024 * 1024
HEADERS = {
    "accept": "application/json, text/event-stream",
    "anthropic-version": "2023-06-01",
}
SAID = "x" * 700_000
DOORS: dict[str, tuple[str, Json, Callable[[Any], str]]] = {
    "chat": ("/chat/completions", {"messages": [user(SAID)]}, lambda body: body["error"]["message"]),
    "responses": ("/responses", {"input": SAID}, lambda body: body["error"]["message"]),
    "messages": (
        "/messages",
        {"model": "default", "max_tokens": 5, "messages": [user(SAID)]},
        lambda body: body["error"]["message"],
    ),
    "conversations": ("/conversations", {"model": "default", "inputs": SAID}, lambda body: body["message"]),
    "mcp": (
        "/../mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"experimental": {"x": {"x": SAID}}},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        lambda body: body["error"]["message"],
    ),
}


class WatchedMemory(BodyMemory):
    """Tells when nearly all of a large body is there, and when nothing is any more."""

    def __init__(self) -> None:
        super().__init__(MEMORY)
        self.is_used = asyncio.Event()
        self.is_free = asyncio.Event()

    def grow(self, size: int, new: int) -> int:
        counted = super().grow(size, new)
        if self.used >= len(SAID):
            self.is_used.set()
        return counted

    def release(self, size: int) -> None:
        super().release(size)
        self._look()

    def forget(self, size: int) -> None:
        super().forget(size)
        self._look()

    def _look(self) -> None:
        if self.used == 0:
            self.is_free.set()


@contextlib.asynccontextmanager
async def serving(door: Door, *answers: str) -> AsyncIterator[tuple[Served, WatchedMemory]]:
    async with door.serving(ScriptedModel(*[says(text) for text in answers])) as served:
        memory = served.server.body_memory = WatchedMemory()
        yield served, memory


class SlowUpload:
    """A request of which the last byte does not come until it is let."""

    def __init__(self, served: Served, content: bytes) -> None:
        self._served = served
        self._content = content
        self._last = asyncio.Event()
        self._task = asyncio.create_task(self._send())

    async def _pieces(self) -> AsyncIterator[bytes]:
        yield self._content[:-1]
        await self._last.wait()
        yield self._content[-1:]

    async def _send(self) -> int:
        headers = {"content-type": "application/json"}
        url = f"{self._served.url}/chat/completions"
        async with soon(), self._served.http.post(url, data=self._pieces(), headers=headers) as answer:
            await answer.read()
            return answer.status

    async def finish(self) -> int:
        self._last.set()
        return await self._task

    async def cancel(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


def body(text: str) -> bytes:
    return json.dumps({"messages": [user(text)]}).encode()


@pytest.mark.parametrize("dialect", DOORS)
async def test_a_large_request_beside_others_is_told_to_come_again(door: Door, dialect: str) -> None:
    path, asked, message = DOORS[dialect]
    async with serving(door, "a", "b", "c") as (served, memory):
        slow = SlowUpload(served, body(SAID))
        async with soon():
            await memory.is_used.wait()
        async with soon(), served.http.post(f"{served.url}{path}", json=asked, headers=HEADERS) as answer:
            refused = (answer.status, answer.headers["retry-after"], message(await answer.json()))
        small = await served.post({"messages": [user("hi")]})
        first = await slow.finish()
        async with soon(), served.http.post(f"{served.url}{path}", json=asked, headers=HEADERS) as answer:
            again = answer.status

    assert refused[:2] == (503, "5")
    assert "try again" in refused[2]
    assert (small.status, first, again) == (200, 200, 200)
    assert memory.used == 0


class Blocked:
    """A model that answers when it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.asked.set()
        await self.let.wait()
        return await ScriptedModel(says("done")).call(request, show)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_large_request_counts_until_it_is_answered(door: Door, stream: bool) -> None:
    model = Blocked()
    async with soon(), door.serving(model) as served:
        memory = served.server.body_memory = WatchedMemory()
        content = json.dumps({"messages": [user(SAID)], "stream": stream}).encode()
        first = asyncio.create_task(served.post(content))
        await model.asked.wait()
        held = memory.used
        refused = await served.post(body(SAID))
        memory.is_free.clear()
        model.let.set()
        answered = await first
        await memory.is_free.wait()
        after = await served.post(body(SAID))

    assert held == KEPT_COPIES * len(content)
    assert (refused.status, answered.status, after.status) == (503, 200, 200)


@pytest.mark.parametrize("problem", ["no JSON" + "x" * 400_000, json.dumps({"messages": 5, "x": SAID})])
async def test_a_large_request_that_is_refused_gives_its_room_back(door: Door, problem: str) -> None:
    async with serving(door, "a") as (served, memory):
        refused = await served.post(problem.encode())

    assert (refused.status, memory.used) == (400, 0)


async def test_a_client_that_leaves_gives_its_room_back(door: Door) -> None:
    async with serving(door, "a") as (served, memory):
        slow = SlowUpload(served, body(SAID))
        async with soon():
            await memory.is_used.wait()
        memory.is_free.clear()
        await slow.cancel()
        async with soon():
            await memory.is_free.wait()
        answer = await served.post(body(SAID))

    assert answer.status == 200


def test_one_body_always_has_room_in_what_all_may_hold() -> None:
    with pytest.raises(BadConfig, match="--max-body-memory is 5; it must be at least"):
        check_config(ServerConfig(model="script:x.json", max_body_memory=5))


def test_a_body_counts_with_its_copies_and_one_is_always_let_in() -> None:
    memory = BodyMemory(100)
    first = memory.grow(0, 90)  # alone, however large
    with pytest.raises(NoRoom):
        memory.grow(0, 1)
    memory.release(first)
    held = [memory.grow(0, 10) for _ in range(3)]
    with pytest.raises(NoRoom):
        memory.grow(0, 10)  # three copies of each of four are 120
    for size in held:
        memory.release(size)

    assert memory.used == 0
