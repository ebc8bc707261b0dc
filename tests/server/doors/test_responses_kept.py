"""Streams that can be watched again take so much memory, all together, and no more: but a model call under way is kept whole."""

from __future__ import annotations

import asyncio
import json

from tests.interaction.doors import Door, Json, Raw, Served, soon
from tests.server.responses_door import post, send

from ronda.core.events import ModelFinished, TextDelta
from ronda.core.parts import AssistantTurn, Text
from ronda.core.request import ModelRequest
from ronda.drive import Show

KEPT = 4_000


class Talker:
    """A model that says a thousand characters in ten pieces, and waits before the last of them if it is told to."""

    def __init__(self, *, waits: bool = False) -> None:
        self.may_end = asyncio.Event()
        self.has_begun = asyncio.Event()
        if not waits:
            self.may_end.set()

    async def call(self, request: ModelRequest, show: Show) -> ModelFinished:
        show([TextDelta("x" * 100) for _ in range(9)])
        self.has_begun.set()
        await self.may_end.wait()
        show([TextDelta("y" * 100)])
        return ModelFinished(AssistantTurn((Text("x" * 900 + "y" * 100),)))


async def watch(served: Served, id: str) -> Raw:
    return await send(served, "GET", f"/responses/{id}?stream=true")


def id_of(answer: Raw) -> str:
    return str(json.loads(answer.frames[0])["response"]["id"])


def pieces(answer: Raw) -> int:
    return sum(name == "response.output_text.delta" for name, _ in answer.events)


ASK: Json = {"input": "go", "stream": True}


async def test_the_oldest_finished_streams_go_when_there_are_too_many_bytes(door: Door) -> None:
    async with door.serving(Talker(), keep_previews_bytes=2 * KEPT) as served:
        ids = [id_of(await post(served, ASK)) for _ in range(8)]
        seen = [pieces(await watch(served, response_id)) for response_id in ids]

    assert seen[:4] == [1, 1, 1, 1]  # from the journal: the text in one piece
    assert seen[-1] == 10


async def test_a_model_call_under_way_is_watched_from_its_beginning_however_large_it_is(door: Door) -> None:
    model = Talker(waits=True)
    async with door.serving(model, keep_previews_bytes=500) as served, soon():
        asking = asyncio.create_task(post(served, ASK))
        await model.has_begun.wait()
        [(run, live)] = served.server.runs.live.items()
        watching = asyncio.create_task(watch(served, "resp_" + run.removeprefix("run_")))
        while live.followers < 2:  # noqa: ASYNC110  # a number has no event to wait for
            await asyncio.sleep(0)
        model.may_end.set()
        first, second = await asking, await watching

    assert pieces(first) == 10
    assert second.body == first.body
