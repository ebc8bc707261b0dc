"""What becomes of a run whose client is gone: it ends, it goes on, or it goes on for a while. At every door."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.interaction.doors import Door, Json, Served, soon
from tests.interaction.every_door import NAMES, PATHS, body_for
from tests.server.services.test_leaving import Gate

from ronda.core.events import RunStarted, TextDelta
from ronda.server.answering.exchange import Exchange
from ronda.testing import ScriptedModel, calls, says

AT_EACH_DOOR = pytest.mark.parametrize("name", NAMES)


async def send(served: Served, name: str, body: Json, **headers: str) -> tuple[int, dict[str, str], bytes]:
    async with soon(), served.http.post(f"{served.url}/{PATHS[name]}", json=body, headers=headers) as answer:
        received = {key.lower(): value for key, value in answer.headers.items()}
        return answer.status, received, await answer.read()


async def leave_meanwhile(served: Served, gate: Gate, name: str, stream: bool, on_disconnect: str) -> None:
    """Ask, and go away while a tool is running."""
    asking = asyncio.create_task(send(served, name, body_for(name, stream, on_disconnect=on_disconnect)))
    await gate.begun.wait()
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking


@AT_EACH_DOOR
async def test_every_answer_names_its_run(door: Door, stream: bool, name: str) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, headers, _ = await send(served, name, body_for(name, stream))
        ((start, *_),) = await served.events

    assert isinstance(start, RunStarted)
    assert (status, headers["x-ronda-run"]) == (200, start.run)


async def test_an_answer_with_several_choices_names_all_runs(door: Door, stream: bool) -> None:
    async with door.serving(ScriptedModel(says("hi"), says("ho"))) as served:
        _, headers, _ = await send(served, "chat", body_for("chat", stream, n=2))
        starts = [events[0] for events in await served.events]

    assert headers["x-ronda-run"] == ", ".join([start.run for start in starts if isinstance(start, RunStarted)])


@AT_EACH_DOOR
async def test_a_detached_run_goes_on_without_its_client(door: Door, stream: bool, name: str) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        await leave_meanwhile(served, gate, name, stream, "detach")
        (live,) = served.server.runs.live.values()
        while live.followers:  # noqa: ASYNC110  # until the server has seen that the client is gone
            await asyncio.sleep(0)
        follower = live.follow()
        gate.go_on.set()
        await served.all_over()
        seen = follower.pull()
        ((start, *_),) = await served.events
        (end,) = await served.ends

    assert isinstance(start, RunStarted)
    assert start.outlives
    assert end.reason == "stop"
    assert (
        TextDelta("over") in seen
    )  # a client that comes to follow it sees deltas, also where the client did not stream


async def test_the_head_of_a_detached_stream_goes_out_at_once(door: Door) -> None:
    gate = Gate(cares=True)
    body = body_for("chat", True, on_disconnect="detach")
    async with (
        soon(),
        door.serving(Silent(gate)) as served,
        served.http.post(f"{served.url}/chat/completions", json=body) as answer,
    ):
        assert answer.headers["x-ronda-run"] in served.server.runs.live
        gate.go_on.set()
        await answer.read()


class Silent(ScriptedModel):
    """Says nothing until it is let go."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(says("hi"))
        self._gate = gate

    async def call(self, request: Any, show: Any) -> Any:
        await self._gate.go_on.wait()
        return await super().call(request, show)


async def test_a_run_with_grace_ends_when_that_is_over(door: Door, stream: bool) -> None:
    gate = Gate(cares=True)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        await leave_meanwhile(served, gate, "chat", stream, "grace:1")
        await served.all_over()
        (end,) = await served.ends

    assert end.reason == "cancelled"


async def test_a_run_with_grace_goes_on_while_somebody_follows_it(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, is_up, end_lonely = Gate(cares=True), asyncio.Event(), Exchange._end_lonely

    def watched(exchange: Exchange) -> None:
        end_lonely(exchange)
        is_up.set()

    monkeypatch.setattr(Exchange, "_end_lonely", watched)
    async with soon(), door.serving(ScriptedModel(calls("wait"), says("over")), gate.tool) as served:
        await leave_meanwhile(served, gate, "chat", True, "grace:1")
        (live,) = served.server.runs.live.values()
        follower = live.follow()
        await is_up.wait()
        gate.go_on.set()
        await served.all_over()
        follower.close()
        (end,) = await served.ends

    assert end.reason == "stop"


# ---- what is refused --------------------------------------------------------------------------------------------------


@AT_EACH_DOOR
@pytest.mark.parametrize("value", ["stay", "grace", "grace:", "grace:x", "grace:-1", "grace:1e9", ""])
async def test_what_is_no_way_to_go_on_is_refused(door: Door, stream: bool, name: str, value: str) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, _, said = await send(served, name, body_for(name, stream, on_disconnect=value))

    assert (status, b"on_disconnect" in said) == (422 if name in ("completions", "conversations") else 400, True)


@pytest.mark.parametrize("name", ["responses", "conversations"])
async def test_a_run_that_is_not_stored_cannot_go_on(door: Door, stream: bool, name: str) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, _, said = await send(served, name, body_for(name, stream, on_disconnect="detach", store=False))

    assert (status, b"on_disconnect" in said) == (400, True)


async def test_the_operator_bounds_what_goes_on(door: Door, stream: bool) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(calls("wait"), says("over"))
    async with soon(), door.serving(model, gate.tool, max_detached=1, max_grace=5) as served:
        long, _, _ = await send(served, "chat", body_for("chat", stream, on_disconnect="grace:6"))
        await leave_meanwhile(served, gate, "chat", stream, "detach")
        many, _, _ = await send(served, "chat", body_for("chat", stream, on_disconnect="detach"))
        gate.go_on.set()

    assert (long, many) == (400, 429)


@pytest.mark.parametrize(
    "bounds", [{"max_detached": 4}, {"max_detached": 100, "max_detached_per_owner": 2}], ids=["shared", "own"]
)
async def test_one_owner_leaves_places_for_others_to_go_on_in(door: Door, bounds: dict[str, Any]) -> None:
    gate = Gate(cares=True)
    model = ScriptedModel(*[calls("wait")] * 3, *[says("over")] * 3)
    async with soon(), door.serving(model, gate.tool, **bounds) as served:
        statuses = []
        async with contextlib.AsyncExitStack() as streams:
            for key in ("ann", "ann", "ann", "bob"):
                body = body_for("chat", True, on_disconnect="detach")
                sent = {"authorization": f"Bearer {key}"}
                asking = served.http.post(f"{served.url}/chat/completions", json=body, headers=sent)
                answer = await streams.enter_async_context(asking)
                statuses.append(answer.status)
            gate.go_on.set()

    assert statuses == [200, 200, 429, 200]


# ---- a run's name -----------------------------------------------------------------------------------------------------


@AT_EACH_DOOR
async def test_a_client_may_name_its_run_once(door: Door, stream: bool, name: str) -> None:
    async with door.serving(ScriptedModel(says("hi"), says("ho"))) as served:
        first, headers, _ = await send(served, name, body_for(name, stream), **{"X-Ronda-Run": "run_mine12345"})
        again, _, said = await send(served, name, body_for(name, stream), **{"X-Ronda-Run": "run_mine12345"})

        found = await served.http.get(f"{served.url}/runs/run_mine12345")
        run = (await found.json())["id"]

    assert (first, again) == (200, 409)
    assert b"run_mine12345" in said
    assert (found.status, run) == (200, headers["x-ronda-run"])


async def test_a_name_that_another_owner_has_given_is_as_free_as_any(door: Door) -> None:
    def by(key: str) -> dict[str, str]:
        return {"X-Ronda-Run": "run_mine12345", "authorization": f"Bearer {key}"}

    async with door.serving(ScriptedModel(*[says(text) for text in ("hi", "ho")])) as served:
        told = [await send(served, "chat", body_for("chat", False), **by(key)) for key in ("ann", "bob")]
        found = [
            await (await served.http.get(f"{served.url}/runs/run_mine12345", headers=by(key))).json()
            for key in ("ann", "bob")
        ]
        cassette = await served.http.get(f"{served.url}/runs/run_mine12345/cassette", headers=by("bob"))

    assert [status for status, _, _ in told] == [200, 200]
    assert [run["id"] for run in found] == [headers["x-ronda-run"] for _, headers, _ in told]
    assert [run["result"]["text"] for run in found] == ["hi", "ho"]
    assert cassette.status == 200


@pytest.mark.parametrize("text", ["mine", "run_", "run_a b", "run_" + "x" * 65, "run_ü1234567", "run_" + "0af9" * 6])
async def test_what_is_no_name_of_a_run_is_refused(door: Door, text: str) -> None:
    async with door.serving(ScriptedModel(says("hi"))) as served:
        status, _, said = await send(served, "chat", body_for("chat", False), **{"X-Ronda-Run": text})
        several, _, _ = await send(served, "chat", body_for("chat", False, n=2), **{"X-Ronda-Run": "run_mine12345"})

    assert (status, b"X-Ronda-Run" in said, several) == (400, True, 400)
