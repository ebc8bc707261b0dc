"""What happens at one server is told to the clients of another that shares its database."""

from __future__ import annotations

from pathlib import Path

from tests.interaction.doors import soon
from tests.interaction.test_streams_resumed import KEY
from tests.server.doors.own.test_owner_events import following
from tests.server.restarts import Folder
from tests.server.services.test_replica_streams import two_servers


async def test_a_run_of_one_server_is_told_by_the_other(tmp_path: Path, postgres: str) -> None:
    folder = Folder(tmp_path, "It is over now, and well.")
    key = KEY["authorization"].removeprefix("Bearer ")
    async with two_servers(folder, postgres) as (one, other), following(other, key=key) as stream:
        await stream.next()
        body = {"model": "default", "messages": [{"role": "user", "content": "go"}], "session_id": "s1"}
        async with soon(), one.http.post(f"{one.url}/chat/completions", json=body, headers=KEY) as answer:
            assert answer.status == 200, await answer.text()
            run = answer.headers["x-ronda-run"]
        told = (await stream.until("run_started"))["run"]
        while told["state"] != "finished":
            told = (await stream.until("run_changed"))["run"]
        session = await stream.until("session_changed")
        async with one.http.patch(f"{one.url}/sessions/s1", json={"title": "T"}, headers=KEY) as answer:
            assert answer.status == 200
        changed = await stream.until("session_changed")

    assert (told["id"], told["input"], session["session"]["id"], changed["session"]["id"]) == (run, "go", "s1", "s1")
