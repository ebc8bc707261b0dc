"""A stream that was cut off at any frame, and picked up again, is the one that was not: at every door, and on the WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.interaction.doors import Door, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for, read_stream
from tests.server.responses_door import connected

from ronda import tool
from ronda.journal.sqlite import SqliteJournal
from ronda.testing import ScriptedModel, calls, says

AT_EACH_DOOR = pytest.mark.parametrize("name", NAMES)
KEY = {"authorization": "Bearer test"}

LINES = (
    calls("weather", city="Rome", text="Let me look."),
    says("It is sunny in Rome, and warm.", reasoning="Sunny is good."),
)


@tool
async def weather(city: str) -> str:
    """How the weather is."""
    return f"sunny in {city}"


def model() -> ScriptedModel:
    return ScriptedModel(*LINES, *LINES)


def frames_of(stream: bytes) -> list[bytes]:
    """Without keep-alives, which are no part of the promise."""
    return [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame and not frame.startswith(b":")]


def id_of(frame: bytes) -> str:
    assert frame.startswith(b"id: "), frame
    return frame.partition(b"\n")[0].removeprefix(b"id: ").decode()


def place_of(name: str, headers: Any, stream: bytes) -> str:
    """Where the answer is found, by the id that the door's own object has."""
    digits = headers["x-ronda-run"].partition(",")[0].removeprefix("run_")
    match name:
        case "chat":
            return f"/chat/completions/chatcmpl-{digits}"
        case "responses":
            return f"/responses/resp_{digits}"
        case "messages":
            return f"/messages/msg_{digits}"
        case "completions":
            return f"/agents/completions/{digits}"
        case _:
            first = frames_of(stream)[0].partition(b"data: ")[2]
            return f"/conversations/{json.loads(first)['conversation_id']}"


async def ask(served: Served, name: str, **more: Any) -> tuple[str, bytes]:
    """The whole of a stream, and where it is found."""
    body = body_for(name, True, **{"on_disconnect": "detach", **more})
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=KEY) as answer:
        stream = await answer.read()
        assert answer.status == 200, stream
        return place_of(name, answer.headers, stream), stream


async def follow(served: Served, place: str, after: str | None = None, by_header: bool = False) -> bytes:
    headers = {**KEY, "last-event-id": after} if by_header and after is not None else KEY
    query = "" if by_header or after is None else f"&starting_after={after}"
    async with soon(), served.http.get(f"{served.url}{place}?stream=true{query}", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.read()


@AT_EACH_DOOR
async def test_a_stream_is_picked_up_behind_every_frame(door: Door, name: str) -> None:
    async with door.serving(model(), weather) as served:
        place, stream = await ask(served, name)
        whole = frames_of(stream)
        ids = [id_of(frame) for frame in whole if b"[DONE]" not in frame or name != "responses"]
        again = await follow(served, place)
        rest = {
            (at, by_header): await follow(served, place, event_id, by_header)
            for at, event_id in enumerate(ids)
            for by_header in (False, True)
        }

    assert len(whole) > 8
    assert frames_of(again) == whole
    for (at, _), found in rest.items():
        assert whole[: at + 1] + frames_of(found) == whole


class Stepwise(ScriptedModel):
    """Goes on when it is let."""

    def __init__(self) -> None:
        super().__init__(*LINES)
        self.go_on = asyncio.Event()

    async def call(self, request: Any, show: Any) -> Any:
        if len(self.heard) == 1:
            await self.go_on.wait()
        return await super().call(request, show)


@AT_EACH_DOOR
async def test_a_stream_that_breaks_off_while_the_run_goes_on_is_picked_up(door: Door, name: str) -> None:
    async with door.serving(model(), weather) as served:
        _, uncut = await ask(served, name)
    count = len(frames_of(uncut))
    waiting = Stepwise()
    async with soon(), door.serving(waiting, weather) as served:
        body = body_for(name, True, on_disconnect="detach")
        async with served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=KEY) as answer:
            seen = b""
            while not seen.endswith(b"\n\n") or (b"sunny in Rome" not in seen and name != "messages"):
                seen += await answer.content.readany()
                if name == "messages" and b"agentic_tool_call_progress" in seen and seen.count(b"progress") > 2:
                    break
            place = place_of(name, answer.headers, seen)
        following = asyncio.create_task(follow(served, place, id_of(frames_of(seen)[-1])))
        waiting.go_on.set()
        rest = await following
        whole = await follow(served, place)

    assert frames_of(seen) + frames_of(rest) == frames_of(whole)
    assert len(frames_of(whole)) == count
    assert read_stream(name, whole).text == read_stream(name, uncut).text


async def test_a_stream_over_the_websocket_is_picked_up_behind_every_event(door: Door) -> None:
    async with soon(), door.serving(model(), weather) as served:
        async with connected(served) as socket:
            await socket.say(model="default", input="go", on_disconnect="detach")
            whole = await raw_events(socket.raw)
        response_id = json.loads(whole[0])["response"]["id"]
        rest = []
        async with connected(served) as socket:
            for at in range(len(whole) - 1):
                await socket.say(type="response.follow", response_id=response_id, starting_after=at)
                rest.append(await raw_events(socket.raw))
            await socket.say(type="response.follow", response_id=response_id)
            again = await raw_events(socket.raw)
            await socket.say(type="response.follow", response_id="resp_nothing")
            nothing = json.loads(await socket.raw.receive_str())

    assert again == whole
    for at, found in enumerate(rest):
        assert whole[: at + 1] + found == whole
    assert (nothing["type"], nothing["status"]) == ("error", 404)


async def raw_events(socket: aiohttp.ClientWebSocketResponse) -> list[str]:
    heard: list[str] = []
    while not heard or json.loads(heard[-1])["type"] not in ("response.completed", "response.failed", "error"):
        heard.append(await socket.receive_str())
    return heard


# ---- over a restart, and later ------------------------------------------------------------------------------------------


@AT_EACH_DOOR
async def test_a_stream_is_the_same_after_a_restart(door: Door, name: str, tmp_path: Path) -> None:
    from ronda.store.sqlite_catalog import SqliteCatalog

    def kept() -> dict[str, Any]:
        return {
            "journal": SqliteJournal(tmp_path / "journal.db"),
            "catalog": SqliteCatalog(str(tmp_path / "catalog.db")),
        }

    async with door.serving(model(), weather, **kept()) as served:
        place, stream = await ask(served, name)
    whole = frames_of(stream)
    async with door.serving(model(), weather, **kept()) as served:
        again = await follow(served, place)
        rest = await follow(served, place, id_of(whole[4]))

    assert frames_of(again) == whole
    assert whole[:5] + frames_of(rest) == whole


@AT_EACH_DOOR
async def test_a_stream_whose_pieces_are_not_kept_any_more_says_so_and_has_all_its_text(door: Door, name: str) -> None:
    async with door.serving(model(), weather, keep_previews=0.0) as served:
        place, stream = await ask(served, name)
        headers: Callable[[Any], str] = lambda answer: answer.headers.get("x-ronda-stream", "")  # noqa: E731
        async with served.http.get(f"{served.url}{place}?stream=true&starting_after=3", headers=KEY) as answer:
            says_so, later = headers(answer), await answer.read()

    assert says_so == "larger-pieces"
    if name != "responses":  # whose last event has all of it
        assert read_stream(name, later).text == read_stream(name, stream).text
    assert len(frames_of(later)) < len(frames_of(stream))


# ---- several choices, and what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chat", "completions"])
async def test_each_of_several_choices_is_picked_up_where_it_was(door: Door, name: str) -> None:
    async with door.serving(ScriptedModel(says("one two three"), says("four five six"))) as served:
        place, stream = await ask(served, name, n=2)
        whole = frames_of(stream)
        found = [await follow(served, place, id_of(frame)) for frame in whole[:-1]]

    def texts(frames: list[bytes]) -> list[str]:
        said = ["", ""]
        for frame in frames:
            data = frame.partition(b"data: ")[2]
            for choice in [] if b"[DONE]" in data else json.loads(data)["choices"]:
                said[choice["index"]] += choice["delta"].get("content") or ""
        return said

    for at, rest in enumerate(found):
        assert texts(whole[: at + 1] + frames_of(rest)) == texts(whole)


@AT_EACH_DOOR
@pytest.mark.parametrize("after", ["x", "-1", "1.5", "1" * 30, ""])
async def test_what_is_no_place_in_a_stream_is_refused(door: Door, name: str, after: str) -> None:
    async with door.serving(model(), weather) as served:
        place, _ = await ask(served, name)
        address = f"{served.url}{place}?stream=true&starting_after={after}"
        async with served.http.get(address, headers=KEY) as answer:
            status = answer.status
        async with served.http.get(served.url + place + "?stream=perhaps", headers=KEY) as answer:
            no_truth = answer.status

    assert (status, no_truth) == (400, 422 if name == "conversations" else 400)


async def test_a_stream_that_ends_with_its_connection_has_no_ids(door: Door) -> None:
    async with door.serving(model(), weather) as served:
        _, stream = await ask(served, "chat", on_disconnect="cancel")

    assert not [frame for frame in frames_of(stream) if frame.startswith(b"id:")]
