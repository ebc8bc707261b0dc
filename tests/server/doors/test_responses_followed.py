"""A response that many watch while it is made: the same bytes for each from its own start, and none waits for the slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from random import Random
from urllib.parse import urlsplit

from tests.interaction.doors import Door, Served, soon
from tests.server.responses_door import events_of, post
from tests.server.runs_door import Follower, Stepwise, under_way

from ronda import tool
from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text, ToolCall
from ronda.core.request import ModelRequest
from ronda.drive import Show

PIECE = "Z" * 1000


class ResponseFollower(Follower):
    """Watches the response of a run, from its beginning or after an event it has seen."""

    @property
    def address(self) -> str:
        more = "" if self.after is None else f"&starting_after={self.after}"
        return f"/responses/resp_{self.run.removeprefix('run_')}?stream=true{more}"

    @property
    def last(self) -> str | None:
        blocks = [block for block in self.body.decode().split("\n\n") if block.startswith("event: ")]
        return str(json.loads(blocks[-1].split("data: ")[1])["sequence_number"]) if blocks else self.after


async def test_ten_who_watch_a_response_see_the_same_bytes_each_from_its_own_start(door: Door) -> None:
    """Joining and leaving at random, and coming back where they left: what they see joins without a seam."""
    chance = Random(11)
    words = [f"word {n} " for n in range(30)]
    model = Stepwise(*words)
    async with door.serving(model) as served, soon():
        asking = asyncio.create_task(post(served, {"input": "go", "stream": True}))
        run = await under_way(served)
        watching: list[asyncio.Task[Follower]] = []
        joins = sorted(chance.sample(range(len(words)), 10))
        for n in range(len(words)):
            model.step()
            if n in joins:
                most = chance.choice([None, None, 1, 3, 9])
                watching.append(asyncio.create_task(ResponseFollower(served, run).read(most)))
            await asyncio.sleep(0)
        model.step()
        seen = await asyncio.gather(*watching)
        again = await asyncio.gather(*[ResponseFollower(served, run, one.last).read() for one in seen])
        whole = (await asking).body

    assert len(seen) == 10
    assert len({len(one.body) for one in seen}) > 1  # some left
    for before, after in zip(seen, again, strict=True):
        has_ended = b"[DONE]" in before.body
        assert before.body + (b"" if has_ended else after.body) == whole


class Torrent:
    """Says 10 MB before it calls a tool, and a few words then. Never waits, unless all who watch are far behind."""

    def __init__(self) -> None:
        self.rounds = 0

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        self.rounds += 1
        if self.rounds == 2:
            show([TextDelta("Done.")])
            return ModelFinished(AssistantTurn((Text("Done."),)))
        for _ in range(100):
            if not show([TextDelta(PIECE)] * 100) and request.room is not None:
                await request.room()
            await asyncio.sleep(0)
        return ModelFinished(AssistantTurn((Text(PIECE * 10_000), ToolCall("c1", "look", "{}")), stop="tool_calls"))


@tool
async def look() -> str:
    """Look."""
    return "seen"


async def test_one_that_watches_beside_others_and_falls_behind_is_told_and_nobody_waits_for_it(door: Door) -> None:
    model = Torrent()
    async with door.serving(model, look, keep_previews_bytes=1_000_000) as served, soon():
        asking = asyncio.create_task(post(served, {"input": "go", "stream": True}))
        run = await under_way(served)
        async with stalled(served, ResponseFollower(served, run).address) as reader:
            whole = events_of(await asking)  # which was not held back
            rest = await reader.read(-1)

    last = json.loads(rest.decode().rstrip().split("data: ")[-1].split("\n")[0])
    assert whole[-1]["type"] == "response.completed"
    assert (last["type"], last["code"]) == ("error", "fell_behind")
    assert 0 < rest.count(b"Z") < 10_000_000


@contextlib.asynccontextmanager
async def stalled(served: Served, address: str) -> AsyncIterator[asyncio.StreamReader]:
    """A client that asks, and has not read anything yet."""
    where = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port, limit=4096)
    head = f"GET {where.path}{address} HTTP/1.1\r\nhost: {where.hostname}\r\nauthorization: Bearer test\r\n"
    try:
        writer.write(f"{head}connection: close\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        yield reader
    finally:
        writer.close()
