"""A stream that one server began is picked up at another one: at every door, and on the WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aiohttp
from tests.interaction.doors import Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.interaction.test_streams_resumed import KEY, ask, follow, frames_of, id_of, place_of, raw_events
from tests.server.responses_door import connected
from tests.server.restarts import Folder, call
from tests.server.services.test_replicas import replicas


@asynccontextmanager
async def two_servers(folder: Folder, database: str) -> AsyncIterator[list[Served]]:
    """Not in this process, and asked as those are that are."""
    async with aiohttp.ClientSession() as http:
        with replicas(folder, database) as servers:
            yield [cast("Served", SimpleNamespace(url=one.serving.url, http=http)) for one in servers]


async def test_a_stream_of_any_door_is_picked_up_at_another_server_behind_every_frame(
    tmp_path: Path, postgres: str
) -> None:
    folder = Folder(tmp_path, call("count", "one"), "It is over now, and well.")
    async with two_servers(folder, postgres) as (one, other):
        for name in NAMES:
            place, stream = await ask(one, name)
            whole = frames_of(stream)
            ids = [id_of(frame) for frame in whole if b"[DONE]" not in frame or name != "responses"]
            assert len(whole) > 8
            assert frames_of(await follow(other, place)) == whole, name
            for at, event_id in enumerate(ids):
                assert (
                    whole[: at + 1] + frames_of(await follow(other, place, event_id, by_header=bool(at % 2))) == whole
                ), name


async def test_a_stream_that_breaks_off_is_picked_up_at_another_server_while_the_run_goes_on(
    tmp_path: Path, postgres: str
) -> None:
    folder = Folder(tmp_path, call("wait"), "It is over now, and well.")
    async with two_servers(folder, postgres) as (one, other):
        for name in NAMES:
            body, seen = body_for(name, True, on_disconnect="detach"), b""
            async with soon(), one.http.post(f"{one.url}/{PATHS[name]}", json=body, headers=KEY) as answer:
                while not seen.endswith(b"\n\n"):
                    seen += await answer.content.readany()
                place = place_of(name, answer.headers, seen)
            folder.until("waiting")
            following = asyncio.create_task(follow(other, place, id_of(frames_of(seen)[-1])))
            await asyncio.sleep(0)
            (folder.path / "go on").touch()
            rest = await following
            whole = frames_of(await follow(one, place))
            assert frames_of(seen) + frames_of(rest) == whole, name
            assert len(whole) > len(frames_of(seen)) + 4, name
            for left in ("waiting", "go on"):
                (folder.path / left).unlink()


async def test_a_stream_over_the_websocket_is_picked_up_at_another_server(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, call("count", "one"), "It is over now, and well.")
    rest: list[list[str]] = []
    async with soon(), two_servers(folder, postgres) as (one, other):
        async with connected(one) as socket:
            await socket.say(model="default", input="go", on_disconnect="detach")
            whole = await raw_events(socket.raw)
        run_id = json.loads(whole[0])["response"]["id"]
        async with connected(other) as socket:
            for at in range(len(whole) - 1):
                await socket.say(type="response.follow", response_id=run_id, starting_after=at)
                rest.append(await raw_events(socket.raw))

    assert len(whole) > 8
    for at, found in enumerate(rest):
        assert whole[: at + 1] + found == whole
