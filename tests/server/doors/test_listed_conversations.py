"""The list of conversations is answered from tables: what the end of a run leaves behind is read once, not by every list."""

from __future__ import annotations

from tests.interaction.doors import Door
from tests.server.runs_door import get, post

from ronda.core.events import Event
from ronda.journal.memory import MemoryJournal
from ronda.store import StoreError
from ronda.store.memory import MemoryCatalog
from ronda.testing import ScriptedModel, says

CONVERSATIONS = 20


class Counting(MemoryJournal):
    reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


async def test_a_list_reads_no_run_that_a_list_has_read(door: Door) -> None:
    journal, catalog = Counting(), MemoryCatalog()
    model = ScriptedModel(*[says("Hello.")] * (CONVERSATIONS + 1))
    async with door.serving(model, journal=journal, catalog=catalog) as served:
        _, agent = await post(served, "/agents", {"model": "default", "name": "helper"})
        for _ in range(CONVERSATIONS):
            _, begun = await post(served, "/conversations", {"agent_id": agent["id"], "inputs": "hi"})
        _, first = await get(served, "/conversations")
        journal.reads = 0
        _, second = await get(served, "/conversations")
        assert (second, journal.reads) == (first, 0)

        await post(served, f"/conversations/{begun['conversation_id']}", {"inputs": "and?"})
        journal.reads = 0
        _, third = await get(served, "/conversations")
        assert ([one["id"] for one in third], journal.reads) == ([one["id"] for one in first], 0)

    assert [one["agent_id"] for one in first] == [agent["id"]] * CONVERSATIONS


async def test_a_list_is_answered_where_nothing_can_be_noted(door: Door) -> None:
    catalog = MemoryCatalog()

    async def fail(noted: object) -> None:
        raise StoreError("somewhere", "the disk is full")

    async with door.serving(ScriptedModel(says("Hello.")), catalog=catalog) as served:
        _, agent = await post(served, "/agents", {"model": "default", "name": "helper"})
        await post(served, "/conversations", {"agent_id": agent["id"], "inputs": "hi"})
        catalog.conversations.note_agents = fail  # type: ignore[method-assign]
        status, found = await get(served, "/conversations")

    assert (status, [one["agent_id"] for one in found]) == (200, [agent["id"]])
