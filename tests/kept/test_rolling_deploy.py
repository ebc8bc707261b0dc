"""For the time of a rolling deploy this Ronda and a newer one serve one database: what the newer one has queued, asked or left is
shown here, and only the newer one drives it.

The newer Ronda is made up: it writes as this one does, and then each of its runs has an event of a kind that only it knows.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from msgspec import Raw
from tests.interaction.golden_bytes import exchange, lookup
from tests.kept import make
from tests.timeouts import soon

from ronda.core.events import Asked, Event, ModelFinished, ModelStarted, RunStarted
from ronda.core.parts import AssistantTurn, ToolCall, user
from ronda.core.plan import Plan
from ronda.host.log import until_over
from ronda.journal import Journal, RunQuery
from ronda.providers.script import ScriptedModel, says
from ronda.server.app import Server, create_app
from ronda.store.catalog import Catalog
from ronda.store.queue import ClaimedRun, QueuedRun, QueueLimits
from ronda.wire.openai_responses.resource import StoredOptions, response_id

Opened = Callable[[], AbstractAsyncContextManager[tuple[Journal, Catalog]]]

QUEUED, WAITING, LEFT = "run_" + "a" * 24, "run_" + "b" * 24, "run_" + "c" * 24
NEWS = {"type": "weather_checked", "clouds": 3}
COLUMN = "of_the_future INTEGER NOT NULL DEFAULT 7"
WIDE = QueueLimits(10, 10, 10)


class Store(NamedTuple):
    open: Opened
    rewrite: Callable[[str], None]
    add_columns: Callable[[], int]  # to how many tables


def add_news(body: bytes) -> bytes:
    """A row of events, with one that only the newer Ronda knows."""
    return json.dumps([*json.loads(body), NEWS]).encode()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":

        def rewrite_file(run: str) -> None:
            found = "run = (SELECT id FROM run WHERE name = ?)"
            with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
                number, body = db.execute(f"SELECT max(number), body FROM event WHERE {found}", (run,)).fetchone()
                db.execute(f"UPDATE event SET body = ? WHERE {found} AND number = ?", (add_news(body), run, number))

        def widen_files() -> int:
            found = 0
            for name in ("journal", "catalog"):
                with closing(sqlite3.connect(tmp_path / f"{name}.db")) as db, db:
                    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                    for (table,) in db.execute(tables).fetchall():
                        db.execute(f'ALTER TABLE "{table}" ADD COLUMN {COLUMN}')
                        found += 1
            return found

        return Store(lambda: make.opened_folder(tmp_path), rewrite_file, widen_files)
    address: str = request.getfixturevalue("postgres")

    def rewrite_row(run: str) -> None:
        with psycopg.connect(address) as db:
            found = "SELECT number, body FROM event WHERE run = %s ORDER BY number DESC LIMIT 1"
            row = db.execute(found, (run,)).fetchone()
            assert row is not None
            number, body = row
            values = (add_news(bytes(body)), run, number)
            db.execute("UPDATE event SET body = %s WHERE run = %s AND number = %s", values)

    def widen_tables() -> int:
        with psycopg.connect(address) as db:
            names = db.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()")
            tables = [name for (name,) in names.fetchall()]
            for table in tables:
                db.execute(f'ALTER TABLE "{table}" ADD COLUMN {COLUMN}'.encode())
            return len(tables)

    return Store(lambda: make.opened_database(address), rewrite_row, widen_tables)


async def write_as_newer(store: Store) -> None:
    """A run that is queued, one that waits for a person, and one that its process has left: all of the newer Ronda."""
    call = ToolCall("call_0", "lookup", '{"q":"Rome"}')
    plan = Plan("script:test", (lookup.spec,))
    begun: list[Event] = [ModelStarted(0, at=2.0), ModelFinished(AssistantTurn((call,), "tool_calls"), at=3.0)]
    more: dict[str, list[Event]] = {
        QUEUED: [],
        WAITING: [*begun, Asked("appr_0", "call_0", "approval", "lookup", '{"q":"Rome"}', at=4.0)],
        LEFT: begun,
    }
    async with store.open() as (journal, catalog):
        await catalog.keys.add(make.KEY)
        for run, events in more.items():
            start = RunStarted(
                run,
                plan,
                (user("When?"),),
                1.0,
                owner=make.OWNER,
                session=f"of {run}",
                outlives=True,
                about={StoredOptions.key: Raw(b'{"background":true}')},
            )
            journal.append(run, [start, *events])
            if run == WAITING:
                journal.expect(make.OWNER, ["appr_0"], run)
            await journal.barrier(run)
            journal.release(run, waiting=run == WAITING)
            await journal.barrier(run)
        await catalog.queue.enqueue(QueuedRun(QUEUED, make.OWNER, f"of {QUEUED}", 1.0), 10)
    for run in more:
        store.rewrite(run)


Ask = Callable[..., Awaitable[tuple[int, Any]]]


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[tuple[Server, Ask]]:
    """This Ronda, on what the newer one has written."""
    async with store.open() as (journal, catalog):
        server = make.served(journal, catalog, says("Mine."))
        app = create_app(server)

        async def ask(method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
            status, _, data = (await exchange(app, path, body, method, make.SECRET)).partition(b"\n")
            return int(status), json.loads(data)

        server.open()
        await server.start()
        yield server, ask
        await server.stop(0.0)
        await server.background.close()
        await server.supervisor.close()


async def test_what_a_newer_ronda_has_queued_is_left_in_the_queue(store: Store) -> None:
    await write_as_newer(store)
    async with serving(store) as (server, ask), soon():
        # It came later, and goes through the same queue: by then the newer one's was looked at.
        body = {"model": "default", "input": "Mine?", "background": True}
        _, begun = await ask("POST", "/v1/responses", body)
        run = begun["id"].replace("resp_", "run_")
        events = await server.runs.read(run, make.OWNER)
        await until_over((await server.runs.follow(events))[1])
        cancelled, problem = await ask("POST", f"/v1/runs/{QUEUED}/cancel")
        model = (await server.models.find("default")).provider
    async with store.open() as (_, catalog):
        left = [entry.run for entry in await catalog.queue.list(time.time())]
        claimed = await catalog.queue.claim("newer", WIDE, time.time(), time.time() + 5)

    assert isinstance(model, ScriptedModel)
    assert len(model.heard) == 1
    assert (cancelled, "newer Ronda" in problem["error"]["message"]) == (409, True)
    assert QUEUED in left
    assert claimed == [ClaimedRun(QUEUED)]


async def test_what_a_newer_ronda_has_begun_is_shown_and_not_driven(store: Store) -> None:
    await write_as_newer(store)
    async with serving(store) as (server, ask), soon():
        listed = (await ask("GET", "/v1/runs"))[1]["data"]
        shown = {run: await ask("GET", f"/v1/runs/{run}") for run in (QUEUED, WAITING, LEFT)}
        refused = [
            await ask("POST", "/v1/agent/approvals/appr_0", {"decision": "approve"}),
            await ask("POST", f"/v1/runs/{LEFT}/steer", {"text": "be brief"}),
            await ask("POST", f"/v1/runs/{LEFT}/cancel"),
        ]
        events = {run: await server.runs.read(run, make.OWNER) for run in (WAITING, LEFT)}
        model = (await server.models.find("default")).provider

    assert {one["id"] for one in listed} == {QUEUED, WAITING, LEFT}
    assert [status for status, _ in shown.values()] == [200, 200, 200]
    # The approvals' door knows no other answer for a question that cannot be answered.
    assert [status for status, _ in refused] == [404, 409, 409]
    assert ["newer Ronda" in str(body) for _, body in refused] == [True] * 3
    assert {run: len(found) for run, found in events.items()} == {WAITING: 5, LEFT: 4}  # nothing was added
    assert isinstance(model, ScriptedModel)
    assert model.heard == []


async def test_what_a_newer_ronda_has_left_is_deleted_where_a_client_asks_for_it(store: Store) -> None:
    await write_as_newer(store)
    async with serving(store) as (server, ask), soon():
        deleted = [await ask("DELETE", f"/v1/responses/{response_id(run)}") for run in (QUEUED, LEFT)]
        events = [await server.runs.read(run, make.OWNER) for run in (QUEUED, LEFT)]

    assert [(status, body["deleted"]) for status, body in deleted] == [(200, True)] * 2
    assert events == [[], []]


async def test_a_column_that_a_newer_ronda_has_added_to_any_table_is_no_hindrance(store: Store) -> None:
    async with store.open() as (_, catalog):
        await catalog.write(lambda db: None)  # its tables are made with what is written first
    tables = store.add_columns()
    async with store.open() as (journal, catalog):
        answers = await make.fill(journal, catalog)  # which writes to every table
    async with store.open() as (journal, catalog):
        keys = [key.id for key in await catalog.keys.all()]
        listed = await journal.list_runs(RunQuery(make.OWNER))

    assert tables > 40
    assert answers["response"]["status"] == "completed"
    assert make.KEY.id in keys
    assert len(listed.runs) == 5
