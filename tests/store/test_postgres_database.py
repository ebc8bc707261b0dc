"""Transactions of a database that goes away and comes back, and tables that several processes make at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.chaos.cut import Cut
from tests.timeouts import soon

from ronda.store import StoreError
from ronda.store.postgres import Database
from ronda.store.sql import Duplicate, Sql


@pytest.fixture
def cut(postgres: str) -> Iterator[Cut]:
    with Cut(postgres).open() as cut:
        yield cut


@pytest.fixture
async def database(cut: Cut) -> AsyncIterator[Database]:
    database = Database(cut.url)
    await database.write(lambda db: db.execute("CREATE TABLE note (text TEXT)"))
    yield database
    await database.close()


def note(db: Sql) -> str:
    db.execute("INSERT INTO note VALUES (?)", ("it",))
    return "noted"


async def notes(database: Database) -> int:
    found: int = await database.read(lambda db: db.execute("SELECT count(*) FROM note").fetchone()[0])
    return found


@pytest.mark.parametrize("word", [b"BEGIN", b"INSERT INTO note", b"COMMIT"])
async def test_what_a_broken_connection_may_have_done_is_done_once(cut: Cut, database: Database, word: bytes) -> None:
    for _ in range(3):
        cut.breaks_at = word
        async with soon():
            assert await database.write(note) == "noted"
        assert cut.breaks_at is None
    assert await notes(database) == 3


async def test_whoever_writes_waits_until_the_database_is_back(cut: Cut, database: Database) -> None:
    cut.cut()
    writing = [asyncio.ensure_future(database.write(note)) for _ in range(10)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in writing)
    cut.mend()
    async with soon():
        assert await asyncio.gather(*writing) == ["noted"] * 10
    assert await notes(database) == 10


async def test_one_that_stays_away_is_an_error_that_names_the_place_without_the_password(cut: Cut) -> None:
    database = Database(cut.url.replace("ronda@", "ronda:secret@"), outage=0.0)
    cut.breaks_at = b"BEGIN"
    with pytest.raises(StoreError, match="postgresql://127") as raised:
        await database.write(note)
    assert "secret" not in str(raised.value)
    await database.close()


async def test_a_job_that_breaks_down_leaves_nothing_behind(database: Database) -> None:
    def break_down(db: Sql) -> None:
        note(db)
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(break_down)
    assert await notes(database) == 0


async def test_what_is_there_already_is_told(database: Database) -> None:
    await database.write(lambda db: db.execute("CREATE TABLE one (id INTEGER PRIMARY KEY)"))
    await database.write(lambda db: db.execute("INSERT INTO one VALUES (1)"))
    with pytest.raises(Duplicate):
        await database.write(lambda db: db.execute("INSERT INTO one VALUES (1)"))


async def test_of_those_that_are_alone_one_is_under_way(database: Database) -> None:
    inside: list[str] = []
    seen: list[int] = []

    def work(db: Sql) -> None:
        inside.append("in")
        db.execute("SELECT pg_sleep(0.01)")
        seen.append(len(inside))
        inside.pop()

    async with soon():
        await asyncio.gather(*[database.write(work, "the same") for _ in range(6)])
    assert seen == [1] * 6


MIGRATIONS = (("CREATE TABLE first (id INTEGER)",), ("ALTER TABLE first ADD COLUMN text TEXT",))


async def test_tables_are_made_once_by_whoever_comes_first(postgres: str) -> None:
    databases = [Database(postgres) for _ in range(4)]
    problems: list[BaseException] = []

    def migrate(database: Database) -> None:
        try:
            database.migrate("things", MIGRATIONS)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=migrate, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    await databases[0].write(lambda db: db.execute("INSERT INTO first VALUES (1, 'x')"))
    for database in databases:
        await database.close()


async def test_tables_of_an_older_ronda_are_changed_and_those_of_a_newer_one_are_used(postgres: str) -> None:
    database = Database(postgres)
    database.migrate("things", MIGRATIONS[:1])
    database.migrate("things", MIGRATIONS)
    await database.write(lambda db: db.execute("INSERT INTO first VALUES (1, 'x')"))
    database.migrate("things", MIGRATIONS[:1])  # by the older one, which knows nothing of what was added
    await database.write(lambda db: db.execute("INSERT INTO first VALUES (2, 'y')"))
    await database.close()


async def test_tables_that_only_a_newer_ronda_can_use_are_left_alone(postgres: str) -> None:
    database = Database(postgres)
    database.migrate("things", MIGRATIONS, least=2)
    with pytest.raises(
        StoreError, match=r"version 2, which needs a Ronda that knows version 2, and .* 1; update Ronda"
    ):
        database.migrate("things", MIGRATIONS[:1])
    await database.close()
