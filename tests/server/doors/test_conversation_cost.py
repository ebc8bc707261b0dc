"""What a request of a conversation costs its stores does not grow with the number of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.interaction.doors import Door, Served, soon
from tests.server.runs_door import get, post

from ronda.core.events import Event
from ronda.journal.sqlite import SqliteJournal
from ronda.store.sql import Sql
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.testing import Call, ScriptedModel, calls, says

T = TypeVar("T")
FEW, MANY = 5, 50


class _Rows:
    """What a statement has found, counted as it is read."""

    def __init__(self, found: Any, costs: Costs) -> None:
        self._found = found
        self._costs = costs
        self.rowcount = found.rowcount

    def fetchone(self) -> Any:
        row = self._found.fetchone()
        self._costs.rows += row is not None
        return row

    def fetchall(self) -> list[Any]:
        rows: list[Any] = self._found.fetchall()
        self._costs.rows += len(rows)
        return rows


class _CountedSql:
    def __init__(self, db: Sql, costs: Costs) -> None:
        self._db = db
        self._costs = costs

    def execute(self, statement: str, values: Any = ()) -> Any:
        self._costs.statements += 1
        return _Rows(self._db.execute(statement, values), self._costs)

    def executemany(self, statement: str, rows: Sequence[Any]) -> Any:
        self._costs.statements += 1
        return self._db.executemany(statement, rows)


class Costs(SqliteCatalog):
    """A catalog that counts statements, and the rows that they find."""

    statements = rows = 0

    async def read(self, job: Callable[[Sql], T]) -> T:
        return await super().read(lambda db: job(_CountedSql(db, self)))

    async def write(self, job: Callable[[Sql], T], alone: str = "", *, may_be_lost: bool = False) -> T:
        return await super().write(lambda db: job(_CountedSql(db, self)), alone, may_be_lost=may_be_lost)


class CountedJournal(SqliteJournal):
    reads = 0

    async def read(self, run: str) -> list[Event]:
        self.reads += 1
        return await super().read(run)


class Stores:
    def __init__(self, folder: Path) -> None:
        self.catalog = Costs(str(folder / "catalog.db"))
        self.journal = CountedJournal(folder / "journal.db")

    async def cost(self, asking: Any) -> tuple[int, int, int]:
        self.catalog.statements = self.catalog.rows = self.journal.reads = 0
        status, _ = await asking
        assert status == 200
        return self.catalog.statements, self.catalog.rows, self.journal.reads


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


async def append_until(served: Served, conversation: str, count: int, there: int) -> None:
    for _ in range(count - there):
        await post(served, f"/conversations/{conversation}", {"inputs": "and?"})


async def test_an_answer_costs_the_same_after_fifty_as_after_five(door: Door, stores: Stores) -> None:
    model = ScriptedModel(*[says("Hello.")] * (MANY + 3))
    async with door.serving(model, journal=stores.journal, catalog=stores.catalog) as served:
        _, agent = await post(served, "/agents", {"model": "default", "name": "helper"})
        _, begun = await post(served, "/conversations", {"agent_id": agent["id"], "inputs": "hi"})
        place = f"/conversations/{begun['conversation_id']}"
        found: list[list[tuple[int, int, int]]] = []
        there = 1
        for count in (FEW, MANY):
            await append_until(served, begun["conversation_id"], count, there)
            appended = await stores.cost(post(served, place, {"inputs": "and?"}))
            found.append(
                [appended, await stores.cost(get(served, place)), await stores.cost(get(served, "/conversations"))]
            )
            there = count + 1

    assert found[1] == found[0]
    assert found[0][2][2] == 0, "a list reads runs"


async def test_an_agent_that_was_handed_over_to_is_noted_when_its_run_ends(door: Door, stores: Stores) -> None:
    noted = asyncio.Event()
    note = stores.catalog.conversations.note_agents

    async def note_and_tell(rows: Sequence[tuple[str, str, str]]) -> None:
        await note(rows)
        noted.set()

    stores.catalog.conversations.note_agents = note_and_tell  # type: ignore[method-assign, assignment]
    model = ScriptedModel(calls(Call("handoff_to_clerk", "{}")), says("I am the clerk."))
    async with door.serving(model, journal=stores.journal, catalog=stores.catalog) as served, soon():
        _, clerk = await post(served, "/agents", {"model": "default", "name": "clerk"})
        _, porter = await post(served, "/agents", {"model": "default", "name": "porter", "handoffs": [clerk["id"]]})
        _, begun = await post(served, "/conversations", {"agent_id": porter["id"], "inputs": "hi"})
        await noted.wait()
        stores.journal.reads = 0
        _, [shown] = await get(served, "/conversations")
        assert (shown["agent_id"], stores.journal.reads) == (clerk["id"], 0)
        _, alone = await get(served, f"/conversations/{begun['conversation_id']}")
        assert alone["agent_id"] == clerk["id"]


async def test_a_handover_that_failed_leaves_the_conversation_with_its_agent(door: Door, stores: Stores) -> None:
    noted = asyncio.Event()
    note = stores.catalog.conversations.note_agents

    async def note_and_tell(rows: Sequence[tuple[str, str, str]]) -> None:
        await note(rows)
        noted.set()

    stores.catalog.conversations.note_agents = note_and_tell  # type: ignore[method-assign, assignment]
    model = ScriptedModel(calls(Call("handoff_to_clerk", "{}")))  # and nothing for the clerk to say
    async with door.serving(model, journal=stores.journal, catalog=stores.catalog) as served, soon():
        _, clerk = await post(served, "/agents", {"model": "default", "name": "clerk"})
        _, porter = await post(served, "/agents", {"model": "default", "name": "porter", "handoffs": [clerk["id"]]})
        await post(served, "/conversations", {"agent_id": porter["id"], "inputs": "hi"})
        await noted.wait()
        stores.journal.reads = 0
        _, [shown] = await get(served, "/conversations")

    assert (shown["agent_id"], stores.journal.reads) == (porter["id"], 0)
