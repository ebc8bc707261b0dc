"""/health says that the process is alive, /ready whether it is able to take requests; and neither makes a call for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.interaction.doors import Door, Served, soon

from ronda.core.limits import Retry
from ronda.journal.sqlite import SqliteJournal
from ronda.server.doors.own.readiness import Disk
from ronda.server.features.doors.health import Health
from ronda.store.keys import new_key
from ronda.testing import ScriptedModel, fails, says

ONCE = Retry(tries=1)
ABLE = {"database": "ok", "disk": "ok", "model": "ok", "draining": "ok"}


async def look(served: Served, path: str = "/ready") -> tuple[int, Any, str | None]:
    """The status, what is told, and when to ask again."""
    async with soon(), served.http.get(served.url.removesuffix("/v1") + path) as answer:
        is_json = answer.headers["content-type"] == "application/json"
        return answer.status, await answer.json() if is_json else await answer.text(), answer.headers.get("retry-after")


async def test_a_server_that_can_take_requests_is_ready(door: Door) -> None:
    model = ScriptedModel()
    async with door.serving(model) as served:
        assert await look(served) == (200, {"status": "ready", "checks": ABLE}, None)

    assert model.heard == []  # a look costs nothing


async def test_a_server_that_is_to_end_is_alive_and_not_ready(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        await served.server.stop(0.0)
        health, ready = await look(served, "/health"), await look(served)

    checks = {**ABLE, "draining": "the server is stopping"}
    assert health == (200, "OK", None)
    assert ready == (503, {"status": "not ready", "checks": checks}, "2")


async def test_a_model_that_was_out_of_reach_in_its_last_call_makes_the_server_not_ready(door: Door) -> None:
    model = ScriptedModel(fails("cannot reach http://10.0.0.7:9/v1"), says("hello"))
    async with door.serving(model, retry=ONCE) as served:
        await served.post({"messages": [{"role": "user", "content": "hi"}]})
        failed = await look(served)
        await served.post({"messages": [{"role": "user", "content": "hi"}]})
        mended = await look(served)

    checks = {**ABLE, "model": "its last call failed"}
    assert failed == (503, {"status": "not ready", "checks": checks}, "2")
    assert mended[0] == 200


async def test_a_request_that_the_model_refuses_says_nothing_against_the_model(door: Door) -> None:
    async with door.serving(ScriptedModel(fails("no such parameter", status=400))) as served:
        await served.post({"messages": [{"role": "user", "content": "hi"}]})
        assert (await look(served))[0] == 200


async def test_a_failure_of_the_model_is_forgotten_after_a_while(door: Door) -> None:
    async with door.serving(ScriptedModel(fails("gone")), retry=ONCE) as served:
        state = served.server.runs.host.model
        assert state is not None
        await served.post({"messages": [{"role": "user", "content": "hi"}]})
        before = await look(served)
        now = state._clock()
        state._clock = lambda: now + 31
        after = await look(served)

    assert (before[0], after[0]) == (503, 200)


async def test_a_journal_whose_file_was_moved_makes_the_server_not_ready(door: Door, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    async with door.serving(ScriptedModel(), journal=journal) as served:
        (tmp_path / "journal.db").rename(tmp_path / "elsewhere.db")
        status, told, _ = await look(served)
        (tmp_path / "elsewhere.db").rename(tmp_path / "journal.db")

    assert (status, told["checks"]["disk"]) == (503, "the journal's file was deleted or moved")
    assert str(tmp_path) not in str(told)


async def test_a_disk_that_cannot_be_written_to_makes_the_server_not_ready(door: Door) -> None:
    async with door.serving(ScriptedModel()) as served:
        status_door = served.server.features.find(Health.name)
        assert isinstance(status_door, Health)
        # Where no user can make a file, not even root.
        status_door.readiness.disk = Disk(served.server.runs.journal, Path("/proc/self"), None)
        status, told, _ = await look(served)

    assert (status, told["checks"]["disk"]) == (503, "it cannot be written to")


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_no_key_is_needed_to_look(door: Door, path: str) -> None:
    async with door.serving(ScriptedModel()) as served:
        await served.server.catalog.keys.add(new_key("ann", 0.0)[1])
        assert (await look(served, path))[0] == 200
