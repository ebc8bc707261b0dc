"""What a server has kept, as a version of Ronda left it: what every later version must still be able to read.

    python -m tests.kept.make tests/kept/VERSION        write it as this version does

A folder is written once and never again: a version that cannot read it has broken a user's data. `0.1.0` was written when the
first tables of that version stood; `0.1.0rc1` when it had the tables of its features, too.
It holds a data folder (`journal.sql`, `catalog.sql`, as SQLite dumps itself), a database (`postgres.sql`, by pg_dump) and what
the server answered (`sqlite.json`, `postgres.json`).
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import psycopg
from msgspec import Raw
from tests.interaction.golden_bytes import ASK, exchange, lookup
from tests.postgres import programs, shared_server

from ronda.core.containers import StoredContainer
from ronda.core.events import Asked, Event, ModelFinished, ModelStarted, RunStarted, TextDelta, ToolStarted
from ronda.core.files import FileSource, StoredFile
from ronda.core.limits import Retry
from ronda.core.parts import AssistantTurn, Text, ToolCall, Usage, user
from ronda.core.plan import Plan
from ronda.core.skills import SkillVersion, StoredSkill
from ronda.journal import Journal, OpenQuestion
from ronda.journal.postgres import PostgresJournal
from ronda.journal.sqlite import SqliteJournal
from ronda.providers.script import Call, Line, ScriptedModel, calls, says
from ronda.server.app import Server, create_app
from ronda.server.config import ServerConfig
from ronda.server.features.budgets.ledger import Account, Amounts, Ledger
from ronda.server.features.models.settings import UpstreamLimit
from ronda.server.features.models.upstreams import UpstreamRows
from ronda.server.features.notices.rows import NewNotice, NoticeAddress, NoticeRows
from ronda.server.features.oidc.users import OidcUsers
from ronda.server.features.owners.feature import Removals
from ronda.server.features.rates.settings import Rate
from ronda.server.features.rates.windows import Windows
from ronda.server.features.running import add_tables
from ronda.server.features.schedules.rows import Schedule, ScheduleRows
from ronda.server.features.table import loadable
from ronda.server.services.sign_ins import SignIns
from ronda.store.audit import Act
from ronda.store.catalog import Catalog
from ronda.store.files import FileQuota
from ronda.store.keys import KeyRow, hash_key
from ronda.store.postgres import Database
from ronda.store.postgres_catalog import PostgresCatalog
from ronda.store.postgres_presence import PostgresPresence
from ronda.store.queue import QueuedRun
from ronda.store.sqlite_catalog import SqliteCatalog
from ronda.store.values.sessions import Bounds, Lease, NewNode
from ronda.testing.facts import every_fact, start

KEPT: Final = Path(__file__).parent
SCHEMA: Final = "kept"  # of the database, in the dump
UNFINISHED: Final = "run_" + "0" * 24
WAITING: Final = "run_" + "1" * 24
SHOWING: Final = "run_" + "2" * 24
EVERY_FACT: Final = "run_" + "3" * 24
LONG: Final = "run_" + "4" * 24
QUESTION: Final = {"role": "user", "content": "When?"}

# Rows of the catalog, as they are found again.
OWNER: Final = "ann"
AGENT: Final = b'{"name":"Ann\'s"}'
SECRET: Final = "sk-ronda-kept"
KEY: Final = KeyRow("key_1", OWNER, hash_key(SECRET.encode()), 1.0)
FILE: Final = StoredFile(
    "file_1", "a.txt", 3, "00ff", "text/plain", 1.0, "assistants", FileSource("user_upload"), is_text=True
)
SKILL: Final = StoredSkill(
    "skill_1", "Charts", 1.0, 2.0, 1, (SkillVersion(1, "skillver_1", 1.0, "charts", "Draws.", "charts-1"),)
)
CONTAINER: Final = StoredContainer("cntr_1", "box", 1.0, 2.0, 20)
NODE: Final = NewNode(0, 0, b'[{"type":"user","parts":[{"type":"text","text":"hi"}]}]', 1, 1, UNFINISHED)
LEASE: Final = Lease("holder", UNFINISHED, 3.0)
QUEUED: Final = QueuedRun(SHOWING, OWNER, "talk", 1.0)
ACT: Final = Act(1.0, OWNER, "key_1", "key.create", "key_2", "127.0.0.1", "scopes: read")
SENT: Final = '["mail",{"to":"bob"}]'
TOLD_AT: Final = NoticeAddress("na_1", OWNER, "https://hooks.example/ronda", ("run.finished",), 1.0)
NOTICE: Final = NewNotice("msg_1", "na_1", "run.finished", b'{"run":"a"}', 1.0)
SCHEDULE: Final = Schedule(
    "sch_1", OWNER, "key_1", "daily", "0 9 * * *", "UTC", "once", b'{"input":"hi"}', 1.0, 90_000.0
)
# When features wrote what they count: they look at no clock.
COUNTED: Final = 86_400.0 * 20_000
BUDGET: Final = ("owner", OWNER, "month", "usd", 5.0)


def served(journal: Journal, catalog: Catalog, *lines: Line) -> Server:
    config = ServerConfig(model="script:test", retry=Retry(tries=1))
    return Server(config, journal, provider=ScriptedModel(*lines), tools=[lookup], catalog=catalog)


async def asked(server: Server, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    status, _, data = (await exchange(create_app(server), path, body, method, SECRET)).partition(b"\n")
    assert status == b"200", data
    return json.loads(data)


# ---- opening ---------------------------------------------------------------------------------------------------------


def restore_folder(kept: Path, folder: Path) -> None:
    """A data folder, as a server finds it."""
    for name in ("journal", "catalog"):
        with closing(sqlite3.connect(folder / f"{name}.db")) as db:
            db.executescript((kept / f"{name}.sql").read_text())


def restore_database(kept: Path, address: str) -> None:
    """Into the schema of the address, which is empty."""
    with psycopg.connect(address) as db:
        row = db.execute("SELECT current_schema()").fetchone()
        assert row is not None
        db.execute((kept / "postgres.sql").read_text().replace(f"{SCHEMA}.", f"{row[0]}.").encode())


@asynccontextmanager
async def opened_folder(folder: Path) -> AsyncIterator[tuple[Journal, Catalog]]:
    journal, catalog = SqliteJournal(str(folder / "journal.db")), SqliteCatalog(str(folder / "catalog.db"))
    add_tables(loadable(), catalog)
    yield journal, catalog
    await journal.close()
    await catalog.close()


@asynccontextmanager
async def opened_database(address: str) -> AsyncIterator[tuple[Journal, Catalog]]:
    database = Database(address)
    presence = PostgresPresence(database)
    journal, catalog = PostgresJournal(database, presence), PostgresCatalog(database, presence)
    add_tables(loadable(), catalog)
    yield journal, catalog
    await journal.close()
    await catalog.close()
    await database.close()


# ---- writing ----------------------------------------------------------------------------------------------------------


async def fill(journal: Journal, catalog: Catalog) -> dict[str, Any]:
    """Runs, events and rows of every kind, and what is said of those that can be asked for again."""
    await catalog.keys.add(KEY)
    look = calls("lookup", q="Lisbon", text="Looking.")
    server = served(
        journal,
        catalog,
        says("Hello.", usage=Usage(10, 5, cost=0.5)),
        look,
        says("Warm."),
        Line(calls=(Call("lookup", {"q": "Oslo"}), Call("ask", {"question": "Which day?"}))),
        look,
        says("Cold.", reasoning="Hm."),
        look,
        says("Wet.", reasoning="Hm."),
    )
    asks = {"type": "function", "function": ASK}
    chat = {"model": "default", "messages": [QUESTION]}
    await asked(server, "POST", "/v1/chat/completions", chat)
    await asked(server, "POST", "/v1/chat/completions", chat)
    waits = await asked(server, "POST", "/v1/chat/completions", {**chat, "tools": [asks]})
    talk = await asked(server, "POST", "/v1/conversations", {"model": "default", "inputs": "When?"})
    [(_, last)] = await catalog.conversations.last_runs(OWNER, talk["conversation_id"], 1)
    await catalog.conversations.note_agents([(talk["conversation_id"], last.run, "ag_1")])
    made = await asked(server, "POST", "/v1/responses", {"model": "default", "input": "When?", "metadata": {"a": "b"}})
    await _fill_journal(journal)
    history = await asked(server, "GET", f"/v1/conversations/{talk['conversation_id']}/history")
    await server.runs.close()
    await _fill_catalog(catalog)
    return {"waits": waits["choices"][0]["message"], "response": made, "history": history}


async def _fill_journal(journal: Journal) -> None:
    call = ToolCall("call_0", "lookup", '{"q":"Rome"}')
    begun: list[Event] = [
        ModelStarted(0, at=2.0),
        ModelFinished(AssistantTurn((Text("Looking."), call), "tool_calls"), at=3.0),
    ]
    plan = Plan("script:test", (lookup.spec,))
    journal.append(UNFINISHED, [RunStarted(UNFINISHED, plan, (user("When?"),), 1.0), *begun])
    journal.append(UNFINISHED, [ToolStarted("call_0", 4.0, "lookup")])
    journal.append(WAITING, [RunStarted(WAITING, plan, (user("When?"),), 1.0), *begun])
    asked = Asked("appr_0", "call_0", "approval", "lookup", '{"q":"Rome"}', at=4.0)
    journal.append(WAITING, [asked])
    journal.append(SHOWING, [RunStarted(SHOWING, plan, (user("When?"),), 1.0, outlives=True), begun[0]])
    journal.append(SHOWING, [TextDelta("It is ")])
    journal.append(EVERY_FACT, every_fact(EVERY_FACT))
    journal.append(LONG, [start(LONG, *["more " * 500] * 5)])
    journal.note_questions(WAITING, (OpenQuestion(asked, lookup.spec),), waits=True)
    for run in (UNFINISHED, WAITING, SHOWING, EVERY_FACT, LONG):
        await journal.barrier(run)
    await journal.mark_kept(LONG, "", kept=True)
    assert isinstance(journal, SqliteJournal | PostgresJournal)
    await journal.prune()
    for run in (UNFINISHED, WAITING, SHOWING, LONG):
        journal.release(run, waiting=run == WAITING)
        await journal.barrier(run)


async def _fill_catalog(catalog: Catalog) -> None:
    now = time.time()
    await catalog.agents.create(OWNER, "ag_1", AGENT, 1.0)
    await catalog.agents.set_alias(OWNER, "ag_1", "live", 0, 2.0)
    await catalog.secret("seal")
    await catalog.sessions.create(OWNER, "talk", NODE, Raw(b'{"a":"b"}'), now)
    await catalog.sessions.prune(Bounds(), now)
    await catalog.sessions.lease(OWNER, "talk", LEASE, 2.0)
    await catalog.files.add(OWNER, FILE, FileQuota(), 1.0, lambda: None)
    await catalog.skills.create(OWNER, SKILL)
    await catalog.queue.enqueue(QUEUED, 10)
    await catalog.containers.put(OWNER, CONTAINER)
    await catalog.approved_tools.add(OWNER, "talk", ["lookup"], now)
    await catalog.marks.add(OWNER, ["talk"], ["secret"], now)
    await catalog.approved_tools.sends.add(OWNER, "talk", [SENT], now)
    await catalog.audit.add(ACT)
    await catalog.claims.claim(OWNER, "talk")
    await _fill_features(catalog)


async def _fill_features(catalog: Catalog) -> None:
    """A row of each table that a feature has."""

    def clock() -> float:
        return COUNTED

    await SignIns(catalog).add(KEY.id, COUNTED)
    await OidcUsers(catalog).key_for("https://login.example", "sub-1", OWNER, frozenset({"run"}), COUNTED, COUNTED + 1)
    await Removals(catalog).add("gone", COUNTED)
    ledger, accounts = Ledger(catalog, (), "UTC", clock), [Account("owner", OWNER)]
    await ledger.set_limit("owner", OWNER, "month", "usd", BUDGET[-1])
    for call in ("settled", "under way"):
        await ledger.reserve(
            "run_a", call, accounts, Amounts(usd=1.0, tokens=10), keeps_last=False, room_for=lambda _: 0
        )
    await ledger.settle("run_a", "settled", accounts, Amounts(usd=0.5, tokens=5))
    windows, upstreams = Windows(catalog, clock), UpstreamRows(catalog, clock)
    await windows.admit("key:key_1", Rate(requests=9, runs=9), "slot_1")
    await upstreams.take("https://api.example", UpstreamLimit(calls=9, requests=9), "call_1")
    await upstreams.leave("https://api.example", "call_0", 7)
    await upstreams.pause("https://api.example", 30.0)
    notices, schedules = NoticeRows(catalog), ScheduleRows(catalog)
    await notices.add_address(TOLD_AT, 9)
    await notices.add([NOTICE])
    await schedules.add(SCHEDULE, 9)
    await schedules.claim(SCHEDULE.due or 0.0)
    await schedules.settle(SCHEDULE.id, SCHEDULE.due or 0.0, "started", UNFINISHED, "")


async def _write_folder(to: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        async with opened_folder(Path(name)) as (journal, catalog):
            answers = await fill(journal, catalog)
        (to / "sqlite.json").write_text(json.dumps(answers, indent=1) + "\n")
        for file in ("journal", "catalog"):
            with closing(sqlite3.connect(Path(name) / f"{file}.db")) as db:
                marks = [
                    f"PRAGMA {mark} = {db.execute(f'PRAGMA {mark}').fetchone()[0]};"
                    for mark in ("application_id", "user_version")
                ]
                (to / f"{file}.sql").write_text("\n".join([*marks, *db.iterdump()]) + "\n")


async def _write_database(to: Path, server: str) -> None:
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    folder = programs()
    assert folder is not None
    command = [str(folder / "pg_dump"), "--inserts", "--no-owner", f"--schema={SCHEMA}", server]
    async with opened_database(f"{server}?options=-csearch_path%3D{SCHEMA}") as (journal, catalog):
        answers = await fill(journal, catalog)
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"INSERT INTO {SCHEMA}.process (id, since, until, name) VALUES (1, now(), now(), 'kept')")
            db.execute(f"INSERT INTO {SCHEMA}.letter (id, process, request) VALUES (1, 1, 'x')")
        # As a process leaves it that is killed: it is there, and holds what it has claimed.
        dumped = await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)
    (to / "postgres.json").write_text(json.dumps(answers, indent=1) + "\n")
    # Settings of the session that restores it, and the schema, are the test's.
    left_out = re.compile(r"^(SET |SELECT pg_catalog\.set_config|CREATE SCHEMA|\\|--|$).*\n", re.MULTILINE)
    (to / "postgres.sql").write_text(left_out.sub("", dumped.stdout))


def main(to: Path) -> None:
    to.mkdir(parents=True)
    asyncio.run(_write_folder(to))
    with tempfile.TemporaryDirectory() as name, shared_server(Path(name) / "postgres") as server:
        asyncio.run(_write_database(to, server))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
