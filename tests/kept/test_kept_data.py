"""What a version of Ronda has kept is opened by this one: it answers from it, and resumes its runs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple, get_args

import psycopg
import pytest
from tests.interaction.golden_bytes import ASK, lookup
from tests.kept import make

from ronda import Agent, resume_agent_async
from ronda.core.events import Fact
from ronda.core.parts import ToolTurn
from ronda.core.run import rebuild
from ronda.journal import Journal, RunQuery
from ronda.providers.script import ScriptedModel, says
from ronda.store.catalog import Catalog
from ronda.testing.facts import every_fact

VERSIONS = sorted(path.name for path in make.KEPT.iterdir() if path.name[0].isdigit())
# Kinds of facts that came after a version: its folder, which is not written again, has none of them.
LATER_FACTS: Mapping[str, frozenset[type]] = {"0.1.0": frozenset()}


class Kept(NamedTuple):
    """What is open, what was answered when it was written, how many rows each table has, and the kinds of facts that were not
    there yet."""

    journal: Journal
    catalog: Catalog
    answers: Mapping[str, Any]
    rows: Mapping[str, int]
    later_facts: frozenset[type]


Open = Callable[[], AbstractAsyncContextManager[Kept]]


@pytest.fixture(params=[(version, store) for version in VERSIONS for store in ("sqlite", "postgres")], ids="-".join)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    version, store = request.param
    kept = make.KEPT / version
    answers = json.loads((kept / f"{store}.json").read_text())

    @asynccontextmanager
    async def open_folder() -> AsyncIterator[Kept]:
        make.restore_folder(kept, tmp_path)
        rows = dict[str, int]()
        for name in ("journal", "catalog"):
            with closing(sqlite3.connect(tmp_path / f"{name}.db")) as db:
                tables = [table for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
                rows |= {
                    f"{name}.{table}": db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables
                }
        async with make.opened_folder(tmp_path) as (journal, catalog):
            yield Kept(journal, catalog, answers, rows, LATER_FACTS[version])

    @asynccontextmanager
    async def open_database() -> AsyncIterator[Kept]:
        address: str = request.getfixturevalue("postgres")
        make.restore_database(kept, address)
        with psycopg.connect(address) as db:
            names = db.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
            tables = [table for (table,) in names.fetchall()]
            counts = {table: db.execute(f'SELECT count(*) FROM "{table}"'.encode()).fetchone() for table in tables}
        rows = {table: 0 if row is None else row[0] for table, row in counts.items()}
        async with make.opened_database(address) as (journal, catalog):
            yield Kept(journal, catalog, answers, rows, LATER_FACTS[version])

    if store == "sqlite":
        return open_folder
    request.getfixturevalue("postgres")  # here: a fixture cannot be asked for once the loop runs
    return open_database


async def names(kept: Kept) -> list[str]:
    """Of the runs that could have happened."""
    return [one.run for owner in ("", make.OWNER) for one in (await kept.journal.list_runs(RunQuery(owner))).runs]


async def test_it_has_a_row_of_every_table_and_a_fact_of_every_kind(opened: Open) -> None:
    async with opened() as kept:
        facts = {type(event) for run in [*await names(kept), make.EVERY_FACT] for event in await kept.journal.read(run)}

    assert [table for table, count in kept.rows.items() if count == 0] == []
    assert facts == set(get_args(Fact)) - kept.later_facts


async def test_every_run_is_rebuilt(opened: Open) -> None:
    async with opened() as kept:
        runs = [rebuild(list(await kept.journal.read(name))) for name in await names(kept)]
        every = list(await kept.journal.read(make.EVERY_FACT))

    ends = sorted([run.ended.reason if run.ended is not None else "" for run in runs])
    assert ends == ["", "", "", "", "stop", "stop", "stop", "stop", "tool_calls"]
    assert every == [fact for fact in every_fact(make.EVERY_FACT) if type(fact) not in kept.later_facts]


async def test_a_run_that_was_left_goes_on_to_its_answer(opened: Open) -> None:
    async with opened() as kept:
        agent = Agent(ScriptedModel(says("On Monday.")), tools=[lookup])
        result = await resume_agent_async(make.UNFINISHED, journal=kept.journal, agent=agent)

    assert result.output == "On Monday."


async def test_a_run_that_waits_is_answered_and_goes_on(opened: Open) -> None:
    async with opened() as kept:
        agent = Agent(ScriptedModel(says("On Monday.")), tools=[lookup])
        result = await resume_agent_async(make.WAITING, {"appr_0": True}, journal=kept.journal, agent=agent)

    assert result.output == "On Monday."
    assert [call.content for call in result.tool_calls] == ["found Rome"]


async def test_a_stored_response_is_the_same(opened: Open) -> None:
    async with opened() as kept:
        server = make.served(kept.journal, kept.catalog)
        before = kept.answers["response"]
        found = await make.asked(server, "GET", f"/v1/responses/{before['id']}")
        await server.runs.close()

    assert found == before


async def test_a_conversations_history_is_the_same(opened: Open) -> None:
    async with opened() as kept:
        server = make.served(kept.journal, kept.catalog)
        before = kept.answers["history"]
        found = await make.asked(server, "GET", f"/v1/conversations/{before['conversation_id']}/history")
        await server.runs.close()

    assert found == before


async def test_the_callers_result_finds_the_run_that_waits_for_it(opened: Open) -> None:
    async with opened() as kept:
        server = make.served(kept.journal, kept.catalog, says("On Monday."))
        [call] = kept.answers["waits"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "Monday"}
        body = {
            "model": "default",
            "messages": [make.QUESTION, kept.answers["waits"], result],
            "tools": [{"type": "function", "function": ASK}],
        }
        await make.asked(server, "POST", "/v1/chat/completions", body)
        model = (await server.models.find("default")).provider
        await server.runs.close()

    assert isinstance(model, ScriptedModel)
    last = model.heard[0][-1]
    assert isinstance(last, ToolTurn)
    assert [one.content for one in last.results] == ["found Oslo", "Monday"]


async def test_what_clients_and_operators_made_is_found(opened: Open) -> None:
    async with opened() as kept:
        catalog, owner = kept.catalog, make.OWNER
        agent = await catalog.agents.find(owner, "ag_1", "live")
        session = await catalog.sessions.find(owner, "talk")
        path = await catalog.sessions.path(owner, "talk", 1)
        found = [
            await catalog.keys.all(),
            await catalog.files.of(owner, 1.0),
            await catalog.skills.of(owner),
            await catalog.containers.of(owner),
            [entry.run for entry in await catalog.queue.list(1.0)],
        ]
        secret = await catalog.secret("seal")

    assert agent is not None
    assert bytes(agent.body) == make.AGENT
    assert session is not None
    assert [(node.turns, node.run) for node in path] == [(make.NODE.turns, make.NODE.run)]
    assert found == [[make.KEY], [make.FILE], [make.SKILL], [make.CONTAINER], [make.QUEUED.run]]
    assert len(secret) == 32
