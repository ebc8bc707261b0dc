"""A question that one server asks is answered at another, which has just started on the same database: the answer is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.interaction.doors import Door, Served, soon
from tests.server.approval_doors import pause, post_decision, waiting
from tests.server.approval_scripts import A_MOMENT, script, until_over
from tests.server.runs_door import Deleting

from ronda.core.events import Answered
from ronda.journal.postgres import PostgresJournal
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog
from ronda.store.postgres_presence import PostgresPresence
from ronda.testing import ScriptedModel, says


@asynccontextmanager
async def serving(door: Door, url: str, model: Any, files: Deleting) -> AsyncIterator[Served]:
    database = Database(url)
    presence = PostgresPresence(database)
    journal, catalog = PostgresJournal(database, presence), PostgresCatalog(database, presence)
    async with door.serving(model, files.tool, journal=journal, catalog=catalog, approval_timeout=A_MOMENT) as served:
        served.server.open()  # which looks at runs that no process drives
        yield served


async def test_an_answer_that_comes_while_a_server_starts_is_kept(door: Door, postgres: str) -> None:
    """Its recovery looks at the same run: seven of twenty answers were lost so."""
    files = Deleting()
    for _ in range(5):
        async with serving(door, postgres, script(), files) as first, soon():
            asked = await pause(first, "chat", False)
            [listed] = await waiting(first)
            async with serving(door, postgres, ScriptedModel(says("It is gone.")), files) as second:
                answer = await post_decision(second, asked.ids[0], decision="approve")
                kept = await second.server.runs.journal.read(listed["run_id"])
                ended = await until_over(second, listed["run_id"])

        assert answer == (200, {"status": "resolved"})
        assert [event.decision for event in kept if type(event) is Answered] == ["approve"]
        assert ended["state"] == "finished"
    assert files.deleted == ["/a"] * 5
