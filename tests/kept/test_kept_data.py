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
from ronda.server.features.budgets.ledger import Account, Ledger
from ronda.server.features.models.settings import UpstreamLimit
from ronda.server.features.models.upstreams import UpstreamRows
from ronda.server.features.notices.rows import NoticeRows
from ronda.server.features.owners.feature import Removals
from ronda.server.features.rates.settings import Rate
from ronda.server.features.rates.windows import Windows
from ronda.server.features.schedules.rows import ScheduleRows
from ronda.store.catalog import Catalog
from ronda.testing.facts import every_fact

VERSIONS = sorted(path.name for path in make.KEPT.iterdir() if path.name[0].isdigit())
# Kinds of facts that came after a version: its folder, which is not written again, has none of them.
LATER_FACTS: Mapping[str, frozenset[type]] = {"0.1.0": frozenset(), "0.1.0rc1": frozenset()}
STORES = ("sqlite", "postgres")
# But for what was written before features had tables.
WITH_FEATURES = [(version, store) for version in VERSIONS if version != "0.1.0" for store in STORES]


class Kept(NamedTuple):
    """What is open, what was answered when it was written, how many rows each table has, and the kinds of facts that were not
    there yet."""

    journal: Journal
    catalog: Catalog
    answers: Mapping[str, Any]
    rows: Mapping[str, int]
    later_facts: frozenset[type]


Open = Callable[[], AbstractAsyncContextManager[Kept]]


def rows_in(file: Path, name: str) -> dict[str, int]:
    """How many rows each table of a file has."""
    with closing(sqlite3.connect(file)) as db:
        tables = [table for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {f"{name}.{table}": db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables}


def rows_of(address: str) -> dict[str, int]:
    """Likewise of a database."""
    with psycopg.connect(address) as db:
        names = db.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
        tables = [table for (table,) in names.fetchall()]
        counts = {table: db.execute(f'SELECT count(*) FROM "{table}"'.encode()).fetchone() for table in tables}
    return {table: 0 if row is None else row[0] for table, row in counts.items()}


@pytest.fixture(params=[(version, store) for version in VERSIONS for store in STORES], ids="-".join)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    version, store = request.param
    kept = make.KEPT / version
    answers = json.loads((kept / f"{store}.json").read_text())

    @asynccontextmanager
    async def open_folder() -> AsyncIterator[Kept]:
        make.restore_folder(kept, tmp_path)
        rows = rows_in(tmp_path / "journal.db", "journal") | rows_in(tmp_path / "catalog.db", "catalog")
        async with make.opened_folder(tmp_path) as (journal, catalog):
            yield Kept(journal, catalog, answers, rows, LATER_FACTS[version])

    @asynccontextmanager
    async def open_database() -> AsyncIterator[Kept]:
        address: str = request.getfixturevalue("postgres")
        make.restore_database(kept, address)
        rows = rows_of(address)
        async with make.opened_database(address) as (journal, catalog):
            yield Kept(journal, catalog, answers, rows, LATER_FACTS[version])

    if store == "sqlite":
        return open_folder
    request.getfixturevalue("postgres")  # here: a fixture cannot be asked for once the loop runs
    return open_database


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_what_the_next_version_keeps_has_a_row_of_every_table(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Of the core and of features: a table that `make.fill` does not know is one that no later version is tried with."""
    counts = dict[str, int]()
    if store == "sqlite":
        async with make.opened_folder(tmp_path) as (journal, catalog):
            await make.fill(journal, catalog)
        for name in ("journal", "catalog"):
            counts |= rows_in(tmp_path / f"{name}.db", name)
    else:
        address: str = request.getfixturevalue("postgres")
        async with make.opened_database(address) as (journal, catalog):
            await make.fill(journal, catalog)
            counts = rows_of(address)

    # Rows that no run and no client leaves: they are put beside a database that is dumped.
    assert {table for table, count in counts.items() if count == 0} <= {"process", "letter"}


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
            [key for key in await catalog.keys.all() if key.rights is None],  # not that of a person of a provider's
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


@pytest.mark.parametrize("opened", WITH_FEATURES, ids="-".join, indirect=True)
async def test_what_features_kept_is_found(opened: Open) -> None:
    def clock() -> float:
        return make.COUNTED

    async with opened() as kept:
        catalog = kept.catalog
        ledger, schedules = Ledger(catalog, (), "UTC", clock), ScheduleRows(catalog)
        account = Account("owner", make.OWNER)
        limits = await ledger.kept_limits()
        spent, [standing] = await ledger.spent(account, "month"), await ledger.standings([account])
        refused = await Windows(catalog, clock).admit("key:key_1", Rate(requests=1), "slot_2")
        obstacle = await UpstreamRows(catalog, clock).take("https://api.example", UpstreamLimit(calls=9), "call_2")
        addresses, [due] = (
            await NoticeRows(catalog).addresses(make.OWNER),
            await NoticeRows(catalog).due(make.COUNTED, 9, of_owner=9, of_address=9),
        )
        [schedule] = await schedules.all(make.OWNER)
        firings = (await schedules.firings([schedule.id]))[schedule.id]
        removed = await Removals(catalog).all()
        [act] = await catalog.audit.page(9)
        sendable = await catalog.approved_tools.sends.find(make.OWNER, "talk", 1.0)

    assert limits == [make.BUDGET]
    assert (spent.usd, spent.tokens, standing.limit, standing.spent, standing.reserved) == (0.5, 5, 5.0, 0.5, 1.0)
    assert (refused.refused, refused.runs) == ("requests", 1)
    assert obstacle is not None
    assert "pause" in obstacle.why
    assert addresses == [make.TOLD_AT]
    assert (due.id, due.url, due.body) == ("msg_1", make.TOLD_AT.url, make.NOTICE.body)
    assert (schedule.cron, schedule.body) == (make.SCHEDULE.cron, make.SCHEDULE.body)
    assert [(one.state, one.run) for one in firings] == [("started", make.UNFINISHED)]
    assert removed == {"gone"}
    assert (act.act, act.subject) == (make.ACT.act, make.ACT.subject)
    assert sendable == (make.SENT,)
