"""Bounds of what is kept count for each owner: what one keeps takes nothing from another, through the doors that clients use."""

from __future__ import annotations

from pathlib import Path

from tests.interaction.doors import Door, soon
from tests.server.runs_door import ask, get

from ronda.journal.sqlite import SqliteJournal
from ronda.testing import ScriptedModel, says


async def test_each_owner_has_so_many_sessions(door: Door) -> None:
    model = ScriptedModel(*[says("hi")] * 6)
    async with door.serving(model, session_max_count_per_owner=2) as served, soon():
        await ask(served, key="bob", session_id="bobs")
        for number in range(4):
            await ask(served, key="ann", session_id=f"ann{number}")
        sessions = served.server.runs.sessions
        await sessions.store.prune(sessions._bounds, sessions.now())  # which is done every ten minutes
        kept = {
            key: [row["id"] for row in (await get(served, "/sessions", key=key))[1]["data"]] for key in ("ann", "bob")
        }

    assert kept == {"ann": ["ann3", "ann2"], "bob": ["bobs"]}


async def test_each_owner_has_so_many_bytes_of_the_journal(door: Door, tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", owner_bytes=60_000)
    long = [{"role": "user", "content": "go"}]
    model = ScriptedModel(*[says("x" * 20_000)] * 9)
    async with door.serving(model, journal=journal) as served, soon():
        bobs = await ask(served, key="bob", messages=long)
        anns = [await ask(served, key="ann", messages=long) for _ in range(6)]
        await journal.prune()
        kept = {key: [row["id"] for row in (await get(served, "/runs", key=key))[1]["data"]] for key in ("ann", "bob")}

    assert kept["bob"] == [bobs]
    assert 0 < len(kept["ann"]) < 6
    assert kept["ann"] == anns[::-1][: len(kept["ann"])]
